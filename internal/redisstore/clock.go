package redisstore

import (
	"sync"
	"sync/atomic"
	"time"

	"pinboard/internal/ownership"
)

// Slack is how far a server's clock may step without being noticed: a reading
// further outside the estimate is a stepped clock. Leases are held that much
// longer than workers are told, so that no unseen step ends one early.
const Slack = time.Second

// Constants of the estimate (G4).
const (
	drift      = 1e-3 // how much faster or slower two clocks may run, slewing included
	tolerance  = ownership.Micros(Slack / time.Microsecond)
	stalled    = 3 * time.Second        // between two ticks of a loop of one second: the node stood still
	wallJump   = 500 * time.Millisecond // of the wall clock against the monotonic one: it slept
	keptClocks = 64                     // generations whose clock is carried on
)

// clocks carries the clock of every server generation on the node's
// monotonic clock: an interval that certainly holds the server's time. The
// clock of a past generation stays, so that a node can say what it would show
// now (R6).
type clocks struct {
	now  func() time.Time
	base time.Time

	mu    sync.Mutex
	byGen map[string]*serverClock
	order []string // oldest first
	tickT time.Time
}

func newClocks(now func() time.Time) *clocks {
	t := now()
	return &clocks{now: now, base: t, byGen: map[string]*serverClock{}, tickT: t}
}

// A serverClock is the estimate of one generation; nil while there is none.
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

// clock is the estimate of a generation, made when first asked for.
func (c *clocks) clock(gen string) *serverClock {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.byGen[gen]
	if s == nil {
		s = &serverClock{}
		c.byGen[gen] = s
		c.order = append(c.order, gen)
		if len(c.order) > keptClocks {
			delete(c.byGen, c.order[0])
			c.order = c.order[1:]
		}
	}
	return s
}

// tick is called about each second; a gap, or a wall clock that ran away from
// the monotonic one, means that the node itself stood still or slept, and
// what it carried proves nothing.
func (c *clocks) tick() {
	c.mu.Lock()
	defer c.mu.Unlock()
	t := c.now()
	if c.stoodStill(t) {
		c.discard()
	}
	c.tickT = t
}

func (c *clocks) stoodStill(t time.Time) bool {
	mono := t.Sub(c.tickT)
	wall := t.Round(0).Sub(c.tickT.Round(0))
	return mono > stalled || (wall-mono).Abs() > wallJump
}

func (c *clocks) discard() {
	for _, s := range c.byGen {
		s.est.Store(nil)
	}
}

// sample takes a completed reading: the server of generation gen showed now
// at some moment between sent and received. It reports whether the server's
// clock stepped against the estimate carried so far; onStep runs before anybody
// can see the new estimate.
func (c *clocks) sample(gen string, now ownership.Micros, sent, received time.Time, onStep func()) (stepped bool) {
	s := c.clock(gen)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.stoodStill(received) {
		c.discard()
		c.tickT = received
	}
	x := c.local(received)
	trip := float64(x - c.local(sent))
	n := &estimate{lo: now - x, hi: now + int64(trip*(1+drift)) + 1 - x, at: x}
	if old := s.est.Load(); old != nil {
		lo, hi := old.carried(x)
		switch {
		case n.lo > hi+tolerance || n.hi < lo-tolerance:
			stepped = true
			onStep()
		case n.lo <= hi && lo <= n.hi:
			n.lo, n.hi = max(n.lo, lo), min(n.hi, hi)
		}
	}
	s.est.Store(n)
	return stepped
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

// oldNow is what the clock of gen shows now at the latest.
func (c *clocks) oldNow(gen string) (ownership.Micros, bool) {
	c.mu.Lock()
	s := c.byGen[gen]
	c.mu.Unlock()
	if s == nil {
		return 0, false
	}
	_, hi, ok := c.bounds(s, c.now())
	return hi, ok
}
