package h1

import (
	"strings"
	"testing"
)

// appendOf parses a request made of lines and appends what a worker may get.
func appendOf(t *testing.T, lines string) string {
	t.Helper()
	in := "GET / HTTP/1.1\r\n" + lines + "\r\n"
	var r Request
	if _, refusal := parseRequest(in, &r); refusal != nil {
		t.Fatalf("%q: %v", lines, refusal)
	}
	return string(AppendFields(nil, []byte(in), r.Fields, HopByHop|FromClient, r.Listed))
}

func TestFieldsPassAsTheyCame(t *testing.T) {
	const lines = "hOsT:h\r\nX:  padded\t \r\nDup: 1\r\ndup: 2\r\nDup: 1\r\nEmpty:\r\nUtf: \xc3\xa9\r\nCookie: a=b; c\r\nX_Y: z\r\n"
	if got := appendOf(t, lines); got != lines {
		t.Errorf("got %q", got)
	}
}

func TestHopByHopFieldsGo(t *testing.T) {
	got := appendOf(t, "Keep-Alive: 5\r\nHost: h\r\nConnection:\r\nConnection: X-Drop, close, Host, content-length, Cookie\r\nX-Keep: 1\r\n"+
		"x-drop: 1\r\nProxy-Connection: x\r\nProxy-Authorization: x\r\nTE: deflate\r\nUpgrade: h2c\r\nHTTP2-Settings: x\r\nCookie: a\r\nContent-Length: 0\r\nX-Drop2: 1\r\n")
	if want := "Host: h\r\nX-Keep: 1\r\nContent-Length: 0\r\nX-Drop2: 1\r\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestInternalNamesGo(t *testing.T) {
	for _, name := range []string{
		"Pinboard-Epoch", "pinboard-epoch", "PINBOARD_EPOCH", "Pinboard_Epoch", "Pinboard-Anything", "Pinboard-From",
		"Pinboard-Session", "Pinboard-Session-Secret", "Pinboard-Subrequest-Depth", "Pinboard-Attestation", "Pinboard-Caller",
		"Pinboard_Attestation", "X-Pinned-Proxy-Secret", "x_pinned_proxy_secret", "X-Pinned_Proxy-Secret", "Pinned-Refusal",
		"X-Pinboard-Epoch", "x_pinboard_epoch", "X-Pinboard_Anything",
		"pinned_refusal", "X_Forwarded_For", "X-Forwarded_For", "x_forwarded_proto", "X_Real_IP",
	} {
		if got := appendOf(t, "Host: h\r\n"+name+": 1\r\nA: b\r\n"); got != "Host: h\r\nA: b\r\n" {
			t.Errorf("%s: %q", name, got)
		}
	}
	for _, name := range []string{"Pinboard", "Pinboards-Epoch", "X-Pin", "X-Pinboard", "X-Pinboards-Epoch", "Pinne-d", "X-Forwarded-For", "X-Real-IP", "Xpinboard-Epoch"} {
		if got := appendOf(t, "Host: h\r\n"+name+": 1\r\n"); !strings.Contains(got, name+": 1") {
			t.Errorf("%s was dropped", name)
		}
	}
}

func TestTrailersKeepOnlyWhatMayStand(t *testing.T) {
	in := []byte("X-Sum: 1\r\nContent-Length: 5\r\nHost: h\r\nTransfer-Encoding: chunked\r\nPinboard-Epoch: 9\r\nPinned_Refusal: x\r\n" +
		"X-Forwarded-For: 1\r\nConnection: close\r\nGrpc-Status: 0\r\n\r\nrest")
	fields, n, ok := ParseTrailers(in, new(Scan), nil, false)
	if !ok || n != len(in)-len("rest") {
		t.Fatalf("%d, %v", n, ok)
	}
	if got := string(AppendTrailers(nil, in[:n], fields)); got != "X-Sum: 1\r\nGrpc-Status: 0\r\n\r\n" {
		t.Errorf("got %q", got)
	}
}

// RFC 9112 5.1: a proxy removes white space between a response's field name
// and its colon; the field means what it means without it.
func TestSpaceBeforeAColonOfAWorkerGoes(t *testing.T) {
	in := "HTTP/1.1 200 OK\r\nA : b\r\nX:  y :z \r\nConnection\t: X-Gone\r\nX-Gone \t: 1\r\nPinboard-Error : x\r\nContent-Length : 5\r\nLast\t : z\r\n\r\n"
	var r Response
	if !ParseResponse([]byte(in), false, &r) || r.Body != Length || r.ContentLength != 5 {
		t.Fatalf("%+v", r)
	}
	got := string(AppendFields(nil, []byte(in), r.Fields, HopByHop|FromWorker, r.Listed))
	if want := "A: b\r\nX:  y :z \r\nContent-Length: 5\r\nLast: z\r\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	body := NewBody(Chunked, 0)
	body.Spaced = true
	chunks := []byte("0\r\nX-Sum : 1\r\nHost : h\r\n\r\n")
	if n, ok := body.chunks.Walk(chunks); n != 0 || !ok || !body.AtLast() {
		t.Fatal(n, ok)
	}
	out, n, ok := body.TakeLast(chunks, nil)
	if string(out) != "0\r\nX-Sum: 1\r\n\r\n" || n != len(chunks) || !ok {
		t.Errorf("%q, %d, %v", out, n, ok)
	}
	for _, bad := range []string{" : x", "A\r\n : b", "A b: c", "A\v: b"} {
		if ParseResponse([]byte("HTTP/1.1 200 OK\r\n"+bad+"\r\n\r\n"), false, &r) {
			t.Errorf("%q was taken", bad)
		}
	}
}

func TestTrailersAreBounded(t *testing.T) {
	if _, _, ok := ParseTrailers([]byte(strings.Repeat("X: y\r\n", MaxHead/6+1)), new(Scan), nil, false); ok {
		t.Error("an endless trailer section is waited for")
	}
	if _, n, ok := ParseTrailers([]byte("X: y\r\n"), new(Scan), nil, false); n != 0 || !ok {
		t.Error("an incomplete trailer section is not waited for")
	}
}

func TestChunkLinesAreBounded(t *testing.T) {
	var c Chunks
	if _, ok := c.Walk([]byte("1;" + strings.Repeat("a", maxChunkLine+1))); ok {
		t.Error("an endless extension is walked")
	}
}
