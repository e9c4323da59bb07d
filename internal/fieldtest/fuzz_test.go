package fieldtest

import (
	"math/rand/v2"
	"net"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"pinboard/internal/rawtest"
)

// FC-68: clients and workers misbehave at random, both at once, and nobody
// else notices: the same process, every canary answered, nothing left behind.
// Half a minute here, half an hour with PINBOARD_NIGHTLY.
func TestFC68OneBadExchangeStaysOne(t *testing.T) {
	t.Parallel()
	lasts := 30 * time.Second
	if os.Getenv("PINBOARD_NIGHTLY") != "" {
		lasts = 30 * time.Minute
	}
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	n := start(t, "PINBOARD_RESPONSE_TIMEOUT_MS=8000", "PINBOARD_HALF_CLOSE_GRACE_MS=200", "PINBOARD_RESTATE_AFTER=1000000000")
	canary := n.worker(rawtest.Always(rawtest.Response(200, "chirp")), "/canary")
	kept := n.dial()
	kept.Patience = patience
	sing := func(c *rawtest.Client) {
		for _, request := range []string{get("/canary/bird"), post("/canary/bird", "x")} {
			c.Write(request)
			if m := c.Response("GET"); m.Status() != 200 || string(m.Body) != "chirp" {
				t.Fatalf("the canary got %q, %v", m.Raw, m.End)
			}
		}
	}
	sing(kept)
	before := n.census()

	bad := &badWorker{seed: seed}
	bad.listen(t)
	for _, id := range []string{"d", "e", "f"} { // while one is out of service the others go on
		n.enrol(strings.Repeat(id, 32), "http://"+bad.l.Addr().String(), "/t")
	}
	var wg sync.WaitGroup
	var sent atomic.Int64
	end := time.Now().Add(lasts)
	for i := range 6 {
		wg.Go(func() {
			r := rand.New(rand.NewPCG(seed, uint64(i)))
			for time.Now().Before(end) && !t.Failed() {
				badClient(r, n.addr)
				sent.Add(1)
				time.Sleep(time.Duration(r.IntN(8)) * time.Millisecond)
			}
		})
	}
	chirps := 0
	defer wg.Wait()
	for ; time.Now().Before(end); chirps++ {
		time.Sleep(time.Second)
		sing(kept)
		c := n.dial()
		sing(c)
		c.Close()
	}
	wg.Wait()
	t.Logf("%d bad clients, %d bad answers, %d canaries", sent.Load(), bad.served.Load(), chirps)
	if sent.Load() < 200 || bad.served.Load() < 50 || chirps < 5 {
		t.Error("too little happened")
	}
	for _, result := range []string{"client_abort", "worker_abort", "served"} {
		if n.metric(`pinboard_forwards_total{result="`+result+`"}`) == 0 {
			t.Errorf("no exchange counts as %s", result)
		}
	}
	bad.close()
	n.quietly(before)
	sing(kept)
	if canary.Deliveries() < canary.skip+4*chirps {
		t.Errorf("%d canaries for %d rounds", canary.Deliveries(), chirps)
	}
}

// badRequests and badAnswers are what mutation starts from.
var badRequests = []string{
	get("/t/a"), get("/t/b/x?y=1"), post("/t/a", "hello"), ask("HEAD", "/t/a"), ask("OPTIONS", "/t/a", "Max-Forwards: 1"), handshake, handshake + frame,
	ask("POST", "/t/a", "Transfer-Encoding: chunked") + "5\r\nhello\r\n0\r\nX-T: 1\r\n\r\n", ask("POST", "/t/a", "Expect: 100-continue", "Content-Length: 5"),
	get("/t/a") + get("/t/b") + post("/t/c", "x"), get("/healthz"), get("/metrics"), post("/registry/register", "{}"), ask("GET", "http://h/t/a"),
	"GET /t/a HTTP/1.0\r\nConnection: keep-alive\r\n\r\n", ask("POST", "/t/a", "Content-Length: 100000") + strings.Repeat("b", 70000), "\r\n\r\n", "",
	ask("GET", "/t/a", "Pinboard-From: /t/b", "Pinboard-Session: x", "Pinboard-Session-Secret: y"),
}

var badFramings = func() (list []string) {
	for _, rest := range smuggled {
		list = append(list, "POST /t/a HTTP/1.1\r\nHost: h\r\n"+rest+victim)
	}
	return list
}()

var badAnswers = []string{
	rawtest.Response(200, "ok"), chunkedHead + "5\r\nhello\r\n0\r\nX-T: 1\r\n\r\n", sseHead + chunk("data: 1\n\n"), switching, switching + "\x81\x05hello",
	"HTTP/1.1 200 OK\r\n\r\nuntil close", "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhello", "HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n" + rawtest.Response(200, "ok"),
	"HTTP/1.1 100 Continue\r\n\r\n" + rawtest.Response(200, "ok"), "HTTP/1.1 204 No Content\r\n\r\n", "HTTP/1.1 304 Not Modified\r\nContent-Length: 9\r\n\r\n",
	"HTTP/1.0 200 OK\r\n\r\nx", "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", "nonsense", "",
	rawtest.Response(200, strings.Repeat("b", 70000)), rawtest.Response(200, "two") + rawtest.Response(200, "answers"), strings.Repeat("HTTP/1.1 102 Processing\r\n\r\n", 120),
	rawtest.Response(401, "no", "Connection: close"), "HTTP/1.1 200 OK\r\nX: " + strings.Repeat("x", 66<<10) + "\r\n\r\n",
}

// rareAnswers take the worker out of service for a while: one in
// four hundred.
var rareAnswers = []string{
	rawtest.Response(503, "", "Pinned-Refusal: lease-unhealthy"),
	rawtest.Response(403, `{"detail":"invalid attestation"}`, "Content-Type: application/json"),
}

// mutate spoils s, most of the time a little.
func mutate(r *rand.Rand, s string, others []string) string {
	b := []byte(s)
	for range r.IntN(4) {
		if len(b) == 0 {
			break
		}
		i := r.IntN(len(b))
		switch r.IntN(7) {
		case 0:
			b[i] = byte(r.UintN(256))
		case 1:
			b = append(b[:i], b[i+1:]...)
		case 2:
			b = append(b[:i], append([]byte{"\r\n\x00 :;,/\xff09"[r.IntN(11)]}, b[i:]...)...)
		case 3:
			b = b[:i]
		case 4:
			j := i + r.IntN(len(b)-i)
			b = append(b, b[i:j]...)
		case 5:
			o := others[r.IntN(len(others))]
			if len(o) > 0 {
				b = append(b[:i:i], o[r.IntN(len(o)):]...)
			}
		case 6:
			b[i] ^= 1 << r.IntN(8)
		}
	}
	return string(b)
}

// spill writes s in pieces and ends somehow.
func spill(r *rand.Rand, c *net.TCPConn, s string) {
	for range r.IntN(4) {
		if len(s) == 0 {
			break
		}
		i := 1 + r.IntN(len(s))
		if _, err := c.Write([]byte(s[:i])); err != nil {
			return
		}
		s = s[i:]
		time.Sleep(time.Duration(r.IntN(3)) * time.Millisecond)
	}
	if r.IntN(10) > 0 {
		c.Write([]byte(s))
	}
}

func badClient(r *rand.Rand, addr string) {
	nc, err := net.DialTimeout("tcp", addr, patience)
	if err != nil {
		return
	}
	defer nc.Close()
	c := nc.(*net.TCPConn)
	c.SetDeadline(time.Now().Add(time.Duration(20+r.IntN(300)) * time.Millisecond))
	for range 1 + r.IntN(3) {
		from := badRequests
		if r.IntN(5) == 0 {
			from = badFramings
		}
		request := from[r.IntN(len(from))]
		if r.IntN(2) == 0 { // another instance, maybe another worker
			request = strings.ReplaceAll(request, "/t/a", "/t/a"+strconv.Itoa(r.IntN(1000)))
		}
		spill(r, c, mutate(r, request, from))
		var b [4 << 10]byte
		switch r.IntN(6) {
		case 0:
			c.SetLinger(0)
			return
		case 1:
			return
		case 2:
			c.CloseWrite()
		}
		for {
			k, err := c.Read(b[:])
			if err != nil {
				return
			}
			if k < len(b) && r.IntN(3) == 0 {
				break
			}
		}
	}
}

// A badWorker answers nonsense; it keeps no record, so that a night of it fits.
type badWorker struct {
	l      net.Listener
	seed   uint64
	served atomic.Int64
	wg     sync.WaitGroup
	mu     sync.Mutex
	open   map[net.Conn]bool
}

func (w *badWorker) listen(t *testing.T) {
	t.Helper()
	var err error
	if w.l, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	w.open = map[net.Conn]bool{}
	t.Cleanup(w.close)
	w.wg.Go(func() {
		for i := uint64(1000); ; i++ {
			c, err := w.l.Accept()
			if err != nil {
				return
			}
			w.mu.Lock()
			w.open[c] = true
			w.mu.Unlock()
			w.wg.Go(func() {
				w.serve(rand.New(rand.NewPCG(w.seed, i)), c.(*net.TCPConn))
				c.Close()
				w.mu.Lock()
				delete(w.open, c)
				w.mu.Unlock()
			})
		}
	})
}

func (w *badWorker) serve(r *rand.Rand, c *net.TCPConn) {
	var b [16 << 10]byte
	for {
		c.SetDeadline(time.Now().Add(5 * time.Second))
		if r.IntN(20) > 0 { // now and then it speaks first
			if _, err := c.Read(b[:]); err != nil {
				return
			}
		}
		w.served.Add(1)
		from := badAnswers
		if r.IntN(400) == 0 {
			from = rareAnswers
		}
		spill(r, c, mutate(r, from[r.IntN(len(from))], badAnswers))
		switch r.IntN(12) {
		case 0:
			c.SetLinger(0)
			return
		case 1:
			return
		case 2:
			c.CloseWrite()
		case 3:
			time.Sleep(time.Duration(r.IntN(300)) * time.Millisecond)
		}
	}
}

func (w *badWorker) close() {
	w.l.Close()
	w.mu.Lock()
	for c := range w.open {
		c.Close()
	}
	w.mu.Unlock()
	w.wg.Wait()
}
