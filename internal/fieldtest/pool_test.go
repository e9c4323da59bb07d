package fieldtest

import (
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"pinboard/internal/rawtest"
)

// FC-16 (a): a worker that closes a millisecond after each reply, without a
// word: of 1,000 POSTs none fails.
func TestFC16ClosingAfterEachReplyCostsNothing(t *testing.T) {
	t.Parallel()
	n := start(t)
	var failures, late atomic.Int64
	w := n.worker(func(c *rawtest.Conn) {
		if _, ok := c.Request(); ok {
			begun := time.Now()
			c.Write(rawtest.Response(200, "ok"))
			time.Sleep(time.Millisecond)
			c.Close()
			if time.Since(begun) > 4*time.Millisecond {
				late.Add(1)
			}
		}
	})
	const clients, each = 4, 250
	var wg sync.WaitGroup
	for i := range clients {
		wg.Go(func() {
			c := n.dial()
			for j := range each {
				c.Write(post("/t/a", "hi"))
				if m := c.Final("POST"); m.Status() != 200 {
					failures.Add(1)
					if m.End != rawtest.Alive {
						c = n.dial()
					}
				}
				// The next request comes around the time of the close.
				time.Sleep(time.Duration((i+j)%5) * 500 * time.Microsecond)
			}
		})
	}
	wg.Wait()
	// Where the machine held the worker back it did not close after a
	// millisecond, and a request may have met the close.
	if f := failures.Load(); f > late.Load() {
		t.Errorf("%d of %d POSTs failed, the worker closed late %d times", f, clients*each, late.Load())
	}
	if got := int64(len(w.got())); got > clients*each || got < clients*each-failures.Load() {
		t.Errorf("%d POSTs arrived, %d were sent", got, clients*each)
	}
}

// FC-16 (b): clients whose period is the worker's idle limit. Pinboard's own
// limit is shorter, so the worker never closes first.
func TestFC16IdleLimitStaysBelowTheWorkers(t *testing.T) {
	t.Parallel()
	const limit = 1200 * time.Millisecond
	n := start(t, "PINBOARD_POOL_IDLE_MS=700")
	var closedFirst atomic.Int64
	n.worker(func(c *rawtest.Conn) {
		c.Patience = limit
		for served := false; ; served = true {
			m, ok := c.Request()
			if !ok {
				if served && m.End == rawtest.Quiet {
					closedFirst.Add(1)
				}
				return
			}
			c.Write(rawtest.Response(200, "ok"))
		}
	})
	var wg sync.WaitGroup
	for i := range 16 {
		wg.Go(func() {
			c := n.dial()
			for range 4 {
				c.Write(post("/t/a", "hi"))
				if m := c.Final("POST"); m.Status() != 200 {
					t.Errorf("%q, %v", m.Raw, m.End)
				}
				time.Sleep(limit + time.Duration(i-8)*10*time.Millisecond)
			}
		})
	}
	wg.Wait()
	if closedFirst.Load() > 0 {
		t.Errorf("%d connections lay idle for the worker's %v", closedFirst.Load(), limit)
	}
}

// FC-16 (c): a worker that closes with the new request unread in its buffer
// may have seen it: 502, and no second delivery.
func TestFC16UnreadIsNotUnsent(t *testing.T) {
	t.Parallel()
	n := start(t)
	reset := make(chan struct{})
	w := n.worker(func(c *rawtest.Conn) {
		if _, ok := c.Request(); ok {
			c.Write(rawtest.Response(200, "ok"))
			<-reset
			c.RST()
		}
	})
	defer close(reset)
	c := n.dial()
	for i := range 5 {
		c.Write(post("/t/a", "hi"))
		if m := c.Final("POST"); m.Status() != 200 {
			t.Fatalf("%q", m.Raw)
		}
		before := len(w.got())
		time.Sleep(50 * time.Millisecond)
		c.Write(post("/t/a", "hi"))
		time.Sleep(300 * time.Millisecond) // it lies in the worker's buffer now
		reset <- struct{}{}
		if m := c.Final("POST"); !ours(m, 502, "worker_broken") {
			t.Errorf("trial %d: %q", i, m.Raw)
		}
		if len(w.got()) != before {
			t.Errorf("trial %d: delivered again", i)
		}
	}
}

// FC-17: a worker that dies on a request it has read whole gets it once.
func TestFC17NothingIsSentTwice(t *testing.T) {
	t.Parallel()
	n := start(t)
	w := n.worker(func(c *rawtest.Conn) {
		for {
			m, ok := c.Request()
			if !ok || strings.HasSuffix(m.Target(), "/die") {
				return
			}
			c.Write(rawtest.Response(200, "ok"))
		}
	})
	const key = "Idempotency-Key: k-1"
	for name, request := range map[string]string{
		"GET":                  get("/t/a/die"),
		"HEAD":                 ask("HEAD", "/t/a/die"),
		"DELETE":               ask("DELETE", "/t/a/die"),
		"OPTIONS":              ask("OPTIONS", "/t/a/die"),
		"PUT with a body":      strings.Replace(post("/t/a/die", "hi"), "POST", "PUT", 1),
		"POST empty":           post("/t/a/die", ""),
		"POST empty and keyed": ask("POST", "/t/a/die", "Content-Length: 0", key),
		"POST body and keyed":  ask("POST", "/t/a/die", "Content-Length: 2", key) + "hi",
		"upgrade":              strings.Replace(handshake, "/t/a/ws", "/t/a/die", 1),
	} {
		c := n.dial()
		c.Write(get("/t/a/warm")) // the connection to the worker is a used one
		c.Final("GET")
		before := len(w.got())
		c.Write(request)
		if m := c.Response(strings.Fields(request)[0]); !ours(m, 502, "worker_broken") {
			t.Errorf("%s: %q, %v", name, m.Raw, m.End)
		}
		if d := len(w.got()) - before; d != 1 {
			t.Errorf("%s: delivered %d times", name, d)
		}
	}
}

// FC-20: the client that holds its body back hears the worker's word, not ours.
func TestFC20TheContinueIsTheWorkers(t *testing.T) {
	t.Parallel()
	n := start(t)
	const hold = "Expect: 100-continue"
	w := n.worker(func(c *rawtest.Conn) {
		for {
			m, ok := c.Head()
			if !ok {
				return
			}
			switch {
			case strings.HasSuffix(m.Target(), "/invite"):
				time.Sleep(200 * time.Millisecond)
				c.Write("HTTP/1.1 100 Continue\r\n\r\n")
			case strings.HasSuffix(m.Target(), "/deny"):
				c.Write(rawtest.Response(401, "no"))
				c.AwaitEnd(patience) // a body may or may not come
				return
			case strings.HasSuffix(m.Target(), "/unmet"):
				c.Write(rawtest.Response(417, ""))
				continue
			}
			m = c.Body()
			c.Write(rawtest.Response(200, string(m.Body)))
		}
	})
	t.Run("invited after 200 ms", func(t *testing.T) {
		c := n.dial()
		c.Write(ask("POST", "/t/a/invite", hold, "Content-Length: 5"))
		if !c.Silent(100 * time.Millisecond) {
			t.Fatal("somebody invited before the worker did")
		}
		if m := c.Response("POST"); m.Status() != 100 {
			t.Fatalf("%q", m.Raw)
		}
		c.Write("hello")
		if m := c.Response("POST"); m.Status() != 200 || string(m.Body) != "hello" {
			t.Errorf("%q", m.Raw)
		}
		c.Write(get("/t/a/next"))
		if m := c.Response("GET"); m.Status() != 200 {
			t.Errorf("next on the connection: %q", m.Raw)
		}
	})
	t.Run("denied, 100 times, among others", func(t *testing.T) {
		stop := make(chan struct{})
		var wg sync.WaitGroup
		for i := range 2 {
			wg.Go(func() {
				c := n.dial()
				for {
					select {
					case <-stop:
						return
					default:
					}
					c.Write(get(fmt.Sprintf("/t/other%d", i)))
					if m := c.Final("GET"); m.Status() != 200 {
						t.Errorf("another client: %q, %v", m.Raw, m.End)
						return
					}
					time.Sleep(2 * time.Millisecond)
				}
			})
		}
		for range 100 {
			c := n.dial()
			c.Write(ask("POST", "/t/a/deny", hold, "Content-Length: 5"))
			if m := c.Response("POST"); m.Status() != 401 || string(m.Body) != "no" {
				t.Errorf("%q", m.Raw)
			}
			c.Close()
		}
		close(stop)
		wg.Wait()
	})
	t.Run("does not wait", func(t *testing.T) {
		if m := n.do(ask("POST", "/t/a", hold, "Content-Length: 5") + "hello"); m.Status() != 200 || string(m.Body) != "hello" {
			t.Errorf("%q", m.Raw)
		}
	})
	t.Run("never invited, sends after a while", func(t *testing.T) {
		c := n.dial()
		c.Write(ask("POST", "/t/a", hold, "Content-Length: 5"))
		if !c.Silent(100 * time.Millisecond) {
			t.Fatal("an invitation nobody wrote")
		}
		c.Write("hello")
		if m := c.Response("POST"); m.Status() != 200 || string(m.Body) != "hello" {
			t.Errorf("%q", m.Raw)
		}
	})
	t.Run("another expectation", func(t *testing.T) {
		if m := n.do(ask("POST", "/t/a/unmet", "Expect: 200-ok", "Content-Length: 0")); m.Status() != 417 {
			t.Errorf("%q", m.Raw)
		}
	})
	t.Run("HTTP/1.0", func(t *testing.T) {
		c := n.dial()
		c.Write(strings.Replace(ask("POST", "/t/a", hold, "Content-Length: 5"), "HTTP/1.1", "HTTP/1.0", 1) + "hello")
		if m := c.Response("POST"); m.Status() != 200 || string(m.Body) != "hello" {
			t.Errorf("%q", m.Raw)
		}
		if w.last().Has("Expect") {
			t.Errorf("the worker got %q", w.last().Head)
		}
	})
}
