package proxy_test

import (
	"bufio"
	"context"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"pinboard"
	"pinboard/internal/directory"
	"pinboard/internal/proxy"
)

// felt is how soon a worker must feel that its client has left.
const felt = time.Second

// sensor is a worker that sends what it is told and tells when its side ends.
func sensor(t *testing.T, answer string) (s *scripted, ended chan error) {
	ended = make(chan error, 8)
	s = newScripted(t, func(s *scripted, c net.Conn, r *bufio.Reader) {
		if _, err := readHead(r); err != nil {
			return
		}
		s.mu.Lock()
		s.got = append(s.got, delivery{})
		s.mu.Unlock()
		io.WriteString(c, answer)
		_, err := io.Copy(io.Discard, r)
		ended <- err
	})
	return s, ended
}

func await[T any](t *testing.T, what string, c <-chan T, within time.Duration) (v T) {
	t.Helper()
	select {
	case v = <-c:
	case <-time.After(within):
		t.Fatalf("not within %v: %s", within, what)
	}
	return v
}

// FC-12: the worker feels within a second that the client has left.
func TestClientGoneIsFelt(t *testing.T) {
	t.Parallel()
	const sse = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n"
	for _, test := range []struct {
		name, request, answer string
		kind                  proxy.Kind
	}{
		{"before the head", bodyless, "", proxy.Finite},
		{"after an event", bodyless, sse, proxy.Stream},
		{"with a request unread", bodyless + bodyless, sse, proxy.Stream},
		{"inside an upload", "POST /t/a HTTP/1.1\r\nHost: h\r\nContent-Length: 100\r\n\r\nhello", "", proxy.Finite},
		{"inside a chunked upload", "POST /t/a HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhel", sse, proxy.Stream},
		{"in a quiet tunnel", handshake, switching, proxy.Tunnel},
	} {
		for _, reset := range []bool{true, false} {
			name := test.name + map[bool]string{true: "/RST", false: "/close"}[reset]
			t.Run(name, func(t *testing.T) {
				w := newWorld(t, func(c *proxy.Config) { c.HalfCloseGrace = 100 * time.Millisecond })
				s, ended := sensor(t, test.answer)
				w.dir.place(s.Worker)
				c := w.dial()
				c.send(test.request)
				w.eventually("delivery", func() bool { return len(s.deliveries()) == 1 })
				if test.answer != "" {
					if _, err := readHead(c.r); err != nil {
						t.Fatal(err)
					}
				}
				if reset {
					c.Conn.(*net.TCPConn).SetLinger(0)
				}
				c.Close()
				await(t, "the worker's side ends", ended, felt)
				x := w.exchange(0)
				if x.Kind != test.kind || x.End != proxy.ClientGone && !(x.Kind == proxy.Tunnel && !reset) {
					t.Errorf("observed %v %v", x.Kind, x.End)
				}
				w.eventually("nothing in flight", func() bool {
					return w.p.InFlight(proxy.Finite)+w.p.InFlight(proxy.Stream)+w.p.InFlight(proxy.Tunnel) == 0
				})
			})
		}
	}
}

// A client that leaves while its request is being resolved is not delivered.
func TestClientGoneDuringResolve(t *testing.T) {
	for _, reset := range []bool{true, false} {
		w := newWorld(t, func(c *proxy.Config) { c.HalfCloseGrace = 50 * time.Millisecond })
		slow := &slowDirectory{fakeDirectory: w.dir, entered: make(chan struct{}, 1), left: make(chan error, 1)}
		w = newWorld(t, func(c *proxy.Config) { c.Directory = slow; c.HalfCloseGrace = 50 * time.Millisecond })
		c := w.dial()
		c.send(bodyless)
		<-slow.entered
		if reset {
			c.Conn.(*net.TCPConn).SetLinger(0)
		}
		c.Close()
		if err := await(t, "the resolve is given up", slow.left, felt); err != context.Canceled {
			t.Errorf("resolve ended by %v", err)
		}
		if x := w.exchange(0); x.End != proxy.ClientGone || x.Status != 0 || x.Refusal != nil {
			t.Errorf("observed %v %d", x.End, x.Status)
		}
	}
}

type slowDirectory struct {
	*fakeDirectory
	entered chan struct{}
	left    chan error
}

func (d *slowDirectory) Resolve(ctx context.Context, r directory.Request) (directory.Placement, error) {
	d.entered <- struct{}{}
	<-ctx.Done()
	d.left <- ctx.Err()
	return directory.Placement{}, pinboard.StoreUnavailable
}

// FC-13: a client that half-closes behind a complete request is answered.
func TestHalfClosedClientGetsItsAnswer(t *testing.T) {
	t.Parallel()
	for _, request := range []string{bodyless, withBody, chunkedBody, bodyless + bodyless} {
		w := newWorld(t)
		s := newScripted(t, func(s *scripted, c net.Conn, r *bufio.Reader) {
			for {
				if _, ok := s.receive(r); !ok {
					return
				}
				time.Sleep(100 * time.Millisecond)
				io.WriteString(c, okAnswer)
			}
		})
		w.dir.place(s.Worker)
		c := w.dial()
		c.send(request)
		c.Conn.(*net.TCPConn).CloseWrite()
		want := okAnswer
		if request == bodyless+bodyless {
			want += okAnswer
		}
		if got, err := c.rest(); got != want || err != nil {
			t.Errorf("%q: got %q, %v", request, got, err)
		}
	}
}

// The exchange of a half-closed client goes on while the worker's bytes come,
// and ends after the grace of silence.
func TestHalfClosedClientIsLeftAfterSilence(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(c *proxy.Config) { c.HalfCloseGrace = 500 * time.Millisecond })
	ended := make(chan error, 1)
	s := newScripted(t, func(s *scripted, c net.Conn, r *bufio.Reader) {
		s.receive(r)
		time.Sleep(300 * time.Millisecond) // the head, too, ends a silence
		io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n")
		time.Sleep(300 * time.Millisecond)
		for range 6 {
			time.Sleep(100 * time.Millisecond)
			io.WriteString(c, "1\r\nx\r\n")
		}
		_, err := io.Copy(io.Discard, r)
		ended <- err
	})
	w.dir.place(s.Worker)
	c := w.dial()
	c.send(bodyless)
	c.Conn.(*net.TCPConn).CloseWrite()
	head, _ := readHead(c.r)
	body, _ := c.rest()
	if want := "1\r\nx\r\n1\r\nx\r\n1\r\nx\r\n1\r\nx\r\n1\r\nx\r\n1\r\nx\r\n"; body != want {
		t.Errorf("got %q %q", head, body)
	}
	await(t, "the worker's side ends", ended, patience)
	if x := w.exchange(0); x.End != proxy.ClientGone {
		t.Errorf("observed %v", x.End)
	}
}

// FC-08 (b): a worker that ignores the FIN of a tunnel holds nothing for long,
// but one that goes on sending is heard.
func TestTunnelEndsBehindAFINThatIsIgnored(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(c *proxy.Config) { c.HalfCloseGrace = 40 * time.Millisecond })
	deaf := make(chan struct{})
	defer close(deaf)
	s := newScripted(t, func(s *scripted, c net.Conn, r *bufio.Reader) {
		s.receive(r)
		io.WriteString(c, switching)
		io.Copy(io.Discard, r)
		for range 4 {
			time.Sleep(100 * time.Millisecond)
			io.WriteString(c, "more")
		}
		<-deaf
	})
	w.dir.place(s.Worker)
	c := w.dial()
	c.send(handshake)
	c.Conn.(*net.TCPConn).CloseWrite()
	if got, _ := c.rest(); got != switched+"moremoremoremore" {
		t.Errorf("client got %q", got)
	}
	if x := w.exchange(0); x.Kind != proxy.Tunnel || x.End != proxy.Complete {
		t.Errorf("observed %v %v", x.Kind, x.End)
	}
}

func TestTunnelEndsWhenTheWorkerDies(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := newScripted(t, func(s *scripted, c net.Conn, r *bufio.Reader) {
		s.receive(r)
		io.WriteString(c, switching)
		readHead(r) // "go\r\n\r\n"
		c.(*net.TCPConn).SetLinger(0)
	})
	w.dir.place(s.Worker)
	c := w.dial()
	c.send(handshake + "go\r\n\r\n")
	if got, _ := c.rest(); got != switched {
		t.Errorf("client got %q", got)
	}
	if x := w.exchange(0); x.End != proxy.WorkerGone {
		t.Errorf("observed %v", x.End)
	}
}

// A client that stops reading is not taken for gone, and holds the worker back.
func TestSlowReaderHoldsTheWorkerBack(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	wrote := make(chan int, 1)
	s := newScripted(t, func(s *scripted, c net.Conn, r *bufio.Reader) {
		s.receive(r)
		io.WriteString(c, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
		chunk := append([]byte("8000\r\n"), make([]byte, 0x8000+2)...)
		copy(chunk[len(chunk)-2:], "\r\n")
		total := 0
		c.SetWriteDeadline(time.Now().Add(500 * time.Millisecond))
		for {
			n, err := c.Write(chunk)
			if total += n; err != nil {
				wrote <- total
				return
			}
		}
	})
	w.dir.place(s.Worker)
	c := w.dial()
	c.send(bodyless)
	if n := await(t, "the worker is blocked", wrote, patience); n > 64<<20 {
		t.Errorf("%d bytes were taken for a client that reads nothing", n)
	}
}

// A FIN right behind what the client sent makes no event of its own: it is
// noticed all the same, after everything before it has been served.
func TestFINRightBehind(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := newScripted(t, replying("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"))
	w.dir.place(s.Worker)
	large := "POST /t/a HTTP/1.1\r\nHost: h\r\nContent-Length: 70000\r\n\r\n" + strings.Repeat("x", 70000)
	for _, test := range []struct {
		name, sent string
		answers    int
	}{
		{"nothing", "", 0},
		{"an empty line", "\r\n", 0},
		{"half a head", "GET /t/a HTTP/1.1\r\nHo", 0},
		{"a request", bodyless, 1},
		{"requests", bodyless + bodyless + bodyless, 3},
		{"a request and half a head", bodyless + "GET /t/a HTTP/1.1\r\nHo", 1},
		{"a request with a body", "POST /t/a HTTP/1.1\r\nHost: h\r\nContent-Length: 2\r\n\r\nhi", 1},
		{"a large upload", large, 1},
		{"a large upload and a request", large + bodyless, 2},
	} {
		t.Run(test.name, func(t *testing.T) {
			for range 50 {
				c := w.dial()
				c.send(test.sent)
				c.Conn.(*net.TCPConn).CloseWrite()
				c.SetReadDeadline(time.Now().Add(felt))
				for i := range test.answers {
					if got := c.status(); got != "200 OK" {
						t.Fatalf("answer %d: %q", i, got)
					}
				}
				if rest, err := c.rest(); err != nil || rest != "" {
					t.Fatalf("after the answers: %q, %v", rest, err)
				}
				c.Close()
			}
		})
	}
}

// The same in two steps: the client is already waited for.
func TestFINOfAnIdleClient(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := newScripted(t, replying("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"))
	w.dir.place(s.Worker)
	for _, begun := range []string{"", "\r\n", "GET /t/a HT"} {
		c := w.dial()
		c.send(bodyless)
		c.answer()
		c.send(begun)
		time.Sleep(20 * time.Millisecond)
		c.Conn.(*net.TCPConn).CloseWrite()
		c.SetReadDeadline(time.Now().Add(felt))
		if rest, err := c.rest(); err != nil || rest != "" {
			t.Errorf("after %q: %q, %v", begun, rest, err)
		}
	}
}
