package proxy_test

import (
	"bufio"
	"io"
	"math/rand/v2"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"pinboard/internal/directory"
	"pinboard/internal/proxy"
)

// chaosTime is short: the long run against the real command is FC-68's.
const chaosTime = 2 * time.Second

var chaosRequests = []string{
	bodyless, withBody, chunkedBody, emptyBody, handshake, handshake + "early", bodyless + bodyless, expecting, expecting + "hi",
	"POST /t/a HTTP/1.1\r\nHost: h\r\nContent-Length: 400000\r\n\r\n" + strings.Repeat("z", 400_000),
	"GET /t/a HTTP/1.0\r\nConnection: keep-alive\r\n\r\n", "HEAD /t/a HTTP/1.1\r\nHost: h\r\n\r\n",
	"POST /t/a HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhelloXX", "GET / HT", "",
}

var chaosAnswers = []string{
	okAnswer, okAnswer, switching + "x", refused, badAttestation, "junk\r\n\r\n", "", "HTTP/1.1 204 N\r\n\r\n",
	"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\nX: y\r\n\r\n", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
	"HTTP/1.1 200 OK\r\n\r\nhello", "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nx", "HTTP/1.1 103 H\r\n\r\n" + okAnswer,
	"HTTP/1.1 200 OK\r\nContent-Length: 300000\r\n\r\n" + strings.Repeat("y", 300_000),
}

// chaosWorker reads what it likes, answers anything, in pieces, and ends its
// connections in every way.
func chaosWorker(s *scripted, c net.Conn, r *bufio.Reader) {
	for rand.IntN(10) > 0 {
		read := func() error { _, err := readMessage(r); return err }
		if rand.IntN(2) == 0 {
			read = func() error { _, err := readHead(r); return err }
		}
		if read() != nil {
			return
		}
		answer := chaosAnswers[rand.IntN(len(chaosAnswers))]
		inTwo(c, answer, rand.IntN(len(answer)+1))
		switch rand.IntN(8) {
		case 0:
			c.(*net.TCPConn).SetLinger(0)
			return
		case 1:
			return
		case 2:
			time.Sleep(30 * time.Millisecond)
		case 3:
			c.(*net.TCPConn).CloseWrite()
		}
	}
}

// chaosClient sends whole and cut requests and leaves in every way.
func chaosClient(t *testing.T, addr string) {
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Error(err)
		return
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(100 * time.Millisecond))
	for i := range 1 + rand.IntN(3) {
		request := chaosRequests[rand.IntN(len(chaosRequests))]
		if len(request) > 1000 && i > 0 {
			continue // its bytes would hold back the FIN behind them
		}
		if rand.IntN(3) == 0 {
			request = request[:rand.IntN(len(request)+1)]
		}
		io.WriteString(c, request)
		if rand.IntN(2) == 0 {
			io.CopyN(io.Discard, c, int64(rand.IntN(100)))
		}
	}
	switch rand.IntN(4) {
	case 0:
		c.(*net.TCPConn).SetLinger(0)
	case 1:
		c.(*net.TCPConn).CloseWrite()
		io.Copy(io.Discard, c)
	}
}

// FC-68: whatever clients and workers do to each other, a bystander is served
// and nothing is left behind (goleak looks for goroutines).
func TestChaosIsNobodyElsesBusiness(t *testing.T) {
	w := newWorld(t, func(c *proxy.Config) {
		c.HalfCloseGrace, c.HeadTimeout, c.Lease = 20*time.Millisecond, 50*time.Millisecond, 300*time.Millisecond
		c.WorkerMaxConns, c.WorkerQueue = 20, 20*time.Millisecond
	})
	w.dir.lease = 300 * time.Millisecond
	w.dir.report = func(directory.Placement, directory.Event) directory.Verdict { return directory.Verdict{Again: true} }
	wild, calm := newScripted(t, chaosWorker), newScripted(t, replying(okAnswer))
	w.dir.resolve = func(_ int, r directory.Request) (directory.Placement, error) {
		if r.Address.ID == "calm" {
			p := w.dir.placement(calm.Worker, r)
			p.Deadline = p.Deadline.Add(time.Hour)
			return p, nil
		}
		p := w.dir.placement(wild.Worker, r)
		p.Settling = rand.IntN(2) == 0
		return p, nil
	}
	end := time.Now().Add(chaosTime)
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() {
			for time.Now().Before(end) {
				chaosClient(t, w.addr)
			}
		})
	}
	for time.Now().Before(end) {
		if got := w.ask(get("/t/calm")); got.body != "ok" {
			t.Errorf("the bystander got %q", got)
		}
		time.Sleep(10 * time.Millisecond)
	}
	wg.Wait()
	w.eventually("nothing in flight, no connection left", func() bool {
		return w.p.InFlight(proxy.Finite)+w.p.InFlight(proxy.Stream)+w.p.InFlight(proxy.Tunnel) == 0 && wild.connections() == 0
	})
}
