package proxy

import (
	"time"
)

// tunnelGraces bounds the silence of the other direction after a FIN, in half
// close graces: a peer that ignores it must not hold both connections.
const tunnelGraces = 5

// tunnel passes the 101 and leaves the connection to two goroutines, one for
// each direction: fresh ones, because a stack that has run an exchange is twice
// as large as a parked direction needs. What either side sent early is still
// unread and goes first. Both park in the poller without a block.
func (x *exchange) tunnel() {
	c, u := x.c, x.u
	c.answer(tunnelled)
	x.obs.Status = 101
	x.finishRequest()
	x.leave(u.worker)
	x.become(Tunnel)
	n := x.buildAnswer(false, false)
	u.consume(n)
	if x.flush(nil) != nil {
		c.interrupt(cutClient)
	}
	x.releaseHeads()
	go c.p.attend(c, func() bool { return x.direction(&c.socket, &u.socket, &x.obs.BytesIn, ClientGone, WorkerGone) })
	go c.p.attend(c, func() bool { return x.direction(&u.socket, &c.socket, &x.obs.BytesOut, WorkerGone, ClientGone) })
}

// direction runs one direction; the last one to end ends the exchange.
func (x *exchange) direction(from, to *socket, n *int64, fromGone, toGone End) (over bool) {
	c := x.c
	if last := c.tunnelEnds(c.pipe(from, to, n, fromGone, toGone)); !last {
		return false
	}
	if c.broke != Complete {
		x.obs.End = x.endOf(c.broke)
	}
	c.detach()
	x.u.close()
	x.finish()
	return true
}

// pipe copies until from's FIN, which it passes on, or until an error, which
// it blames on one side.
func (c *conn) pipe(from, to *socket, n *int64, fromGone, toGone End) End {
	for {
		if b := from.unread(); len(b) > 0 {
			m, err := to.send(b)
			*n += int64(m)
			if err != nil {
				return toGone
			}
			from.consume(len(b))
		}
		if err := from.fill(); err != nil {
			if isEOF(err) {
				to.closeWrite()
				return Complete
			}
			return fromGone
		}
		c.tunnelHeard()
	}
}

// tunnelEnds hears of the end of one direction: an error ends the other one,
// too, a FIN lets it go on while it is not silent.
func (c *conn) tunnelEnds(end End) (last bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ended++
	if end != Complete {
		if c.broke == Complete && c.halves == 0 {
			c.broke = end
		}
		if c.up != nil {
			_ = c.up.nc.SetDeadline(past)
		}
		_ = c.nc.SetDeadline(past)
		return c.ended == 2
	}
	c.halves++
	c.tunnelGraceLocked()
	return c.ended == 2
}

// tunnelHeard renews the grace of a tunnel that is half-closed.
func (c *conn) tunnelHeard() {
	c.mu.Lock()
	c.tunnelGraceLocked()
	c.mu.Unlock()
}

func (c *conn) tunnelGraceLocked() {
	if c.halves == 1 && c.why == uncut {
		by := time.Now().Add(tunnelGraces * c.p.cfg.HalfCloseGrace)
		_ = c.up.nc.SetReadDeadline(by)
		_ = c.nc.SetReadDeadline(by)
	}
}
