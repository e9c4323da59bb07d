package worker

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"pinboard/api"
	"pinboard/internal/attest"
)

// A plane takes registry calls to the registry and keeps the others.
type plane struct {
	*registry
	got  *http.Request
	body string
}

func (p *plane) RoundTrip(r *http.Request) (*http.Response, error) {
	if strings.Contains(r.URL.Path, "/registry/") {
		return p.registry.RoundTrip(r)
	}
	p.got = r
	if r.Body != nil {
		b, _ := io.ReadAll(r.Body)
		p.body = string(b)
	}
	return &http.Response{StatusCode: 307, Header: http.Header{"Location": {"http://evil/"}}, Body: http.NoBody, Request: r}, nil
}

// caller runs a worker and hands its one instance to the story, together with
// the context of a request at the given depth.
func caller(t *testing.T, depth int, story func(t *testing.T, p *plane, h *Handler, in *Instance, ctx context.Context), change ...func(*Config)) {
	synctest.Test(t, func(t *testing.T) {
		p := &plane{registry: newRegistry(t, 15*time.Second)}
		var h *Handler
		open := func(in *Instance) (http.Handler, error) {
			return http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) { story(t, p, h, in, r.Context()) }), nil
		}
		h = p.newWorker("w1", Class{Open: open}, append(change, func(c *Config) { c.Transport = p })...)
		stop := start(t, h)
		r := httptest.NewRequest("GET", "/t/me", nil)
		r.Header.Set(api.HeaderEpoch, "1")
		from := ""
		if depth > 0 {
			from = "/t/other"
		}
		r.Header.Set(api.HeaderAttestation, string(attest.Append(nil, h.session.secret, "s1", from, depth, time.Now())))
		if rec := serve(h, r); rec.Code != 200 && !strings.Contains(rec.Body.String(), "instance aborted") {
			t.Errorf("story: %d %s", rec.Code, rec.Body)
		}
		stop()
	})
}

func TestCallOnTheWire(t *testing.T) {
	caller(t, 2, func(t *testing.T, p *plane, h *Handler, in *Instance, ctx context.Context) {
		req, _ := http.NewRequestWithContext(ctx, "POST", "http://anything/t/b/x%2Fy//z?q=%zz;a", strings.NewReader("hello"))
		req.Header.Set("Authorization", "Bearer of-the-app")
		req.Header["pinboard-session"] = []string{"forged"}
		req.Header.Set("Pinboard-Attestation", "forged")
		res, err := in.Call(req)
		if err != nil || res.StatusCode != 307 {
			t.Fatalf("redirects are the caller's business: %v %v", res, err)
		}
		got := p.got
		if u := got.URL.String(); u != "http://pinboard/pb/t/b/x%2Fy//z?q=%zz;a" || got.Host != "pinboard" || got.Method != "POST" || p.body != "hello" {
			t.Errorf("sent %s %s to %s: %q", got.Method, u, got.Host, p.body)
		}
		for name, want := range map[string]string{
			"Authorization": "Bearer of-the-app", "Pinboard-From": "/t/me", "Pinboard-Session": "s1",
			"Pinboard-Session-Secret": h.session.secret, "Pinboard-Subrequest-Depth": "3", "Pinboard-Attestation": "",
		} {
			if v := strings.Join(got.Header.Values(name), "|"); v != want {
				t.Errorf("%s: %q, want %q", name, v, want)
			}
		}
		//lint:ignore SA1008 the odd case is the point
		if _, there := got.Header["pinboard-session"]; there {
			t.Error("a forged header in odd case went out")
		}
		if req.Header.Get("Pinboard-Attestation") != "forged" {
			t.Error("the application's request was changed")
		}
	}, func(c *Config) { c.Pinboard = "http://pinboard/pb/" })
}

func TestCallDepth(t *testing.T) {
	ask := func(ctx context.Context) *http.Request {
		req, _ := http.NewRequestWithContext(ctx, "GET", "/t/b", nil)
		return req
	}
	caller(t, 0, func(t *testing.T, p *plane, h *Handler, in *Instance, ctx context.Context) {
		if _, err := in.Call(ask(ctx)); err != nil || p.got.Header.Get(api.HeaderDepth) != "1" || p.got.Host != "h.example" {
			t.Errorf("from outside: %v %v", err, p.got)
		}
	}, func(c *Config) { c.Hostname = "h.example" })
	caller(t, 49, func(t *testing.T, p *plane, h *Handler, in *Instance, ctx context.Context) {
		if _, err := in.Call(ask(ctx)); err != nil {
			t.Error(err)
		}
	})
	caller(t, 50, func(t *testing.T, p *plane, h *Handler, in *Instance, ctx context.Context) {
		if _, err := in.Call(ask(ctx)); !errors.Is(err, ErrDepth) || p.got != nil {
			t.Errorf("51 deep: %v", err)
		}
	})
}

func TestCallNeedsALivingCaller(t *testing.T) {
	caller(t, 0, func(t *testing.T, p *plane, h *Handler, in *Instance, ctx context.Context) {
		rel, _ := http.NewRequest("GET", "t/b", nil)
		if _, err := in.Call(rel); err == nil {
			t.Error("a relative path went out")
		}
		p.fail("heartbeat", fault{status: 409, body: `{"reregister":true}`})
		p.fail("register", fault{after: time.Second})
		time.Sleep(3500 * time.Millisecond)
		req, _ := http.NewRequestWithContext(ctx, "GET", "/t/b", nil)
		if _, err := in.Call(req); !errors.Is(err, ErrNoSession) {
			t.Errorf("without a session: %v", err)
		}
		time.Sleep(time.Second)
		h.quit(held(h))
		synctest.Wait()
		if _, err := in.Call(req); !errors.Is(err, ErrStopped) {
			t.Errorf("closing: %v", err)
		}
		if p.got != nil {
			t.Error("something went out")
		}
	})
}
