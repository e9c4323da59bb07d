package main

import (
	"io"
	"net"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"pinboard/internal/rawtest"
	"pinboard/internal/redistest"
)

// FC-61: nodes behind a balancer that notices /readyz late are restarted one
// after the other under load; no finite request fails.
func TestRollingRestartOfNodesLosesNothing(t *testing.T) {
	t.Parallel()
	r := redistest.Start(t)
	settings := []string{"PINBOARD_LEASE_TTL_MS=8000", "PINBOARD_SHUTDOWN_NOTICE_MS=3000", "PINBOARD_SHUTDOWN_BUDGET_MS=9000"}
	notices, budget := 2*time.Second, 9*time.Second
	if os.Getenv("PINBOARD_NIGHTLY") != "" { // the defaults, and a balancer that takes 5 s
		settings = []string{settings[0], "PINBOARD_SHUTDOWN_NOTICE_MS=", "PINBOARD_SHUTDOWN_BUDGET_MS="}
		notices, budget = 5*time.Second, 25*time.Second
	}
	nodes := []*process{onRedis(t, r.URL(), settings...).ready(), onRedis(t, r.URL(), settings...).ready()}
	b := newBalancer(t, notices, nodes...)

	w := rawtest.NewWorker(t, streamsAndAnswers)
	w.Register("http://"+b.addr, secret, time.Second, "/t")
	nodes[0].wait("a warm store", func() bool {
		status, _ := nodes[0].get("/t/warm-up")
		return status == 200
	})

	var load load
	for range 10 {
		load.start(b.addr, 50*time.Millisecond, "GET /t/a/now HTTP/1.1\r\nHost: h\r\n\r\n")
	}
	for range 3 {
		load.start(b.addr, 100*time.Millisecond, "POST /t/a/slow HTTP/1.1\r\nHost: h\r\nContent-Length: 4\r\n\r\nbody")
	}
	var streams []*rawtest.Client
	for range 20 {
		c := rawtest.Dial(t, b.addr)
		c.Write("GET /t/a/sse HTTP/1.1\r\nHost: h\r\n\r\n")
		if m := c.Head(); m.Status() != 200 {
			t.Fatalf("SSE: %s", m.Raw)
		}
		streams = append(streams, c)
	}
	time.Sleep(time.Second)
	for i, old := range nodes {
		begun := time.Now()
		old.signal(syscall.SIGTERM)
		if code := old.exit(); code != 0 || time.Since(begun) > budget+4*time.Second {
			t.Errorf("node %d: exit %d after %v", i, code, time.Since(begun))
		}
		if n := old.line("stopped")["cutExchanges"]; n != 0.0 {
			t.Errorf("node %d cut %v finite exchanges", i, n)
		}
		nodes[i] = onRedis(t, r.URL(), settings...).ready()
		b.replace(i, nodes[i])
		time.Sleep(time.Second)
	}
	served, failed := load.stop()
	t.Logf("%d served, %d failed", served, len(failed))
	if len(failed) > 0 || served < 1000 {
		t.Errorf("%d served; failed: %.2000q", served, failed)
	}
	for _, c := range streams {
		if rest, end := c.Rest(patience); end == rawtest.Quiet || strings.Contains(string(rest), "\r\n0\r\n") {
			t.Errorf("SSE ended %v: %q", end, rest)
		}
	}
}

// FC-62: a thousand streams of each kind neither hold up the exit nor are
// forgotten.
func TestDrainOfThousandsOfStreams(t *testing.T) {
	t.Parallel()
	const each = 1000
	p := serve(t, "PINBOARD_SHUTDOWN_NOTICE_MS=500", "PINBOARD_SHUTDOWN_BUDGET_MS=3000").ready()
	w := rawtest.NewWorker(t, streamsAndAnswers)
	p.register(w, "/t")
	var clients []*rawtest.Client
	for i := range 2 * each {
		c := rawtest.Dial(t, p.url)
		if i%2 == 0 {
			c.Write("GET /t/a/sse HTTP/1.1\r\nHost: h\r\n\r\n")
		} else {
			c.Write("GET /t/a/ws HTTP/1.1\r\nHost: h\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Key: x\r\nSec-WebSocket-Version: 13\r\n\r\n")
		}
		clients = append(clients, c)
	}
	for _, c := range clients {
		if m := c.Head(); m.Status() != 200 && m.Status() != 101 {
			t.Fatalf("stream: %q", m.Raw)
		}
	}
	begun := time.Now()
	p.signal(syscall.SIGTERM)
	if code := p.exit(); code != 0 {
		t.Errorf("exit %d", code)
	}
	if took := time.Since(begun); took < 2900*time.Millisecond || took > 6*time.Second {
		t.Errorf("ended after %v, the budget was 3 s", took)
	}
	if l := p.line("draining"); l["streams"] != float64(each) || l["tunnels"] != float64(each) {
		t.Errorf("counted at the signal: %v", l)
	}
	if l := p.line("stopped"); l["cutStreams"] != float64(each) || l["cutTunnels"] != float64(each) {
		t.Errorf("counted at the end: %v", l)
	}
	for _, c := range clients {
		if rest, end := c.Rest(patience); end == rawtest.Quiet || strings.Contains(string(rest), "0\r\n\r\n") {
			t.Fatalf("a stream ended %v with %q", end, rest)
		}
	}
}

// streamsAndAnswers serves /sse and /ws until the other side ends, /slow after
// a moment, and everything else at once.
func streamsAndAnswers(c *rawtest.Conn) {
	c.Patience = 2 * time.Minute // idle pooled connections wait
	for {
		m, ok := c.Request()
		if !ok {
			return
		}
		switch {
		case strings.HasSuffix(m.Target(), "/sse"):
			c.Write("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n3\r\n:1\n\r\n")
			c.AwaitEnd(2 * time.Minute)
			return
		case strings.HasSuffix(m.Target(), "/ws"):
			c.Write("HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: x\r\n\r\n")
			c.AwaitEnd(2 * time.Minute)
			return
		case strings.HasSuffix(m.Target(), "/slow"):
			time.Sleep(500 * time.Millisecond)
		}
		c.Write(rawtest.Response(200, "ok"))
	}
}

// load is a set of keep-alive clients that send one request after the other
// and forgive nothing but Connection: close.
type load struct {
	wg     sync.WaitGroup
	done   atomic.Bool
	served atomic.Int64
	mu     sync.Mutex
	failed []string
}

func (l *load) start(addr string, every time.Duration, request string) {
	l.wg.Go(func() {
		var conn net.Conn
		for ; !l.done.Load(); time.Sleep(every) {
			if conn == nil {
				var err error
				if conn, err = net.Dial("tcp", addr); err != nil {
					l.fail("dial: " + err.Error())
					continue
				}
			}
			conn.SetDeadline(time.Now().Add(patience))
			io.WriteString(conn, request)
			head := readAnswer(conn)
			if strings.HasPrefix(head, "HTTP/1.1 200 ") {
				l.served.Add(1)
			} else {
				l.fail(head)
			}
			if head == "" || strings.Contains(strings.ToLower(head), "connection: close") {
				conn.Close()
				conn = nil
			}
		}
		if conn != nil {
			conn.Close()
		}
	})
}

func (l *load) fail(what string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.failed = append(l.failed, what)
}

func (l *load) stop() (served int64, failed []string) {
	l.done.Store(true)
	l.wg.Wait()
	return l.served.Load(), l.failed
}

// readAnswer reads until the body "ok" or the end of the connection.
func readAnswer(conn net.Conn) string {
	var all []byte
	for !strings.HasSuffix(string(all), "\r\n\r\nok") {
		var b [4096]byte
		n, err := conn.Read(b[:])
		all = append(all, b[:n]...)
		if err != nil {
			break
		}
	}
	return string(all)
}

// A balancer spreads TCP connections over nodes in turn and learns of /readyz
// only after a delay, as real ones do.
type balancer struct {
	addr  string
	delay time.Duration

	mu    sync.Mutex
	nodes []*backend
	next  int
}

type backend struct {
	url     string
	unready time.Time // since when /readyz fails; zero: it does not
}

func newBalancer(t *testing.T, delay time.Duration, nodes ...*process) *balancer {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	b := &balancer{addr: l.Addr().String(), delay: delay}
	for _, n := range nodes {
		b.nodes = append(b.nodes, &backend{url: n.url})
	}
	stop := make(chan struct{})
	t.Cleanup(func() { close(stop); l.Close() })
	go b.poll(stop)
	go func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			go b.relay(client)
		}
	}()
	return b
}

// replace puts a new node in the place of an old one.
func (b *balancer) replace(i int, n *process) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.nodes[i] = &backend{url: n.url}
}

func (b *balancer) poll(stop chan struct{}) {
	for {
		select {
		case <-stop:
			return
		case <-time.After(100 * time.Millisecond):
		}
		b.mu.Lock()
		nodes := append([]*backend(nil), b.nodes...)
		b.mu.Unlock()
		for _, n := range nodes {
			status, _ := (&process{url: n.url}).get("/readyz")
			b.mu.Lock()
			if status == 200 {
				n.unready = time.Time{}
			} else if n.unready.IsZero() {
				n.unready = time.Now()
			}
			b.mu.Unlock()
		}
	}
}

func (b *balancer) pick() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	for range b.nodes {
		b.next++
		n := b.nodes[b.next%len(b.nodes)]
		if n.unready.IsZero() || time.Since(n.unready) < b.delay {
			return strings.TrimPrefix(n.url, "http://")
		}
	}
	return strings.TrimPrefix(b.nodes[0].url, "http://")
}

func (b *balancer) relay(client net.Conn) {
	defer client.Close()
	node, err := net.Dial("tcp", b.pick())
	if err != nil {
		return
	}
	defer node.Close()
	done := make(chan struct{}, 2)
	for _, way := range [][2]net.Conn{{client, node}, {node, client}} {
		go func() {
			io.Copy(way[0], way[1])
			done <- struct{}{}
		}()
	}
	<-done
}
