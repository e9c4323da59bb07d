package proxy

import (
	"time"

	"pinboard/internal/directory"
)

// A phase says what a connection's goroutine waits for.
type phase uint8

const (
	idle      phase = iota // a request
	resolving              // the directory, a place, a dial
	awaiting               // the worker's head
	answering              // the worker's body, or the client taking it
	trailing               // the rest of a request whose answer is complete
	tunnelled
	handling // the control handler
	closing  // the client's FIN
)

// A cut says why an exchange was interrupted; the first reason stays.
type cut uint8

const (
	uncut cut = iota
	cutClient
	cutOwner
	cutShutdown
	cutTimeout // no response head in time
	cutUpload  // the request body was malformed
)

// begin opens an exchange: false when the client has been cut off already.
func (c *conn) begin(ph phase, complete bool) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.seq++
	c.phase, c.sent = ph, complete
	if c.fin {
		c.rereadLocked()
		c.finLocked()
	}
	return c.why == uncut
}

// attach lends u to the watchers of this exchange. read is when the place was
// looked up.
func (c *conn) attach(u *upstream, w directory.Watch, read, headBy time.Time) bool {
	c.mu.Lock()
	c.up, c.watch, c.checked, c.headBy = u, w, read, headBy
	c.phase = awaiting
	if c.fin {
		c.finLocked()
	}
	ok := c.why == uncut
	c.mu.Unlock()
	c.p.sweeper.before(w.Deadline, headBy)
	return ok
}

// answer enters a later phase of the exchange: no head is due any more.
func (c *conn) answer(ph phase) {
	c.mu.Lock()
	c.phase, c.headBy = ph, time.Time{}
	c.heardLocked()
	c.mu.Unlock()
}

// detach takes the upstream back from the watchers. Whoever interrupted the
// exchange meanwhile has left a deadline on it, which must not outlive it.
func (c *conn) detach() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.up != nil && (c.fin || c.why != uncut) {
		_ = c.up.nc.SetDeadline(time.Time{})
	}
	c.up, c.headBy = nil, time.Time{}
	c.watch = directory.Watch{}
}

// pause ends an exchange; the connection is idle.
func (c *conn) pause(now time.Time) {
	c.mu.Lock()
	c.phase, c.since = idle, now
	c.halfClosed = c.fin
	c.mu.Unlock()
}

// rereads reports, once, that the wait for a request was ended by a FIN: what
// came before it, or the FIN itself, is to be read.
func (c *conn) rereads() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	again := c.fin && !c.reread && c.why == uncut
	if again {
		c.reread, c.halfClosed = true, true
		c.rereadLocked()
	}
	return again
}

// rereadLocked takes back the deadline by which a FIN ends a wait.
func (c *conn) rereadLocked() {
	if c.why == uncut {
		_ = c.nc.SetReadDeadline(time.Time{})
	}
}

// cause is why the exchange was interrupted.
func (c *conn) cause() cut {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.why
}

// cutLocked interrupts whatever the exchange waits for. mu is held.
func (c *conn) cutLocked(why cut) {
	if c.why == uncut {
		c.why = why
	}
	if c.up != nil {
		_ = c.up.nc.SetDeadline(past)
	}
	if why != cutTimeout && why != cutUpload {
		_ = c.nc.SetDeadline(past)
	}
	if why == cutClient || why == cutShutdown {
		c.stop()
	}
}

// interrupt is cutLocked from the exchange's own goroutines.
func (c *conn) interrupt(why cut) {
	c.mu.Lock()
	c.cutLocked(why)
	c.mu.Unlock()
}

// hungUp hears of the client's FIN or, with gone, of its RST.
func (c *conn) hungUp(gone bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if gone {
		c.fin = true
		c.cutLocked(cutClient)
		return
	}
	if !c.fin {
		c.fin = true
		c.finLocked()
	}
}

// finLocked acts on a FIN: inside a request the client
// has left; behind a complete one the exchange goes on until the worker is
// silent for the grace. Tunnels read the FIN themselves; a connection that
// waits for a request is woken to do so.
func (c *conn) finLocked() {
	switch {
	case c.phase == idle:
		_ = c.nc.SetReadDeadline(past)
	case c.phase == resolving && c.sent || c.phase == handling:
		seq := c.seq
		time.AfterFunc(c.p.cfg.HalfCloseGrace, func() {
			c.mu.Lock()
			defer c.mu.Unlock()
			if c.seq == seq && (c.phase == resolving || c.phase == handling) {
				c.cutLocked(cutClient)
			}
		})
	case c.phase == awaiting || c.phase == answering:
		c.heardLocked()
	}
}

// heard re-arms the grace of a half-closed client after bytes of the worker.
func (c *conn) heard() {
	c.mu.Lock()
	c.heardLocked()
	c.mu.Unlock()
}

func (c *conn) heardLocked() {
	if c.fin && c.sent && c.why == uncut && c.up != nil {
		_ = c.up.nc.SetReadDeadline(time.Now().Add(c.p.cfg.HalfCloseGrace))
	}
}

// trailersBegun gives the trailers of an upload the time of a head: they are
// held until they are whole, and a stalled upload must hold nothing for long.
func (c *conn) trailersBegun() (due time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	due = time.Now().Add(c.p.cfg.HeadTimeout)
	if c.why == uncut {
		_ = c.nc.SetReadDeadline(due)
	}
	return due
}

func (c *conn) trailersEnded() {
	c.mu.Lock()
	if c.why == uncut {
		_ = c.nc.SetReadDeadline(time.Time{})
	}
	c.mu.Unlock()
}

// uploadBegins and uploadOver bracket the goroutine that streams a request's body.
func (c *conn) uploadBegins() {
	c.mu.Lock()
	c.over = false
	c.mu.Unlock()
}

// uploadOver wakes an exchange that waits for nothing else.
func (c *conn) uploadOver() {
	c.mu.Lock()
	c.over = true
	if c.phase == trailing && c.up != nil {
		_ = c.up.nc.SetReadDeadline(past)
	}
	c.mu.Unlock()
}

// trail enters the last phase of an exchange that uploads.
func (c *conn) trail() (over bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.phase = trailing
	return c.over
}

// trailed leaves it; u may be used again if the exchange was not interrupted.
func (c *conn) trailed(u *upstream) (over bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.phase = answering
	if c.over && c.why == uncut {
		_ = u.nc.SetReadDeadline(time.Time{})
	}
	return c.over
}

// uploaded notes that the request is complete: from now on the worker's head
// is due.
func (c *conn) uploaded() {
	c.mu.Lock()
	c.sent = true
	if timeout := c.p.cfg.ResponseTimeout; c.phase == awaiting && timeout > 0 {
		c.headBy = c.p.cfg.Now().Add(timeout)
		c.p.sweeper.before(c.headBy)
	}
	c.heardLocked()
	c.mu.Unlock()
}
