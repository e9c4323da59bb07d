package registry

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"pinboard"
	"pinboard/api"
	"pinboard/internal/directory"
	"pinboard/internal/ownership"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// unread is a body that must not be touched.
type unread struct{ t *testing.T }

func (u unread) Read([]byte) (int, error) { u.t.Error("the body was read"); return 0, io.EOF }

// FC-55: without a token every path and method, known or not, gets the same
// 401 before its body is read.
func TestUnauthorized(t *testing.T) {
	n := start(t, nil)
	paths := slices.Collect(maps.Keys(n.server.routes))
	paths = append(paths, "/registry", "/registry/", "/registry/nope", "/registry//register", "/registry/%72egister", "/registry/register/")
	for _, path := range paths {
		for _, method := range []string{"GET", "POST", "HEAD", "OPTIONS", "PUT", "DELETE", "PATCH", "FOO"} {
			for _, token := range []string{"", "wrong", "roo", "roott"} {
				r := httptest.NewRequest(method, path+"?token=root", unread{t})
				if token != "" {
					r.Header.Set("Authorization", "Bearer "+token)
				}
				a := n.send(r)
				if a.status != 401 || !strings.HasPrefix(a.header.Get("WWW-Authenticate"), "Bearer") || a.body["code"] != "unauthorized" {
					t.Fatalf("%s %s %q: %d %v %s", method, path, token, a.status, a.header, a.text)
				}
			}
		}
	}
	if len(n.calls) > 0 {
		t.Errorf("the directory was asked: %v", n.calls)
	}
}

// Path, method and scope are judged next, in this order, still unread.
func TestPathMethodScope(t *testing.T) {
	n := start(t, nil)
	for _, path := range []string{"/registry", "/registry/", "/registry/nope", "/registry//register", "/registry/%72egister", "/registry/register/", "/registry/../registry/register", "/registry/Register"} {
		r := httptest.NewRequest("POST", "/", unread{t})
		r.URL.Path, r.URL.RawPath = path, ""
		if strings.Contains(path, "%") {
			r.URL.Path, r.URL.RawPath = "/registry/register", path
		}
		r.Header.Set("Authorization", "Bearer root")
		if a := n.send(r); a.status != 404 || a.text != `{"error":"not found","code":"not_found"}` {
			t.Errorf("%s: %d %s", path, a.status, a.text)
		}
	}
	for path, route := range n.server.routes {
		method, other := "POST", "GET"
		if route.method == "GET" {
			method, other = "GET", "POST"
		}
		for _, wrong := range []string{other, "PUT", "OPTIONS", "DELETE"} {
			r := httptest.NewRequest(wrong, path, unread{t})
			r.Header.Set("Authorization", "Bearer root")
			if a := n.send(r); a.status != 405 || !strings.HasPrefix(a.header.Get("Allow"), method) {
				t.Errorf("%s %s: %d %v", wrong, path, a.status, a.header)
			}
		}
		lacking := "ops"
		if route.scope == "pinboard:operator" {
			lacking = "worker-b"
		}
		r := httptest.NewRequest(method, path, unread{t})
		r.Header.Set("Authorization", "Bearer "+lacking)
		if a := n.send(r); a.status != 403 || a.body["code"] != "forbidden" || a.body["error"] != "token lacks the scope "+route.scope {
			t.Errorf("%s as %s: %d %s", path, lacking, a.status, a.text)
		}
	}
	if a := n.call("HEAD", "/registry/workers", "ops", ""); a.status != 200 {
		t.Errorf("HEAD of a list: %d", a.status)
	}
}

func TestBodies(t *testing.T) {
	n := start(t, nil)
	for _, c := range []struct{ body, want string }{
		{``, "body: want well-formed JSON"}, {`{`, "body: want well-formed JSON"}, {`{} {}`, "body: want well-formed JSON"},
		{`NaN`, "body: want well-formed JSON"}, {"\xff", "body: want well-formed JSON"}, {strings.Repeat("[", 20_000), "body: want well-formed JSON"},
		{`[]`, "body: want one JSON object"}, {`null`, "body: want one JSON object"}, {`"x"`, "body: want one JSON object"},
		{`{"sessionId":5}`, "sessionId: want a string"}, {`{"sessionId":"s","headroom":NaN}`, "body: want well-formed JSON"},
	} {
		if a := n.post("/registry/heartbeat", "root", c.body); a.status != 400 || a.body["error"] != c.want || a.body["code"] != "invalid_field" || a.header.Get("Pinboard-Error") != "invalid_field" {
			t.Errorf("%.40q: %d %s", c.body, a.status, a.text)
		}
	}
	if len(n.calls) > 0 {
		t.Errorf("the directory was asked: %v", n.calls)
	}
}

// 16 MiB pass, one byte more is 413: announced, it is not even read.
func TestBodyLimit(t *testing.T) {
	n := start(t, nil)
	body := `{"sessionId":"s","headroom":1,"x":"` + strings.Repeat("x", api.MaxBody-37) + `"}`
	if len(body) != api.MaxBody {
		t.Fatal(len(body))
	}
	if a := n.post("/registry/heartbeat", "root", body); a.status != 200 {
		t.Errorf("16 MiB: %d %s", a.status, a.text)
	}
	if a := n.post("/registry/heartbeat", "root", body+" "); a.status != 413 || a.body["code"] != "body_too_large" {
		t.Errorf("announced: %d %s", a.status, a.text)
	}
	r := httptest.NewRequest("POST", "/registry/heartbeat", io.MultiReader(strings.NewReader(body), strings.NewReader(" ")))
	r.ContentLength = -1
	r.Header.Set("Authorization", "Bearer root")
	if a := n.send(r); a.status != 413 {
		t.Errorf("chunked: %d %s", a.status, a.text)
	}
	r = httptest.NewRequest("POST", "/registry/heartbeat", unread{t})
	r.ContentLength = 1 << 40
	r.Header.Set("Authorization", "Bearer root")
	if a := n.send(r); a.status != 413 {
		t.Errorf("a terabyte: %d", a.status)
	}
}

// Giant bodies of one token wait for one another and for nobody else's; whoever
// hangs up leaves the queue.
func TestLargeBodiesAreFew(t *testing.T) {
	n := start(t, nil)
	done, err := n.server.budget.take(t.Context(), "p/a", largeBodies, budgets[largeBodies].owner)
	if err != nil {
		t.Fatal(err)
	}
	r := httptest.NewRequest("POST", "/registry/heartbeat", unread{t})
	r.ContentLength = smallBody + 1
	r.Header.Set("Authorization", "Bearer worker-a")
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if a := n.send(r.WithContext(ctx)); a.status != 503 || a.body["code"] != "overloaded" {
		t.Errorf("%d %s", a.status, a.text)
	}
	small := `{"sessionId":"s","headroom":1}`
	large := small + strings.Repeat(" ", smallBody)
	if a := n.post("/registry/heartbeat", "worker-a", small); a.status != 200 {
		t.Errorf("a small body must not wait: %d", a.status)
	}
	if a := n.post("/registry/heartbeat", "worker-b", large); a.status != 200 {
		t.Errorf("another token must not wait: %d", a.status)
	}
	done()
	if a := n.post("/registry/heartbeat", "worker-a", large); a.status != 200 {
		t.Errorf("after the giant: %d", a.status)
	}
}

// The one table from errors to answers. Texts of the store or of Go never get out.
func TestErrorTable(t *testing.T) {
	boom := errors.New("dial tcp 10.0.0.7:6379: connection refused")
	for _, c := range []struct {
		err   error
		after string
		want  string // status and body
	}{
		{directory.Reregister{Reason: "lease lapsed"}, "", `409 {"error":"lease lapsed","code":"reregister","reregister":true}`},
		{ownership.Superseded{Env: "blue", Epoch: 7}, "", `409 {"error":"superseded by a newer deployment","code":"superseded","superseded":true,"env":"blue","epoch":7}`},
		{directory.Gone{}, "", `409 {"error":"session deregistered","code":"session_ended"}`},
		{ownership.Conflict{Reason: "held"}, "", `409 {"error":"held","code":"conflict"}`},
		{ownership.Wait{Reason: "not yet", After: 2500 * time.Millisecond}, "3", `503 {"error":"not yet","code":"not_ready","retryAfterMs":3000}`},
		{ownership.Wait{Reason: "soon"}, "1", `503 {"error":"soon","code":"not_ready","retryAfterMs":1000}`},
		{directory.Invalid{Field: "hostname", Reason: "required"}, "", `400 {"error":"hostname: required","code":"invalid_field"}`},
		{errors.Join(pinboard.StoreUnavailable, boom), "1", `503 {"error":"registry unavailable, retry","code":"store_unavailable","retryAfterMs":1000}`},
		{pinboard.ColdStart, "1", `503 {"error":"registry cold start, retry","code":"cold_start","retryAfterMs":1000}`},
		{boom, "1", `503 {"error":"registry unavailable, retry","code":"store_unavailable","retryAfterMs":1000}`},
	} {
		n := start(t, nil)
		n.err = c.err
		a := n.post("/registry/heartbeat", "root", `{"sessionId":"s","headroom":1}`)
		if got := fmt.Sprintf("%d %s", a.status, a.text); got != c.want || a.header.Get("Retry-After") != c.after || a.header.Get("Pinboard-Error") != a.body["code"] {
			t.Errorf("%v:\n got %s %v\nwant %s %s", c.err, got, a.header, c.want, c.after)
		}
		if c.err == boom && !strings.Contains(n.logs.String(), "6379") {
			t.Error("an unexpected error must be logged")
		}
	}
}

// Those refused together do not come back together.
func TestRetryAfterIsSpread(t *testing.T) {
	for _, c := range []struct {
		after  time.Duration
		random float64
		want   int64
	}{{0, 0, 1}, {0, 0.99, 2}, {200 * time.Millisecond, 0, 1}, {4 * time.Second, 0, 4}, {4 * time.Second, 0.99, 6}, {15*time.Second + 1, 0, 16}} {
		if got := retryAfter(c.after, c.random); got != c.want {
			t.Errorf("%v %v: %d, want %d", c.after, c.random, got, c.want)
		}
	}
}

// While the store is not reached yet a token is judged all the same (FC-55).
func TestWithoutAStore(t *testing.T) {
	n := start(t, nil)
	n.server.Directory = nil
	if a := n.call("POST", "/registry/register", "wrong", "{"); a.status != 401 {
		t.Errorf("wrong token: %d %s", a.status, a.text)
	}
	if a := n.call("GET", "/registry/nope", "root", ""); a.status != 404 {
		t.Errorf("unknown path: %d %s", a.status, a.text)
	}
	if a := n.call("POST", "/registry/register", "root", "{"); a.status != 503 || a.body["code"] != "store_unavailable" || a.header.Get("Retry-After") == "" {
		t.Errorf("right token: %d %s", a.status, a.text)
	}
}
