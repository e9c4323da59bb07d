package fieldtest

import (
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"pinboard/internal/rawtest"
)

// FC-21: interim answers pass in order; an endless row of them does not.
func TestFC21InterimAnswersPass(t *testing.T) {
	t.Parallel()
	n := start(t)
	const early = "HTTP/1.1 103 Early Hints\r\nLink: </a.css>; rel=preload\r\n\r\n"
	const processing = "HTTP/1.1 102 Processing\r\n\r\n"
	const goOn = "HTTP/1.1 100 Continue\r\n\r\n"
	final := rawtest.Response(200, "done")
	n.worker(func(c *rawtest.Conn) {
		for {
			m, ok := c.Request()
			if !ok {
				return
			}
			switch m.Target() {
			case "/t/mixed":
				c.Pieces(10*time.Millisecond, early, processing, early, final)
			case "/t/merged":
				c.Write(early + processing + early + final)
			case "/t/thirty":
				c.Write(strings.Repeat(early, 30) + final)
			case "/t/unasked":
				c.Write(goOn + final)
			case "/t/endless":
				for c.Write(processing) {
				}
				return
			default:
				c.Write(final)
			}
		}
	})
	for path, want := range map[string]string{
		"/t/mixed": early + processing + early + final, "/t/merged": early + processing + early + final,
		"/t/thirty": strings.Repeat(early, 30) + final, "/t/unasked": goOn + final, "/t/none": final,
	} {
		c := n.dial()
		c.Write(get(path))
		if b, _ := c.Read(len(want)); string(b) != want {
			t.Errorf("%s: %q", path, b)
		}
		if !c.Silent(20 * time.Millisecond) {
			t.Errorf("%s: more than the worker said", path)
		}
		c.Write(get("/t/none"))
		if m := c.Response("GET"); string(m.Raw) != final {
			t.Errorf("%s: the next answer is %q", path, m.Raw)
		}
		c = n.dial()
		c.Write("GET " + path + " HTTP/1.0\r\nHost: h\r\n\r\n")
		if b, _ := c.Rest(patience); strings.Contains(string(b), " 10") || !strings.HasSuffix(string(b), "\r\n\r\ndone") {
			t.Errorf("%s: an HTTP/1.0 client gets %q", path, b)
		}
	}
	c := n.dial()
	c.Write(get("/t/endless"))
	if m := c.Final("GET"); !ours(m, 502, "worker_invalid") {
		t.Errorf("endless: %q", m.Raw)
	}
}

// FC-22: trailers pass, announced or not, in chunked framing; what frames or
// routes a message is never accepted behind it. gRPC needs HTTP/2 and is out.
func TestFC22TrailersPass(t *testing.T) {
	t.Parallel()
	n := start(t)
	const unwanted = "Content-Length: 5\r\nTransfer-Encoding: chunked\r\nHost: evil\r\nPinboard-Epoch: 999\r\npinboard_epoch: 999\r\n" +
		"Pinned-Refusal: lease-unhealthy\r\nConnection: close\r\nX-Forwarded-For: 6.6.6.6\r\n"
	answers := map[string]string{
		"/t/unannounced": chunkedHead + "5\r\nhello\r\n0\r\nX-T: 1\r\nx-t: 2\r\n\r\n",
		"/t/announced":   "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: X-T\r\n\r\n5\r\nhello\r\n0\r\nX-T: 1\r\n\r\n",
		"/t/absent":      "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: X-T\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
		"/t/empty":       "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: grpc-status\r\n\r\n0\r\ngrpc-status: 0\r\n\r\n",
	}
	w := n.worker(func(c *rawtest.Conn) {
		for {
			m, ok := c.Request()
			if !ok {
				return
			}
			if a, ok := answers[m.Target()]; ok {
				c.Write(a)
			} else {
				c.Write(chunkedHead + "2\r\nok\r\n0\r\n" + unwanted + "X-T: 1\r\n\r\n")
			}
		}
	})
	for path, want := range answers {
		if m := n.do(get(path)); string(m.Raw) != want {
			t.Errorf("%s: %q", path, m.Raw)
		}
	}
	const listed = "Connection: TE\r\n"
	for _, te := range []string{"", "TE: trailers\r\n", "TE: trailers\r\n" + listed, "TE: trailers, deflate;q=0.5\r\n" + listed} {
		request := "POST /t/up HTTP/1.1\r\nHost: h\r\n" + te + "Transfer-Encoding: chunked\r\nTrailer: X-T\r\n\r\n5;x=y\r\nhello\r\n0\r\nX-T: 1\r\n" + unwanted + "\r\n"
		m := n.do(request)
		if !slices.Equal(m.Trailers, []rawtest.Field{{Name: "X-T", Value: "1"}}) {
			t.Errorf("the client got the trailers %q", m.Trailers)
		}
		got := w.last()
		if string(got.Body) != "hello" || !slices.Equal(got.Trailers, []rawtest.Field{{Name: "X-T", Value: "1"}}) || got.Get("Trailer") != "X-T" {
			t.Errorf("the worker got %q", got.Raw)
		}
		if want := strings.Contains(te, listed); got.Has("TE") != want || want && got.Get("TE") != "trailers" {
			t.Errorf("TE arrived as %q for %q", got.Values("TE"), te)
		}
	}
}

// FC-23: hop-by-hop fields end here, both ways; a list in Connection is obeyed
// for everything but what Pinboard adds and what the message needs.
func TestFC23HopByHopFieldsEndHere(t *testing.T) {
	t.Parallel()
	n := start(t)
	const hop = "Keep-Alive: timeout=1\r\nProxy-Connection: keep-alive\r\nProxy-Authorization: x\r\nProxy-Authenticate: x\r\nTE: deflate\r\nUpgrade: foo\r\n"
	w := n.worker(rawtest.Always("HTTP/1.1 200 OK\r\nConnection: X-Drop, Set-Cookie, keep-alive\r\nX-Drop: 1\r\nX-Keep: 1\r\n" + hop +
		"Set-Cookie: s\r\nContent-Length: 2\r\n\r\nok"))
	for name, trial := range map[string]struct{ fields, gone, kept []string }{
		"names what is added": {
			[]string{"Connection: close, Pinboard-Epoch, Pinboard-Attestation, X-Forwarded-For, X-Forwarded-Host, Host, Cookie", "Cookie: c=1", "X-Keep: 1"},
			[]string{"Cookie", "Connection"}, []string{"Host", "X-Keep"}},
		"an empty line first": {[]string{"Connection:", "Connection: X-Drop", "X-Drop: 1", "X-Keep: 1"}, []string{"X-Drop", "Connection"}, []string{"Host", "X-Keep"}},
		"an empty element":    {[]string{"Connection: ,, x-dROP ,", "X-Drop: 1", "X-Drop: 2", "X-Keep: 1"}, []string{"X-Drop"}, []string{"X-Keep"}},
		"hop fields":          {strings.Split(strings.TrimSpace(hop), "\r\n"), []string{"Keep-Alive", "Proxy-Connection", "Proxy-Authorization", "TE", "Upgrade"}, []string{"Host"}},
		"a length":            {[]string{"Connection: Content-Length", "Content-Length: 0"}, nil, []string{"Content-Length"}},
		"a trailer field":     {[]string{"Trailer: X-T"}, []string{"Trailer"}, nil},
	} {
		m := n.do(ask("GET", "/t/a", trial.fields...))
		got := w.last()
		for _, name := range trial.gone {
			if got.Has(name) {
				t.Errorf("%s: the worker got %s in %q", name, name, got.Head)
			}
		}
		for _, name := range append(trial.kept, "Pinboard-Epoch", "Pinboard-Attestation", "X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto") {
			if len(got.Values(name)) != 1 {
				t.Errorf("%s: the worker got %d %s in %q", name, len(got.Values(name)), name, got.Head)
			}
		}
		want := "HTTP/1.1 200 OK\r\nX-Keep: 1\r\nContent-Length: 2\r\n"
		if strings.Contains(trial.fields[0], "close") {
			want += "Connection: close\r\n"
		}
		if string(m.Raw) != want+"\r\nok" {
			t.Errorf("%s: the client got %q", name, m.Raw)
		}
	}
}

const victim = "GET /t/victim HTTP/1.1\r\nHost: h\r\n\r\n"

// smuggled are requests that two readers may frame differently; each is sent
// with a request for somebody else right behind it.
var smuggled = map[string]string{
	"CL and TE":             "Content-Length: 6\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nX",
	"TE and CL":             "Transfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\n8\r\nSMUGGLED\r\n0\r\n\r\n",
	"CL covers the next":    "Content-Length: 40\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
	"TE chunked,":           "Transfer-Encoding: chunked,\r\n\r\n0\r\n\r\n",
	"TE space behind":       "Transfer-Encoding: chunked \r\nContent-Length: 5\r\n\r\n0\r\n\r\n",
	"TE space before colon": "Transfer-Encoding : chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n",
	"TE tab":                "Transfer-Encoding:\tchunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n",
	"TE xchunked":           "Transfer-Encoding: xchunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n",
	"TE gzip, chunked":      "Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
	"TE chunked, gzip":      "Transfer-Encoding: chunked, gzip\r\n\r\n0\r\n\r\n",
	"TE identity":           "Transfer-Encoding: identity\r\nContent-Length: 5\r\n\r\n0\r\n\r\n",
	"TE twice":              "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
	"TE twice, other":       "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n0\r\n\r\n",
	"TE vertical tab":       "Transfer-Encoding: \x0bchunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n",
	"TE quoted":             "Transfer-Encoding: \"chunked\"\r\nContent-Length: 5\r\n\r\n0\r\n\r\n",
	"TE folded":             "Transfer-Encoding:\r\n chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n",
	"TE underscore":         "Transfer_Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n",
	"CL twice":              "Content-Length: 0\r\nContent-Length: 40\r\n\r\n",
	"CL twice, equal":       "Content-Length: 0\r\nContent-Length: 0\r\n\r\n",
	"CL list":               "Content-Length: 0, 40\r\n\r\n",
	"CL plus":               "Content-Length: +0\r\n\r\n",
	"CL minus":              "Content-Length: -1\r\n\r\n",
	"CL hex":                "Content-Length: 0x28\r\n\r\n",
	"CL space inside":       "Content-Length: 4 0\r\n\r\n",
	"CL space before colon": "Content-Length : 40\r\n\r\n",
	"CL huge":               "Content-Length: 18446744073709551617\r\n\r\n",
	"CL empty":              "Content-Length:\r\n\r\n",
	"CL folded":             "Content-Length: 4\r\n 0\r\n\r\n",
	"chunk 0x2":             "Transfer-Encoding: chunked\r\n\r\n0x2\r\nhi\r\n0\r\n\r\n",
	"chunk -2":              "Transfer-Encoding: chunked\r\n\r\n-2\r\nhi\r\n0\r\n\r\n",
	"chunk +2":              "Transfer-Encoding: chunked\r\n\r\n+2\r\nhi\r\n0\r\n\r\n",
	"chunk space":           "Transfer-Encoding: chunked\r\n\r\n2 \r\nhi\r\n0\r\n\r\n",
	"chunk bare LF":         "Transfer-Encoding: chunked\r\n\r\n2\nhi\n0\n\n",
	"chunk LF in ext":       "Transfer-Encoding: chunked\r\n\r\n2;a=\nxx\r\nhi\r\n0\r\n\r\n",
	"chunk CR in ext":       "Transfer-Encoding: chunked\r\n\r\n2;a=\rb\r\nhi\r\n0\r\n\r\n",
	"chunk overflow":        "Transfer-Encoding: chunked\r\n\r\n10000000000000002\r\nhi\r\n0\r\n\r\n",
	"chunk short":           "Transfer-Encoding: chunked\r\n\r\n2\r\nhi!\r\n0\r\n\r\n",
	"chunk no CRLF":         "Transfer-Encoding: chunked\r\n\r\n2\r\nhi0\r\n\r\n",
	"bare CR in a value":    "X: a\rTransfer-Encoding: chunked\r\n\r\n",
	"bare LF":               "X: a\nTransfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n",
	"NUL in a value":        "X: a\x00b\r\n\r\n",
	"NUL in a name":         "X\x00: a\r\n\r\n",
	"fold":                  "X: a\r\n b\r\n\r\n",
	"first line folded":     " X: a\r\n\r\n",
	"no colon":              "X\r\n\r\n",
	"no name":               ": a\r\n\r\n",
	"two Hosts":             "Host: evil\r\n\r\n",
	"upgrade with a body":   "Connection: Upgrade\r\nUpgrade: websocket\r\nContent-Length: 5\r\n\r\n0\r\n\r\n",
	"Expect and no body":    "Expect: 100-continue\r\n\r\n",
	"TE in HTTP/1.0":        "HTTP/1.0",
}

// FC-24: a message has one reading or none. The worker may see the second
// request only as a request of its own, resolved for its own id.
func TestFC24OneReadingOfEveryRequest(t *testing.T) {
	t.Parallel()
	n := start(t, "PINBOARD_HALF_CLOSE_GRACE_MS=3000") // the client has closed its half: on a busy machine an answer takes longer than a short grace
	w := n.worker(rawtest.Always(rawtest.Response(200, "ok")))
	epochs := map[string]string{}
	for _, id := range []string{"/t/a", "/t/victim"} {
		n.do(get(id))
		epochs[id] = w.last().Get("Pinboard-Epoch")
	}
	if epochs["/t/a"] == epochs["/t/victim"] {
		t.Fatal("the ids share an epoch: the trial shows nothing")
	}
	for name, rest := range smuggled {
		for _, method := range []string{"POST", "GET"} {
			request := method + " /t/a HTTP/1.1\r\nHost: h\r\n" + rest
			if rest == "HTTP/1.0" {
				request = method + " /t/a HTTP/1.0\r\nHost: h\r\nConnection: keep-alive\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"
			}
			seen := len(w.got())
			c := n.dial()
			c.Write(request + victim)
			c.HalfClose()
			b, end := c.Rest(patience)
			if end == rawtest.Quiet {
				t.Errorf("%s %s: no end after %q", method, name, b)
			}
			c.Close()
			answers := regexp.MustCompile(`(?m)^HTTP/1\.1 (\d+)`).FindAllStringSubmatch(string(b), -1)
			if len(answers) == 0 || len(answers) > 2 {
				t.Errorf("%s %s: %d answers: %q", method, name, len(answers), b)
				continue
			}
			got := w.got()[seen:]
			refused := answers[0][1] != "200"
			if refused && (len(answers) != 1 || !strings.Contains("400 501 505", answers[0][1]) || !strings.Contains(string(b), "Connection: close")) {
				t.Errorf("%s %s: %q", method, name, b)
			}
			for _, r := range got {
				if e := epochs[r.Target()]; e == "" || !slices.Equal(r.Values("Pinboard-Epoch"), []string{e}) {
					t.Errorf("%s %s: %s arrived as %q", method, name, r.Target(), r.Head)
				}
				lengths, codings := len(r.Values("Content-Length")), len(r.Values("Transfer-Encoding"))
				if lengths+codings > 1 || strings.Contains(string(r.Body), "victim") {
					t.Errorf("%s %s: ambiguous at the worker: %q", method, name, r.Raw)
				}
				if strings.ContainsRune(strings.ReplaceAll(string(r.Head), "\r\n", ""), '\n') || strings.ContainsRune(strings.ReplaceAll(string(r.Head), "\r\n", ""), '\r') {
					t.Errorf("%s %s: a bare CR or LF at the worker: %q", method, name, r.Head)
				}
			}
		}
	}
	if len(smuggled) < 45 {
		t.Errorf("only %d shapes", len(smuggled))
	}
}

// dictated is a worker that answers each request with the next text sent.
func (n *node) dictated() (w *worker, next chan<- string) {
	texts := make(chan string, 1)
	return n.worker(func(c *rawtest.Conn) {
		for {
			if _, ok := c.Request(); !ok {
				return
			}
			c.Write(<-texts)
		}
	}), texts
}

// FC-24, the other direction: a worker's doubtful answer is 502 and its
// connection is not used again.
func TestFC24OneReadingOfEveryAnswer(t *testing.T) {
	t.Parallel()
	n := start(t)
	_, next := n.dictated()
	const evil = "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil"
	for name, trial := range map[string]struct {
		answer string
		status int
	}{
		"CL and TE":           {"HTTP/1.1 200 OK\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 502},
		"two CLs":             {"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nContent-Length: 3\r\n\r\n", 502},
		"CL list":             {"HTTP/1.1 200 OK\r\nContent-Length: 0, 3\r\n\r\n", 502},
		"TE gzip, chunked":    {"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n", 502},
		"TE twice":            {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 502},
		"TE in HTTP/1.0":      {"HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 502},
		"bare LF":             {"HTTP/1.1 200 OK\nContent-Length: 0\n\n", 502},
		"fold":                {"HTTP/1.1 200 OK\r\nX: a\r\n b\r\nContent-Length: 0\r\n\r\n", 502},
		"space before colon":  {"HTTP/1.1 200 OK\r\nContent-Length : 0\r\n\r\n", 200},
		"NUL":                 {"HTTP/1.1 200 OK\r\nX: \x00\r\nContent-Length: 0\r\n\r\n", 502},
		"no status":           {"HTTP/1.1 OK\r\n\r\n", 502},
		"status 0200":         {"HTTP/1.1 0200 OK\r\nContent-Length: 0\r\n\r\n", 502},
		"HTTP/2.0":            {"HTTP/2.0 200 OK\r\nContent-Length: 0\r\n\r\n", 502},
		"nonsense":            {"SSH-2.0-OpenSSH\r\n\r\n", 502},
		"CL on 204":           {"HTTP/1.1 204 No Content\r\nContent-Length: 40\r\n\r\n", 204},
		"more than announced": {"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", 200},
	} {
		c := n.dial()
		next <- trial.answer + evil
		c.Write(get("/t/a"))
		m := c.Response("GET")
		if m.Status() != trial.status || strings.Contains(string(m.Raw), "evil") {
			t.Errorf("%s: %q", name, m.Raw)
		}
		if m.Status() == 204 && m.Has("Content-Length") {
			t.Errorf("%s: %q", name, m.Raw)
		}
		next <- rawtest.Response(200, "good")
		other := n.dial()
		other.Write(get("/t/b"))
		if m := other.Response("GET"); string(m.Body) != "good" {
			t.Errorf("%s: the next request got %q", name, m.Raw)
		}
	}
}

// FC-26: what has no body has none, whatever it says, and the rest has one.
func TestFC26BodiesThatAreOrAreNotThere(t *testing.T) {
	t.Parallel()
	n := start(t)
	w, next := n.dictated()
	for name, trial := range map[string]struct{ method, answer, want string }{
		"HEAD with CL":     {"HEAD", "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n", "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n"},
		"HEAD with TE":     {"HEAD", chunkedHead, chunkedHead},
		"HEAD with a body": {"HEAD", "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi", "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n"},
		"304 with CL":      {"GET", "HTTP/1.1 304 Not Modified\r\nContent-Length: 10\r\nETag: \"e\"\r\n\r\n", "HTTP/1.1 304 Not Modified\r\nContent-Length: 10\r\nETag: \"e\"\r\n\r\n"},
		"204 with a body":  {"GET", "HTTP/1.1 204 No Content\r\nContent-Length: 2\r\n\r\nhi", "HTTP/1.1 204 No Content\r\n\r\n"},
		"304 with a body":  {"GET", "HTTP/1.1 304 Not Modified\r\nContent-Length: 2\r\n\r\nhi", "HTTP/1.1 304 Not Modified\r\nContent-Length: 2\r\n\r\n"},
		"205 empty":        {"GET", "HTTP/1.1 205 Reset Content\r\nContent-Length: 0\r\n\r\n", "HTTP/1.1 205 Reset Content\r\nContent-Length: 0\r\n\r\n"},
	} {
		c := n.dial()
		next <- trial.answer
		c.Write(ask(trial.method, "/t/a"))
		if m := c.Response(trial.method); string(m.Raw) != trial.want {
			t.Errorf("%s: %q", name, m.Raw)
		}
		next <- rawtest.Response(200, "second")
		c.Write(get("/t/a"))
		if m := c.Response("GET"); string(m.Raw) != rawtest.Response(200, "second") {
			t.Errorf("%s: then %q", name, m.Raw)
		}
	}
	for _, method := range []string{"GET", "DELETE", "POST", "PUT", "PATCH", "OPTIONS", "PROPFIND"} {
		for _, request := range []string{
			ask(method, "/t/a", "Content-Length: 5") + "hello", ask(method, "/t/a", "Content-Length: 0"), ask(method, "/t/a"),
			ask(method, "/t/a", "Transfer-Encoding: chunked") + "5\r\nhello\r\n0\r\n\r\n",
			ask(method, "/t/a", "Transfer-Encoding: chunked") + "0\r\n\r\n",
		} {
			next <- rawtest.Response(200, "ok")
			if m := n.do(request); m.Status() != 200 {
				t.Errorf("%q: %q", request, m.Raw)
			}
			if got := received(w.last()); got != request {
				t.Errorf("%q arrived as %q", request, got)
			}
		}
	}
}

// FC-35: nothing is invented and nothing changed, either way.
func TestFC35NothingIsAdded(t *testing.T) {
	t.Parallel()
	n := start(t)
	w, next := n.dictated()
	bare := "GET /t/a HTTP/1.1\r\nHost: h\r\n\r\n"
	odd := "GET /t/a HTTP/1.1\r\nhOsT: H:80\r\nx-lower: 1\r\nX-UPPER:no space\r\nDup: 1\r\nX-Empty:\r\nDup: 2\r\nx-tab:\t v \t\r\nCookie: a=1\r\nCookie: b=2\r\nX-Obs: \xe9\xff\r\n\r\n"
	for _, answer := range []string{
		rawtest.Response(200, "<html>"),
		"HTTP/1.1 299 Custom Reason\r\nContent-Length: 0\r\n\r\n",
		"HTTP/1.1 200 \r\nContent-Length: 0\r\n\r\n",
		"HTTP/1.1 200 \xe9t\xe9\r\nContent-Length: 0\r\n\r\n",
		"HTTP/1.1 200 OK\r\nSet-Cookie: a=1; Path=/\r\nX-Between: 1\r\nset-cookie: b=2\r\nDup: 1\r\nDup: 2\r\nmIxEd: Case\r\nX-Empty:\r\nContent-Length: 1\r\n\r\nx",
		"HTTP/1.1 302 Found\r\nLocation: //x/\r\nContent-Length: 0\r\n\r\n",
		"HTTP/1.1 421 Misdirected Request\r\nContent-Length: 0\r\n\r\n",
		"HTTP/1.1 599 Weird\r\nContent-Length: 3\r\n\r\nabc",
		"HTTP/1.1 999 Odd\r\nContent-Length: 0\r\n\r\n",
		"HTTP/1.1 401 Unauthorized\r\nWWW-Authenticate: Basic realm=\"x\"\r\nContent-Length: 0\r\n\r\n",
		chunkedHead + "2;ext=\"v\"\r\nhi\r\n00\r\n\r\n",
	} {
		for _, request := range []string{bare, odd} {
			next <- answer
			if m := n.do(request); string(m.Raw) != answer {
				t.Errorf("%q came as %q", answer, m.Raw)
			}
			if got := received(w.last()); got != request {
				t.Errorf("%q arrived as %q", request, got)
			}
		}
	}
	if d := len(w.got()); d != 22 {
		t.Errorf("%d requests for 22: a redirect was followed", d)
	}
	if m := w.last(); len(m.Values("Via")) > 0 || !regexp.MustCompile(`^\d+$`).MatchString(m.Get("Pinboard-Epoch")) {
		t.Errorf("%q", m.Head)
	}
}
