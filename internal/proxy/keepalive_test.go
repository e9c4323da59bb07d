package proxy_test

import (
	"bufio"
	"io"
	"net"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"pinboard/internal/proxy"
)

// numbered answers requests with the number of their connection, and closes one
// that has been idle for limit; fields go with each answer.
func numbered(limit *atomic.Int64, fields string) script {
	var last atomic.Int64
	return func(s *scripted, c net.Conn, r *bufio.Reader) {
		n := strconv.FormatInt(last.Add(1), 10)
		for {
			if by := limit.Load(); by > 0 && len(s.deliveries()) > 0 {
				c.SetReadDeadline(time.Now().Add(time.Duration(by)))
			}
			if _, ok := s.receive(r); !ok {
				return
			}
			io.WriteString(c, "HTTP/1.1 200 OK\r\n"+fields+"Content-Length: "+strconv.Itoa(len(n))+"\r\n\r\n"+n)
		}
	}
}

// After one close that came from idleness no request meets the next one: a
// connection rests unused from three quarters of that time on.
func TestIdleLimitIsLearnedFromCloses(t *testing.T) {
	t.Parallel()
	const limit = 800 * time.Millisecond
	var closes atomic.Int64
	w := newWorld(t)
	s := newScripted(t, numbered(&closes, ""))
	w.dir.place(s.Worker)
	w.prove()
	closes.Store(int64(limit))
	w.ask(withBody)
	w.eventually("the worker closes what is idle", func() bool { return s.connections() == 0 })
	c := w.dial()
	ask := func() string {
		c.send(withBody)
		return c.answer().body
	}
	first := ask()
	time.Sleep(proven)
	if again := ask(); again != first {
		t.Errorf("connection %s, want %s: it is young", again, first)
	}
	time.Sleep(limit * 7 / 8)
	if late := ask(); late == first || late == "" {
		t.Errorf("connection %s was used right before its worker closes it", late)
	}
}

func TestIdleLimitIsReadFromHints(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := newScripted(t, numbered(new(atomic.Int64), "Keep-Alive: max=9, timeout=1\r\n"))
	w.dir.place(s.Worker)
	w.prove()
	c := w.dial()
	ask := func() string {
		c.send(withBody)
		return c.answer().body
	}
	first := ask()
	if again := ask(); again != first {
		t.Errorf("connection %s, want %s: it is young", again, first)
	}
	time.Sleep(850 * time.Millisecond)
	if late := ask(); late == first {
		t.Error("a connection was used right before its worker closes it, as it says")
	}
	w.dir.place(newScripted(t, numbered(new(atomic.Int64), "Keep-Alive: timeout=0\r\n")).Worker)
	if a := ask(); a != "1" {
		t.Fatal(a)
	}
	time.Sleep(proven)
	if b := ask(); b != "2" {
		t.Errorf("connection %s: the worker keeps none", b)
	}
}

// A limit that no longer holds is forgotten: a worker that was restarted or
// closed its connections for another reason gets them used again.
func TestIdleLimitIsForgotten(t *testing.T) {
	t.Parallel()
	var closes atomic.Int64
	w := newWorld(t, func(c *proxy.Config) { c.PoolIdle = time.Second })
	s := newScripted(t, numbered(&closes, ""))
	w.dir.place(s.Worker)
	w.prove()
	closes.Store(int64(200 * time.Millisecond))
	w.ask(withBody)
	w.eventually("the worker closes what is idle", func() bool { return s.connections() == 0 })
	closes.Store(0)
	c := w.dial()
	last := ""
	w.eventually("a connection is used beyond what was learned", func() bool {
		c.send(withBody)
		now := c.answer().body
		same := now == last
		last = now
		time.Sleep(400 * time.Millisecond)
		return same
	})
}
