package worker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pinboard/api"
	"pinboard/internal/seam"
)

// A sleeper is a machine that stands still at one point where the SDK touches
// it, and goes on with its timers not yet run: the worst that a process sees
// which was stopped and continued. Looks at the clock, locks, new goroutines
// and waits are such points.
type sleeper struct {
	seam.Real
	*registry

	mu    sync.Mutex
	slept time.Duration // how far the clock has gone while nothing ran
	armed bool          // points count
	point int           // passed
	kinds map[string]int
	at    string // the point to stand still at: "point 7", or of a kind: "lock 3"
	d     time.Duration
}

// arm makes it stand still at a point, counted from now.
func (m *sleeper) arm(at string, d time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.armed, m.point, m.kinds, m.at, m.d = true, 0, map[string]int{}, at, d
}

func (m *sleeper) sleep(d time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.slept += d
}

func (m *sleeper) pass(kind string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.armed {
		return
	}
	m.point++
	m.kinds[kind]++
	if m.at == fmt.Sprint("point ", m.point) || m.at == fmt.Sprint(kind, " ", m.kinds[kind]) {
		m.slept += m.d
	}
}

func (m *sleeper) Now() time.Time {
	m.pass("clock")
	m.mu.Lock()
	defer m.mu.Unlock()
	return time.Now().Add(m.slept)
}

func (m *sleeper) After(d time.Duration, f func()) (stop func()) {
	m.pass("timer")
	return m.Real.After(d, f)
}

func (m *sleeper) Go(f func()) { m.Real.Go(func() { m.pass("go"); f() }) }

func (m *sleeper) Wait(d time.Duration, on ...<-chan struct{}) int {
	defer m.pass("wait")
	return m.Real.Wait(d, on...)
}

func (m *sleeper) NewLock() sync.Locker { return &sleepyLock{m: m} }

type sleepyLock struct {
	sync.Mutex
	m *sleeper
}

func (l *sleepyLock) Lock() {
	l.Mutex.Lock()
	l.m.pass("lock") // the wait ends: the lock is ours
}

// asleep runs a story on a sleeper with leases of 15 s, a buffer of 5 s, and
// one request that is stamped before anything sleeps.
func asleep(t *testing.T, c Class, story func(t *testing.T, m *sleeper, h *Handler, ask func(id string) *httptest.ResponseRecorder)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		g := newRegistry(t, 15*time.Second)
		m := &sleeper{registry: g}
		h := g.newWorker("w1", c, func(cfg *Config) { cfg.Transport = m })
		start(t, h)
		secret, session := h.session.secret, h.session.ID()
		story(t, m, h, func(id string) *httptest.ResponseRecorder {
			return serve(h, stamp(httptest.NewRequest("GET", "/t/"+id, nil), secret, session, 1001))
		})
	})
}

// refused wants exactly this answer.
func refused(t *testing.T, what string, rec *httptest.ResponseRecorder, want denial) {
	t.Helper()
	marker := map[bool]string{true: api.RefusalUnhealthy}[want.marker]
	body := fmt.Sprintf(`{"detail":%q}`, want.detail)
	if rec.Code != want.status || rec.Body.String() != body || rec.Header().Get(api.HeaderRefusal) != marker || rec.Header().Get("Retry-After") != "1" {
		t.Errorf("%s: %d %s %v, want %d %s, refusal %q", what, rec.Code, rec.Body, rec.Header(), want.status, body, marker)
	}
}

// saying is a class that notes what begins, and when Open is slow.
func saying(d *diary, open func()) Class {
	return Class{Open: func(in *Instance) (http.Handler, error) {
		d.note("open %s", in.ID)
		if open != nil {
			open()
		}
		return http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) { d.note("serve %s", in.ID) }), nil
	}}
}

// Open outlasts the lease: none of the requests that wait for it begins, also
// if the timers of the lease come late.
func TestOpenOutlastsTheLease(t *testing.T) {
	for slept, want := range map[time.Duration]denial{
		12 * time.Second: {},      // the buffer is for ending, a running instance serves on
		13 * time.Second: closing, // half a buffer before the end everything closes
		15 * time.Second: leaseExpired,
		29 * time.Second: leaseExpired,
	} {
		var m *sleeper
		d := newDiary()
		asleep(t, saying(d, func() { time.Sleep(time.Millisecond); m.sleep(slept) }), func(t *testing.T, on *sleeper, h *Handler, ask func(string) *httptest.ResponseRecorder) {
			m = on
			var all sync.WaitGroup
			for range 3 {
				all.Go(func() {
					rec := ask("a")
					if want.status == 0 {
						expect(t, slept.String(), rec, 200, "")
						return
					}
					refused(t, slept.String(), rec, want)
				})
			}
			all.Wait()
			if begun := strings.Contains(strings.Join(d.take(), ","), "serve"); begun != (want.status == 0) {
				t.Errorf("slept %v during Open: a handler began: %v", slept, begun)
			}
		})
	}
}

// An instance that waits to be opened is not opened on too short a lease.
func TestNothingOpensLate(t *testing.T) {
	for slept, want := range map[time.Duration]denial{
		9 * time.Second:  {},
		10 * time.Second: unhealthy,
		15 * time.Second: leaseExpired,
	} {
		d := newDiary()
		asleep(t, saying(d, nil), func(t *testing.T, m *sleeper, h *Handler, ask func(string) *httptest.ResponseRecorder) {
			m.arm("go 1", slept)
			rec := ask("a")
			opened := strings.Contains(strings.Join(d.take(), ","), "open a")
			if want.status == 0 {
				expect(t, slept.String(), rec, 200, "")
			} else {
				refused(t, slept.String(), rec, want)
				if held := h.held(); len(held) != 0 {
					t.Errorf("slept %v: the worker still has %v when its refusal is out", slept, held)
				}
			}
			if opened != (want.status == 0) {
				t.Errorf("slept %v in the queue: opened is %v", slept, opened)
			}
		})
	}
}

// The lock of the session is waited for until the lease is over: the request
// does not get in, so its epoch is not remembered.
func TestEntryLooksBehindItsLocks(t *testing.T) {
	asleep(t, saying(newDiary(), nil), func(t *testing.T, m *sleeper, h *Handler, ask func(string) *httptest.ResponseRecorder) {
		m.arm("lock 3", 15*time.Second) // the session's to verify, the handler's, the session's again
		refused(t, "a", ask("a"), leaseExpired)
		h.mu.Lock()
		defer h.mu.Unlock()
		if len(h.fences) > 0 {
			t.Errorf("let in at %v", h.fences)
		}
	})
}

// Wherever a request stands still for longer than the lease, nothing begins
// that had not begun. What remains is a stop between the last look and the
// first instruction, where there is no point.
func TestNothingBeginsLateAnywhere(t *testing.T) {
	var m *sleeper
	points := 0
	for at := 0; at == 0 || at <= points; at++ {
		var late []string
		class := Class{Open: func(in *Instance) (http.Handler, error) {
			note := func(what string) {
				if m.slept > 0 {
					late = append(late, what)
				}
			}
			note("open")
			return http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
				note("handler")
				m.mu.Lock()
				m.armed = false // what follows is behind the beginning
				m.mu.Unlock()
			}), nil
		}}
		asleep(t, class, func(t *testing.T, on *sleeper, h *Handler, ask func(string) *httptest.ResponseRecorder) {
			m = on
			m.arm(fmt.Sprint("point ", at), 16*time.Second)
			rec := ask("a")
			if at == 0 {
				points = m.point
				expect(t, "undisturbed", rec, 200, "")
			} else if len(late) > 0 || rec.Code != 503 && rec.Code != 403 {
				t.Errorf("stood still at point %d of %d: began %v, answered %d %s", at, points, late, rec.Code, rec.Body)
			}
		})
	}
	if points < 12 {
		t.Errorf("only %d points: the way to a handler has more waits than that", points)
	}
}

// Background work that did not begin in time does not begin, and the instance
// that counted on it closes.
func TestWorkDoesNotBeginLate(t *testing.T) {
	asleep(t, saying(newDiary(), nil), func(t *testing.T, m *sleeper, h *Handler, ask func(string) *httptest.ResponseRecorder) {
		ask("a")
		in := h.table[key{"/t", "a"}]
		ran := 0
		in.Go(func(context.Context) { ran++ })
		synctest.Wait()
		m.sleep(13 * time.Second)
		in.Go(func(context.Context) { ran++ })
		synctest.Wait()
		if ran != 1 || in.ctx.Err() == nil {
			t.Errorf("work ran %d times, the context of its instance: %v", ran, in.ctx.Err())
		}
	})
}

// The timers of the lease are set by a process that stood still since it looked
// at the clock: what they were to do is done at once.
func TestTimersSetLate(t *testing.T) {
	for slept, ends := range map[time.Duration]bool{12 * time.Second: false, 13 * time.Second: true} {
		asleep(t, saying(newDiary(), nil), func(t *testing.T, m *sleeper, h *Handler, ask func(string) *httptest.ResponseRecorder) {
			ask("a")
			in := h.table[key{"/t", "a"}]
			m.arm("timer 1", slept)
			h.renewed()
			if over := in.Context().Err() != nil; over != ends {
				t.Errorf("stood still for %v while the timers were set: closing is %v", slept, over)
			}
		})
	}
}

// An instance makes no call any more when its lease is about to end.
func TestCallDoesNotBeginLate(t *testing.T) {
	asleep(t, saying(newDiary(), nil), func(t *testing.T, m *sleeper, h *Handler, ask func(string) *httptest.ResponseRecorder) {
		ask("a")
		p := &plane{registry: m.registry}
		h.calls = p
		in := h.table[key{"/t", "a"}]
		call := func() error {
			req, _ := http.NewRequestWithContext(in.Context(), "GET", "/t/b", nil)
			_, err := in.Call(req)
			return err
		}
		if err := call(); err != nil || p.got == nil {
			t.Error(err)
		}
		p.got = nil
		m.sleep(13 * time.Second)
		if err := call(); !errors.Is(err, ErrStopped) || p.got != nil {
			t.Errorf("a call on a lease that ends: %v", err)
		}
	})
}

// A close hook that begins after the lease finds its context ended, even if
// the timer that ends it is late.
func TestHooksBeginWithTheLease(t *testing.T) {
	var m *sleeper
	found := map[time.Duration]error{}
	for _, slept := range []time.Duration{0, 15 * time.Second} {
		asleep(t, Class{Open: func(in *Instance) (http.Handler, error) {
			in.OnClose(func(ctx context.Context) error { found[slept] = context.Cause(ctx); return nil })
			return http.NotFoundHandler(), nil
		}}, func(t *testing.T, on *sleeper, h *Handler, ask func(string) *httptest.ResponseRecorder) {
			m = on
			ask("a")
			in := h.table[key{"/t", "a"}]
			m.sleep(slept)
			in.stop()
			<-in.gone
		})
	}
	if found[0] != nil || found[15*time.Second] != errLapsed {
		t.Errorf("hooks found %v", found)
	}
}

// A handler that outlives the lease says nothing more: neither a first byte
// nor another one.
func TestNothingIsSaidLate(t *testing.T) {
	var m *sleeper
	class := Class{Open: func(in *Instance) (http.Handler, error) {
		return http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
			if in.ID == "begun" {
				fmt.Fprint(rw, "first,")
				if err := http.NewResponseController(rw).Flush(); err != nil {
					t.Error(err)
				}
			}
			m.sleep(15 * time.Second)
			rw.WriteHeader(204)
			_, err := fmt.Fprint(rw, "second")
			if !errors.Is(err, ErrStopped) || !errors.Is(http.NewResponseController(rw).Flush(), ErrStopped) {
				t.Errorf("%s: a late write: %v", in.ID, err)
			}
			if _, err := rw.(io.ReaderFrom).ReadFrom(strings.NewReader("third")); !errors.Is(err, ErrStopped) {
				t.Errorf("%s: a late copy: %v", in.ID, err)
			}
			if _, _, err := http.NewResponseController(rw).Hijack(); !errors.Is(err, ErrStopped) {
				t.Errorf("%s: a late hijack: %v", in.ID, err)
			}
		}), nil
	}}
	for id, want := range map[string]string{"begun": "200 first,", "silent": `503 {"detail":"instance aborted"}`} {
		asleep(t, class, func(t *testing.T, on *sleeper, h *Handler, ask func(string) *httptest.ResponseRecorder) {
			m = on
			rec := ask(id)
			if got := fmt.Sprint(rec.Code, " ", rec.Body); got != want {
				t.Errorf("%s: got %s, want %s", id, got, want)
			}
		})
	}
}

// An instance that closes while its successor is asked for: nobody waits for
// the close, so no such wait can outlast the lease.
func TestNobodyWaitsForAClose(t *testing.T) {
	release := make(chan struct{})
	opens := 0
	asleep(t, Class{Open: func(in *Instance) (http.Handler, error) {
		opens++
		in.OnClose(func(context.Context) error { <-release; return nil })
		return http.NotFoundHandler(), nil
	}}, func(t *testing.T, m *sleeper, h *Handler, ask func(string) *httptest.ResponseRecorder) {
		release = make(chan struct{}) // of this bubble
		ask("a")
		in := h.table[key{"/t", "a"}]
		in.stop()
		synctest.Wait()
		refused(t, "while it closes", ask("a"), closing)
		m.sleep(15 * time.Second)
		close(release)
		<-in.gone
		refused(t, "behind the close, behind the lease", ask("a"), leaseExpired)
		if opens != 1 {
			t.Errorf("opened %d times", opens)
		}
	})
}

// An instance that begins to close between the entry of a request and its
// wait: the request does not wait for an Open that nobody needs any more.
func TestClosingEndsTheWaitForOpen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, open := newRegistry(t, 15*time.Second), make(chan struct{})
		c := Class{Open: func(in *Instance) (http.Handler, error) { <-open; return http.NotFoundHandler(), nil }}.complete()
		h := g.newWorker("w1", c)
		start(t, h)
		in, denied := h.enter(c, key{"/t", "a"}, 1001, h.session.ID())
		if denied != nil {
			t.Fatal(denied)
		}
		in.stop()
		rec := httptest.NewRecorder()
		go in.serve(rec, httptest.NewRequest("GET", "/t/a", nil), "", nil)
		synctest.Wait()
		refused(t, "closing", rec, closing)
		close(open)
	})
}
