package proxy_test

import (
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"pinboard"
	"pinboard/internal/directory"
	"pinboard/internal/ownership"
	"pinboard/internal/proxy"
)

// Every refusal on the closed list has its status, code, text and retry hint.
func TestOwnErrors(t *testing.T) {
	w := newWorld(t, func(c *proxy.Config) { c.CORSOrigins = []string{"https://app.test"} })
	c := w.dial()
	for _, r := range pinboard.Refusals {
		w.dir.mu.Lock()
		w.dir.resolve = func(int, directory.Request) (directory.Placement, error) { return directory.Placement{}, r }
		w.dir.mu.Unlock()
		c.send("GET /t/a HTTP/1.1\r\nHost: h\r\nOrigin: https://app.test\r\n\r\n")
		got := c.answer()
		var body struct {
			Error, Code  string
			RetryAfterMs *int
		}
		if err := json.Unmarshal([]byte(got.body), &body); err != nil {
			t.Fatalf("%s: %q: %v", r.Code, got.body, err)
		}
		if r.Bare != (got.body == `{"error":"`+r.Text+`"}`) {
			t.Errorf("%s: bare %v, body %q", r.Code, r.Bare, got.body)
		}
		if body.Error != r.Text || !r.Bare && body.Code != r.Code || got.line("Pinboard-Error") != r.Code ||
			got.line("Content-Type") != "application/json" || got.head[9:12] != strconv.Itoa(r.Status) {
			t.Errorf("%s: %q", r.Code, got)
		}
		if after := got.line("Retry-After"); (after != "") != r.Retry || (body.RetryAfterMs != nil) != r.Retry {
			t.Errorf("%s: Retry-After %q, %v", r.Code, after, body.RetryAfterMs)
		}
		if got.line("Access-Control-Allow-Origin") != "https://app.test" || got.line("Vary") != "Origin" {
			t.Errorf("%s: no CORS: %q", r.Code, got.head)
		}
	}
	if x := w.exchange(0); x.End != proxy.Rejected || x.Refusal != pinboard.Refusals[0] {
		t.Errorf("observed %v %v", x.End, x.Refusal)
	}
}

func TestRetryHintsAreJittered(t *testing.T) {
	w := newWorld(t)
	w.dir.resolve = func(int, directory.Request) (directory.Placement, error) {
		return directory.Placement{}, pinboard.ColdStart
	}
	seen := map[string]bool{}
	for range 20 {
		seen[w.ask(bodyless).body] = true
	}
	if len(seen) < 5 {
		t.Errorf("%d different hints in 20 refusals", len(seen))
	}
}

func TestStoreErrorsAreNeverShown(t *testing.T) {
	w := newWorld(t)
	w.dir.resolve = func(int, directory.Request) (directory.Placement, error) {
		return directory.Placement{}, errors.New("dial tcp 10.0.0.7:6379: password hunter2")
	}
	got := w.ask(bodyless)
	if got.line("Pinboard-Error") != "store_unavailable" || strings.Contains(got.head+got.body, "hunter2") {
		t.Errorf("client got %q", got)
	}
}

func TestCORSIsForListedOriginsAndOwnErrorsOnly(t *testing.T) {
	w := newWorld(t, func(c *proxy.Config) { c.CORSOrigins = []string{"https://app.test"} })
	s := newScripted(t, replying(okAnswer))
	w.dir.place(s.Worker)
	origin := func(o string) string { return "GET /t/a HTTP/1.1\r\nHost: h\r\nOrigin: " + o + "\r\n\r\n" }
	if got := w.ask(origin("https://app.test")); got.head+got.body != okAnswer {
		t.Errorf("a worker's answer was touched: %q", got)
	}
	w.dir.place(nil)
	if got := w.ask(origin("https://evil.test")); got.line("Access-Control-Allow-Origin") != "" {
		t.Errorf("client got %q", got.head)
	}
}

// A refusal of a request whose body has arrived keeps the connection; one
// whose body has not closes it.
func TestRefusedBodies(t *testing.T) {
	w := newWorld(t)
	c := w.dial()
	for range 3 {
		c.send(withBody)
		if got := c.answer(); got.line("Pinboard-Error") != "unknown_namespace" || got.line("Connection") != "" {
			t.Fatalf("client got %q", got.head)
		}
	}
	c.send("POST /t/a HTTP/1.1\r\nHost: h\r\nContent-Length: 1000\r\n\r\nabc")
	if got := c.answer(); got.line("Connection") != "close" {
		t.Errorf("client got %q", got.head)
	}
	if rest, err := c.rest(); rest != "" || err != nil {
		t.Errorf("rest %q, %v", rest, err)
	}
	head := strings.Replace(bodyless, "GET", "HEAD", 1)
	c = w.dial()
	c.send(head + bodyless)
	if h, _ := readHead(c.r); !strings.HasPrefix(h, "HTTP/1.1 404 ") {
		t.Errorf("HEAD: %q", h)
	}
	if got := c.answer(); got.line("Pinboard-Error") != "unknown_namespace" {
		t.Errorf("behind the HEAD: %q", got)
	}
}

// control is a handler that shows what it was given.
func control(rw http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	var tooLarge *http.MaxBytesError
	if errors.As(err, &tooLarge) {
		http.Error(rw, "too large", http.StatusRequestEntityTooLarge)
		return
	}
	rw.Header().Set("X-Saw", r.Method+" "+r.RequestURI+" "+r.Host+" "+r.Header.Get("X-In"))
	switch r.URL.Path {
	case "/registry/panic":
		panic("on purpose")
	case "/registry/abort":
		panic(http.ErrAbortHandler)
	case "/registry/none":
		rw.WriteHeader(http.StatusNoContent)
	case "/registry/big":
		rw.Write([]byte(strings.Repeat("x", 200<<10)))
	case "/registry/flush":
		rw.Write([]byte("a"))
		rw.(http.Flusher).Flush()
		rw.Write([]byte("b"))
	default:
		rw.Write(append([]byte("body:"), body...))
	}
}

func TestControlPathsKeepTheConnection(t *testing.T) {
	w := newWorld(t, func(c *proxy.Config) { c.Control = http.HandlerFunc(control); c.ControlBody = 1000 })
	s := newScripted(t, replying(okAnswer))
	w.dir.place(s.Worker)
	c := w.dial()
	for _, test := range []struct{ request, status, body string }{
		{get("/healthz"), "200 OK", "body:"},
		{"POST /registry/x?y=1 HTTP/1.1\r\nHost: h\r\nX-In: 1\r\nContent-Length: 5\r\n\r\nhello", "200 OK", "body:hello"},
		{bodyless, "200 OK", "ok"},
		{"POST /registry HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\nX: y\r\n\r\n", "200 OK", "body:abcde"},
		{"POST /registry/x HTTP/1.1\r\nHost: h\r\nContent-Length: 1000\r\n\r\n" + strings.Repeat("z", 1000), "200 OK", "body:" + strings.Repeat("z", 1000)},
		{get("/registry/flush"), "200 OK", "1\r\na\r\n1\r\nb\r\n0\r\n\r\n"},
		{get("/metrics"), "200 OK", "body:"},
		{get("/dashboard/x"), "200 OK", "body:"},
	} {
		c.send(test.request)
		got := c.answer()
		if got.head[9:9+len(test.status)] != test.status || got.body != test.body {
			t.Fatalf("%q: got %q", test.request, got)
		}
	}
	c.send(get("/registry/none") + strings.Replace(get("/readyz"), "GET", "HEAD", 1) + get("/registry/big"))
	if head, _ := readHead(c.r); !strings.HasPrefix(head, "HTTP/1.1 204 ") || strings.Contains(head, "Content-Length") {
		t.Errorf("204: %q", head)
	}
	if head, _ := readHead(c.r); !strings.HasPrefix(head, "HTTP/1.1 200 ") {
		t.Errorf("HEAD: %q", head)
	}
	if got := c.answer(); strings.Count(got.body, "x") != 200<<10 {
		t.Errorf("big: %d bytes", len(got.body))
	}
	c.send("POST /registry/x HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n")
	c.readExactly("HTTP/1.1 100 Continue\r\n\r\n")
	c.send("hi")
	if got := c.answer(); got.body != "body:hi" {
		t.Errorf("Expect: %q", got)
	}
	c.send("POST /registry/x HTTP/1.1\r\nHost: h\r\nContent-Length: 1001\r\n\r\n" + strings.Repeat("z", 1001))
	if got := c.status(); got != "413 Request Entity Too Large" {
		t.Errorf("too large: %s", got)
	}
	if n := len(s.deliveries()); n != 1 {
		t.Errorf("%d deliveries", n)
	}
}

// FC-29: no other spelling reaches the control plane, and nothing of it a worker.
func TestControlPathsHaveOneSpelling(t *testing.T) {
	w := newWorld(t, func(c *proxy.Config) {
		c.Control = http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) { io.WriteString(rw, "control") })
	})
	for _, path := range []string{"//registry/workers", "/%72egistry/workers", "/Registry/workers", "/t/../registry/workers",
		"/healthz/x", "/metrics/", "/registryx", "/healthz%2f", "http://h//registry"} {
		if got := w.ask(get(path)); got.body == "control" {
			t.Errorf("%s reaches the control plane", path)
		}
	}
	for _, path := range []string{"/registry", "/registry/", "/registry//workers", "/registry/../t/a", "/registry/;/workers", "/readyz?x", "http://h/registry/x", "/healthz"} {
		if got := w.ask(get(path)); got.body != "control" {
			t.Errorf("%s is proxied: %q", path, got)
		}
	}
	if n := len(w.dir.resolved()); n == 0 {
		t.Error("near misses are not resolved like any other address")
	}
}

func TestPanicOfOneExchangeIsItsOwn(t *testing.T) {
	seen := make(chan any, 2)
	w := newWorld(t, func(c *proxy.Config) {
		c.Control = http.HandlerFunc(control)
		c.Panic = func(v any, _ []byte) { seen <- v }
	})
	w.dir.place(newScripted(t, replying(okAnswer)).Worker)
	for _, path := range []string{"/registry/abort", "/registry/panic"} { // aborts are no news
		c := w.dial()
		c.send(get(path))
		if rest, _ := c.rest(); rest != "" {
			t.Errorf("client got %q", rest)
		}
	}
	if v := await(t, "the panic is told", seen, patience); v != "on purpose" || len(seen) > 0 {
		t.Errorf("told of %v", v)
	}
	if got := w.ask(bodyless); got.body != "ok" {
		t.Errorf("next: %q", got)
	}
	w.eventually("nothing in flight", func() bool { return w.p.InFlight(proxy.Control) == 0 })
}

// Every answer of our own says when it was made; a worker's says what it says.
func TestOwnAnswersCarryTheDate(t *testing.T) {
	w := newWorld(t)
	for name, request := range map[string]string{
		"refusal":      get("/t/%zz"),
		"bad head":     "GET /t/a HTTP/1.1\r\nHost: [\r\n\r\n",
		"unresolved":   get("/t/a"),
		"Max-Forwards": "OPTIONS /t/a HTTP/1.1\r\nHost: h\r\nMax-Forwards: 0\r\nConnection: close\r\n\r\n",
	} {
		c := w.dial()
		c.send(request)
		head, err := readHead(c.r)
		got, bad := http.ParseTime(delivery{head: head}.line("Date"))
		if err != nil || bad != nil || time.Since(got).Abs() > time.Minute {
			t.Errorf("%s: %q, %v, %v", name, head, err, bad)
		}
	}
	w.dir.place(newScripted(t, replying(okAnswer)).Worker)
	if got := w.ask(bodyless); got.line("Date") != "" {
		t.Errorf("a worker's answer: %q", got.head)
	}
}

// Retry-After tells how long the reason lasts, rounded up and at most a fifth
// more: what the rules know of it, or what is left of the lease of an owner that
// nobody reaches.
func TestRetryAfterTellsTheTruth(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l.Close() // nobody listens there now
	for _, most := range []bool{false, true} {
		w := newWorld(t, func(c *proxy.Config) {
			c.Rand = func(n int) int {
				if most {
					return n - 1
				}
				return 0
			}
		})
		ask := func() (seconds, ms int) {
			got := w.ask(get("/t/a"))
			var body struct{ RetryAfterMs int }
			if json.Unmarshal([]byte(got.body), &body) != nil {
				t.Errorf("%q", got.body)
			}
			seconds, _ = strconv.Atoi(got.line("Retry-After"))
			return seconds, body.RetryAfterMs
		}
		w.dir.resolve = func(int, directory.Request) (directory.Placement, error) {
			return directory.Placement{}, directory.Later{Refusal: pinboard.ColdStart, After: 9999500 * time.Microsecond}
		}
		if s, ms := ask(); !most && (s != 10 || ms != 10000) || most && (s != 12 || ms != 12000) {
			t.Errorf("cold: %d s, %d ms", s, ms)
		}
		w.dir.resolve = nil
		w.dir.lease = 100 * time.Second
		w.dir.place(&ownership.Worker{Session: "s", URL: "http://" + l.Addr().String()})
		if s, ms := ask(); ms < 90_000 || ms > 120_000 || s*1000 < ms || most != (ms > 100_000) {
			t.Errorf("unreachable: %d s, %d ms", s, ms)
		}
		w.dir.report = func(directory.Placement, directory.Event) directory.Verdict { // its placement was taken back
			return directory.Verdict{Again: true, Refusal: pinboard.WorkerUnreachable}
		}
		if s, ms := ask(); s > 2 || ms > 2000 || ms < 500 {
			t.Errorf("unplaced: %d s, %d ms", s, ms)
		}
	}
}

// A preflight is the worker's to answer. Where no worker can, Pinboard allows the
// request for origins that may read its errors, so that the browser learns why.
func TestPreflightsWithoutAWorker(t *testing.T) {
	w := newWorld(t, func(c *proxy.Config) { c.CORSOrigins = []string{"https://app.test"} })
	preflight := func(origin, method string) string {
		return "OPTIONS /t/a HTTP/1.1\r\nHost: h\r\nOrigin: " + origin + "\r\n" + method + "Access-Control-Request-Headers: x-a, content-type\r\n\r\n"
	}
	const put = "Access-Control-Request-Method: PUT\r\n"
	c := w.dial()
	for range 2 { // the connection goes on
		c.send(preflight("https://app.test", put))
		head, err := readHead(c.r)
		got := delivery{head: head}
		if err != nil || !strings.HasPrefix(head, "HTTP/1.1 204 ") || got.line("Access-Control-Allow-Origin") != "https://app.test" ||
			got.line("Access-Control-Allow-Methods") != "PUT" || got.line("Access-Control-Allow-Headers") != "x-a, content-type" ||
			got.line("Access-Control-Max-Age") != "0" || got.line("Content-Length") != "" ||
			!strings.Contains(got.line("Access-Control-Expose-Headers"), "Pinboard-Error, Retry-After") {
			t.Errorf("%q, %v", head, err)
		}
	}
	for name, request := range map[string]string{
		"another origin":   preflight("https://evil.test", put),
		"a plain OPTIONS":  preflight("https://app.test", ""),
		"the request then": "PUT /t/a HTTP/1.1\r\nHost: h\r\nOrigin: https://app.test\r\nContent-Length: 0\r\n\r\n",
	} {
		if got := w.ask(request); got.line("Pinboard-Error") != "unknown_namespace" || got.line("Access-Control-Max-Age") != "" {
			t.Errorf("%s: %q", name, got.head)
		}
	}
	s := newScripted(t, replying("HTTP/1.1 200 OK\r\nAccess-Control-Allow-Origin: worker\r\nContent-Length: 0\r\n\r\n"))
	w.dir.place(s.Worker)
	if got := w.ask(preflight("https://app.test", put)); got.line("Access-Control-Allow-Origin") != "worker" || got.line("Access-Control-Max-Age") != "" {
		t.Errorf("with a worker: %q", got.head)
	}
}
