package proxy_test

import (
	"net/http"
	"regexp"
	"strings"
	"testing"

	"pinboard"
	"pinboard/internal/directory"
	"pinboard/internal/proxy"
)

var made = regexp.MustCompile(`^[bcdfghjklmnpqrsv]{16}$`)

// Our own errors bear the request's name: the client's if it is sound, else
// one made here. It is the one that observers see.
func TestOwnErrorsNameTheRequest(t *testing.T) {
	w := newWorld(t)
	w.dir.resolve = func(int, directory.Request) (directory.Placement, error) {
		return directory.Placement{}, pinboard.ColdStart
	}
	for i, tt := range []struct{ fields, want string }{
		{"X-Request-Id: 0b7e-4f.a_b~c:d/e+f=@g\r\n", "0b7e-4f.a_b~c:d/e+f=@g"},
		{"x-request-ID:  padded \r\n", "padded"},
		{"X-Request-Id: " + strings.Repeat("x", 128) + "\r\n", strings.Repeat("x", 128)},
		{"X-Request-Id: " + strings.Repeat("x", 129) + "\r\n", ""},
		{"X-Request-Id: a b\r\n", ""},
		{"X-Request-Id: \"a\"\r\n", ""},
		{"X-Request-Id: \xc3\xa4\r\n", ""},
		{"X-Request-Id: \r\n", ""},
		{"X-Request-Id: a\r\nX-Request-Id: b\r\n", ""},
		{"X-Request-Ids: a\r\n", ""},
		{"", ""},
	} {
		got := w.ask("GET /t/a HTTP/1.1\r\nHost: h\r\n" + tt.fields + "\r\n")
		id := got.line("X-Request-Id")
		if id != tt.want && (tt.want != "" || !made.MatchString(id)) {
			t.Errorf("%q is answered with %q, want %q", tt.fields, id, tt.want)
		}
		if x := w.exchange(i); x.RequestID != id {
			t.Errorf("%q: observers see %q, the client %q", tt.fields, x.RequestID, id)
		}
	}
}

// Also before a head is understood, behind a body that streams, and on the
// control plane, whose handler learns it for its own lines.
func TestEveryErrorOfOursNamesTheRequest(t *testing.T) {
	var heard string
	w := newWorld(t, func(c *proxy.Config) {
		c.Control = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			heard = r.Header.Get("X-Request-Id")
			if r.URL.Path != "/healthz" {
				w.WriteHeader(403)
			}
		})
	})
	s := newScripted(t, replying("nonsense\r\n\r\n"))
	w.dir.place(s.Worker)
	const named = "X-Request-Id: mine\r\n"
	for request, want := range map[string]string{
		"nonsense\r\n\r\n": "",
		"GET /t/a HTTP/1.1\r\nHost: h\r\n" + named + "\r\n":                                                        "mine",
		"POST /t/a HTTP/1.1\r\nHost: h\r\n" + named + "Content-Length: 90000\r\n\r\n" + strings.Repeat("x", 90000): "mine", // the head is gone when it fails
		"GET /registry/x HTTP/1.1\r\nHost: h\r\n" + named + "\r\n":                                                 "mine",
		"GET /registry/x HTTP/1.1\r\nHost: h\r\n\r\n":                                                              "",
	} {
		got := w.ask(request)
		if id := got.line("X-Request-Id"); id != want && (want != "" || !made.MatchString(id)) {
			t.Errorf("%.40q is answered with %q, want %q:\n%s", request, id, want, got.head)
		}
		if strings.Contains(request, "/registry") && heard != got.line("X-Request-Id") {
			t.Errorf("the control handler hears %q, the client %q", heard, got.line("X-Request-Id"))
		}
	}
	if got := w.ask("GET /healthz HTTP/1.1\r\nHost: h\r\n" + named + "\r\n"); got.line("X-Request-Id") != "" {
		t.Errorf("an answer that is no error: %s", got.head)
	}
}

// What goes to a worker and comes from it is as it was sent.
func TestARequestIDIsTheClientsAlone(t *testing.T) {
	w := newWorld(t, func(c *proxy.Config) { c.RequestIDs = true })
	s := newScripted(t, replying(okAnswer))
	w.dir.place(s.Worker)
	for i, fields := range []string{"", "x-request-id: a b\r\n", "x-request-id: mine\r\n"} {
		if got := w.ask("GET /t/a HTTP/1.1\r\nHost: h\r\n" + fields + "\r\n"); got.head+got.body != okAnswer {
			t.Errorf("%q is answered with %q", fields, got)
		}
		head := strings.ToLower(s.deliveries()[i].head)
		if n := strings.Count(head, "x-request-id"); n != strings.Count(fields, "x-request-id") || !strings.Contains(head, fields) {
			t.Errorf("the worker sees\n%s", head)
		}
		switch id := w.exchange(i).RequestID; i {
		case 2:
			if id != "mine" {
				t.Errorf("observers see %q", id)
			}
		default:
			if !made.MatchString(id) {
				t.Errorf("observers see %q", id)
			}
		}
	}
}

// Nobody asks for names of what workers answer: none is made.
func TestNoRequestIDWithoutNeed(t *testing.T) {
	w := newWorld(t)
	s := newScripted(t, replying(okAnswer))
	w.dir.place(s.Worker)
	w.ask("GET /t/a HTTP/1.1\r\nHost: h\r\nX-Request-Id: mine\r\n\r\n")
	if id := w.exchange(0).RequestID; id != "" {
		t.Errorf("observers see %q", id)
	}
}

// A worker whose answer is no HTTP: observers learn which and why.
func TestFaultsOfWorkersAreNamed(t *testing.T) {
	interim := "HTTP/1.1 103 Early Hints\r\n\r\n"
	for want, answer := range map[string]string{
		"no valid HTTP response head":       "nonsense\r\n\r\n",
		"too many interim answers":          strings.Repeat(interim, 101),
		"an upgrade that was not asked for": "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n",
		"a response head that is too large": "HTTP/1.1 200 OK\r\nX: " + strings.Repeat("x", 70<<10) + "\r\n\r\n",
	} {
		w := newWorld(t)
		s := newScripted(t, replying(answer))
		w.dir.place(s.Worker)
		c := w.dial()
		c.send("GET /t/a HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n")
		rest, _ := c.rest()
		if !strings.Contains(rest, "worker_invalid") {
			t.Errorf("%s: %.200q", want, rest)
		}
		if x := w.exchange(0); x.Refusal != pinboard.WorkerInvalid || x.Fault != want || x.Worker == nil || x.Worker.URL != s.Worker.URL {
			t.Errorf("%s: observers see %v %q %v", want, x.Refusal, x.Fault, x.Worker)
		}
	}
}
