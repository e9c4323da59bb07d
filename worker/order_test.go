package worker

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"pinboard/api"
)

func order(id string, deadline any) map[string]any {
	return map[string]any{"msgId": "m-" + id, "type": "wind_down", "ns": "/t", "id": id, "deadline": deadline}
}

func (g *registry) send(m ...map[string]any) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.messages = append(g.messages, m...)
}

func (g *registry) say(name string, value any) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.extra[name] = value
}

// acks are the acks of every beat so far.
func (g *registry) acks() (out []string) {
	for _, b := range g.sent("heartbeat") {
		list, _ := b.fields()["acks"].([]any)
		for _, a := range list {
			out = append(out, a.(string))
		}
	}
	return out
}

// An idle instance goes at once, a busy one serves on to its deadline and is
// then cut; what is not here is no matter. All are acknowledged once.
func TestWindDown(t *testing.T) {
	bubble(t, func(t *testing.T, g *registry, h *Handler, d *diary) {
		g.get("/t/idle")
		go g.get("/t/busy?hold=1h")
		synctest.Wait()
		g.send(order("idle", 10), order("busy", 5.5), order("nobody", 0))
		time.Sleep(4 * time.Second)
		expect(t, "busy until the deadline", g.get("/t/busy"), 200, "busy 2")
		time.Sleep(5 * time.Second)
		d.want(t, "0 open idle", "0 open busy", "3 close idle", "8.5 cut busy: instance stopped", "8.5 close busy")
		if got := g.acks(); !slices.Equal(got, []string{"m-busy", "m-idle", "m-nobody"}) {
			t.Errorf("acks %v", got)
		}
		if len(g.owned()) != 0 {
			t.Errorf("rows %v", g.owned())
		}
	})
}

// Between the deadline and the end of its cut requests an instance lets
// nobody in.
func TestPastTheDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newRegistry(t, 15*time.Second)
		h := g.newWorker("w1", Class{Open: func(in *Instance) (http.Handler, error) {
			return http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
				<-r.Context().Done()
				time.Sleep(2 * time.Second)
			}), nil
		}})
		stop := start(t, h)
		go g.get("/t/a")
		synctest.Wait()
		g.send(order("a", 0))
		time.Sleep(4 * time.Second)
		rec := g.get("/t/a")
		expect(t, "past", rec, 503, "instance past its wind-down deadline; retry")
		if rec.Header().Get(api.HeaderRefusal) != "" || rec.Header().Get("Retry-After") != "1" {
			t.Error(rec.Header())
		}
		if len(g.sent("release")) != 0 {
			t.Error("given back while a request still runs")
		}
		time.Sleep(2 * time.Second)
		if len(g.owned()) != 0 {
			t.Error("not given back")
		}
		stop()
	})
}

func TestWindDownRevoked(t *testing.T) {
	bubble(t, func(t *testing.T, g *registry, h *Handler, d *diary) {
		go g.get("/t/a?hold=20s")
		synctest.Wait()
		g.send(order("a", 10))
		time.Sleep(4 * time.Second)
		g.send(map[string]any{"msgId": "again", "type": "wind_down", "ns": "/t", "id": "a", "deadline": nil})
		time.Sleep(26 * time.Second)
		expect(t, "lives", g.get("/t/a"), 200, "a 2")
		d.want(t, "0 open a")
	})
}

// Acks name the prefix that applied; what comes behind an order that makes no
// sense is applied, but not confirmed.
func TestAcksStopAtTheFirstFailure(t *testing.T) {
	bubble(t, func(t *testing.T, g *registry, h *Handler, d *diary) {
		g.get("/t/a")
		g.get("/t/b")
		g.send(order("a", 0), map[string]any{"msgId": "poison", "type": "wind_down", "ns": "/nowhere", "id": "x", "deadline": 0}, order("b", 0))
		time.Sleep(10 * time.Second)
		if lines := d.take(); len(lines) != 4 {
			t.Errorf("diary %v", lines)
		}
		if got := g.acks(); !slices.Equal(got, []string{"m-a"}) {
			t.Errorf("acks %v", got)
		}
	})
}

// An ack is repeated until a beat that carried it got its 200; a new session
// clears it.
func TestAcksAreRepeatedUntilTaken(t *testing.T) {
	bubble(t, func(t *testing.T, g *registry, h *Handler, d *diary) {
		g.send(order("x", 0))
		g.fail("heartbeat", fault{}, fault{skip: true}, fault{lost: true})
		time.Sleep(16 * time.Second)
		if got := g.acks(); !slices.Equal(got, []string{"m-x", "m-x", "m-x"}) {
			t.Errorf("acks %v", got)
		}
		g.send(order("y", 0))
		time.Sleep(3 * time.Second)
		g.fail("heartbeat", fault{status: 409, body: `{"reregister":true}`})
		g.mu.Lock()
		g.messages = nil
		g.mu.Unlock()
		time.Sleep(9 * time.Second)
		if got := g.acks()[3:]; !slices.Equal(got, []string{"m-y"}) {
			t.Errorf("acks across sessions %v", got)
		}
	})
}

// The operator drains the worker: idle instances go, busy ones serve until the
// deadline, nothing new begins; and it can be taken back.
func TestOperatorDrain(t *testing.T) {
	bubble(t, func(t *testing.T, g *registry, h *Handler, d *diary) {
		g.get("/t/idle")
		go g.get("/t/busy?hold=1h")
		synctest.Wait()
		g.say("draining", true)
		time.Sleep(4 * time.Second)
		rec := g.get("/t/new")
		expect(t, "nothing new", rec, 503, "host draining; retry")
		if rec.Header().Get(api.HeaderRefusal) != "" {
			t.Error("a drain is no lease refusal")
		}
		expect(t, "busy", g.get("/t/busy"), 200, "busy 2")
		g.say("drainDeadline", 10.0)
		time.Sleep(4 * time.Second)
		g.say("drainDeadline", 8.0)
		if e := h.Session().Expires().Sub(d.begin); e != 16*time.Second {
			t.Errorf("the drain does not cap the lease: %v", e)
		}
		d.want(t, "0 open idle", "0 open busy", "3 close idle")
		g.say("draining", false)
		time.Sleep(3 * time.Second)
		expect(t, "taken back", g.get("/t/new"), 200, "new 1")
		time.Sleep(30 * time.Second)
		d.want(t, "11 open new")
		for _, b := range g.sent("heartbeat") {
			if strings.Contains(b.body, `"draining":true`) {
				t.Error("the operator's drain is reported as our own")
			}
		}
	})
}

func TestOperatorDrainDeadline(t *testing.T) {
	bubble(t, func(t *testing.T, g *registry, h *Handler, d *diary) {
		go g.get("/t/busy?hold=1h")
		synctest.Wait()
		g.say("draining", true)
		g.say("drainDeadline", 0.5)
		time.Sleep(4 * time.Second)
		d.want(t, "0 open busy", "3.5 cut busy: instance stopped", "3.5 close busy")
	})
}

// The end of a worker: the drain is told at once, instances finish or are cut
// at the deadline, releases go out, then the deregistration, then nothing.
func TestRunEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, d := newRegistry(t, 15*time.Second), newDiary()
		h := g.newWorker("w1", d.class(), func(c *Config) { c.Drain = 10 * time.Second })
		stop := start(t, h)
		g.get("/t/idle")
		go g.get("/t/short?hold=4s")
		go g.get("/t/long?hold=1h")
		synctest.Wait()
		d.take()
		time.Sleep(time.Second)
		done := make(chan error, 1)
		go func() { done <- stop() }()
		time.Sleep(time.Second)
		expect(t, "nothing new", g.get("/t/new"), 503, "host draining; retry")
		if err := <-done; err != nil {
			t.Error(err)
		}
		d.want(t, "1 close idle", "4 close short", "11 cut long: instance stopped", "11 close long")
		told, released := time.Time{}, time.Time{}
		for _, c := range g.calls {
			if c.path == "heartbeat" && c.fields()["draining"] == true && told.IsZero() {
				told = c.at
			}
			if c.path == "release" {
				released = c.at
			}
		}
		last := g.calls[len(g.calls)-1]
		if told.Sub(d.begin) != time.Second || last.path != "deregister" || last.at.Before(released) || len(g.sent("release")) != 3 {
			t.Errorf("told %v, calls %v", told.Sub(d.begin), g.calls)
		}
		calls := len(g.calls)
		time.Sleep(time.Minute)
		if len(g.calls) != calls {
			t.Error("it still talks")
		}
		if err := h.Run(context.Background()); err == nil {
			t.Error("it ran twice")
		}
	})
}

// A release that is still being tried goes out before the deregistration.
func TestReleasesBeforeTheDeregistration(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, d := newRegistry(t, 15*time.Second), newDiary()
		h := g.newWorker("w1", d.class())
		stop := start(t, h)
		g.get("/t/a")
		g.fail("release", fault{before: 6 * time.Second}, fault{before: 4 * time.Second})
		stop()
		last := g.calls[len(g.calls)-1]
		if at := last.at.Sub(d.begin); last.path != "deregister" || at != 9200*time.Millisecond {
			t.Errorf("%s at %v", last.path, at)
		}
	})
}

// An order that comes while Open still runs is carried out although Open
// fails: the id is given back.
func TestOrderDuringAFailingOpen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newRegistry(t, 15*time.Second)
		h := g.newWorker("w1", Class{Open: func(in *Instance) (http.Handler, error) {
			<-in.Context().Done()
			return nil, context.Cause(in.Context())
		}})
		stop := start(t, h)
		go g.get("/t/a")
		synctest.Wait()
		g.send(order("a", 1))
		time.Sleep(5 * time.Second)
		if len(g.owned()) != 0 {
			t.Errorf("rows %v", g.owned())
		}
		stop()
	})
}

// Hooks run one by one, the last added first, each although another failed or
// panicked.
func TestHooks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, d := newRegistry(t, 15*time.Second), newDiary()
		h := g.newWorker("w1", Class{Open: func(in *Instance) (http.Handler, error) {
			in.OnClose(func(context.Context) error { d.note("first"); return nil })
			in.OnClose(func(context.Context) error { d.note("second"); return errors.New("disk") })
			in.OnClose(func(context.Context) error { d.note("third"); panic("x") })
			return http.NotFoundHandler(), nil
		}})
		stop := start(t, h)
		g.get("/t/a")
		h.quit(held(h))
		synctest.Wait()
		d.want(t, "0 third", "0 second", "0 first")
		if len(g.sent("release")) != 0 {
			t.Error("given back although not kept")
		}
		stop()
	})
}

// Code that does not stop keeps its id: no release, no deregistration, no
// renewal. The lease decides.
func TestStragglers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newRegistry(t, 15*time.Second)
		free := make(chan struct{})
		h := g.newWorker("w1", Class{Open: func(in *Instance) (http.Handler, error) {
			return http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-free }), nil
		}}, func(c *Config) { c.Drain = time.Second })
		stop := start(t, h)
		go g.get("/t/a")
		synctest.Wait()
		if err := stop(); !errors.Is(err, ErrStragglers) {
			t.Error(err)
		}
		if n := len(g.sent("heartbeat")); len(g.sent("deregister")) != 0 || len(g.owned()) != 1 {
			t.Errorf("beats %d, rows %v", n, g.owned())
		}
		close(free)
		time.Sleep(20 * time.Second)
		if len(g.sent("deregister")) != 0 {
			t.Error("deregistered")
		}
	})
}

// The end of a cut stream reaches its client when the id is free, so that a
// redial finds a new owner and not a closing one.
func TestStreamsEndAfterTheRelease(t *testing.T) {
	bubble(t, func(t *testing.T, g *registry, h *Handler, d *diary) {
		g.fail("release", fault{before: time.Second})
		ended := make(chan time.Duration, 1)
		go func() {
			g.get("/t/a?hold=1h")
			ended <- time.Since(d.begin)
		}()
		synctest.Wait()
		h.quit(held(h))
		if at := <-ended; at != time.Second {
			t.Errorf("ended at %v", at)
		}
		expect(t, "redial", g.get("/t/a"), 200, "a 1")
	})
}

// An open stream keeps an instance from being idle, but not from a wind-down;
// a request does both.
func TestStreamsDoNotHoldUpAWindDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, d := newRegistry(t, 15*time.Second), newDiary()
		c := Class{Idle: time.Second, Open: func(in *Instance) (http.Handler, error) {
			d.note("open %s", in.ID)
			in.OnClose(func(context.Context) error { d.note("close %s", in.ID); return nil })
			return http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
				if in.ID == "stream" {
					http.NewResponseController(rw).Flush()
					rw.(http.Flusher).Flush()
				}
				<-r.Context().Done()
			}), nil
		}}
		h := g.newWorker("w1", c)
		stop := start(t, h)
		request, stream := make(chan *httptest.ResponseRecorder, 1), make(chan *httptest.ResponseRecorder, 1)
		go func() { request <- g.get("/t/request") }()
		time.Sleep(time.Second)
		go func() { stream <- g.get("/t/stream") }()
		time.Sleep(19 * time.Second)
		d.want(t, "0 open request", "1 open stream")
		g.send(order("stream", 10), order("request", 10))
		time.Sleep(20 * time.Second)
		d.want(t, "21 close stream", "31 close request")
		if rec := <-stream; rec.Code != 200 || rec.Body.Len() != 0 {
			t.Errorf("the stream ended with %d %q", rec.Code, rec.Body)
		}
		rec := <-request
		expect(t, "cut before a word", rec, 503, "instance aborted")
		if rec.Header().Get("Retry-After") != "" {
			t.Error("a request that may have had its effect asks for a retry")
		}
		stop()
	})
}

// A listener that breaks ends the worker as an orderly end does.
func TestServeEndsWithItsListener(t *testing.T) {
	g, d := newRegistry(t, 15*time.Second), &diary{}
	h := g.newWorker("w1", d.class())
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	time.AfterFunc(50*time.Millisecond, func() { ln.Close() })
	if err := h.Serve(context.Background(), ln); !errors.Is(err, net.ErrClosed) {
		t.Errorf("got %v", err)
	}
	if len(g.sent("register")) != 1 || len(g.sent("deregister")) != 1 {
		t.Errorf("calls %v", g.calls)
	}
}
