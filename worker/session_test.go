package worker

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"pinboard/api"
)

// The first registration and the first beat, to the byte but for the random
// parts.
func TestDialect(t *testing.T) {
	bubble(t, func(t *testing.T, g *registry, h *Handler, d *diary) {
		time.Sleep(3 * time.Second)
		synctest.Wait()
		s := h.Session()
		r, b := g.sent("register")[0], g.sent("heartbeat")[0]
		pair := func(c call) string {
			f := c.fields()
			return `"challenge":"` + f["challenge"].(string) + `","challengeValue":"` + f["challengeValue"].(string) + `"`
		}
		want := `{"clientId":"` + s.clientID + `","secret":"` + s.secret + `","namespaces":["/t"],"advertiseUrl":"http://w1","headroom":1,"draining":false,` + pair(r) + `}`
		if r.body != want {
			t.Errorf("register %s\nwant     %s", r.body, want)
		}
		if want := `{"sessionId":"s1","headroom":1,"draining":false,` + pair(b) + `}`; b.body != want {
			t.Errorf("beat %s\nwant %s", b.body, want)
		}
		if len(s.clientID) != 32 || len(s.secret) != 64 || pair(r) == pair(b) || !s.Ready() {
			t.Error("identity, fresh pairs, readiness")
		}
	})
}

func TestHostnameFields(t *testing.T) {
	bubble(t, func(t *testing.T, g *registry, h *Handler, d *diary) {
		if b := g.sent("register")[0].body; !strings.Contains(b, `"hostname":"h.example","env":"blue","envs":{"/t":"green"},"takeover":"deny","epoch":7}`) {
			t.Error(b)
		}
	}, func(c *Config) {
		c.Hostname, c.Env, c.Envs, c.Takeover, c.Epoch = "h.example", "blue", map[string]string{"/t": "green"}, "deny", 7
	})
}

// The lease runs from the sending of a call, however late its answer comes.
func TestLeaseIsAnchoredAtSending(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, d := newRegistry(t, 15*time.Second), newDiary()
		h := g.newWorker("w1", d.class())
		g.fail("register", fault{after: 4 * time.Second})
		g.fail("heartbeat", fault{before: time.Second, after: 3 * time.Second}, fault{skip: true})
		begin := time.Now()
		stop := start(t, h)
		time.Sleep(4 * time.Second)
		synctest.Wait()
		if got := h.Session().Expires().Sub(begin); got != 15*time.Second {
			t.Errorf("registered: expires at %v", got)
		}
		// The cadence counts from sending too: the beat went out at 4 s.
		time.Sleep(4 * time.Second)
		synctest.Wait()
		if got := h.Session().Expires().Sub(begin); got != 19*time.Second {
			t.Errorf("after a beat: expires at %v", got)
		}
		stop()
	})
}

// The wall clock does not count: see lease. Here: what an instance goes
// through when Pinboard falls silent, and comes back.
func TestSilence(t *testing.T) {
	bubble(t, func(t *testing.T, g *registry, h *Handler, d *diary) {
		g.get("/t/a")
		s := h.Session()
		session := s.ID()
		g.fail("heartbeat", slices.Repeat([]fault{{skip: true}}, 5)...) // at 3, 6, 9, 12 and 15 s
		g.fail("release", fault{skip: true}, fault{skip: true}, fault{skip: true})
		at := func(seconds float64, path string) (int, string, string) {
			time.Sleep(time.Until(d.begin.Add(time.Duration(seconds * 1e9))))
			r, _ := http.NewRequest("GET", path, nil)
			rec := serve(h, stamp(r, s.secret, session, 1001))
			return rec.Code, strings.TrimSpace(rec.Body.String()), rec.Header().Get("Pinned-Refusal")
		}
		for _, c := range []struct {
			at           float64
			path         string
			status       int
			body, marker string
		}{
			{9.9, "/t/b", 200, "b 1", ""},
			{10, "/t/c", 503, `{"detail":"lease unhealthy; refusing new activations"}`, "lease-unhealthy"},
			{10, "/t/a", 200, "a 2", ""},
			{12.4, "/t/a", 200, "a 3", ""},
			{12.6, "/t/a", 503, `{"detail":"released placement epoch; retry"}`, ""},
			{14.9, "/t/c", 503, `{"detail":"lease unhealthy; refusing new activations"}`, "lease-unhealthy"},
			{15, "/t/a", 503, `{"detail":"lease expired; not serving"}`, ""},
			{15, "/t/c", 503, `{"detail":"lease expired; not serving"}`, ""},
		} {
			status, body, marker := at(c.at, c.path)
			if status != c.status || body != c.body || marker != c.marker {
				t.Errorf("at %g %s: %d %s %q", c.at, c.path, status, body, marker)
			}
		}
		lines := d.take()
		slices.Sort(lines)
		if want := []string{"0 open a", "12.5 close a", "12.5 close b", "9.9 open b"}; !slices.Equal(lines, want) {
			t.Errorf("diary %v", lines)
		}
		if s.Ready() {
			t.Error("ready beyond the lease")
		}
		// At 18 s the registry answers: the lease lapsed there, so it wants a
		// new registration. What was closed is not restated.
		time.Sleep(4 * time.Second)
		if body := g.sent("register")[1].body; !strings.Contains(body, `"prevSessionId":"s1"}`) {
			t.Error(body)
		}
		expect(t, "back again", g.get("/t/a"), 200, "a 1")
		if s.flaps != 1 {
			t.Errorf("flaps %d", s.flaps)
		}
	})
}

// A hook that outlasts the lease is told so when the lease lapses.
func TestHooksEndWithTheLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, d := newRegistry(t, 15*time.Second), newDiary()
		h := g.newWorker("w1", Class{Open: func(in *Instance) (http.Handler, error) {
			in.OnClose(func(ctx context.Context) error {
				<-ctx.Done()
				d.note("hook: %v", context.Cause(ctx))
				return ctx.Err()
			})
			return http.NotFoundHandler(), nil
		}})
		stop := start(t, h)
		g.get("/t/a")
		g.fail("heartbeat", slices.Repeat([]fault{{skip: true}}, 5)...)
		time.Sleep(16 * time.Second)
		d.want(t, "15 hook: lease lapsed")
		if len(g.sent("release")) != 0 {
			t.Error("an id was given back although its state was not kept")
		}
		stop()
	})
}

// A fault and its twin for every call: the request lost, or applied and the
// answer lost. Either way the worker ends up with a session, its memory and
// one owner.
func TestFaultTwins(t *testing.T) {
	for _, path := range []string{"register", "heartbeat", "release", "deregister"} {
		for _, f := range []fault{
			{skip: true}, {lost: true}, {after: 6 * time.Second}, {before: 6 * time.Second},
			{status: 500}, {status: 502, body: "<html>"}, {status: 200, body: "<html>"}, {status: 200, body: `{}`},
			{status: 401}, {status: 403}, {status: 409}, {status: 204}, {status: 503, header: "1"},
		} {
			if f.status == 200 && path != "register" && path != "heartbeat" {
				continue // a Pinboard that says done and did not is none
			}
			synctest.Test(t, func(t *testing.T) {
				g, d := newRegistry(t, 15*time.Second), newDiary()
				h := g.newWorker("w1", d.class())
				g.fail(path, f)
				stop := start(t, h)
				time.Sleep(10 * time.Second)
				expect(t, "first", g.get("/t/a"), 200, "a 1")
				time.Sleep(30 * time.Second)
				expect(t, "memory", g.get("/t/a"), 200, "a 2")
				h.quit(held(h))
				time.Sleep(10 * time.Second)
				expect(t, fmt.Sprintf("placed anew after %s %+v", path, f), g.get("/t/a"), 200, "a 1")
				if err := stop(); err != nil {
					t.Errorf("%s %+v: %v", path, f, err)
				}
				applied := f.status == 0 || path != "deregister"
				for id, s := range g.sessions {
					if !s.over && applied && g.sessions[id].client == h.session.clientID && len(g.owned()) > 0 {
						t.Errorf("%s %+v: session %s and rows %v are left", path, f, id, g.owned())
					}
				}
			})
		}
	}
}

// Pinboard orders a restatement: instances live on, with their memory, their
// epoch and their ids restated, and the next session serves them.
func TestRestatement(t *testing.T) {
	bubble(t, func(t *testing.T, g *registry, h *Handler, d *diary) {
		g.get("/t/b")
		g.get("/t/a")
		g.fail("heartbeat", fault{status: 409, body: `{"reregister":true}`})
		time.Sleep(4 * time.Second)
		r := g.sent("register")[1]
		if !strings.HasSuffix(r.body, `"instances":{"/t":["a","b"]},"prevSessionId":"s1"}`) {
			t.Error(r.body)
		}
		if r.at.Sub(d.begin) != 3*time.Second {
			t.Errorf("registered %v after the order's beat", r.at.Sub(d.begin))
		}
		expect(t, "memory survives", g.get("/t/a"), 200, "a 2")
		if g.minted() != 1002 {
			t.Errorf("epoch %d: an id was placed again", g.minted())
		}
		d.want(t, "0 open b", "0 open a")
	})
}

// Nothing is accepted between the loss of a session and the next answer: not
// for the old session, and not for the new one.
func TestAudienceWindow(t *testing.T) {
	bubble(t, func(t *testing.T, g *registry, h *Handler, d *diary) {
		g.get("/t/a")
		s := h.Session()
		ask := func(session string) int {
			r, _ := http.NewRequest("GET", "/t/a", nil)
			return serve(h, stamp(r, s.secret, session, 1001)).Code
		}
		g.fail("heartbeat", fault{status: 409, body: `{"reregister":true}`})
		g.fail("register", fault{after: 2 * time.Second})
		time.Sleep(4 * time.Second)
		if old, new := ask("s1"), ask("s2"); old != 403 || new != 403 || ask("") != 403 || s.ID() != "" {
			t.Errorf("in the window: old %d new %d", old, new)
		}
		time.Sleep(2 * time.Second)
		if old, new := ask("s1"), ask("s2"); old != 403 || new != 200 {
			t.Errorf("afterwards: old %d new %d", old, new)
		}
	})
}

// After a wiped store everything restated is a duplicate: it is closed before
// the new session lets anybody in, and given back at its old epoch.
func TestDuplicatesCloseFirst(t *testing.T) {
	bubble(t, func(t *testing.T, g *registry, h *Handler, d *diary) {
		g.get("/t/a")
		g.forget()
		time.Sleep(3 * time.Second)
		synctest.Wait()
		d.want(t, "0 open a", "3 close a")
		if r := g.sent("release"); len(r) != 1 || !strings.Contains(r[0].body, `{"sessionId":"s2","namespace":"/t","id":"a","epoch":"1001"}`) {
			t.Error(r)
		}
		expect(t, "anew", g.get("/t/a"), 200, "a 1")
	})
}

// The order itself, on a host that looks: quit, then the session counts.
func TestDuplicatesQuitBeforeTheSessionCounts(t *testing.T) {
	bubble(t, func(t *testing.T, g *registry, h *Handler, d *diary) {
		g.get("/t/a?hold=1ms")
		s := h.Session()
		s.host = &watcher{Handler: h, quitting: func() {
			if s.ID() != "" {
				t.Error("a session is accepted while duplicates serve")
			}
		}}
		g.forget()
		time.Sleep(4 * time.Second)
		if s.ID() != "s2" {
			t.Error("no new session")
		}
	})
}

type watcher struct {
	*Handler
	quitting func()
}

func (w *watcher) quit(d []api.Instance) { w.quitting(); w.Handler.quit(d) }

// What is closed without a session is given back right behind the next
// registration, under the new session.
func TestReleaseWaitsForASession(t *testing.T) {
	bubble(t, func(t *testing.T, g *registry, h *Handler, d *diary) {
		g.get("/t/a")
		g.fail("heartbeat", fault{status: 409, body: `{"reregister":true}`})
		g.fail("register", fault{status: 503, header: "2"})
		time.Sleep(3500 * time.Millisecond)
		h.quit(held(h))
		synctest.Wait()
		if len(g.sent("release")) != 0 {
			t.Error("released without a session")
		}
		time.Sleep(2 * time.Second)
		r := g.sent("release")
		if len(r) != 1 || !strings.Contains(r[0].body, `"sessionId":"s2"`) || r[0].at.Sub(d.begin) != 5*time.Second {
			t.Errorf("releases %v", r)
		}
		if len(g.owned()) != 0 {
			t.Errorf("rows %v", g.owned())
		}
	})
}

// A release and a registration that lists the id are under way at once, and
// the release arrives first: then the registration makes the id a duplicate
// that waits for a release. It gets one.
func TestReleaseThatOvertookTheRegistration(t *testing.T) {
	bubble(t, func(t *testing.T, g *registry, h *Handler, d *diary) {
		g.get("/t/a")
		g.get("/t/b")
		g.fail("heartbeat", fault{status: 409, body: `{"reregister":true}`})
		g.fail("release", fault{after: time.Second}) // taken at once, answered late
		time.Sleep(2500 * time.Millisecond)
		h.quit([]api.Instance{{NS: "/t", ID: "a"}})
		time.Sleep(2 * time.Second)
		if r := g.sent("register"); len(r) != 2 || !strings.Contains(r[1].body, `["a","b"]`) {
			t.Fatalf("registrations: %v", r)
		}
		r := g.sent("release")
		if len(r) != 2 || !strings.Contains(r[1].body, `{"sessionId":"s2","namespace":"/t","id":"a","epoch":"1001"}`) {
			t.Errorf("releases: %v", r)
		}
		expect(t, "the other", g.get("/t/b"), 200, "b 2")
		expect(t, "anew", g.get("/t/a"), 200, "a 1")
	})
}

// Retries of a release: three, then with the next answer of the session.
func TestReleaseIsRetried(t *testing.T) {
	bubble(t, func(t *testing.T, g *registry, h *Handler, d *diary) {
		g.get("/t/a")
		g.fail("release", slices.Repeat([]fault{{status: 500}}, 3)...)
		time.Sleep(time.Second)
		h.quit(held(h))
		time.Sleep(4 * time.Second)
		var at []float64
		for _, r := range g.sent("release") {
			at = append(at, r.at.Sub(d.begin).Seconds())
		}
		if want := []float64{1, 1.2, 1.6, 3}; !slices.Equal(at, want) {
			t.Errorf("at %v, want %v", at, want)
		}
		if len(g.owned()) != 0 {
			t.Error("not released")
		}
	})
}

// Releases of one moment travel together.
func TestReleasesCoalesce(t *testing.T) {
	bubble(t, func(t *testing.T, g *registry, h *Handler, d *diary) {
		for _, id := range []string{"a", "b", "c", "d"} {
			g.get("/t/" + id)
		}
		g.fail("release", fault{after: time.Second})
		h.quit(held(h))
		time.Sleep(2 * time.Second)
		if n := len(g.sent("release")); n > 2 || len(g.owned()) != 0 {
			t.Errorf("%d calls, rows %v", n, g.owned())
		}
	})
}

// Registration retries: what a deferral asks for, and exponential otherwise.
func TestRegisterBackoff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, d := newRegistry(t, 15*time.Second), newDiary()
		h := g.newWorker("w1", d.class())
		g.fail("register", fault{status: 503, header: "0.5"}, fault{status: 503, header: "0.5"}, fault{skip: true}, fault{status: 400})
		stop := start(t, h)
		time.Sleep(time.Minute + 30*time.Second)
		var at []float64
		for _, r := range g.sent("register") {
			at = append(at, r.at.Sub(d.begin).Seconds())
		}
		if want := []float64{0, 0.5, 1.5, 25.5, 55.5}; !slices.Equal(at, want) {
			t.Errorf("at %v, want %v", at, want)
		}
		if !h.Session().Ready() {
			t.Error("not registered in the end")
		}
		stop()
	})
}

// Superseded is for good: everything closes, nothing registers again, Run
// ends; releases and the deregistration still go out.
func TestSuperseded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, d := newRegistry(t, 15*time.Second), newDiary()
		h := g.newWorker("w1", d.class())
		done := make(chan error, 1)
		go func() { done <- h.Run(context.Background()) }()
		synctest.Wait()
		g.get("/t/a")
		g.fail("heartbeat", fault{status: 409, body: `{"superseded":true,"reregister":true,"error":"x"}`})
		if err := <-done; !errors.Is(err, ErrSuperseded) {
			t.Error(err)
		}
		time.Sleep(time.Minute)
		d.want(t, "0 open a", "3 close a")
		if len(g.sent("register")) != 1 || len(g.sent("release")) != 1 || len(g.sent("deregister")) != 1 || h.Session().Ready() {
			t.Error("afterwards", g.calls)
		}
	})
}

// From the moment it is superseded a worker lets nobody in.
func TestSupersededServesNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newRegistry(t, 15*time.Second)
		h := g.newWorker("w1", Class{Open: func(in *Instance) (http.Handler, error) {
			in.OnClose(func(context.Context) error { time.Sleep(2 * time.Second); return nil })
			return http.NotFoundHandler(), nil
		}})
		stop := start(t, h)
		g.get("/t/a")
		g.fail("heartbeat", fault{status: 409, body: `{"superseded":true}`})
		time.Sleep(4 * time.Second)
		for _, id := range []string{"a", "b"} {
			r, _ := http.NewRequest("GET", "/t/"+id, nil)
			expect(t, id, serve(h, stamp(r, h.session.secret, "s1", 2000)), 403, "invalid attestation")
		}
		stop()
	})
}

// A Pinboard that takes no releases costs bounded memory.
func TestUnsentReleasesAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newRegistry(t, 15*time.Second)
		h := g.newWorker("w1", Class{Open: func(*Instance) (http.Handler, error) { return nil, nil }})
		r := &h.session.releases
		for i := range maxUnsent + 5 {
			go r.add(key{"/t", fmt.Sprint(i)}, 1)
		}
		time.Sleep(releaseWait)
		synctest.Wait()
		if len(r.waiting) != maxUnsent {
			t.Errorf("%d wait", len(r.waiting))
		}
	})
}

// held is everything in a worker's tables, as duplicates are named.
func held(h *Handler) (all []api.Instance) {
	for ns, ids := range h.held() {
		for _, id := range ids {
			all = append(all, api.Instance{NS: ns, ID: id})
		}
	}
	return all
}
