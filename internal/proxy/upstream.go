package proxy

import (
	"net"
	"sync/atomic"
	"time"
)

// An upstream is one connection to a worker, owned by one exchange or by its
// worker's idle list, never by both.
type upstream struct {
	socket
	worker  *worker
	reused  bool
	proving bool          // taken from a worker that has yet to show that it keeps connections
	idle    time.Time     // when it was given back
	age     time.Duration // how long it had been idle when it was taken
	tcp     net.Conn      // nc, or what its TLS runs on
	armed   bool          // TCP_USER_TIMEOUT is set (F1)
	taken   time.Time     // when it was dialled, or taken from the idle ones
	sent    uint64        // bytes written in its whole life; TLS adds some of its own
	target  atomic.Uint64 // what of sent must be acknowledged before the user timeout ends
	p       *Proxy
	id      uint64 // of the watcher
}

// hungUp implements watched. A connection in use finds out by itself.
func (u *upstream) hungUp(bool) {
	if u.worker.ended(u, u.p.cfg.Now()) {
		u.close()
	}
}

// unwritten is the target while the first byte of a request is yet to come.
const unwritten = 0

// acknowledged reports whether the worker's kernel has the request head. With
// TLS bytes cannot be counted: there it must have all that was written.
func (u *upstream) acknowledged() bool {
	switch n := u.target.Load(); {
	case n == unwritten:
		return false
	case u.raw == nil:
		return allAcknowledged(u.tcp)
	default:
		return acknowledged(u.tcp, n)
	}
}

// ask writes a request, or the head of one, unless the worker has closed or
// spoken meanwhile: errStale. TLS is looked beneath, and only once it has
// served: a fresh one may still hold the tickets of its handshake.
func (u *upstream) ask(out []byte, wait bool) (sent int, err error) {
	if u.raw == nil && u.reused && hasSpoken(u.tcp) {
		return 0, errStale
	}
	return u.write(out, wait)
}

func (u *upstream) close() {
	u.release()
	u.shut()
}

// shut closes u and leaves its block alone.
func (u *upstream) shut() {
	u.p.watcher.remove(u.id)
	_ = u.nc.Close()
}
