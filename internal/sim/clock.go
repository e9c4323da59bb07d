package sim

import (
	"context"
	"time"

	"pinboard/internal/guard"
)

// clock is what the server tells: the time of all machines, its own offset,
// and what it is slewed by.
func (s *Server) clock() Micros { return s.w.time().Add(s.ahead()).UnixMicro() }

// ahead is the offset of the server's clock by now.
func (s *Server) ahead() time.Duration {
	return s.offset + time.Duration(s.slew*float64(s.w.Now-s.slewAt))
}

// step sets the clock.
func (s *Server) step(by time.Duration) { s.offset += by }

// rate makes the clock gain at a rate from now on, as a time daemon slews it.
func (s *Server) rate(slew float64) {
	s.offset, s.slew, s.slewAt = s.ahead(), slew, s.w.Now
}

// own is the node's own clock since the start of the simulation. It is neither
// set nor slewed, and it stands still while its host sleeps.
func (n *Node) own() time.Duration { return n.w.Now - n.sleeps() }

// sleeps is how long the node's host has slept.
func (n *Node) sleeps() time.Duration {
	if n.asleep != 0 {
		return n.slept + n.w.Now - n.asleep
	}
	return n.slept
}

// now is the node's own clock as the directory reads it.
func (n *Node) now() time.Time { return start.Add(n.own()) }

// Sleep makes the node's host sleep: nothing runs, its own clock stands still.
func (n *Node) Sleep() {
	if n.asleep == 0 {
		n.Freeze()
		n.asleep = n.w.Now
	}
}

// Wake ends the sleep.
func (n *Node) Wake() {
	if n.asleep != 0 {
		n.woke = n.w.Now
	}
	n.slept = n.sleeps()
	n.asleep = 0
	n.Thaw()
}

// A bound is a context that ends by a node's own clock.
type bound struct {
	context.Context
	n   *Node
	end time.Duration
}

func (n *Node) within(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	end := n.own() + d
	if at, ok := ctx.Deadline(); ok {
		end = min(end, at.Sub(start))
	}
	return bound{context.Background(), n, end}, func() {}
}

func (b bound) Deadline() (time.Time, bool) { return start.Add(b.end), true }

func (b bound) Err() error {
	if b.n.own() >= b.end {
		return context.DeadlineExceeded
	}
	return nil
}

// local is the node's own clock for the guard.
func (c *conn) local() guard.Local { return c.n.own().Microseconds() }

// tick is called each second. What a node finds out there is what a real one
// can: a gap in its own clock, or that its machine has slept.
func (c *conn) tick() {
	own, slept := c.n.own(), c.n.sleeps()
	if own-c.ticked > standstill || slept-c.slept > sleepSeen {
		c.guard.Slept()
	}
	c.ticked, c.slept = own, slept
}

const (
	standstill = 3 * time.Second       // a gap between two ticks that a node takes for a stop
	sleepSeen  = 50 * time.Millisecond // a sleep of the machine that a node notices
)
