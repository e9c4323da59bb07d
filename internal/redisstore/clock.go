package redisstore

import (
	"sync"
	"sync/atomic"
	"time"

	"pinboard/internal/ownership"
)

// Slack is how much a server's clock may gain in one lease without being noticed
// (package guard). Leases are held that much longer than workers are told, so
// that nothing unseen ends one early.
const Slack = time.Second

// Constants of the estimate (G4).
const (
	drift      = 1e-3 // how much faster or slower two clocks may run, slewing included
	tolerance  = ownership.Micros(Slack / time.Microsecond)
	stalled    = 3 * time.Second        // between two ticks of a loop of one second: the node stood still
	wallJump   = 500 * time.Millisecond // of the wall clock against the monotonic one: it slept
	keptClocks = 64                     // servers whose clock is carried on
)

// clocks carries each server's clock on the node's monotonic clock, which
// requests are timed by: an interval that holds the server's time. Whether the
// server's clock can be trusted is the guard's to say.
type clocks struct {
	now  func() time.Time
	base time.Time

	mu       sync.Mutex
	byServer map[string]*serverClock
	order    []string // oldest first
	tickT    time.Time
}

func newClocks(now func() time.Time) *clocks {
	t := now()
	return &clocks{now: now, base: t, byServer: map[string]*serverClock{}, tickT: t}
}

// A serverClock is the estimate of one server; nil while there is none.
type serverClock struct {
	est atomic.Pointer[estimate]
}

// An estimate says that at local time at, server minus local lay in [lo, hi],
// all in microseconds since base.
type estimate struct {
	lo, hi, at int64
}

func (e *estimate) carried(x int64) (lo, hi int64) {
	d := int64(float64(max(x-e.at, 0)) * drift)
	return e.lo - d, e.hi + d
}

func (c *clocks) local(t time.Time) int64 { return t.Sub(c.base).Microseconds() }

// clock is the estimate of a server, made when first asked for.
func (c *clocks) clock(server string) *serverClock {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.byServer[server]
	if s == nil {
		s = &serverClock{}
		c.byServer[server] = s
		c.order = append(c.order, server)
		if len(c.order) > keptClocks {
			delete(c.byServer, c.order[0])
			c.order = c.order[1:]
		}
	}
	return s
}

// tick is called about each second. A gap, or a wall clock that ran away from
// the monotonic one, means that the node may have stood still: what it carried
// is thrown away until the next reading.
func (c *clocks) tick() (stoodStill bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.check(c.now())
}

func (c *clocks) check(t time.Time) (stoodStill bool) {
	mono := t.Sub(c.tickT)
	wall := t.Round(0).Sub(c.tickT.Round(0))
	c.tickT = t
	if mono <= stalled && (wall-mono).Abs() <= wallJump {
		return false
	}
	for _, s := range c.byServer {
		s.est.Store(nil)
	}
	return mono > stalled
}

// sample takes a completed reading: the server showed now at some moment
// between sent and received.
func (c *clocks) sample(server string, now ownership.Micros, sent, received time.Time) {
	s := c.clock(server)
	c.mu.Lock()
	defer c.mu.Unlock()
	if received.Sub(c.tickT) > stalled {
		c.check(received)
	}
	x := c.local(received)
	trip := float64(x - c.local(sent))
	n := &estimate{lo: now - x, hi: now + int64(trip*(1+drift)) + 1 - x, at: x}
	if old := s.est.Load(); old != nil {
		if lo, hi := old.carried(x); n.lo <= hi && lo <= n.hi {
			n.lo, n.hi = max(n.lo, lo), min(n.hi, hi)
		}
	}
	s.est.Store(n)
}

// bounds is the interval that holds the server's time at t.
func (c *clocks) bounds(s *serverClock, t time.Time) (lo, hi ownership.Micros, ok bool) {
	e := s.est.Load()
	if e == nil {
		return 0, 0, false
	}
	x := c.local(t)
	lo, hi = e.carried(x)
	return x + lo, x + hi, true
}

// until is the last local time at which the server certainly shows deadline
// or less.
func (c *clocks) until(s *serverClock, deadline ownership.Micros) (time.Time, bool) {
	e := s.est.Load()
	if e == nil {
		return time.Time{}, false
	}
	// x + hi + drift*(x-at) <= deadline, solved for x >= at
	x := e.at + int64(float64(deadline-e.hi-e.at)/(1+drift))
	return c.base.Add(time.Duration(min(x, deadline-e.hi)) * time.Microsecond), true
}
