package rawtest

import (
	"net"
	"strings"
	"testing"
	"time"
)

// A Client is a raw connection to the server under test.
type Client struct {
	// TCP is the connection itself, for what the methods below do not offer.
	TCP      *net.TCPConn
	Patience time.Duration // bound of each read; Patience of the package unless set

	tb   testing.TB
	wire wire
}

// Dial connects to addr (host:port, or a URL of one); closed with the test.
func Dial(tb testing.TB, addr string) *Client {
	tb.Helper()
	addr = strings.TrimSuffix(strings.TrimPrefix(addr, "http://"), "/")
	c, err := net.DialTimeout("tcp", addr, Patience)
	if err != nil {
		tb.Fatalf("rawtest: %v", err)
	}
	tb.Cleanup(func() { c.Close() })
	return &Client{TCP: c.(*net.TCPConn), Patience: Patience, tb: tb, wire: wire{conn: c}}
}

// Do sends one request on a connection of its own and reads the final
// response.
func Do(tb testing.TB, addr, request string) Message {
	tb.Helper()
	c := Dial(tb, addr)
	defer c.Close()
	c.Write(request)
	return c.Final(word(request, 0))
}

// Write sends s at once; false if the server is gone.
func (c *Client) Write(s string) bool {
	_, err := c.TCP.Write([]byte(s))
	return err == nil
}

// Some reads what comes next, whatever its size; what an earlier read took too
// much of comes first.
func (c *Client) Some() ([]byte, End) {
	if len(c.wire.buf) == 0 {
		if end := c.wire.more(time.Now().Add(c.Patience)); end != Alive {
			return nil, end
		}
	}
	return c.wire.cut(len(c.wire.buf)), Alive
}

// Pieces sends each piece in a write of its own, pause between them.
func (c *Client) Pieces(pause time.Duration, pieces ...string) bool {
	return writePieces(c.Write, pause, pieces)
}

// Split sends s in writes cut at the given offsets, pause between them.
func (c *Client) Split(pause time.Duration, s string, at ...int) bool {
	var pieces []string
	from := 0
	for _, i := range append(at, len(s)) {
		pieces, from = append(pieces, s[from:i]), i
	}
	return c.Pieces(pause, pieces...)
}

// Response reads the next response, interim ones included, to a request of
// that method.
func (c *Client) Response(method string) Message {
	deadline := time.Now().Add(c.Patience)
	m := readHead(&c.wire, deadline)
	if m.End != Alive {
		return m
	}
	f, n := responseFraming(m, method)
	readBody(&c.wire, &m, f, n, deadline)
	return m
}

// Final reads responses until one that is not interim; a 101 is final.
func (c *Client) Final(method string) Message {
	for {
		m := c.Response(method)
		if s := m.Status(); s < 100 || s == 101 || s >= 200 || m.End != Alive {
			return m
		}
	}
}

// Head reads a response only through its blank line: what follows is left for
// Read, Through and Rest.
func (c *Client) Head() Message { return readHead(&c.wire, time.Now().Add(c.Patience)) }

// Read reads exactly n bytes, fewer if the server ends first.
func (c *Client) Read(n int) ([]byte, End) { return c.wire.take(n, time.Now().Add(c.Patience)) }

// Through reads up to and including delim.
func (c *Client) Through(delim string) (string, End) {
	b, end := c.wire.through(delim, time.Now().Add(c.Patience))
	return string(b), end
}

// Rest reads until the server ends, or d passes.
func (c *Client) Rest(d time.Duration) ([]byte, End) { return c.wire.rest(time.Now().Add(d)) }

// Silent reports whether nothing at all comes for d.
func (c *Client) Silent(d time.Duration) bool {
	b, end := c.wire.rest(time.Now().Add(d))
	c.wire.buf = append(b, c.wire.buf...)
	return len(b) == 0 && end == Quiet
}

// HalfClose sends FIN and keeps reading.
func (c *Client) HalfClose() { c.TCP.CloseWrite() }

// RST resets the connection.
func (c *Client) RST() { reset(c.TCP) }

// Close ends the connection with FIN (and RST if something was left unread).
func (c *Client) Close() { c.TCP.Close() }
