package worker

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// A census knows which instances live where. Alive is from the start of Open
// until the last close hook has returned, which is more than
// docs/rules.md, "Words", asks for.
type census struct {
	mu      sync.Mutex
	t       *testing.T
	begin   time.Time
	alive   map[string]string // id -> worker
	epochs  map[string]string // id -> highest epoch served, as text of equal length
	opened  int
	history []string
}

func (c *census) note(format string, args ...any) {
	c.history = append(c.history, fmt.Sprintf("%.3f ", time.Since(c.begin).Seconds())+fmt.Sprintf(format, args...))
}

func (c *census) class(worker string, rnd func() float64) Class {
	return Class{Idle: 20 * time.Second, Open: func(in *Instance) (http.Handler, error) {
		c.mu.Lock()
		if other, ok := c.alive[in.ID]; ok {
			c.note("%s opens %s, alive on %s", worker, in.ID, other)
			c.t.Errorf("two live owners of %s: %v", in.ID, c.history)
		}
		c.alive[in.ID] = worker
		c.opened++
		c.note("%s opens %s", worker, in.ID)
		c.mu.Unlock()
		slow := time.Duration(rnd() * 2e9)
		in.OnClose(func(ctx context.Context) error {
			select {
			case <-ctx.Done():
			case <-time.After(slow):
			}
			c.mu.Lock()
			defer c.mu.Unlock()
			c.note("%s closed %s", worker, in.ID)
			delete(c.alive, in.ID)
			return nil
		})
		return http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
			c.mu.Lock()
			if c.alive[in.ID] != worker {
				c.t.Errorf("%s serves %s, alive on %q: %v", worker, in.ID, c.alive[in.ID], c.history)
			}
			if e := in.Epoch().String(); e < c.epochs[in.ID] {
				c.t.Errorf("%s served at %s after %s", in.ID, e, c.epochs[in.ID])
			} else {
				c.epochs[in.ID] = e
			}
			c.mu.Unlock()
			select {
			case <-r.Context().Done():
			case <-time.After(time.Duration(rnd() * 1e9)):
			}
		}), nil
	}}
}

// Three workers, one registry, two minutes of lost, late and repeated calls,
// restate orders, wind-downs and clients that never rest: no id ever lives twice,
// and no older epoch serves after a newer one.
func TestNeverTwoOwners(t *testing.T) {
	seeds := 60
	if testing.Short() {
		seeds = 10
	}
	opened := 0
	for seed := range seeds {
		synctest.Test(t, func(t *testing.T) { opened += storm(t, uint64(seed)) })
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
	if opened < 20*seeds {
		t.Errorf("only %d instances: the storm is no test", opened)
	}
}

func storm(t *testing.T, seed uint64) int {
	var lock sync.Mutex
	source := rand.New(rand.NewPCG(seed, 1))
	rnd := func() float64 { lock.Lock(); defer lock.Unlock(); return source.Float64() }
	g := newRegistry(t, 15*time.Second)
	c := &census{t: t, begin: time.Now(), alive: map[string]string{}, epochs: map[string]string{}}
	var stops []func() error
	for i := range 3 {
		name := fmt.Sprintf("w%d", i)
		stops = append(stops, start(t, g.newWorker(name, c.class(name, rnd))))
	}
	end := time.Now().Add(2 * time.Minute)
	var clients sync.WaitGroup
	for i := range 4 {
		clients.Go(func() {
			for time.Now().Before(end) {
				g.get(fmt.Sprintf("/t/id%d", (i+int(rnd()*6))%6))
				time.Sleep(time.Duration(rnd() * 1e9))
			}
		})
	}
	for time.Now().Before(end) {
		time.Sleep(time.Duration(rnd() * 2e9))
		g.trouble(rnd)
	}
	g.mu.Lock()
	clear(g.faults)
	g.mu.Unlock()
	clients.Wait()
	// Calm: everything is served again within two leases.
	time.Sleep(30 * time.Second)
	for i := range 6 {
		if rec := g.get(fmt.Sprintf("/t/id%d", i)); rec.Code != 200 {
			t.Errorf("seed %d: id%d is not served in the end: %d %s", seed, i, rec.Code, rec.Body)
		}
	}
	for _, stop := range stops {
		stop()
	}
	if len(c.alive) > 0 {
		t.Errorf("seed %d: left alive: %v", seed, c.alive)
	}
	return c.opened
}

// trouble is one random fault or order.
func (g *registry) trouble(rnd func() float64) {
	paths := []string{"heartbeat", "heartbeat", "register", "release"}
	path := paths[int(rnd()*4)]
	long := time.Duration(rnd() * 6e9)
	switch int(rnd() * 8) {
	case 0:
		g.fail(path, fault{skip: true})
	case 1:
		g.fail(path, fault{lost: true})
	case 2:
		g.fail(path, fault{before: long})
	case 3:
		g.fail(path, fault{after: long})
	case 4:
		g.fail("heartbeat", fault{status: 409, body: `{"reregister":true}`})
	case 5:
		for range int(rnd() * 12) {
			g.fail("heartbeat", fault{skip: true})
		}
	case 6:
		g.mu.Lock()
		g.serial++
		g.messages = []map[string]any{{"msgId": fmt.Sprint(g.serial), "type": "wind_down", "ns": "/t",
			"id": fmt.Sprintf("id%d", int(rnd()*6)), "deadline": rnd() * 3}}
		g.mu.Unlock()
	case 7:
		g.fail(path, fault{status: 500})
	}
}
