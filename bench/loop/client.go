package main

import (
	"time"

	"golang.org/x/sys/unix"

	"pinboard"
	"pinboard/internal/h1"
)

// The proxy's defaults.
const (
	headTimeout     = 10 * time.Second
	clientIdle      = 650 * time.Second
	responseTimeout = 300 * time.Second
	halfCloseGrace  = time.Second
	lingerTotal     = 10 * time.Second
)

type phase uint8

const (
	idle phase = iota // or within a head
	exchanging
	flushing // the exchange is over, its answer not yet taken
	closing  // our FIN is out
)

// A client is one client connection. Between heads it holds no buffer.
type client struct {
	l        *loop
	fd       int
	peer     string
	phase    phase
	readable bool // the socket may hold something
	partial  bool // of a head, something has come
	fin      bool
	keep     bool // behind flushing comes another exchange
	since    time.Time
	block    []byte
	r, w     int // block[r:w] is read and not consumed
	scan     h1.Scan
	x        *exchange
	out      []byte // not yet taken by the kernel
}

// ready implements file.
func (c *client) ready(events uint32) {
	if events&(unix.EPOLLERR|unix.EPOLLHUP) != 0 {
		c.gone()
		return
	}
	if events&unix.EPOLLRDHUP != 0 && !c.fin {
		c.fin = true
		if c.x != nil {
			c.x.heard = c.l.now
		}
	}
	if events&(unix.EPOLLIN|unix.EPOLLRDHUP) != 0 {
		c.readable = true
	}
	if events&unix.EPOLLOUT != 0 && len(c.out) > 0 && !c.drain() {
		return
	}
	c.advance()
}

// advance reads as far as the phase allows.
func (c *client) advance() {
	for c.readable && (c.phase == idle || c.phase == closing) {
		switch {
		case c.block == nil:
			c.block, c.r, c.w = c.l.takeBlock(), 0, 0
		case c.phase == closing:
			c.r, c.w = 0, 0
		case c.r > 0:
			c.w = copy(c.block, c.block[c.r:c.w])
			c.r = 0
		case c.w == len(c.block):
			b := make([]byte, min(4*len(c.block), readBlock))
			copy(b, c.block)
			c.l.giveBlock(c.block)
			c.block = b
		}
		n, err := read(c.fd, c.block[c.w:])
		if err == unix.EAGAIN {
			c.readable = false
			c.release()
			return
		}
		if n <= 0 {
			c.gone()
			return
		}
		// What a read leaves room for has emptied the socket (epoll(7)); a FIN
		// behind it is not read yet.
		c.readable = c.w+n == len(c.block) || c.fin
		c.w += n
		if c.phase == idle {
			c.head()
		}
	}
}

// head looks for a whole head in what is unread.
func (c *client) head() {
	b := c.block[c.r:c.w]
	if len(b) >= 2 && b[0] == '\r' && b[1] == '\n' { // RFC 9112 2.2
		c.r += 2
		b = b[2:]
	}
	if len(b) == 0 {
		c.release()
		return
	}
	n, ok := c.scan.Find(b)
	switch {
	case !ok:
		c.reject(pinboard.BadRequest)
	case n > h1.MaxHead || n == 0 && len(b) >= h1.MaxHead:
		c.reject(pinboard.HeadTooLarge)
	case n == 0:
		if !c.partial {
			c.partial, c.since = true, c.l.now // a head in progress is not idle
		}
	default:
		c.phase, c.x = exchanging, c.l.takeExchange()
		c.x.begin(c, b[:n])
	}
}

// reject answers a head that is none.
func (c *client) reject(r *pinboard.Refusal) {
	c.l.set.count(r, 0)
	c.send(appendRefusal(c.l.out[:0], r, 1, false, true))
	c.over(false)
}

// send writes b behind what is still waiting to be written.
func (c *client) send(b []byte) {
	if len(c.out) == 0 {
		n, err := write(c.fd, b)
		if err != nil && err != unix.EAGAIN {
			return // the coming event says so
		}
		b = b[n:]
	}
	if len(b) > 0 {
		c.out = append(c.out, b...)
	}
}

// drain writes what waits; false when the connection is gone.
func (c *client) drain() bool {
	n, err := write(c.fd, c.out)
	if err != nil && err != unix.EAGAIN {
		c.gone()
		return false
	}
	if c.out = c.out[:copy(c.out, c.out[n:])]; len(c.out) > 0 {
		return true
	}
	c.out = nil
	if c.x != nil && c.x.up != nil {
		c.x.up.pump()
	} else if c.phase == flushing {
		c.over(c.keep)
	}
	return c.l.files[c.fd] == c
}

// over ends an exchange: the head is consumed, another may follow.
func (c *client) over(keep bool) {
	c.since, c.scan, c.keep, c.partial = c.l.now, h1.Scan{}, keep, false
	switch {
	case len(c.out) > 0:
		c.phase = flushing
		return
	case !keep:
		_ = unix.Shutdown(c.fd, unix.SHUT_WR)
		c.phase, c.r, c.w = closing, 0, 0
	case c.r < c.w:
		c.phase = idle
		c.head()
	default:
		c.phase = idle
		c.release()
	}
	c.advance()
}

// release gives the block back if nothing is in it.
func (c *client) release() {
	if c.block != nil && c.r == c.w {
		c.l.giveBlock(c.block)
		c.block, c.r, c.w = nil, 0, 0
	}
}

// gone closes the connection and what its exchange holds.
func (c *client) gone() {
	if c.l.files[c.fd] != c {
		return
	}
	c.readable = false
	if c.x != nil {
		c.x.abandon()
	}
	if c.block != nil {
		c.l.giveBlock(c.block)
		c.block = nil
	}
	c.l.close(c.fd)
}

// reset closes without a FIN: the client must not take what it has for whole.
func (c *client) reset() {
	_ = unix.SetsockoptLinger(c.fd, unix.SOL_SOCKET, unix.SO_LINGER, &unix.Linger{Onoff: 1})
	c.gone()
}

func (c *client) sweep(now time.Time) {
	age := now.Sub(c.since)
	switch {
	case c.phase == idle && c.r < c.w && age > headTimeout:
		c.reject(pinboard.RequestTimeout)
	case c.phase == idle && age > clientIdle, c.phase == closing && age > lingerTotal, c.phase == flushing && age > responseTimeout:
		c.gone()
	case c.x != nil:
		c.x.sweep(now)
	}
}
