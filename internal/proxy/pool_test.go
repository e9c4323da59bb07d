package proxy_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"pinboard/internal/ownership"
	"pinboard/internal/proxy"
	"pinboard/internal/rawtest"
)

// FC-16 (a): a worker that closes each connection shortly after its answer,
// without a word, costs nobody a request.
func TestConnectionsClosedWhileIdleAreNoticed(t *testing.T) {
	for _, after := range []time.Duration{0, time.Millisecond} {
		w := newWorld(t)
		s := newScripted(t, func(s *scripted, c net.Conn, r *bufio.Reader) {
			if _, ok := s.receive(r); ok {
				io.WriteString(c, okAnswer)
				time.Sleep(after)
			}
		})
		w.dir.place(s.Worker)
		c := w.dial()
		failures := 0
		for range 300 {
			c.send(withBody)
			if got := c.answer(); got.body != "ok" {
				failures++
			}
			time.Sleep(2 * after)
		}
		if failures > 1 { // a stall of this machine can make a close look late
			t.Errorf("closed after %v: %d of 300 failed", after, failures)
		}
	}
}

func TestIdleConnectionsAreKeptBelowTheLimit(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(c *proxy.Config) { c.PoolIdle = 100 * time.Millisecond })
	s := newScripted(t, replying(okAnswer))
	w.dir.place(s.Worker)
	w.ask(bodyless)
	if n := s.connections(); n != 1 {
		t.Fatalf("%d connections", n)
	}
	w.eventually("the idle connection closes", func() bool { return s.connections() == 0 })
	if got := w.ask(bodyless); got.body != "ok" {
		t.Errorf("client got %q", got)
	}
}

func TestConnectionCloseOfTheWorkerIsHonoured(t *testing.T) {
	w := newWorld(t)
	served := make(chan int, 100)
	s := newScripted(t, func(s *scripted, c net.Conn, r *bufio.Reader) {
		n := 0
		for {
			if _, ok := s.receive(r); !ok {
				served <- n
				return
			}
			n++
			io.WriteString(c, "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok")
		}
	})
	w.dir.place(s.Worker)
	c := w.dial()
	for range 5 {
		c.send(bodyless)
		if got := c.answer(); got.head != "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n" {
			t.Errorf("client got %q", got.head)
		}
		if n := await(t, "the connection ends", served, patience); n != 1 {
			t.Errorf("%d requests on a closing connection", n)
		}
	}
}

func TestTheNewestIdleConnectionIsUsedFirst(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	gate := make(chan struct{})
	s := newScripted(t, func(s *scripted, c net.Conn, r *bufio.Reader) {
		for {
			d, ok := s.receive(r)
			if !ok {
				return
			}
			if strings.Contains(d.head, "/t/wait") {
				<-gate
			}
			io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: "+fmt.Sprint(len(c.RemoteAddr().String()))+"\r\n\r\n"+c.RemoteAddr().String())
		}
	})
	w.dir.place(s.Worker)
	w.prove()
	first, second := w.dial(), w.dial()
	first.send(get("/t/wait"))
	w.eventually("delivery", func() bool { return len(s.deliveries()) == 3 })
	second.send(get("/t/a"))
	older := second.answer().body
	w.exchange(2) // given back before the other
	close(gate)
	newest := first.answer().body
	w.exchange(3) // it has been given back
	c := w.dial()
	for range 5 {
		c.send(bodyless)
		if got := c.answer().body; got != newest || got == older {
			t.Errorf("served over %s, newest is %s", got, newest)
		}
	}
}

func TestCloseSessionLeavesNothing(t *testing.T) {
	w := newWorld(t)
	gate := make(chan struct{})
	s := newScripted(t, func(s *scripted, c net.Conn, r *bufio.Reader) {
		for {
			d, ok := s.receive(r)
			if !ok {
				return
			}
			if strings.Contains(d.head, "/t/wait") {
				<-gate
			}
			io.WriteString(c, okAnswer)
		}
	})
	w.dir.place(s.Worker)
	w.ask(bodyless)
	c := w.dial()
	c.send(get("/t/wait"))
	w.eventually("delivery", func() bool { return len(s.deliveries()) == 2 })
	w.ask(bodyless)
	w.p.CloseSession(s.Session)
	w.eventually("only the busy connection is left", func() bool { return s.connections() == 1 })
	close(gate)
	c.answer()
	w.eventually("it is not kept", func() bool { return s.connections() == 0 })
}

// Beyond the cap finite exchanges queue for a while, then hear that the worker
// is busy; streams do not count.
func TestFiniteExchangesAreCappedPerWorker(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(c *proxy.Config) {
		c.WorkerMaxConns, c.InstanceMaxConns = 2, 3
		c.WorkerQueue = 200 * time.Millisecond
	})
	gate := make(chan struct{})
	s := newScripted(t, func(s *scripted, c net.Conn, r *bufio.Reader) {
		for {
			d, ok := s.receive(r)
			if !ok {
				return
			}
			if strings.Contains(d.head, "/t/stream") {
				io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n")
				continue
			}
			<-gate
			io.WriteString(c, okAnswer)
		}
	})
	w.dir.place(s.Worker)
	for i := range 4 {
		c := w.dial()
		c.send(get("/t/stream"))
		if _, err := readHead(c.r); err != nil {
			t.Fatalf("stream %d: %v", i, err)
		}
	}
	var waiting []*rawClient
	for i := range 2 {
		c := w.dial()
		c.send(bodyless)
		waiting = append(waiting, c)
		w.eventually("delivery", func() bool { return len(s.deliveries()) == 5+i })
	}
	if got := w.ask(bodyless); got.line("Pinboard-Error") != "worker_busy" || got.line("Retry-After") == "" {
		t.Errorf("beyond the cap: %q", got.head)
	}
	queued := w.dial()
	queued.send(bodyless)
	gate <- struct{}{}
	w.eventually("the queued one is delivered", func() bool { return len(s.deliveries()) == 7 })
	close(gate)
	for _, c := range append(waiting, queued) {
		if got := c.answer(); got.body != "ok" {
			t.Errorf("got %q", got)
		}
	}
}

// One hot id takes at most its share of the places, and none of the queue: the
// other ids of its worker are served meanwhile.
func TestAHotInstanceLeavesPlaces(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(c *proxy.Config) { c.WorkerMaxConns, c.WorkerQueue = 4, patience })
	gate := make(chan struct{})
	s := newScripted(t, func(s *scripted, c net.Conn, r *bufio.Reader) {
		for {
			d, ok := s.receive(r)
			if !ok {
				return
			}
			if strings.Contains(d.head, "/t/hot") {
				<-gate
			}
			io.WriteString(c, okAnswer)
		}
	})
	w.dir.place(s.Worker)
	var hanging []*rawClient
	for i := range 2 { // half of the worker's
		c := w.dial()
		c.send(get("/t/hot"))
		hanging = append(hanging, c)
		w.eventually("delivery", func() bool { return len(s.deliveries()) == i+1 })
	}
	for range 10 {
		if got := w.ask(get("/t/hot")); got.line("Pinboard-Error") != "instance_busy" || got.line("Retry-After") == "" {
			t.Fatalf("beyond its share: %q", got.head)
		}
		if got := w.ask(get("/t/other")); got.body != "ok" {
			t.Fatalf("another id: %q", got.head)
		}
	}
	close(gate)
	for _, c := range hanging {
		if got := c.answer(); got.body != "ok" {
			t.Errorf("got %q", got)
		}
	}
	for range 10 { // every place has come back
		if got := w.ask(get("/t/hot")); got.body != "ok" {
			t.Fatalf("behind them: %q", got.head)
		}
	}
}

func TestAdvertisedBasePaths(t *testing.T) {
	w := newWorld(t)
	s := newScripted(t, replying(okAnswer))
	for base, want := range map[string]string{"": "/t/a/x?q", "/": "/t/a/x?q", "/base": "/base/t/a/x?q", "/b%2Fx/": "/b%2Fx/t/a/x?q"} {
		k := *s.Worker
		k.Session, k.URL = "s"+base, "HTTP://"+s.l.Addr().String()+base
		w.dir.place(&k)
		w.ask(get("/t/a/x?q"))
		got := s.deliveries()
		if line := strings.SplitN(got[len(got)-1].head, "\r\n", 2)[0]; line != "GET "+want+" HTTP/1.1" {
			t.Errorf("base %q: %s", base, line)
		}
	}
}

// A name is looked up at every dial; addresses of both families are raced and
// a dead one costs a moment, not the connect timeout.
func TestNamesWithSeveralAddresses(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	var lookups int
	addresses := []netip.Addr{netip.MustParseAddr("127.0.0.2"), netip.MustParseAddr("::1"), netip.MustParseAddr("127.0.0.1")}
	w := newWorld(t, func(c *proxy.Config) {
		c.Lookup = func(context.Context, string) ([]netip.Addr, error) {
			mu.Lock()
			defer mu.Unlock()
			lookups++
			return addresses, nil
		}
		c.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
			if strings.HasPrefix(address, "127.0.0.2:") {
				<-ctx.Done() // neither accepts nor refuses
				return nil, ctx.Err()
			}
			var d net.Dialer
			return d.DialContext(ctx, network, address)
		}
	})
	begun := time.Now()
	s := newScripted(t, func(s *scripted, c net.Conn, r *bufio.Reader) {
		s.receive(r)
		io.WriteString(c, "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok")
	})
	k := *s.Worker
	k.URL = strings.Replace(s.URL, "127.0.0.1", "worker.test", 1)
	w.dir.place(&k)
	for range 3 {
		if got := w.ask(bodyless); got.body != "ok" {
			t.Fatalf("got %q", got)
		}
	}
	if d := time.Since(begun); d > 3*time.Second {
		t.Errorf("took %v: the dead address was waited for", d)
	}
	mu.Lock()
	defer mu.Unlock()
	if lookups != 3 {
		t.Errorf("%d look-ups for 3 dials", lookups)
	}
}

func TestBlackHolesFailInBoundedTime(t *testing.T) {
	t.Parallel()
	hole := rawtest.BlackHole(t)
	w := newWorld(t, func(c *proxy.Config) { c.ConnectTimeout = 200 * time.Millisecond })
	w.dir.place(&ownership.Worker{Session: "s", URL: "http://" + hole})
	begun := time.Now()
	if got := w.ask(bodyless); got.line("Pinboard-Error") != "worker_unreachable" {
		t.Errorf("client got %q", got.head)
	}
	if d := time.Since(begun); d > patience/2 {
		t.Errorf("took %v", d)
	}
}

// An address that the SSRF rules refuse is not connected to.
func TestDialControlIsAsked(t *testing.T) {
	s := newScripted(t, replying(okAnswer))
	w := newWorld(t, func(c *proxy.Config) {
		c.DialControl = func(string, string, syscall.RawConn) error { return errors.New("denied") }
	})
	w.dir.place(s.Worker)
	if got := w.ask(bodyless); got.line("Pinboard-Error") != "worker_unreachable" || strings.Contains(got.body, "denied") {
		t.Errorf("client got %q", got)
	}
	if n := s.connections(); n != 0 {
		t.Errorf("%d connections", n)
	}
}

func TestIPv6Workers(t *testing.T) {
	l, err := net.Listen("tcp", "[::1]:0")
	if err != nil {
		t.Skip("no IPv6 here")
	}
	l.Close()
	w := newWorld(t)
	s := newScripted(t, replying(okAnswer))
	w.dir.place(s.Worker)
	relay(t, l.Addr().String(), s.l.Addr().String())
	k := *s.Worker
	k.Session, k.URL = "six", "http://"+l.Addr().String()
	w.dir.place(&k)
	if got := w.ask("GET /t/a HTTP/1.0\r\n\r\n"); !strings.HasPrefix(got.head, "HTTP/1.1 200") {
		t.Fatalf("client got %q", got.head)
	}
	if got := s.deliveries()[0].line("Host"); got != l.Addr().String() {
		t.Errorf("Host %q: brackets lost", got)
	}
}

// relay listens at one address and copies to another.
func relay(t *testing.T, from, to string) {
	l, err := net.Listen("tcp", from)
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	wg.Add(1)
	go func() {
		defer wg.Done()
		for {
			a, err := l.Accept()
			if err != nil {
				return
			}
			b, err := net.Dial("tcp", to)
			if err != nil {
				a.Close()
				continue
			}
			wg.Add(2)
			go func() { defer wg.Done(); io.Copy(a, b); a.Close() }()
			go func() { defer wg.Done(); io.Copy(b, a); b.Close() }()
		}
	}()
	t.Cleanup(func() { l.Close() })
}

func TestHTTPSWorkers(t *testing.T) {
	t.Parallel()
	var deliveries int
	server := httptest.NewTLSServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		deliveries++
		rw.Header().Set("X-Conn", r.RemoteAddr)
		io.Copy(rw, r.Body)
	}))
	defer server.Close()
	trusted := server.Client().Transport.(*http.Transport).TLSClientConfig
	w := newWorld(t, func(c *proxy.Config) { c.TLS = &tls.Config{RootCAs: trusted.RootCAs, ServerName: "example.com"} })
	w.dir.place(&ownership.Worker{Session: "s", URL: server.URL})
	w.prove()
	deliveries = 0
	conns := map[string]bool{}
	c := w.dial()
	for range 5 {
		c.send(withBody)
		got := c.answer()
		if got.body != "hi" {
			t.Fatalf("client got %q", got)
		}
		conns[got.line("X-Conn")] = true
	}
	if len(conns) != 1 || deliveries != 5 {
		t.Errorf("%d connections, %d deliveries", len(conns), deliveries)
	}
	server.CloseClientConnections()
	time.Sleep(10 * time.Millisecond)
	c.send(withBody)
	if got := c.answer(); got.body != "hi" {
		t.Errorf("after the idle connection was closed: %q", got)
	}
}

func TestHTTPSWorkersAreVerified(t *testing.T) {
	server := httptest.NewUnstartedServer(http.NotFoundHandler())
	server.Config.ErrorLog = nil
	server.StartTLS()
	defer server.Close()
	w := newWorld(t)
	w.dir.place(&ownership.Worker{Session: "s", URL: server.URL})
	if got := w.ask(bodyless); got.line("Pinboard-Error") != "worker_unreachable" {
		t.Errorf("client got %q", got.head)
	}
}
