package h1

import (
	"strings"
	"testing"

	"pinboard"
)

// parseRequest finds and parses the head at the start of s, as a connection does.
func parseRequest(s string, r *Request) (n int, _ *pinboard.Refusal) {
	b := []byte(s)
	var scan Scan
	n, ok := scan.Find(b)
	switch {
	case !ok:
		return 0, pinboard.BadRequest
	case n == 0:
		return 0, nil
	}
	return n, ParseRequest(b[:n], r)
}

func TestRequestTargets(t *testing.T) {
	for _, test := range []struct{ target, authority, path, query string }{
		{"/t/a", "", "/t/a", ""},
		{"/t/a?", "", "/t/a", "?"},
		{"/t/a??x", "", "/t/a", "??x"},
		{"/t/a?x=/y?z", "", "/t/a", "?x=/y?z"},
		{"//t//a", "", "//t//a", ""},
		{"/t/{x}|^`\"\\é%zz%", "", "/t/{x}|^`\"\\é%zz%", ""},
		{"http://h:1/t/a?x", "h:1", "/t/a", "?x"},
		{"HTTPS://[::1]:1/t", "[::1]:1", "/t", ""},
		{"http://h", "h", "", ""},
		{"http://h?x", "h", "", "?x"},
	} {
		var r Request
		s := "GET " + test.target + " HTTP/1.1\r\nHost: x\r\n\r\n"
		if _, refusal := parseRequest(s, &r); refusal != nil {
			t.Errorf("%s: %v", test.target, refusal)
			continue
		}
		b := []byte(s)
		if got := string(r.Authority.Of(b)); got != test.authority {
			t.Errorf("%s: authority %q, want %q", test.target, got, test.authority)
		}
		if got := string(r.Path.Of(b)); got != test.path {
			t.Errorf("%s: path %q, want %q", test.target, got, test.path)
		}
		if got := string(r.Query.Of(b)); got != test.query {
			t.Errorf("%s: query %q, want %q", test.target, got, test.query)
		}
	}
}

func TestRequestRejections(t *testing.T) {
	const host = "Host: h\r\n"
	line := func(l string) string { return l + "\r\n" + host + "\r\n" }
	field := func(f string) string { return "POST /t/a HTTP/1.1\r\n" + host + f + "\r\n\r\n" }
	for _, test := range []struct {
		name, in string
		want     *pinboard.Refusal
	}{
		{"CONNECT", line("CONNECT h:80 HTTP/1.1"), pinboard.MethodNotAllowed},
		{"CONNECT path", line("CONNECT /t/a HTTP/1.1"), pinboard.MethodNotAllowed},
		{"TRACE", line("TRACE /t/a HTTP/1.1"), pinboard.MethodNotAllowed},
		{"OPTIONS *", line("OPTIONS * HTTP/1.1"), pinboard.BadRequest},
		{"GET *", line("GET * HTTP/1.1"), pinboard.BadRequest},
		{"HTTP/2 preface", "PRI * HTTP/2.0\r\n\r\n", pinboard.BadRequest},
		{"HTTP/2.0", line("GET /t/a HTTP/2.0"), pinboard.BadRequest},
		{"HTTP/1.2", line("GET /t/a HTTP/1.2"), pinboard.VersionUnknown},
		{"HTTP/3.0", line("GET /t/a HTTP/3.0"), pinboard.VersionUnknown},
		{"HTTP/0.9", "GET /t/a\r\n\r\n", pinboard.BadRequest},
		{"http/1.1", line("GET /t/a http/1.1"), pinboard.BadRequest},
		{"HTTP/01.1", line("GET /t/a HTTP/01.1"), pinboard.BadRequest},
		{"HTTP/1.1 and space", line("GET /t/a HTTP/1.1 "), pinboard.BadRequest},
		{"long method", line(strings.Repeat("M", 65) + " /t/a HTTP/1.1"), pinboard.BadRequest},
		{"no method", line(" /t/a HTTP/1.1"), pinboard.BadRequest},
		{"two spaces", line("GET  /t/a HTTP/1.1"), pinboard.BadRequest},
		{"space in target", line("GET /t/a b HTTP/1.1"), pinboard.BadRequest},
		{"tab in target", line("GET /t/a\tb HTTP/1.1"), pinboard.BadRequest},
		{"fragment", line("GET /t/a#f HTTP/1.1"), pinboard.BadRequest},
		{"NUL in target", line("GET /t/a\x00 HTTP/1.1"), pinboard.BadRequest},
		{"userinfo", line("GET http://u@h/t HTTP/1.1"), pinboard.BadRequest},
		{"empty authority", line("GET http:///t HTTP/1.1"), pinboard.BadRequest},
		{"other scheme", line("GET ftp://h/t HTTP/1.1"), pinboard.BadRequest},
		{"no slash", line("GET t/a HTTP/1.1"), pinboard.BadRequest},
		{"bare LF", "GET /t/a HTTP/1.1\nHost: h\n\n", pinboard.BadRequest},
		{"bare LF line", "GET /t/a HTTP/1.1\r\nHost: h\nX: y\r\n\r\n", pinboard.BadRequest},
		{"bare CR", "GET /t/a HTTP/1.1\r\nHost: h\rX: y\r\n\r\n", pinboard.BadRequest},
		{"CR CR LF", "GET /t/a HTTP/1.1\r\r\nHost: h\r\n\r\n", pinboard.BadRequest},
		{"no Host", "GET /t/a HTTP/1.1\r\nX: y\r\n\r\n", pinboard.MissingHost},
		{"two Hosts", field("Host: h"), pinboard.MissingHost},
		{"Host with slash", "GET /t/a HTTP/1.1\r\nHost: a/b\r\n\r\n", pinboard.MissingHost},
		{"Host with space", "GET /t/a HTTP/1.1\r\nHost: a b\r\n\r\n", pinboard.MissingHost},
		{"Host with userinfo", "GET /t/a HTTP/1.1\r\nHost: a@b\r\n\r\n", pinboard.MissingHost},
		{"obs-fold", field("X: y\r\n z"), pinboard.BadRequest},
		{"fold first", "GET /t/a HTTP/1.1\r\n X: y\r\nHost: h\r\n\r\n", pinboard.BadRequest},
		{"space before colon", field("X : y"), pinboard.BadRequest},
		{"no colon", field("X"), pinboard.BadRequest},
		{"no name", field(": y"), pinboard.BadRequest},
		{"NUL in value", field("X: \x00"), pinboard.BadRequest},
		{"DEL in value", field("X: \x7f"), pinboard.BadRequest},
		{"quoted name", field("\"X\": y"), pinboard.BadRequest},
		{"gzip, chunked", field("Transfer-Encoding: gzip, chunked"), pinboard.Unimplemented},
		{"foo, chunked", field("Transfer-Encoding: foo, chunked"), pinboard.Unimplemented},
		{"foo with a parameter, chunked", field("Transfer-Encoding: foo;a=b , bar, Chunked"), pinboard.Unimplemented},
		{"foo with a quote, chunked", field("Transfer-Encoding: foo;a=\"b, chunked"), pinboard.BadRequest},
		{"no token, chunked", field("Transfer-Encoding: f(o, chunked"), pinboard.BadRequest},
		{"foo", field("Transfer-Encoding: foo"), pinboard.BadRequest},
		{"chunked, foo", field("Transfer-Encoding: chunked, foo"), pinboard.BadRequest},
		{"too many options", field("Connection: " + strings.Repeat("x,", 65)), pinboard.BadRequest},
		{"option is no token", field("Connection: a b"), pinboard.BadRequest},
	} {
		t.Run(test.name, func(t *testing.T) {
			var r Request
			if _, got := parseRequest(test.in, &r); got != test.want {
				t.Errorf("%q: %v, want %v", test.in, got, test.want)
			}
		})
	}
}

func TestWebSocketHandshakes(t *testing.T) {
	const good = "GET /t/a HTTP/1.1\r\nHost: h\r\nConnection: keep-alive, Upgrade\r\nUpgrade: WebSocket\r\n\r\n"
	for _, test := range []struct {
		name, old, new string
		want           bool
	}{
		{"plain", "", "", true},
		{"POST", "GET", "POST", false},
		{"HTTP/1.0", "HTTP/1.1", "HTTP/1.0", false},
		{"h2c", "WebSocket", "h2c", false},
		{"list", "WebSocket", "websocket, h2c", false},
		{"two lines", "Upgrade: WebSocket", "Upgrade: websocket\r\nUpgrade: h2c", false},
		{"not in Connection", "keep-alive, Upgrade", "keep-alive", false},
		{"body", "Host: h", "Host: h\r\nContent-Length: 1", false},
		{"empty body said", "Host: h", "Host: h\r\nContent-Length: 0", true},
		{"chunked", "Host: h", "Host: h\r\nTransfer-Encoding: chunked", false},
	} {
		var r Request
		if _, refusal := parseRequest(strings.Replace(good, test.old, test.new, 1), &r); refusal != nil {
			t.Errorf("%s: %v", test.name, refusal)
		}
		if r.WebSocket != test.want {
			t.Errorf("%s: %v, want %v", test.name, r.WebSocket, test.want)
		}
	}
}

func TestPersistence(t *testing.T) {
	for _, test := range []struct {
		in    string
		close bool
	}{
		{"GET / HTTP/1.1\r\nHost: h\r\n\r\n", false},
		{"GET / HTTP/1.1\r\nHost: h\r\nConnection: x, Close\r\n\r\n", true},
		{"GET / HTTP/1.0\r\n\r\n", true},
		{"GET / HTTP/1.0\r\nConnection: Keep-Alive\r\n\r\n", false},
		{"GET / HTTP/1.0\r\nConnection: Keep-Alive, close\r\n\r\n", true},
	} {
		var r Request
		if _, refusal := parseRequest(test.in, &r); refusal != nil || r.Close != test.close {
			t.Errorf("%q: close %v, %v; want %v", test.in, r.Close, refusal, test.close)
		}
	}
}

func TestScanLooksAtEachByteOnce(t *testing.T) {
	const s = "GET / HTTP/1.1\r\nHost: h\r\n\r\nGET /next"
	var scan Scan
	for i := 1; i <= len(s); i++ {
		n, ok := scan.Find([]byte(s[:i]))
		if want := strings.Index(s, "\r\n\r\n") + 4; !ok || n != 0 && n != want || n == 0 && i >= want {
			t.Fatalf("after %d bytes: %d, %v", i, n, ok)
		}
		if n > 0 {
			return
		}
		if scan.pos < i-1 {
			t.Fatalf("after %d bytes the scan stands at %d", i, scan.pos)
		}
	}
}

func TestParsingAllocatesNothing(t *testing.T) {
	head := []byte("GET /t/a?x HTTP/1.1\r\nHost: h\r\nCookie: a=b\r\nX-A: 1\r\nConnection: keep-alive\r\n\r\n")
	answer := []byte("HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Type: text/plain\r\n\r\n")
	var req Request
	var res Response
	dst := make([]byte, 0, 1024)
	if n := testing.AllocsPerRun(100, func() {
		if ParseRequest(head, &req) != nil || !ParseResponse(answer, false, &res) {
			t.Fatal("not parsed")
		}
		dst = AppendFields(dst[:0], head, req.Fields, HopByHop|FromClient, req.Listed)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
