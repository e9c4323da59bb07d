package rawtest

import (
	"fmt"
	"net/http"
	"strings"
	"time"
)

// A Conn is one connection to a Worker, as its Script sees it.
type Conn struct {
	N        int           // ordinal of the connection, from 1
	Patience time.Duration // bound of each read; Patience of the package unless set

	worker *Worker
	wire   wire
	last   *Message
}

// Request reads the next request, head and body. False if the peer ended or
// stayed silent; a request cut inside its body is recorded as incomplete.
func (c *Conn) Request() (Message, bool) {
	if _, ok := c.Head(); !ok {
		return Message{}, false
	}
	m := c.Body()
	return m, m.Complete
}

// Head reads the next request only through its blank line; Body reads the
// remainder. It counts as a delivery.
func (c *Conn) Head() (Message, bool) {
	for {
		m := readHead(&c.wire, time.Now().Add(c.Patience))
		if m.End != Alive {
			return m, false
		}
		if answer, ok := c.worker.challenged(m); ok {
			c.Write(answer)
			continue
		}
		w := c.worker
		w.mu.Lock()
		defer w.mu.Unlock()
		c.last = &m
		w.requests = append(w.requests, c.last)
		w.changed.Broadcast()
		return m, true
	}
}

// Body reads what belongs to the last Head and returns the whole request.
func (c *Conn) Body() Message {
	m := *c.last
	f, n := requestFraming(m)
	readBody(&c.wire, &m, f, n, time.Now().Add(c.Patience))
	c.worker.mu.Lock()
	defer c.worker.mu.Unlock()
	*c.last = m
	return m
}

// Read reads exactly n bytes, fewer if the peer ends first.
func (c *Conn) Read(n int) ([]byte, End) { return c.wire.take(n, time.Now().Add(c.Patience)) }

// Rest reads until the peer ends, or d passes.
func (c *Conn) Rest(d time.Duration) ([]byte, End) { return c.wire.rest(time.Now().Add(d)) }

// AwaitEnd waits until the peer ends its side, dropping what it sends; Quiet
// if it does not within d.
func (c *Conn) AwaitEnd(d time.Duration) End {
	_, end := c.wire.rest(time.Now().Add(d))
	return end
}

// Stall holds the connection open without reading until the test ends.
func (c *Conn) Stall() {
	c.worker.mu.Lock()
	defer c.worker.mu.Unlock()
	for !c.worker.done {
		c.worker.changed.Wait()
	}
}

// Write sends s at once; false if the peer is gone.
func (c *Conn) Write(s string) bool {
	_, err := c.wire.conn.Write([]byte(s))
	return err == nil
}

// Pieces sends each piece in a write of its own, pause between them.
func (c *Conn) Pieces(pause time.Duration, pieces ...string) bool {
	return writePieces(c.Write, pause, pieces)
}

// Close ends the connection with FIN (and RST if something was left unread).
func (c *Conn) Close() { c.wire.conn.Close() }

// HalfClose sends FIN and keeps reading.
func (c *Conn) HalfClose() { closeWrite(c.wire.conn) }

// RST resets the connection.
func (c *Conn) RST() { reset(c.wire.conn) }

func writePieces(write func(string) bool, pause time.Duration, pieces []string) bool {
	for i, p := range pieces {
		if i > 0 {
			time.Sleep(pause)
		}
		if !write(p) {
			return false
		}
	}
	return true
}

// Response is the text of a response with a Content-Length; fields are whole
// lines without CRLF.
func Response(status int, body string, fields ...string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "HTTP/1.1 %d %s\r\n", status, http.StatusText(status))
	for _, f := range fields {
		b.WriteString(f + "\r\n")
	}
	fmt.Fprintf(&b, "Content-Length: %d\r\n\r\n%s", len(body), body)
	return b.String()
}

// Always answers every request on every connection with the same bytes and
// keeps the connection.
func Always(answer string) Script {
	return func(c *Conn) {
		for {
			if _, ok := c.Request(); !ok || !c.Write(answer) {
				return
			}
		}
	}
}

// Each answers the requests of each connection in turn and then closes it.
func Each(answers ...string) Script {
	return func(c *Conn) {
		for _, a := range answers {
			if _, ok := c.Request(); !ok || !c.Write(a) {
				return
			}
		}
	}
}

// PerConn plays the nth script on the nth connection and the last one on all
// that follow.
func PerConn(scripts ...Script) Script {
	return func(c *Conn) { scripts[min(c.N, len(scripts))-1](c) }
}
