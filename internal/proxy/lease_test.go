package proxy_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"pinboard/internal/directory"
	"pinboard/internal/proxy"
)

const lease = 600 * time.Millisecond

func leased(c *proxy.Config) { c.Lease = lease }

// beating is a stream that writes for ever.
func beating(s *scripted, c net.Conn, r *bufio.Reader) {
	d, ok := s.receive(r)
	if !ok {
		return
	}
	if d.line("Upgrade") != "" {
		io.WriteString(c, switching)
	} else {
		io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n")
	}
	for {
		if _, err := io.WriteString(c, "1\r\nx\r\n"); err != nil {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// F2: streams are cut at the lapse of their owner's lease, by this node's
// clock and never later, when nobody can say that it runs on.
func TestStreamsAreCutAtTheLapse(t *testing.T) {
	t.Parallel()
	for name, request := range map[string]string{"stream": bodyless, "tunnel": handshake} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, leased)
			w.dir.lease = lease
			w.dir.recheck = func([]*directory.Watch) error { return errors.New("store away") }
			w.dir.place(newScripted(t, beating).Worker)
			c := w.dial()
			begun := time.Now()
			c.send(request)
			got, _ := c.rest()
			if d := time.Since(begun); d > lease+time.Second || d < lease/2 {
				t.Errorf("cut after %v of a lease of %v", d, lease)
			}
			if len(got) < 100 || got[len(got)-5:] == "0\r\n\r\n" {
				t.Errorf("client got %d bytes, the last %q", len(got), got[max(0, len(got)-5):])
			}
			if x := w.exchange(0); x.End != proxy.OwnerGone {
				t.Errorf("observed %v", x.End)
			}
		})
	}
}

func TestStreamsGoOnWhileTheLeaseIsRenewed(t *testing.T) {
	t.Parallel()
	w := newWorld(t, leased)
	w.dir.lease = lease
	w.dir.place(newScripted(t, beating).Worker)
	c := w.dial()
	c.send(bodyless)
	for end := time.Now().Add(3 * lease); time.Now().Before(end); {
		if _, err := c.r.ReadByte(); err != nil {
			t.Fatalf("cut: %v", err)
		}
	}
}

func TestStreamsAreCutWhenTheRowIsAnothers(t *testing.T) {
	t.Parallel()
	w := newWorld(t, leased)
	rechecked := make(chan directory.Watch, 100)
	w.dir.recheck = func(ws []*directory.Watch) error {
		for _, x := range ws {
			rechecked <- *x
			x.Cut = x.Key.ID == "moved"
		}
		return nil
	}
	s := newScripted(t, beating)
	w.dir.place(s.Worker)
	stays, moved := w.dial(), w.dial()
	stays.send(get("/t/stays"))
	moved.send(get("/t/moved"))
	if _, err := io.Copy(io.Discard, moved.r); err != nil {
		t.Errorf("cut by %v", err)
	}
	if _, err := stays.r.ReadByte(); err != nil {
		t.Errorf("the other stream was cut: %v", err)
	}
	x := <-rechecked
	if x.Process != s.Process || x.Key.Namespace != "/t" {
		t.Errorf("rechecked %+v", x)
	}
}

func TestOwnerLostBeforeItsHeadIs503(t *testing.T) {
	t.Parallel()
	w := newWorld(t, leased)
	w.dir.lease = 200 * time.Millisecond
	w.dir.recheck = func([]*directory.Watch) error { return errors.New("store away") }
	s, ended := sensor(t, "")
	w.dir.place(s.Worker)
	if got := w.ask(bodyless); got.line("Pinboard-Error") != "owner_lost" {
		t.Errorf("client got %q", got.head)
	}
	await(t, "the worker's side ends", ended, felt)
}

// F1: a user timeout holds until the request head is acknowledged, and none
// while a live worker merely stops reading.
func TestUserTimeoutHoldsUntilTheHeadIsAcknowledged(t *testing.T) {
	t.Parallel()
	dialled := make(chan *net.TCPConn, 1)
	w := newWorld(t, func(c *proxy.Config) { c.Dial = dialTCP(dialled) })
	gate := make(chan struct{})
	s := newScripted(t, func(s *scripted, c net.Conn, r *bufio.Reader) {
		for {
			if _, ok := s.receive(r); !ok {
				return
			}
			<-gate
			io.WriteString(c, okAnswer)
		}
	})
	w.dir.place(s.Worker)
	c := w.dial()
	c.send(bodyless)
	up := await(t, "dial", dialled, patience)
	w.eventually("the timeout is lifted", func() bool { return userTimeout(t, up) == 0 })
	gate <- struct{}{}
	c.answer()
	time.Sleep(proven)
	c.send(bodyless)
	w.eventually("it is set again for the next request", func() bool { return userTimeout(t, up) == 5000 })
	w.eventually("and lifted", func() bool { return userTimeout(t, up) == 0 })
	close(gate)
	c.answer()
}

// With a short lease the timeout is short, too. It is lifted in time all the
// same: a worker that has the head may leave the body unread for longer.
func TestShortUserTimeoutsSpareALiveWorker(t *testing.T) {
	t.Parallel()
	dialled := make(chan *net.TCPConn, 1)
	w := newWorld(t, func(c *proxy.Config) { c.Lease, c.Dial = time.Second, dialTCP(dialled) })
	begun, gate := make(chan struct{}), make(chan struct{})
	s := newScripted(t, func(s *scripted, c net.Conn, r *bufio.Reader) {
		d, err := readHead(r)
		if err != nil {
			return
		}
		close(begun)
		<-gate
		size, _ := strconv.Atoi(delivery{head: d}.line("Content-Length"))
		if n, err := io.CopyN(io.Discard, r, int64(size)); err != nil {
			t.Errorf("the body broke off after %d bytes: %v", n, err)
			return
		}
		io.WriteString(c, okAnswer)
	})
	open := sync.OnceFunc(func() { close(gate) })
	t.Cleanup(open)
	w.dir.place(s.Worker)
	c := w.dial()
	const size = 64 << 20 // far more than both kernels take
	sent := make(chan error, 1)
	go func() {
		_, err := fmt.Fprintf(c, "POST /t/a HTTP/1.1\r\nHost: h\r\nContent-Length: %d\r\n\r\n", size)
		if err == nil {
			_, err = c.Write(make([]byte, size))
		}
		sent <- err
	}()
	up := await(t, "dial", dialled, patience)
	if ms := userTimeout(t, up); ms != 333 && ms != 0 {
		t.Errorf("a user timeout of %d ms under a lease of 1 s", ms)
	}
	await(t, "the head", begun, patience)
	w.eventually("the timeout is lifted", func() bool { return userTimeout(t, up) == 0 })
	time.Sleep(700 * time.Millisecond) // twice the timeout
	open()
	if got := c.answer(); got.body != "ok" {
		t.Errorf("client got %q", got)
	}
	if err := await(t, "the upload", sent, patience); err != nil {
		t.Error(err)
	}
}

// A third of a short lease is the age at which a resolve is not sent.
func TestTheAgeOfAResolveScalesWithTheLease(t *testing.T) {
	for _, test := range []struct {
		lease, age time.Duration
		resolves   int
	}{
		{time.Second, 50 * time.Millisecond, 1},
		{time.Second, 350 * time.Millisecond, 2},
		{9 * time.Second, 2 * time.Second, 1},
		{9 * time.Second, 3100 * time.Millisecond, 2},
		{time.Minute, 4 * time.Second, 1},
		{time.Minute, 5100 * time.Millisecond, 2},
	} {
		w := newWorld(t, func(c *proxy.Config) { c.Lease = test.lease })
		s := newScripted(t, replying(okAnswer))
		w.dir.resolve = func(n int, r directory.Request) (directory.Placement, error) {
			p := w.dir.placement(s.Worker, r)
			if n == 1 {
				p.Sent = p.Sent.Add(-test.age)
			}
			return p, nil
		}
		if got := w.ask(bodyless); got.body != "ok" || len(w.dir.resolved()) != test.resolves {
			t.Errorf("lease %v, age %v: %d resolves, %q", test.lease, test.age, len(w.dir.resolved()), got)
		}
	}
}

func userTimeout(t *testing.T, c *net.TCPConn) (ms int) {
	raw, err := c.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	if err := raw.Control(func(fd uintptr) {
		ms, err = unix.GetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT)
	}); err != nil {
		t.Fatal(err)
	}
	return ms
}
