package proxy

import (
	"context"
	"errors"
	"io"
	"net"
	"net/netip"
	"os"
	"sync"
	"time"

	"pinboard"
	"pinboard/internal/directory"
	"pinboard/internal/h1"
)

// A phase says what a connection's goroutine waits for.
type phase uint8

const (
	idle      phase = iota // a request
	resolving              // the directory, a place, a dial
	awaiting               // the worker's head
	answering              // the worker's body, or the client taking it
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

// A conn is one client connection. Its goroutine owns everything but what mu
// guards; watcher, sweeper and shutdown come in through mu only, and only set
// deadlines: the goroutine alone closes.
type conn struct {
	socket
	p    *Proxy
	id   uint64
	ctx  context.Context
	stop context.CancelFunc
	peer client

	x          *exchange          // the one under way, or whose head has begun to come
	next       next               // why a visit to the poller ended
	then       func() (over bool) // what goes on in a fresh goroutine
	halfClosed bool               // fin, as the last pause saw it

	mu      sync.Mutex
	phase   phase
	since   time.Time // start of an idle phase
	up      *upstream // of the exchange under way
	asked   time.Time // when the request was sent on
	target  uint64    // bytes of up to be acknowledged before its user timeout ends
	headBy  time.Time // the worker's head is due; zero: no limit
	watch   directory.Watch
	checked time.Time // when watch was last read
	seq     uint64    // exchanges begun
	fin     bool      // the client has sent its FIN
	reread  bool      // the wait that fin ended has been made good
	sent    bool      // the request of the exchange is complete
	why     cut
	ended   int // directions of a tunnel that are over
	halves  int // directions of a tunnel that have ended by a FIN
	broke   End // what ended a tunnel first, if that was no FIN
}

func newConn(p *Proxy, nc net.Conn) *conn {
	c := &conn{p: p, since: p.cfg.Now()}
	c.socket.init(nc, smallBlock)
	c.socket.serve = c.arrived
	c.ctx, c.stop = context.WithCancel(p.ctx)
	var addr netip.Addr
	if a, ok := nc.RemoteAddr().(*net.TCPAddr); ok {
		addr = a.AddrPort().Addr().Unmap().WithZone("")
	}
	c.peer.init(addr, p.cfg.Trusted)
	return c
}

// serve runs exchanges until the connection is to be closed: over, unless
// other goroutines go on with it.
func (c *conn) serve() (over bool) { return c.goOn(again) }

// goOn does what follows an exchange, and serves those behind it.
func (c *conn) goOn(next next) (over bool) {
	for next == again || next == outside {
		if next == again {
			next = c.await()
		} else {
			next = c.x.conclude()
		}
	}
	switch {
	case next == partWell:
		c.linger()
	case next == passedOn && c.then != nil: // now that this goroutine is done with c
		then := c.then
		c.then = nil
		go c.p.attend(c, then)
	}
	return next != passedOn
}

// await serves requests inside the poller until one must be served outside,
// or the connection is to be closed.
func (c *conn) await() next {
	if len(c.unread()) > 0 && c.arrived() && c.next != again {
		return c.next // the last exchange, served outside, had left a request behind it
	}
	err := c.visit()
	if err == nil {
		return c.next
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		switch {
		case c.rereads():
			return again
		case c.x != nil && c.x.timed && !c.isCut():
			c.x.malformed = pinboard.RequestTimeout
			return outside
		}
	}
	if x := c.x; x != nil { // an end inside a head has no answer
		c.x = nil
		x.give()
	}
	return hangUp
}

// arrived serves what the unread bytes hold; true when the connection must
// leave the poller, for what c.next says.
func (c *conn) arrived() (leave bool) {
	for c.next = again; c.parse(); {
		if !c.x.brief() {
			c.next = outside
			return true
		}
		if c.next = c.x.conclude(); c.next != again {
			return true
		}
	}
	return c.halfClosed // the FIN is there already: no edge will tell of it
}

// end closes what is left. Blocks are left to the collector: after a panic
// another goroutine of the exchange may still look at them.
func (c *conn) end() {
	c.stop()
	if x := c.x; x != nil && x.counted { // it ended in a panic
		c.p.counts[x.obs.Kind].Add(-1)
	}
	c.mu.Lock()
	up := c.up
	c.up = nil
	c.mu.Unlock()
	if up != nil {
		_ = up.nc.Close()
	}
	_ = c.nc.Close()
}

// parse looks for a whole request head in the unread bytes. They stay unread
// until the exchange is done with them; an unfinished one is kept in c.x.
func (c *conn) parse() (whole bool) {
	for {
		b := c.unread()
		if len(b) == 0 {
			return false
		}
		if c.x == nil {
			c.x = takeExchange(c)
		}
		x := c.x
		switch {
		case !x.blank && b[0] == '\r' && (len(b) == 1 || b[1] == '\n'): // RFC 9112 2.2
			if len(b) > 1 {
				x.blank = true
				c.consume(2)
				continue
			}
		case x.parseHead(b):
			if x.timed {
				_ = c.nc.SetReadDeadline(time.Time{})
			}
			return true
		}
		if !x.timed {
			x.timed = true
			c.headBegun()
		}
		return false
	}
}

// headBegun starts the time that a head may take; the connection is not idle.
func (c *conn) headBegun() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.since = c.p.cfg.Now()
	c.halfClosed = c.fin
	if !c.fin {
		_ = c.nc.SetReadDeadline(time.Now().Add(c.p.cfg.HeadTimeout))
	}
}

// parseHead looks for a whole head in b, valid or malformed.
func (x *exchange) parseHead(b []byte) (whole bool) {
	n, ok := x.scan.Find(b)
	switch {
	case !ok:
		x.malformed = pinboard.BadRequest
		return true
	case n > h1.MaxHead || n == 0 && len(b) >= h1.MaxHead:
		x.malformed = pinboard.HeadTooLarge
		if x.scan.FirstLine() > h1.MaxHead/2 {
			x.malformed = pinboard.TargetTooLong
		}
		return true
	case n == 0:
		return false
	}
	x.head = b[:n]
	x.obs.Start = x.c.p.cfg.Now()
	x.malformed = h1.ParseRequest(x.head, &x.req)
	return true
}

func (c *conn) isCut() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.why != uncut
}

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

// attach lends u to the watchers of this exchange.
func (c *conn) attach(u *upstream, w directory.Watch, read, now, headBy time.Time, head int) bool {
	c.mu.Lock()
	c.up, c.watch, c.checked, c.asked, c.headBy = u, w, read, now, headBy
	c.phase = awaiting
	u.start = u.sent
	c.target = u.sent + uint64(head)
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

const (
	lingerSilence = 2 * time.Second
	lingerTotal   = 10 * time.Second
)

// linger closes in stages: our FIN, then whatever the client still sends is
// read and dropped, so that no reset overtakes the answer (RFC 9112 9.6).
func (c *conn) linger() {
	c.mu.Lock()
	cutOff := c.why == cutClient || c.why == cutShutdown || c.why == cutOwner
	c.phase = closing
	if !cutOff {
		_ = c.nc.SetDeadline(time.Time{})
	}
	c.mu.Unlock()
	if cutOff {
		return
	}
	c.closeWrite()
	end := time.Now().Add(lingerTotal)
	for {
		c.release()
		by := time.Now().Add(lingerSilence)
		if by.After(end) {
			by = end
		}
		c.mu.Lock()
		if c.why != cutShutdown && c.why != cutClient {
			_ = c.nc.SetReadDeadline(by)
		}
		c.mu.Unlock()
		if err := c.fill(); err != nil {
			return
		}
		if !time.Now().Before(end) {
			return
		}
	}
}

// isEOF reports a FIN, as opposed to a reset or an interruption.
func isEOF(err error) bool { return err == io.EOF }
