package proxy_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"pinboard/internal/proxy"
)

func descriptors(t *testing.T) int {
	t.Helper()
	open, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Skip("no /proc")
	}
	return len(open)
}

// limitDescriptors lets the process open n more, until the test ends or undo.
func limitDescriptors(t *testing.T, n int) (undo func()) {
	t.Helper()
	var old syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &old); err != nil {
		t.Fatal(err)
	}
	highest := 0
	open, _ := os.ReadDir("/proc/self/fd")
	for _, e := range open {
		var fd int
		fmt.Sscan(e.Name(), &fd)
		highest = max(highest, fd)
	}
	// Fill the holes below the highest, so that the limit means what it says.
	var fill []*os.File
	for {
		f, err := os.Open(os.DevNull)
		if err != nil {
			t.Fatal(err)
		}
		if int(f.Fd()) > highest {
			f.Close()
			break
		}
		fill = append(fill, f)
	}
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &syscall.Rlimit{Cur: uint64(highest + 1 + n), Max: old.Max}); err != nil {
		t.Fatal(err)
	}
	done := false
	undo = func() {
		if !done {
			done = true
			syscall.Setrlimit(syscall.RLIMIT_NOFILE, &old)
			for _, f := range fill {
				f.Close()
			}
		}
	}
	t.Cleanup(undo)
	return undo
}

// A process out of descriptors says 503 at once and serves again by itself.
func TestOutOfDescriptorsShedsAndRecovers(t *testing.T) {
	w := newWorld(t)
	w.dir.place(newScripted(t, replying(okAnswer)).Worker)
	undo := limitDescriptors(t, 1) // for the client's socket
	begun := time.Now()
	got := w.ask(bodyless)
	if !strings.HasPrefix(got.head, "HTTP/1.1 503 ") || got.line("Pinboard-Error") != "overloaded" || got.line("Date") == "" {
		t.Errorf("client got %q", got.head)
	}
	if d := time.Since(begun); d > patience/2 {
		t.Errorf("took %v", d)
	}
	undo()
	for range 3 {
		if got := w.ask(bodyless); got.body != "ok" {
			t.Errorf("after: %q", got.head)
		}
	}
}

// Out of descriptors is no fault of the worker: nothing is reported.
func TestOutOfDescriptorsForTheWorker(t *testing.T) {
	var full atomic.Bool
	w := newWorld(t, func(c *proxy.Config) {
		c.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
			if full.Load() {
				return nil, &net.OpError{Op: "dial", Net: network, Err: os.NewSyscallError("socket", syscall.EMFILE)}
			}
			var d net.Dialer
			return d.DialContext(ctx, network, address)
		}
	})
	w.dir.place(newScripted(t, replying(okAnswer)).Worker)
	full.Store(true)
	c := w.dial()
	c.send(bodyless)
	if got := c.answer(); got.line("Pinboard-Error") != "overloaded" {
		t.Errorf("client got %q", got.head)
	}
	full.Store(false)
	if e := w.dir.reported(); len(e) > 0 {
		t.Errorf("reported %v", e)
	}
	c.send(bodyless)
	if got := c.answer(); got.body != "ok" {
		t.Errorf("after: %q", got.head)
	}
}

// After many abnormal ends no descriptor and (goleak) no goroutine is left.
func TestAbnormalEndsLeaveNothing(t *testing.T) {
	w := newWorld(t)
	s := newScripted(t, func(s *scripted, c net.Conn, r *bufio.Reader) {
		d, err := readMessage(r)
		if err != nil {
			return
		}
		switch {
		case strings.Contains(d.head, "/t/cut"):
			io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nx")
		case strings.Contains(d.head, "/t/junk"):
			io.WriteString(c, "\x00\x01\x02\r\n\r\n")
		case d.line("Upgrade") != "":
			io.WriteString(c, switching+"x")
			if strings.Contains(d.head, "/t/rst") {
				c.(*net.TCPConn).SetLinger(0)
				return
			}
			io.Copy(io.Discard, r)
		}
	})
	w.dir.place(s.Worker)
	requests := []string{handshake, strings.Replace(handshake, "/t/a", "/t/rst", 1), get("/t/cut"), get("/t/junk"), "GET /t/a HTTP/1.1\r\nHo",
		"POST /t/a HTTP/1.1\r\nHost: h\r\nContent-Length: 10\r\n\r\nhalf", "junk\r\n\r\n", ""}
	before := descriptors(t)
	for i := range 800 {
		c, err := net.Dial("tcp", w.addr)
		if err != nil {
			t.Fatal(err)
		}
		io.WriteString(c, requests[i%len(requests)])
		if i%3 == 0 {
			c.SetReadDeadline(time.Now().Add(5 * time.Millisecond))
			io.CopyN(io.Discard, c, 1)
		}
		if i%2 == 0 {
			c.(*net.TCPConn).SetLinger(0)
		}
		c.Close()
	}
	w.eventually("all descriptors are closed", func() bool { return descriptors(t) <= before })
	for _, k := range []proxy.Kind{proxy.Finite, proxy.Stream, proxy.Tunnel} {
		if n := w.p.InFlight(k); n != 0 {
			t.Errorf("%d %v in flight", n, k)
		}
	}
}
