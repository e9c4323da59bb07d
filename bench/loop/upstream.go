package main

import (
	"time"

	"golang.org/x/sys/unix"

	"pinboard"
	"pinboard/internal/h1"
)

const (
	poolIdle       = 4 * time.Second
	connectTimeout = 2 * time.Second
	userTimeout    = 5 * time.Second // F1
	maxInterim     = 100
)

// An upstream is one connection to a worker: of one exchange, or idle.
type upstream struct {
	l        *loop
	k        *worker
	fd       int
	x        *exchange
	dialling bool
	readable bool
	fin      bool
	gone     bool
	since    time.Time // when it was dialled or given back
	scan     h1.Scan
	rest     []byte // read, of a head or trailers not yet whole
	out      []byte // of the request, not yet taken by the kernel
}

func (l *loop) dial(k *worker) (*upstream, error) {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	_ = unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, int(userTimeout.Milliseconds()))
	if err = noDelay(fd); err == nil {
		err = unix.Connect(fd, &k.to)
	}
	if err != nil && err != unix.EINPROGRESS {
		_ = unix.Close(fd)
		return nil, err
	}
	u := &upstream{l: l, k: k, fd: fd, dialling: true, since: l.now}
	l.watch(fd, u)
	return u, nil
}

// ready implements file.
func (u *upstream) ready(events uint32) {
	if u.dialling {
		u.dialled(events)
		return
	}
	if events&unix.EPOLLRDHUP != 0 {
		u.fin = true
	}
	if events&(unix.EPOLLIN|unix.EPOLLRDHUP|unix.EPOLLHUP|unix.EPOLLERR) != 0 {
		u.readable = true
		if u.x == nil {
			u.close()
			return
		}
	}
	if u.x != nil && len(u.out) > 0 && !u.write(u.out) {
		return
	}
	if u.readable {
		u.pump()
	}
}

func (u *upstream) dialled(events uint32) {
	switch {
	case events&(unix.EPOLLERR|unix.EPOLLHUP) != 0:
		u.x.refuse(pinboard.WorkerUnreachable)
	case events&unix.EPOLLOUT != 0:
		u.dialling = false
		u.carry(u.x)
	}
}

// spoken reports whether an idle connection was closed, or spoke.
func (u *upstream) spoken() bool {
	var one [1]byte
	n, err := read(u.fd, one[:])
	return err != unix.EAGAIN || n > 0
}

// carry sends x's request.
func (u *upstream) carry(x *exchange) {
	u.x, x.up, u.scan = x, u, h1.Scan{}
	if time.Since(x.sent) > resolveAge {
		x.refuse(pinboard.ResolveTooSlow)
		return
	}
	u.write(x.appendRequest(u.l.out[:0]))
}

// write keeps what the kernel does not take; false when the exchange is over.
func (u *upstream) write(b []byte) bool {
	n, err := write(u.fd, b)
	if err != nil && err != unix.EAGAIN {
		u.x.refuse(pinboard.WorkerBroken)
		return false
	}
	if n < len(b) {
		u.out = append([]byte(nil), b[n:]...)
	} else {
		u.out = nil
	}
	return true
}

// pump reads what there is, a few blocks per round, and none while the client
// has yet to take what it was sent.
func (u *upstream) pump() {
	for reads := 0; u.readable && !u.gone && u.x != nil && len(u.x.c.out) == 0; reads++ {
		if reads == burst {
			u.l.again = append(u.l.again, u)
			return
		}
		had := copy(u.l.in, u.rest)
		n, err := read(u.fd, u.l.in[had:])
		switch {
		case err == unix.EAGAIN:
			u.readable = false
			return
		case n <= 0:
			u.ended(err == nil)
			return
		}
		u.readable = had+n == len(u.l.in) || u.fin
		u.x.heard = u.l.now
		u.rest = u.rest[:0]
		u.feed(u.l.in[:had+n])
	}
}

// ended: the worker has closed.
func (u *upstream) ended(clean bool) {
	x := u.x
	switch {
	case !x.begun:
		x.refuse(pinboard.WorkerBroken)
	case clean && x.body.Framing == h1.UntilClose:
		u.close()
		x.served(true)
	default:
		x.refuse(pinboard.WorkerBroken)
	}
}

// feed takes b of the answer.
func (u *upstream) feed(b []byte) {
	x := u.x
	for !x.begun {
		n, ok := u.scan.Find(b)
		switch {
		case !ok || n > h1.MaxHead || n == 0 && len(b) >= h1.MaxHead:
			x.refuse(pinboard.WorkerInvalid)
			return
		case n == 0:
			u.rest = append(u.rest, b...)
			return
		}
		if !h1.ParseResponse(b[:n], x.method == "HEAD", &x.res) || x.res.Status == 101 || x.interim > maxInterim {
			x.refuse(pinboard.WorkerInvalid)
			return
		}
		head := b[:n]
		b = b[n:]
		if x.res.Interim() {
			x.interim++
			u.scan = h1.Scan{}
			if x.req.Minor == 1 {
				x.c.send(x.appendInterim(u.l.out[:0], head))
			}
			continue
		}
		if x.res.Status == 503 && x.res.Has.Has(h1.Refusal) {
			x.refuse(pinboard.WorkerRefused)
			return
		}
		x.begun = true
		x.body = h1.NewBody(x.res.Body, x.res.ContentLength)
		plain := x.req.Minor == 0 && x.res.Body == h1.Chunked
		if plain { // the proxy removes the chunks for HTTP/1.0
			x.begun = false
			x.refuse(pinboard.Unimplemented)
			return
		}
		closing := x.req.Close || x.res.Body == h1.UntilClose
		u.relay(x.appendAnswer(u.l.out[:0], head, closing, plain), b)
		return
	}
	u.relay(nil, b)
}

// relay passes on the head, if it is still to be sent, and what b holds of the
// body, in one write.
func (u *upstream) relay(head, b []byte) {
	x := u.x
	pass, ok := x.body.Take(b)
	b = b[len(pass):]
	if ok && x.body.AtLast() {
		last, n, whole := x.body.TakeLast(b, nil)
		if ok = whole; n > 0 {
			head, pass, b = append(append(head, pass...), last...), nil, b[n:]
		}
	}
	if ok && x.body.Framing == h1.Chunked && !x.body.Ended() {
		u.rest = append(u.rest, b...)
		b = nil
	}
	if len(head) > 0 {
		pass = append(head, pass...)
	}
	if len(pass) > 0 {
		x.c.send(pass)
	}
	switch {
	case !ok:
		x.refuse(pinboard.WorkerInvalid)
	case x.body.Ended():
		closing := x.req.Close || x.res.Body == h1.UntilClose
		if len(b) == 0 && !x.res.Close && !u.fin && len(u.out) == 0 {
			u.give()
		} else {
			u.close()
		}
		x.served(closing)
	}
}

// give keeps u for the next exchange.
func (u *upstream) give() {
	u.x.up, u.x = nil, nil
	u.since, u.rest = u.l.now, nil
	u.k.idle = append(u.k.idle, u)
}

// close ends u, wherever it is held.
func (u *upstream) close() {
	if u.gone {
		return
	}
	u.gone = true
	if u.x != nil {
		u.x.up, u.x = nil, nil
	} else {
		for i, v := range u.k.idle {
			if v == u {
				u.k.idle = append(u.k.idle[:i], u.k.idle[i+1:]...)
				break
			}
		}
	}
	u.l.close(u.fd)
}

func (u *upstream) sweep(now time.Time) {
	switch age := now.Sub(u.since); {
	case u.x == nil && age > poolIdle:
		u.close()
	case u.dialling && age > connectTimeout:
		u.x.refuse(pinboard.WorkerUnreachable)
	}
}
