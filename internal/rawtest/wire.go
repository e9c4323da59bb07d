package rawtest

import (
	"bytes"
	"errors"
	"io"
	"net"
	"os"
	"time"
)

// End says how a peer's sending side stood when a read stopped.
type End string

const (
	Alive End = "alive" // nothing wrong: the read got what it wanted
	Quiet End = "quiet" // still open when the deadline passed
	FIN   End = "fin"   // the peer finished sending
	RST   End = "rst"   // the peer reset the connection
)

// wire reads from a connection and keeps what nobody asked for yet.
type wire struct {
	conn net.Conn
	buf  []byte
}

func (w *wire) more(deadline time.Time) End {
	w.conn.SetReadDeadline(deadline)
	var b [32 << 10]byte
	n, err := w.conn.Read(b[:])
	w.buf = append(w.buf, b[:n]...)
	switch {
	case n > 0 || err == nil:
		return Alive
	case errors.Is(err, io.EOF):
		return FIN
	case errors.Is(err, os.ErrDeadlineExceeded):
		return Quiet
	}
	return RST
}

func (w *wire) cut(n int) []byte {
	b := bytes.Clone(w.buf[:n])
	w.buf = w.buf[n:]
	return b
}

// through reads up to and including delim; whatever came if it never does.
func (w *wire) through(delim string, deadline time.Time) ([]byte, End) {
	for {
		if i := bytes.Index(w.buf, []byte(delim)); i >= 0 {
			return w.cut(i + len(delim)), Alive
		}
		if end := w.more(deadline); end != Alive {
			return w.cut(len(w.buf)), end
		}
	}
}

// take reads n bytes; fewer with the reason why.
func (w *wire) take(n int, deadline time.Time) ([]byte, End) {
	for len(w.buf) < n {
		if end := w.more(deadline); end != Alive {
			return w.cut(len(w.buf)), end
		}
	}
	return w.cut(n), Alive
}

// rest reads until the peer ends or the deadline passes.
func (w *wire) rest(deadline time.Time) ([]byte, End) {
	for {
		if end := w.more(deadline); end != Alive {
			return w.cut(len(w.buf)), end
		}
	}
}

// reset ends a connection with RST instead of FIN.
func reset(c net.Conn) {
	if t, ok := c.(*net.TCPConn); ok {
		t.SetLinger(0)
	}
	c.Close()
}

func closeWrite(c net.Conn) {
	if t, ok := c.(*net.TCPConn); ok {
		t.CloseWrite()
	}
}
