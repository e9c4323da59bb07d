package proxy

import (
	"math"
	"net"
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
	sent    uint64        // bytes written in its whole life, what the upload wrote not counted
	target  uint64        // what of sent must be acknowledged before its user timeout ends
}

// acknowledged reports whether the worker's kernel has the first n bytes. TLS
// adds bytes of its own, so there only all of them count.
func (u *upstream) acknowledged(n uint64) bool {
	if u.raw == nil {
		n = math.MaxUint64
	}
	return acknowledged(u.tcp, n)
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
	_ = u.nc.Close()
}
