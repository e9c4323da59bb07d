package proxy_test

import (
	"bufio"
	"context"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"pinboard/internal/proxy"
)

func dialTCP(dialled chan<- *net.TCPConn) func(context.Context, string, string) (net.Conn, error) {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		var d net.Dialer
		c, err := d.DialContext(ctx, network, address)
		if err == nil {
			select {
			case dialled <- c.(*net.TCPConn):
			default:
			}
		}
		return c, err
	}
}

// shutdown runs Shutdown with a budget and returns what it cut and how long it took.
func (w *world) shutdown(budget time.Duration) (proxy.Stats, time.Duration) {
	begun := time.Now()
	ctx, cancel := context.WithTimeout(context.Background(), budget)
	defer cancel()
	return w.p.Shutdown(ctx), time.Since(begun)
}

func TestDrainSaysCloseAndStillServes(t *testing.T) {
	w := newWorld(t)
	s := newScripted(t, replying(okAnswer))
	w.dir.place(s.Worker)
	idle := w.dial()
	idle.send(bodyless)
	if got := idle.answer(); got.line("Connection") != "" {
		t.Errorf("before: %q", got.head)
	}
	w.p.Drain()
	for _, c := range []*rawClient{idle, w.dial()} {
		c.send(bodyless)
		if got := c.answer(); got.body != "ok" || got.line("Connection") != "close" {
			t.Errorf("draining: %q", got)
		}
		if rest, err := c.rest(); rest != "" || err != nil {
			t.Errorf("rest %q, %v", rest, err)
		}
	}
}

func TestShutdownFinishesFiniteAndCutsStreams(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := newScripted(t, func(s *scripted, c net.Conn, r *bufio.Reader) {
		d, ok := s.receive(r)
		switch {
		case !ok:
		case strings.Contains(d.head, "/t/stream"):
			io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n")
			io.Copy(io.Discard, r)
		case d.line("Upgrade") != "":
			io.WriteString(c, switching)
			io.Copy(io.Discard, r)
		case strings.Contains(d.head, "/t/never"):
			io.Copy(io.Discard, r)
		default:
			time.Sleep(300 * time.Millisecond)
			io.WriteString(c, okAnswer)
		}
	})
	w.dir.place(s.Worker)
	open := map[string]*rawClient{"slow": w.dial(), "stream": w.dial(), "tunnel": w.dial(), "never": w.dial(), "idle": w.dial()}
	open["slow"].send(get("/t/slow"))
	open["stream"].send(get("/t/stream"))
	open["tunnel"].send(handshake)
	open["never"].send(get("/t/never"))
	w.eventually("all are delivered", func() bool { return len(s.deliveries()) == 4 })
	open["stream"].readExactly("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n")
	open["tunnel"].readExactly(switched)
	done := make(chan proxy.Stats, 1)
	go func() {
		stats, _ := w.shutdown(time.Second)
		done <- stats
	}()
	if got := open["slow"].answer(); got.body != "ok" || got.line("Connection") != "close" {
		t.Errorf("a finite request got %q", got)
	}
	if stats := await(t, "shutdown", done, patience); stats != (proxy.Stats{Finite: 1, Streams: 1, Tunnels: 1}) {
		t.Errorf("cut %+v", stats)
	}
	for name, c := range open {
		if rest, _ := c.rest(); rest != "" {
			t.Errorf("%s got %q at the end", name, rest)
		}
	}
	if _, err := net.Dial("tcp", w.addr); err == nil {
		t.Error("the listener is open")
	}
}

func TestShutdownOfAnIdleProxyIsQuick(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.dir.place(newScripted(t, replying(okAnswer)).Worker)
	c := w.dial()
	c.send(bodyless)
	c.answer()
	if _, took := w.shutdown(patience); took > patience/2 {
		t.Errorf("took %v", took)
	}
	if rest, err := c.rest(); rest != "" || err != nil {
		t.Errorf("rest %q, %v", rest, err)
	}
}

// A request that a client sends just as the shutdown begins is served.
func TestShutdownServesRequestsOnTheirWay(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.dir.place(newScripted(t, replying(okAnswer)).Worker)
	c := w.dial()
	c.send(bodyless)
	c.answer()
	done := make(chan struct{})
	go func() { w.shutdown(patience); close(done) }()
	time.Sleep(50 * time.Millisecond)
	c.send(bodyless)
	if got := c.answer(); got.body != "ok" || got.line("Connection") != "close" {
		t.Errorf("client got %q", got)
	}
	<-done
}
