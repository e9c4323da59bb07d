package proxy

import (
	"errors"
	"io"
	"net"
	"os"
	"syscall"
	"time"

	"pinboard/internal/rawsock"
)

// errStale reports that a pooled connection was closed, or spoke, before one
// byte of a request was written to it: another one may be used.
var errStale = errors.New("connection closed while idle")

// past wakes whatever waits for a connection.
var past = time.Unix(1, 0)

// A socket reads a connection through the runtime's poller without holding a
// buffer while it waits: the block is taken when the kernel has bytes and given
// back when all of them are consumed. One goroutine reads at a time.
type socket struct {
	nc   net.Conn
	raw  syscall.RawConn // nil when nc is no plain socket (TLS): reads then hold a block
	size int             // of the first block

	block []byte
	r, w  int // block[r:w] is read and not consumed

	step  func(fd uintptr) bool // s.poll, bound once
	stage pollStage
	serve func() (leave bool) // what pollServe runs when bytes have come
	err   error               // of the reader

	put  func(fd uintptr) bool // writes out, bound once
	out  []byte                // what is being written; the writer's, as what follows
	sent int
	werr error
}

type pollStage uint8

const (
	pollRead  pollStage = iota // read until something comes
	pollWrite                  // look for a close, write out, return
	pollAsk                    // look for a close, write out, then read
	pollServe                  // read, serve, and again until serve leaves
)

func (s *socket) init(nc net.Conn, size int) {
	s.nc, s.size, s.raw = nc, size, rawsock.Of(nc)
	s.step, s.put = s.poll, rawsock.WriteAll(&s.out, &s.werr)
}

// unread is what was read and not consumed.
func (s *socket) unread() []byte { return s.block[s.r:s.w] }

// consume drops n unread bytes; an empty socket gives its block back.
func (s *socket) consume(n int) {
	if s.r += n; s.r == s.w {
		s.release()
	}
}

func (s *socket) release() {
	if s.block != nil {
		giveBlock(s.block)
		s.block, s.r, s.w = nil, 0, 0
	}
}

// slim moves few unread bytes out of a block that may have to wait for long.
func (s *socket) slim() {
	if n := s.w - s.r; n > 0 && n <= slimmest && len(s.block) > slimmest {
		b := make([]byte, n)
		copy(b, s.unread())
		giveBlock(s.block)
		s.block, s.r, s.w = b, 0, n
	}
}

// slimmest is what a stalled upload may hold instead of a block.
const slimmest = 512

// room makes space behind the unread bytes; they move only if they must.
func (s *socket) room() {
	switch {
	case s.block == nil:
		s.block = takeBlock(s.size)
	case s.w < len(s.block):
	case s.r > 0:
		s.w = copy(s.block, s.block[s.r:s.w])
		s.r = 0
	default:
		b := takeBlock(min(max(4*len(s.block), s.size), headBlock))
		s.w = copy(b, s.block[:s.w])
		giveBlock(s.block)
		s.block = b
	}
}

// fill waits for more bytes. io.EOF is the peer's FIN.
func (s *socket) fill() error {
	if s.raw == nil {
		return s.fillBlocking()
	}
	s.stage = pollRead
	if err := s.raw.Read(s.step); err != nil {
		return err
	}
	return s.err
}

// visit calls serve each time more bytes have come, until it leaves. The whole
// of it is one visit to the poller: behind a read that emptied the socket it
// waits for the next edge without a read that would find nothing. Inside serve
// the socket may be written to and interrupted, but neither read nor closed.
func (s *socket) visit() error {
	if s.raw != nil {
		s.stage = pollServe
		if err := s.raw.Read(s.step); err != nil {
			return err
		}
		return s.err
	}
	for {
		if err := s.fillBlocking(); err != nil || s.serve() {
			return err
		}
	}
}

func (s *socket) fillBlocking() error {
	s.room()
	n, err := s.nc.Read(s.block[s.w:])
	if s.w += n; n > 0 {
		return nil
	}
	if s.r == s.w {
		s.release()
	}
	return err
}

// write sends out after making sure that the peer has neither closed nor
// spoken: errStale and sent 0 when it has. With ask it goes on to wait for the
// first bytes of the answer: look, write and wait are one visit to the poller,
// which saves the read that would find nothing yet.
func (s *socket) write(out []byte, ask bool) (sent int, err error) {
	if s.raw == nil {
		if sent, err = s.nc.Write(out); err == nil && ask {
			err = s.fillBlocking()
		}
		return sent, err
	}
	s.stage, s.out, s.sent, s.err = pollWrite, out, 0, nil
	if ask {
		s.stage = pollAsk
	}
	err = s.raw.Read(s.step)
	sent, s.out = s.sent, nil
	if err == nil {
		err = s.err
	}
	if err == nil && sent < len(out) {
		n, err := s.send(out[sent:])
		if sent += n; err != nil || !ask {
			return sent, err
		}
		return sent, s.fill()
	}
	return sent, err
}

// send writes all of b, as Write of a net.Conn does.
func (s *socket) send(b []byte) (n int, err error) {
	if s.raw == nil {
		return s.nc.Write(b)
	}
	s.out, s.werr = b, nil
	if err = s.raw.Write(s.put); err == nil {
		err = s.werr
	}
	n, s.out = len(b)-len(s.out), nil
	return n, err
}

// poll runs inside the poller's read loop: false waits for the next edge. It
// may wait without having read when an earlier read of the same visit found the
// socket empty, because the visit keeps every edge that came since.
func (s *socket) poll(fd uintptr) (leave bool) {
	switch s.stage {
	case pollWrite, pollAsk:
		return s.pollWrite(fd)
	case pollServe:
		return s.pollServe(fd)
	}
	return s.take(fd)
}

// pollWrite looks for a close, then writes out.
func (s *socket) pollWrite(fd uintptr) (leave bool) {
	var one [1]byte
	if n, err := rawsock.Read(fd, one[:]); err != syscall.EAGAIN || n > 0 {
		s.err = errStale
		return true
	}
	s.sent, s.err = rawsock.Write(fd, s.out)
	if s.err == syscall.EAGAIN {
		s.err = nil
	}
	if s.err != nil || s.sent < len(s.out) || s.stage == pollWrite {
		return true
	}
	s.stage = pollRead
	return false
}

// pollServe reads and serves. A read that left room in the block has emptied
// the socket of bytes, not of a FIN: of that the watcher tells.
func (s *socket) pollServe(fd uintptr) (leave bool) {
	for {
		if !s.take(fd) {
			return false
		}
		empty := s.w < len(s.block)
		if s.err != nil || s.serve() {
			return true
		}
		if empty {
			return false
		}
	}
}

// take reads once: false when there is nothing yet.
func (s *socket) take(fd uintptr) (got bool) {
	s.room()
	n, err := rawsock.Read(fd, s.block[s.w:])
	switch {
	case n > 0:
		s.w += n
		s.err = nil
		return true
	case err == syscall.EAGAIN:
		if s.r == s.w {
			s.release()
		}
		return false
	case err == nil:
		err = io.EOF
	}
	if s.r == s.w {
		s.release()
	}
	s.err = err
	return true
}

// closeWrite sends our FIN.
func (s *socket) closeWrite() {
	if c, ok := s.nc.(interface{ CloseWrite() error }); ok {
		_ = c.CloseWrite()
	}
}

// reset makes the coming close a RST: the peer must not take what it has read
// for complete.
func (s *socket) reset() {
	if c, ok := s.nc.(*net.TCPConn); ok {
		_ = c.SetLinger(0)
	}
}

// isEOF reports a FIN, as opposed to a reset or an interruption.
func isEOF(err error) bool { return err == io.EOF }

func isTimeout(err error) bool { return errors.Is(err, os.ErrDeadlineExceeded) }
