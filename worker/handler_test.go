package worker

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pinboard"
	"pinboard/api"
	"pinboard/internal/attest"
)

func TestOneInstancePerID(t *testing.T) {
	bubble(t, func(t *testing.T, g *registry, h *Handler, d *diary) {
		var wg sync.WaitGroup
		for range 50 {
			wg.Go(func() { g.get("/t/a") })
		}
		wg.Wait()
		expect(t, "the 51st request", g.get("/t/a/x?y"), 200, "a 51")
		expect(t, "another id", g.get("/t/b"), 200, "b 1")
		d.want(t, "0 open a", "0 open b")
	})
}

// What the application sees of a request.
func TestRequestInside(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newRegistry(t, 15*time.Second)
		h := g.newWorker("w1/base/", Class{Open: func(in *Instance) (http.Handler, error) {
			return http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
				c, ok := CallerFrom(r.Context())
				fmt.Fprintln(rw, in.Namespace, in.ID, r.Method, r.URL.Path, r.URL.RawPath, r.URL.RawQuery, in.Epoch(), c, ok)
			}), nil
		}})
		g.workers["w1/base/"] = http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
			r.RequestURI = "/base" + r.RequestURI
			h.ServeHTTP(rw, r)
		})
		stop := start(t, h)
		expect(t, "rest and query", g.get("/t/a/x%2fy?q=1"), 200, "/t a GET /x/y /x%2fy q=1 1001 {  0} false")
		expect(t, "bare", g.get("/t/a"), 200, "/t a GET / / ")

		r := httptest.NewRequest("POST", "/base/t/a/", nil)
		s := h.Session()
		r.Header.Set(api.HeaderEpoch, "1001")
		r.Header.Set(api.HeaderAttestation, string(attest.Append(nil, s.secret, s.ID(), "/n/m/b", 3, time.Now())))
		rec := httptest.NewRecorder()
		h.ServeHTTP(rec, r)
		expect(t, "caller", rec, 200, "{/n/m b 3} true")

		expect(t, "outside the base", serve(h, httptest.NewRequest("GET", "/t/a", nil)), 404, "Not Found")
		stop()
	})
}

func serve(h http.Handler, r *http.Request) *httptest.ResponseRecorder {
	rec := httptest.NewRecorder()
	h.ServeHTTP(rec, r)
	return rec
}

// Nobody gets in, and nothing is opened, without Pinboard's word.
func TestAttestation(t *testing.T) {
	bubble(t, func(t *testing.T, g *registry, h *Handler, d *diary) {
		s := h.Session()
		mint := func(secret, audience string, at time.Time) string {
			return string(attest.Append(nil, secret, audience, "", 0, at))
		}
		now := time.Now()
		good := mint(s.secret, s.ID(), now)
		for name, c := range map[string]struct {
			token string
			ok    bool
		}{
			"good":                 {good, true},
			"none":                 {"", false},
			"not a token":          {"x.y.z", false},
			"other secret":         {mint(strings.Repeat("0", 64), s.ID(), now), false},
			"other session":        {mint(s.secret, "s99", now), false},
			"empty audience":       {mint(s.secret, "", now), false},
			"clock slow by 30 s":   {mint(s.secret, s.ID(), now.Add(30*time.Second)), true},
			"clock slow by 31 s":   {mint(s.secret, s.ID(), now.Add(31*time.Second)), false},
			"expired within skew":  {mint(s.secret, s.ID(), now.Add(-31*time.Second)), true},
			"expired beyond skew":  {mint(s.secret, s.ID(), now.Add(-32*time.Second)), false},
			"tampered":             {good[:len(good)-2] + "AA", false},
			"the secret by itself": {s.secret, false},
			"signature of another": {good[:strings.LastIndexByte(good, '.')] + mint(s.secret, "s99", now)[strings.LastIndexByte(mint(s.secret, "s99", now), '.'):], false},
		} {
			r := httptest.NewRequest("GET", "/t/"+strings.ReplaceAll(name, " ", "-"), nil)
			r.Header.Set(api.HeaderEpoch, "1")
			if c.token != "" {
				r.Header.Set(api.HeaderAttestation, c.token)
			}
			rec := serve(h, r)
			if c.ok {
				expect(t, name, rec, 200, "")
				continue
			}
			if want := `{"detail":"invalid attestation"}`; rec.Code != 403 || rec.Body.String() != want {
				t.Errorf("%s: %d %q, want 403 %q to the byte", name, rec.Code, rec.Body, want)
			}
			r.Header.Set("Upgrade", "websocket")
			if rec := serve(h, r); rec.Code != 403 || rec.Body.Len() > 0 {
				t.Errorf("%s: upgrade got %d %q, want an empty 403", name, rec.Code, rec.Body)
			}
		}
		if opened := d.take(); len(opened) != 3 {
			t.Errorf("opened: %v", opened)
		}
	})
}

// The checks of a forward in their order, each alone.
func TestChecks(t *testing.T) {
	bubble(t, func(t *testing.T, g *registry, h *Handler, d *diary) {
		s := h.Session()
		ask := func(method, target, epoch string) *httptest.ResponseRecorder {
			r := stamp(httptest.NewRequest(method, "/", nil), s.secret, s.ID(), 1)
			r.RequestURI = target
			r.Header.Del(api.HeaderEpoch)
			if epoch != "none" {
				r.Header.Set(api.HeaderEpoch, epoch)
			}
			return serve(h, r)
		}
		for _, c := range []struct {
			method, target, epoch string
			status                int
			body                  string
		}{
			{"GET", "/t/a", "7", 200, "a 1"},
			{"GET", "/t/a", "007", 200, "a 2"},
			{"GET", "/u/a", "7", 404, "Not Found"},
			{"GET", "/", "7", 404, "Not Found"},
			{"GET", "/t", "7", 400, "invalid id"},
			{"GET", "/t/", "7", 400, "invalid id"},
			{"GET", "/t/%61", "7", 400, "invalid id"},
			{"GET", "/t/..", "7", 400, "invalid id"},
			{"GET", "/t/" + strings.Repeat("a", 257), "7", 400, "invalid id"},
			{"GET", "/t/a/x/../b", "7", 200, "a 3"},
			{"GET", "/t/a/../../u", "7", 400, "invalid id"},
			{"GET", "/t/a", "none", 400, "malformed placement epoch"},
			{"GET", "/t/a", "", 400, "malformed placement epoch"},
			{"GET", "/t/a", "0", 400, "malformed placement epoch"},
			{"GET", "/t/a", "+7", 400, "malformed placement epoch"},
			{"GET", "/t/a", "7.0", 400, "malformed placement epoch"},
			{"GET", "/t/a", " 7", 400, "malformed placement epoch"},
			{"GET", "/t/a", "9223372036854775808", 400, "malformed placement epoch"},
			{"GET", "/t/a", "6", 503, "stale placement epoch; retry"},
			{"POST", "/t/a/_wake", "7", 404, "Not Found"},
			{"GET", "/t/a/_wake", "7", 200, "a 4"},
			{"GET", "/t/a", "9223372036854775807", 200, "a 5"},
			{"GET", "/t/a", "7", 503, "stale placement epoch; retry"},
		} {
			rec := ask(c.method, c.target, c.epoch)
			expect(t, c.method+" "+c.target+" at "+c.epoch, rec, c.status, c.body)
			if (rec.Header().Get("Retry-After") == "1") != (c.status == 503) || rec.Header().Get(api.HeaderRefusal) != "" {
				t.Errorf("%s at %s: headers %v", c.target, c.epoch, rec.Header())
			}
		}
		d.want(t, "0 open a")
	})
}

// An epoch that was given back is never served again, a higher one is.
func TestReleasedEpoch(t *testing.T) {
	bubble(t, func(t *testing.T, g *registry, h *Handler, d *diary) {
		s := h.Session()
		at := func(epoch pinboard.Epoch) *httptest.ResponseRecorder {
			return serve(h, stamp(httptest.NewRequest("GET", "/t/a", nil), s.secret, s.ID(), epoch))
		}
		expect(t, "first", at(5), 200, "a 1")
		expect(t, "higher, adopted in place", at(6), 200, "a 2")
		h.quit([]api.Instance{{NS: "/t", ID: "a"}})
		synctest.Wait()
		expect(t, "the same again", at(6), 503, "released placement epoch; retry")
		expect(t, "an older one", at(5), 503, "stale placement epoch; retry")
		time.Sleep(20 * time.Second)
		expect(t, "still", at(6), 503, "released placement epoch; retry")
		expect(t, "a higher one", at(7), 200, "a 1")
		if got := g.sent("release"); len(got) != 1 || !strings.Contains(got[0].body, `"epoch":"6"`) {
			t.Errorf("releases: %v", got)
		}
	})
}

// A newer placement that arrives while the instance of an older one closes is
// sent away, and changes nothing about what is given back; when the close is
// over, it opens.
func TestNewerPlacementWhileClosing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newRegistry(t, 15*time.Second)
		h := g.newWorker("w1", Class{Open: func(in *Instance) (http.Handler, error) {
			in.OnClose(func(context.Context) error { time.Sleep(2 * time.Second); return nil })
			return http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) { fmt.Fprint(rw, in.Epoch()) }), nil
		}})
		stop := start(t, h)
		s := h.Session()
		at := func(epoch pinboard.Epoch) *httptest.ResponseRecorder {
			return serve(h, stamp(httptest.NewRequest("GET", "/t/a", nil), s.secret, s.ID(), epoch))
		}
		at(5)
		h.quit(held(h))
		time.Sleep(time.Second)
		expect(t, "the same placement", at(5), 503, "instance closing; retry")
		expect(t, "a newer one", at(7), 503, "instance closing; retry")
		time.Sleep(2 * time.Second)
		if r := g.sent("release"); len(r) != 1 || !strings.Contains(r[0].body, `"epoch":"5"`) {
			t.Errorf("releases %v", r)
		}
		expect(t, "the newer one, again", at(7), 200, "7")
		stop()
	})
}

// A resident instance knows its epoch longer than the fence remembers it.
func TestOlderEpochAfterTheFenceForgot(t *testing.T) {
	bubble(t, func(t *testing.T, g *registry, h *Handler, d *diary) {
		s := h.Session()
		at := func(epoch pinboard.Epoch) *httptest.ResponseRecorder {
			return serve(h, stamp(httptest.NewRequest("GET", "/t/a", nil), s.secret, s.ID(), epoch))
		}
		at(9)
		time.Sleep(time.Minute)
		synctest.Wait()
		if len(h.fences) != 0 {
			t.Errorf("fences are never forgotten: %v", h.fences)
		}
		expect(t, "older", at(8), 503, "stale placement epoch; retry")
		expect(t, "same", at(9), 200, "a 2")
	})
}

// A request is let in only under the session it was proven for, even if that
// session is lost between proof and entry.
func TestSessionLostBetweenProofAndEntry(t *testing.T) {
	bubble(t, func(t *testing.T, g *registry, h *Handler, d *diary) {
		if _, denied := h.enter(h.classes["/t"], key{"/t", "a"}, 1, "s0"); denied != &badAttestation {
			t.Errorf("got %v", denied)
		}
		d.want(t)
	})
}

func TestCapacity(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, d := newRegistry(t, 15*time.Second), newDiary()
		c := d.class()
		c.Max = 2
		h := g.newWorker("w1", c)
		h.Handle("/u", d.class())
		stop := start(t, h)
		for _, p := range []string{"/t/a", "/t/b", "/u/a"} {
			expect(t, p, g.get(p), 200, "")
		}
		rec := g.get("/t/c")
		expect(t, "one too many", rec, 503, "instance capacity reached; retry")
		if rec.Header().Get(api.HeaderRefusal) != "" {
			t.Error("capacity is no lease refusal")
		}
		expect(t, "a resident", g.get("/t/a"), 200, "a 2")
		stop()
	})
}

// What does not open fails its request, keeps its placement and is tried
// again at the same epoch; a panic is no worse.
func TestOpenFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newRegistry(t, 15*time.Second)
		fails, cleaned := []any{errors.New("disk"), "panic", nil}, 0
		h := g.newWorker("w1", Class{Open: func(in *Instance) (http.Handler, error) {
			in.OnClose(func(context.Context) error { cleaned++; return nil })
			f := fails[0]
			fails = fails[1:]
			switch f := f.(type) {
			case error:
				return nil, f
			case string:
				panic(f)
			}
			return http.NotFoundHandler(), nil
		}})
		stop := start(t, h)
		expect(t, "error", g.get("/t/a"), 500, "activation failed")
		synctest.Wait() // while it is closing, the id answers 503
		expect(t, "panic", g.get("/t/a"), 500, "activation failed")
		synctest.Wait()
		if cleaned != 2 || len(g.sent("release")) != 0 {
			t.Errorf("cleaned %d, releases %v", cleaned, g.sent("release"))
		}
		expect(t, "third", g.get("/t/a"), 404, "")
		if g.minted() != 1001 {
			t.Errorf("epoch %d: the placement did not survive", g.minted())
		}
		stop()
	})
}

func TestIdle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, d := newRegistry(t, 15*time.Second), newDiary()
		c := d.class()
		c.Idle = time.Minute
		h := g.newWorker("w1", c)
		stop := start(t, h)
		g.get("/t/a")
		time.Sleep(59 * time.Second)
		g.get("/t/a?hold=90s")
		d.want(t, "0 open a")
		time.Sleep(61 * time.Second)
		d.want(t, "209 close a")
		if got := g.sent("release"); len(got) != 1 || !strings.Contains(got[0].body, `"sessionId":"s1","namespace":"/t","id":"a","epoch":"1001"`) {
			t.Errorf("release: %v", got)
		}
		expect(t, "again", g.get("/t/a"), 200, "a 1")
		if g.minted() != 1002 {
			t.Errorf("epoch %d", g.minted())
		}
		stop()
	})
}

// Background work keeps an instance from being idle and is waited for.
func TestBackgroundWork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, d := newRegistry(t, 15*time.Second), newDiary()
		var started bool
		h := g.newWorker("w1", Class{Idle: time.Second, Open: func(in *Instance) (http.Handler, error) {
			in.Go(func(ctx context.Context) {
				<-ctx.Done()
				d.note("told to stop: %v", context.Cause(ctx))
				time.Sleep(500 * time.Millisecond)
				d.note("stopped")
			})
			in.OnClose(func(context.Context) error {
				d.note("hook")
				started = in.Go(func(context.Context) {})
				return nil
			})
			return http.NotFoundHandler(), nil
		}})
		stop := start(t, h)
		g.get("/t/a")
		time.Sleep(time.Minute)
		d.want(t)
		h.quit([]api.Instance{{NS: "/t", ID: "a"}})
		time.Sleep(time.Second)
		synctest.Wait()
		d.want(t, "60 told to stop: instance stopped", "60.5 stopped", "60.5 hook")
		if started {
			t.Error("work began on a closing instance")
		}
		stop()
	})
}

// An instance may end itself: at once when nothing runs, and then at the
// latest when a drain would.
func TestCloseByTheApplication(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, d := newRegistry(t, 15*time.Second), newDiary()
		c := d.class()
		open := c.Open
		c.Open = func(in *Instance) (http.Handler, error) {
			inner, err := open(in)
			return http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
				in.Close()
				inner.ServeHTTP(rw, r)
			}), err
		}
		h := g.newWorker("w1", c)
		stop := start(t, h)
		g.get("/t/a?hold=10s")
		synctest.Wait()
		d.want(t, "0 open a", "10 close a")
		g.get("/t/a?hold=10m")
		d.want(t, "10 open a", "40 cut a: instance stopped", "40 close a")
		stop()
	})
}

func TestHandlePanicsOnMistakes(t *testing.T) {
	ok := Class{Open: func(*Instance) (http.Handler, error) { return nil, nil }}
	for name, f := range map[string]func(*Handler){
		"reserved": func(h *Handler) { h.Handle("/registry", ok) },
		"no slash": func(h *Handler) { h.Handle("t", ok) },
		"twice":    func(h *Handler) { h.Handle("/t", ok); h.Handle("/t", ok) },
		"no Open":  func(h *Handler) { h.Handle("/t", Class{}) },
	} {
		h, err := New(Config{Pinboard: "http://p", Token: "t", Advertise: "http://w"})
		if err != nil {
			t.Fatal(err)
		}
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s: no panic", name)
				}
			}()
			f(h)
		}()
	}
}

func TestConfigIsChecked(t *testing.T) {
	for name, change := range map[string]func(*Config){
		"no token":             func(c *Config) { c.Token = " " },
		"no pinboard":          func(c *Config) { c.Pinboard = "" },
		"no scheme":            func(c *Config) { c.Pinboard = "pb:80" },
		"query":                func(c *Config) { c.Advertise = "http://w/?x" },
		"userinfo":             func(c *Config) { c.Advertise = "http://u:p@w" },
		"negative buffer":      func(c *Config) { c.Buffer = -1 },
		"env without hostname": func(c *Config) { c.Env = "blue" },
		"takeover by itself":   func(c *Config) { c.Takeover = "deny" },
	} {
		c := Config{Pinboard: "http://p", Token: "t", Advertise: "http://w"}
		change(&c)
		if _, err := New(c); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}
