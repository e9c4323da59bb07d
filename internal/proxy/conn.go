package proxy

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"os"
	"sync"
	"time"

	"pinboard"
	"pinboard/internal/directory"
)

// A next says what becomes of a connection behind an exchange.
type next uint8

const (
	again    next = iota // another exchange
	outside              // the exchange goes on, outside the poller
	hangUp               // a close at once
	partWell             // a close in stages: the client is owed the end of what it was sent
	passedOn             // other goroutines have taken over: the exchange is no longer the caller's
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
	curtailed  bool               // not all of a request reached its worker

	mu      sync.Mutex
	phase   phase
	since   time.Time // start of an idle phase
	up      *upstream // of the exchange under way
	headBy  time.Time // the worker's head is due; zero: no limit
	watch   directory.Watch
	checked time.Time // when watch was last read
	seq     uint64    // exchanges begun
	fin     bool      // the client has sent its FIN
	reread  bool      // the wait that fin ended has been made good
	sent    bool      // the request of the exchange is complete
	over    bool      // its upload's goroutine has ended
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
		case c.x != nil && c.x.timed && c.cause() == uncut:
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

const (
	lingerSilence = 2 * time.Second
	lingerTotal   = 10 * time.Second
)

// linger closes in stages: our FIN, then whatever the client still sends is
// read and dropped, so that no reset overtakes the answer (RFC 9112 9.6). The
// client of a curtailed request gets the reset in the end: nobody has the rest.
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
		if err := c.fill(); err != nil || !time.Now().Before(end) {
			break
		}
	}
	if c.curtailed && allAcknowledged(c.nc) {
		c.reset()
	}
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
		up.shut()
	}
	_ = c.nc.Close()
}
