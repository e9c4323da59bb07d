package proxy_test

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"pinboard/internal/directory"
	"pinboard/internal/ownership"
	"pinboard/internal/proxy"
)

// A steppedClock is the real one and whatever was added to it: a node that
// stood still sees its clock jump.
type steppedClock struct {
	mu     sync.Mutex
	gained time.Duration
	at     func() // runs in front of each reading
}

func (c *steppedClock) now() time.Time {
	c.mu.Lock()
	at := c.at
	c.mu.Unlock()
	if at != nil {
		at()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return time.Now().Add(c.gained)
}

func (c *steppedClock) step(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.gained += d
}

// frozenWorld has a proxy, its directory and its attestations on one clock.
// minted is when each attestation was issued, behind the first warm ones.
func frozenWorld(t *testing.T) (w *world, clock *steppedClock, minted func() []time.Time) {
	clock = &steppedClock{}
	var mu sync.Mutex
	var issued []time.Time
	w = newWorld(t, func(c *proxy.Config) {
		c.Now, c.Lease = clock.now, time.Hour
		c.Mint = func(dst []byte, k *ownership.Worker, _ string, _ int) []byte {
			mu.Lock()
			defer mu.Unlock()
			clock.mu.Lock()
			defer clock.mu.Unlock()
			issued = append(issued, time.Now().Add(clock.gained))
			return fmt.Appendf(dst, "att.%s", k.Session)
		}
	})
	return w, clock, func() []time.Time {
		mu.Lock()
		defer mu.Unlock()
		return issued
	}
}

// F1: a node that stands still between taking a kept connection and writing to
// it resolves again when it goes on, and issues the attestation only then.
func TestAFreezeBeforeTheWriteIsNoticed(t *testing.T) {
	for name, kept := range map[string]bool{"a kept connection": true, "a new connection": false} {
		t.Run(name, func(t *testing.T) {
			w, clock, minted := frozenWorld(t)
			s := newScripted(t, replying(okAnswer))
			var read []time.Time
			w.dir.resolve = func(_ int, r directory.Request) (directory.Placement, error) {
				p := w.dir.placement(s.Worker, r)
				clock.mu.Lock()
				p.Sent = p.Sent.Add(clock.gained)
				clock.mu.Unlock()
				p.Deadline = p.Sent.Add(time.Hour)
				read = append(read, p.Sent)
				return p, nil
			}
			before := 0
			if kept {
				w.prove()
				before = 2
			}
			e := w.errand()
			frozen := false
			e.Composed = func() {
				if !frozen {
					frozen = true
					clock.step(20700 * time.Millisecond)
				}
			}
			if status, refusal, forwards := e.Deliver(t.Context()); status != 200 || forwards != 1 {
				t.Fatalf("status %d, refusal %v, %d forwards", status, refusal, forwards)
			}
			if len(read) != before+2 || len(s.deliveries()) != before+1 {
				t.Errorf("%d resolves, %d deliveries", len(read)-before, len(s.deliveries())-before)
			}
			issued := minted()
			if len(issued) != before+1 || len(read) != before+2 || issued[before].Before(read[before+1]) {
				t.Errorf("attestations issued %v, resolves %v", issued[before:], read[before:])
			}
			if n := s.connections(); kept && n != 1 {
				t.Errorf("%d connections", n)
			}
		})
	}
}

// The same through a client's connection: the clock jumps right in front of
// the last reading before the write.
func TestAFreezeOfAClientsRequestIsNoticed(t *testing.T) {
	w, clock, minted := frozenWorld(t)
	s := newScripted(t, replying(okAnswer))
	w.dir.place(s.Worker)
	w.prove()
	var mu sync.Mutex
	var goroutine string // of the exchange, from its first resolve on
	readings, resolves := 0, 0
	w.dir.resolve = func(_ int, r directory.Request) (directory.Placement, error) {
		mu.Lock()
		defer mu.Unlock()
		resolves++
		goroutine = thisGoroutine()
		p := w.dir.placement(s.Worker, r)
		clock.mu.Lock()
		defer clock.mu.Unlock()
		p.Sent, p.Deadline = p.Sent.Add(clock.gained), p.Deadline.Add(clock.gained)
		return p, nil
	}
	clock.mu.Lock()
	clock.at = func() {
		mu.Lock()
		defer mu.Unlock()
		if goroutine != thisGoroutine() {
			return
		}
		if readings++; readings == 2 { // the first says when the resolve was there
			clock.step(20 * time.Second)
		}
	}
	clock.mu.Unlock()
	if got := w.ask(bodyless); got.body != "ok" {
		t.Fatalf("client got %q", got)
	}
	if n := len(s.deliveries()); n != 3 || resolves != 2 || len(minted()) != 3 {
		t.Errorf("%d deliveries, %d resolves, %d attestations", n-2, resolves, len(minted())-2)
	}
	if x := w.exchange(2); x.Forwards != 1 || x.End != proxy.Complete {
		t.Errorf("%d forwards, %v", x.Forwards, x.End)
	}
}

func thisGoroutine() string {
	b := make([]byte, 64)
	return strings.Fields(string(b[:runtime.Stack(b, false)]))[1]
}

// What decides when a user timeout ends counts every byte of a connection's
// life, uploads included: else a head behind an upload would count as
// acknowledged before it is.
func TestUploadsCountAsWritten(t *testing.T) {
	w := newWorld(t)
	got := make(chan int, 4)
	s := newScripted(t, func(s *scripted, c net.Conn, r *bufio.Reader) {
		counted := &countingReader{Reader: r}
		in := bufio.NewReader(counted)
		for {
			if _, err := readMessage(in); err != nil {
				return
			}
			got <- counted.n
			io.WriteString(c, okAnswer)
		}
	})
	w.dir.place(s.Worker)
	c := w.dial()
	body := bytes.Repeat([]byte("x"), 300<<10)
	c.send(fmt.Sprintf("POST /t/a HTTP/1.1\r\nHost: h\r\nContent-Length: %d\r\n\r\n%s", len(body), body))
	c.answer()
	n := await(t, "the upload", got, patience)
	if n < len(body) {
		t.Fatalf("the worker read %d bytes", n)
	}
	w.eventually("the connection is idle", func() bool { return len(w.p.Written(s.Session)) == 1 })
	if written := w.p.Written(s.Session); written[0] != uint64(n) {
		t.Errorf("%d bytes counted, %d came", written[0], n)
	}
}

type countingReader struct {
	io.Reader
	n int
}

func (r *countingReader) Read(b []byte) (int, error) {
	n, err := r.Reader.Read(b)
	r.n += n
	return n, err
}
