package server

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fakeFront is a data plane whose open exchanges end when the test says so.
type fakeFront struct {
	mu       sync.Mutex
	serving  chan struct{} // closed by Shutdown
	fault    chan error    // what Serve returns before Shutdown
	finished chan struct{} // closed when the last finite exchange ends
	streams  int
	log      []string
	born     time.Time
}

func newFakeFront() *fakeFront {
	f := &fakeFront{serving: make(chan struct{}), fault: make(chan error), finished: make(chan struct{}), born: time.Now()}
	close(f.finished)
	return f
}

func (f *fakeFront) note(what string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.log = append(f.log, what+" at "+time.Since(f.born).String())
}

func (f *fakeFront) Serve(net.Listener) error {
	select {
	case <-f.serving:
		return nil
	case err := <-f.fault:
		return err
	}
}

func (f *fakeFront) Drain()     { f.note("draining") }
func (f *fakeFront) Open() Open { return Open{Streams: f.streams} }

func (f *fakeFront) Shutdown(ctx context.Context) Open {
	close(f.serving)
	f.note("closed")
	if f.streams > 0 {
		<-ctx.Done()
		return Open{Streams: f.streams}
	}
	select {
	case <-f.finished:
		return Open{}
	case <-ctx.Done():
		return Open{Exchanges: 1}
	}
}

// A node under test: a server with a fake front, a store that can be broken
// and a log that can be read.
type node struct {
	*Server
	front   *fakeFront
	signals chan os.Signal
	logs    *safeBuffer
	result  chan error
	mu      sync.Mutex
	broken  error
}

func (n *node) breakStore(err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.broken = err
}

func start(t *testing.T, change func(*Config)) *node {
	t.Helper()
	n := &node{front: newFakeFront(), signals: make(chan os.Signal, 2), logs: &safeBuffer{}, result: make(chan error, 1)}
	cfg := Config{
		Listener: noListener{}, Front: n.front, Log: slog.New(slog.NewJSONHandler(n.logs, nil)),
		Boot: func(context.Context) error { return nil },
		Probe: func(context.Context) error {
			n.mu.Lock()
			defer n.mu.Unlock()
			return n.broken
		},
		Blocked: func() string { return "" },
		Workers: func() int { return 2 }, LoopFailed: func(string) {},
		Notice: 8 * time.Second, Budget: 25 * time.Second,
	}
	if change != nil {
		change(&cfg)
	}
	n.Server = New(cfg)
	go func() { n.result <- n.Run(t.Context(), n.signals) }()
	synctest.Wait()
	return n
}

func (n *node) status() Status { synctest.Wait(); return n.Health().Status }

func TestDrainServesTheNoticeThenFinishesRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := start(t, nil)
		n.front.finished = make(chan struct{}) // one request is under way
		if got := n.status(); got != Ready {
			t.Fatalf("status %s", got)
		}
		n.signals <- syscall.SIGTERM
		if got := n.status(); got != Draining {
			t.Errorf("status right after the signal: %s", got)
		}
		time.Sleep(10 * time.Second)
		close(n.front.finished)
		if err := <-n.result; err != nil {
			t.Errorf("a complete drain ends with %v", err)
		}
		if took := time.Since(n.front.born); took != 10*time.Second {
			t.Errorf("exit after %v, want as soon as the last request ended", took)
		}
		if got := strings.Join(n.front.log, ", "); got != "draining at 0s, closed at 8s" {
			t.Errorf("order of the drain: %s", got)
		}
		if log := n.logs.String(); !strings.Contains(log, `"msg":"stopped"`) {
			t.Errorf("no last line:\n%s", log)
		}
	})
}

// FC-62: streams neither hold the exit up nor are they forgotten.
func TestDrainCutsStreamsAtTheBudget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := start(t, nil)
		n.front.streams = 1000
		n.signals <- syscall.SIGTERM
		if err := <-n.result; err != nil {
			t.Error(err)
		}
		if took := time.Since(n.front.born); took != 25*time.Second {
			t.Errorf("streams were cut after %v", took)
		}
		if log := n.logs.String(); !strings.Contains(log, `"streams":1000`) || !strings.Contains(log, `"cutStreams":1000`) {
			t.Errorf("counts are missing:\n%s", log)
		}
	})
}

func TestSecondSignalExitsAtOnce(t *testing.T) {
	for name, wait := range map[string]time.Duration{"in the notice": time.Second, "in the shutdown": 12 * time.Second} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := start(t, nil)
				n.front.streams = 1
				n.signals <- syscall.SIGTERM
				time.Sleep(wait)
				n.signals <- syscall.SIGINT
				if err := <-n.result; !errors.Is(err, ErrSecondSignal) {
					t.Errorf("Run answered %v", err)
				}
				if took := time.Since(n.front.born); took > wait+settleTime {
					t.Errorf("exit %v after the second signal", took-wait)
				}
				n.cutAllOnce() // the process would be gone
			})
		})
	}
}

func TestTheEchoOfASignalIsNoSecondOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := start(t, nil)
		n.signals <- syscall.SIGTERM
		time.Sleep(time.Millisecond)
		n.signals <- syscall.SIGTERM
		if err := <-n.result; err != nil {
			t.Errorf("Run answered %v", err)
		}
	})
}

// cutAllOnce ends the fake's Serve where Run left without Shutdown.
func (n *node) cutAllOnce() {
	select {
	case <-n.front.serving:
	default:
		close(n.front.serving)
	}
	time.Sleep(time.Minute)
}

func TestSignalWhileBootingEndsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := start(t, func(c *Config) {
			c.Boot = func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() } // the store is away
		})
		if got := n.status(); got != Booting {
			t.Fatalf("status %s", got)
		}
		n.signals <- syscall.SIGTERM
		if err := <-n.result; err != nil {
			t.Error(err)
		}
		if took := time.Since(n.front.born); took != 0 {
			t.Errorf("waited %v though no balancer knows this node", took)
		}
	})
}

func TestFaultsEndTheNode(t *testing.T) {
	boom := errors.New("boom")
	for name, change := range map[string]func(*Config){
		"boot":        func(c *Config) { c.Boot = func(context.Context) error { return boom } },
		"listener":    func(c *Config) { f := c.Front.(*fakeFront); go func() { f.fault <- boom }() },
		"loop panics": func(c *Config) { c.Loops = []Loop{{"bad", time.Second, func(context.Context) error { panic("boom") }}} },
		"probe panics": func(c *Config) {
			c.Probe = func(context.Context) error { panic("boom") }
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := start(t, change)
				if err := <-n.result; err == nil || !strings.Contains(err.Error(), "boom") {
					t.Errorf("Run answered %v", err)
				}
			})
		})
	}
}

// FC-63: readiness follows the store, with hysteresis, and comes back alone.
func TestReadinessFollowsTheStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := start(t, nil)
		n.breakStore(errors.New("away"))
		time.Sleep(1500 * time.Millisecond)
		if got := n.status(); got != Ready {
			t.Errorf("two failed probes made it %s", got)
		}
		time.Sleep(2 * time.Second)
		if got := n.status(); got != Unavailable {
			t.Errorf("a store away for 3.5 s leaves it %s", got)
		}
		n.breakStore(nil)
		time.Sleep(time.Second)
		if got := n.status(); got != Unavailable {
			t.Errorf("one good probe made it %s", got)
		}
		time.Sleep(time.Second)
		if got := n.status(); got != Ready {
			t.Errorf("a healed store leaves it %s", got)
		}
		n.signals <- syscall.SIGTERM
		<-n.result
		if log := n.logs.String(); strings.Count(log, `"msg":"not ready"`) != 1 || strings.Count(log, `"msg":"ready"`) != 2 {
			t.Errorf("each change is one line:\n%s", log)
		}
	})
}

func TestFailingLoopIsCountedAndLoggedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var failed int
		n := start(t, func(c *Config) {
			c.LoopFailed = func(string) { failed++ }
			runs := 0
			c.Loops = []Loop{{"sweep", time.Second, func(context.Context) error {
				if runs++; runs > 1 && runs < 6 {
					return errors.New("away")
				}
				return nil
			}}}
		})
		time.Sleep(10 * time.Second)
		n.signals <- syscall.SIGTERM
		<-n.result
		if failed != 4 {
			t.Errorf("%d failures counted, want 4", failed)
		}
		log := n.logs.String()
		if strings.Count(log, "background loop fails") != 1 || strings.Count(log, "works again") != 1 {
			t.Errorf("the log repeats itself:\n%s", log)
		}
	})
}

func TestHeartbeatEachMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := start(t, nil)
		time.Sleep(5*time.Minute + time.Second)
		n.signals <- syscall.SIGTERM
		<-n.result
		log := n.logs.String()
		if got := strings.Count(log, `"msg":"heartbeat"`); got != 5 {
			t.Errorf("%d heartbeat lines in five minutes", got)
		}
		for _, field := range []string{`"uptimeSeconds":60`, `"workers":2`, `"heapBytes":`, `"schedulerLagMs":0`} {
			if !strings.Contains(log, field) {
				t.Errorf("heartbeat lacks %s:\n%s", field, log)
			}
		}
	})
}

type noListener struct{}

func (noListener) Accept() (net.Conn, error) { return nil, net.ErrClosed }
func (noListener) Close() error              { return nil }
func (noListener) Addr() net.Addr            { return &net.TCPAddr{} }

type safeBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *safeBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *safeBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

// What a node knows for sure counts at once, is told, and ends by itself.
func TestBlockedIsNotReadyAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		why := ""
		n := start(t, func(c *Config) { c.Blocked = func() string { return why } })
		if got := n.status(); got != Ready {
			t.Fatalf("status %s", got)
		}
		for range 2 {
			why = "other buckets"
			if h := n.Health(); h.Status != Unavailable || h.Reason != why {
				t.Errorf("blocked: %+v", h)
			}
			why = ""
			if h := n.Health(); h.Status != Ready || h.Reason != "" {
				t.Errorf("no longer blocked: %+v", h)
			}
		}
		n.signals <- os.Interrupt
		synctest.Wait()
		why = "other buckets"
		if h := n.Health(); h.Status != Draining || h.Reason != "" {
			t.Errorf("draining: %+v", h)
		}
		<-n.result
	})
}
