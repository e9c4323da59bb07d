package fieldtest

import (
	"fmt"
	"net"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"pinboard/internal/rawtest"
)

// Heads and each write of a stream pass at once, and one-byte writes with a
// pause between them stay what they were. Sockets on a busy machine are late
// now and then, so most must be in time and none far out.
func TestEachWritePassesAtOnce(t *testing.T) {
	t.Parallel()
	n := start(t)
	const writes, pause = 30, 60 * time.Millisecond
	sent := make(chan time.Time, 2*writes)
	n.worker(func(c *rawtest.Conn) {
		m, ok := c.Head()
		if !ok {
			return
		}
		head := sseHead
		if m.Has("Upgrade") {
			head = switching
		}
		sent <- time.Now()
		c.Write(head)
		for range writes {
			time.Sleep(pause)
			sent <- time.Now()
			if m.Has("Upgrade") {
				c.Write("x")
			} else {
				c.Write(chunk("x"))
			}
		}
		c.AwaitEnd(patience)
	})
	for name, request := range map[string]string{"events": get("/t/a"), "tunnel": handshake} {
		c := n.dial()
		c.Write(request)
		if m := c.Head(); m.Status() != 200 && m.Status() != 101 {
			t.Fatalf("%s: %q", name, m.Raw)
		}
		unit := map[string]string{"events": chunk("x"), "tunnel": "x"}[name]
		late := []time.Duration{time.Since(<-sent)}
		merged := 0
		for got := 0; got < writes*len(unit); {
			b, end := c.Some()
			k := len(b)
			if end != rawtest.Alive || string(b) != strings.Repeat(unit, max(1, k/len(unit))) {
				t.Fatalf("%s: read %q, then %s", name, b, end)
			}
			if got += k; k > len(unit) {
				merged++
			}
			for range k / len(unit) {
				late = append(late, time.Since(<-sent))
			}
		}
		c.Close()
		slices.Sort(late)
		if late[len(late)/2] > 100*time.Millisecond || late[len(late)-1] > slack {
			t.Errorf("%s: passed after %v", name, late)
		}
		if merged > writes/4 {
			t.Errorf("%s: %d of %d reads held more than one write", name, merged, writes)
		}
	}
}

// A hundred slow readers of a worker that could fill the network, and a
// hundred uploads to a worker that hardly reads: the node holds next to
// nothing of either.
func TestMemoryStaysFlatUnderBackPressure(t *testing.T) {
	t.Parallel()
	for _, direction := range []string{"downloads", "uploads"} {
		t.Run(direction, func(t *testing.T) {
			t.Parallel()
			n := start(t)
			block := strings.Repeat("b", 64<<10)
			var moved atomic.Int64
			stop := make(chan struct{})
			n.worker(func(c *rawtest.Conn) {
				m, ok := c.Head()
				if !ok {
					return
				}
				if m.Method() == "GET" {
					c.Write("HTTP/1.1 200 OK\r\nContent-Length: 1000000000000\r\n\r\n")
					for c.Write(block) {
						moved.Add(int64(len(block)))
					}
					return
				}
				for {
					select {
					case <-stop:
						return
					case <-time.After(100 * time.Millisecond):
						c.Read(100)
					}
				}
			})
			before := n.census()
			idle := n.metric("process_resident_memory_bytes")
			var wg sync.WaitGroup
			const clients = 100
			for i := range clients {
				wg.Go(func() {
					c := n.dial()
					if direction == "downloads" {
						c.TCP.SetReadBuffer(8 << 10)
						c.Write(get(fmt.Sprint("/t/down", i)))
						for {
							select {
							case <-stop:
								c.RST()
								return
							case <-time.After(100 * time.Millisecond):
								c.TCP.SetReadDeadline(time.Now().Add(patience))
								var b [100]byte
								c.TCP.Read(b[:])
							}
						}
					}
					c.Write(ask("POST", fmt.Sprint("/t/up", i), "Content-Length: 1000000000000"))
					for {
						select {
						case <-stop:
							c.RST()
							return
						default:
						}
						c.TCP.SetWriteDeadline(time.Now().Add(200 * time.Millisecond))
						k, err := c.TCP.Write([]byte(block))
						moved.Add(int64(k))
						if ne, ok := err.(net.Error); err != nil && (!ok || !ne.Timeout()) {
							return
						}
					}
				})
			}
			eventually(t, "all of them are under way", func() bool { return n.metric("pinboard_connections") == clients })
			eventually(t, "the sockets between are full", func() bool {
				at := moved.Load()
				time.Sleep(500 * time.Millisecond)
				return moved.Load()-at < 8<<20
			})
			first := n.metric("process_resident_memory_bytes")
			time.Sleep(2500 * time.Millisecond)
			second := n.metric("process_resident_memory_bytes")
			close(stop)
			wg.Wait()
			if held := second - idle; held > clients*(256<<10)*raceFactor {
				t.Errorf("%.1f MB for %d exchanges", held/1e6, clients)
			}
			if grown := second - first; grown > 8e6*raceFactor {
				t.Errorf("memory grew by %.1f MB in between", grown/1e6)
			}
			n.quietly(before)
		})
	}
}

// Ten thousand WebSockets that end badly leave nothing behind.
func TestTenThousandBadEndsLeaveNothing(t *testing.T) {
	t.Parallel()
	n := start(t)
	n.worker(func(c *rawtest.Conn) {
		m, ok := c.Head()
		if !ok {
			return
		}
		switch m.Get("X-End") {
		case "worker resets":
			c.Write(switching + "\x81\x02hi")
			c.RST()
		case "worker leaves":
			c.Write(switching)
		case "half a head":
			c.Write(switching[:40])
		case "wrong switch":
			c.Write(strings.Replace(switching, "websocket", "h2c", 1))
			c.AwaitEnd(patience)
		case "refused":
			c.Write(rawtest.Response(403, "no"))
		default:
			c.Write(switching + "\x81\x02hi")
			c.AwaitEnd(patience)
		}
	})
	ends := []string{"worker resets", "worker leaves", "half a head", "wrong switch", "refused", "client resets", "client leaves",
		"client half-closes", "client resets at once", "client resets in a frame"}
	request := func(end string) string { return strings.Replace(handshake, "Host: h", "Host: h\r\nX-End: "+end, 1) }
	one := func(i int) {
		end := ends[i%len(ends)]
		c, err := net.Dial("tcp", n.addr)
		if err != nil {
			t.Error(err)
			return
		}
		defer c.Close()
		tcp := c.(*net.TCPConn)
		tcp.SetDeadline(time.Now().Add(patience))
		c.Write([]byte(request(end)))
		var b [4 << 10]byte
		switch end {
		case "client resets at once":
			tcp.SetLinger(0)
		case "client resets in a frame":
			c.Read(b[:])
			c.Write([]byte("\x81\xff\x00"))
			tcp.SetLinger(0)
		case "client resets":
			c.Read(b[:])
			tcp.SetLinger(0)
		case "client leaves":
			c.Read(b[:])
		case "client half-closes":
			c.Read(b[:])
			tcp.CloseWrite()
			for {
				if _, err := c.Read(b[:]); err != nil {
					return
				}
			}
		case "refused", "wrong switch", "half a head":
			c.Read(b[:])
		default:
			for {
				if _, err := c.Read(b[:]); err != nil {
					return
				}
			}
		}
	}
	before := n.census()
	begun := time.Now()
	var next atomic.Int64
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for i := next.Add(1); i <= 10000; i = next.Add(1) {
				one(int(i))
			}
		})
	}
	wg.Wait()
	t.Logf("10,000 bad ends in %v", time.Since(begun))
	n.quietly(before)
}

// Out of descriptors a node refuses what it cannot serve, serves what it has,
// and is itself again once the crowd has left.
func TestOutOfDescriptorsShedsAndRecovers(t *testing.T) {
	t.Parallel()
	n := run(t, exec.Command("sh", "-c", `ulimit -n 100 && exec "$0" serve`, binary))
	n.worker(rawtest.Always(rawtest.Response(200, "ok")))
	kept := n.dial()
	ask := func(c *rawtest.Client) rawtest.Message {
		c.Write(get("/t/a"))
		return c.Response("GET")
	}
	if m := ask(kept); m.Status() != 200 {
		t.Fatalf("%q", m.Raw)
	}
	var crowd []*rawtest.Client
	for range 150 {
		crowd = append(crowd, n.dial())
	}
	shed := 0
	for _, c := range crowd[100:] {
		c.Patience = 100 * time.Millisecond
		if m := ask(c); ours(m, 503, "overloaded") {
			shed++
		}
	}
	if m := ask(kept); m.Status() != 200 && !ours(m, 503, "overloaded") {
		t.Errorf("a connection that was there before: %q, %v", m.Raw, m.End)
	}
	if shed == 0 {
		t.Error("nobody was told")
	}
	for _, c := range crowd {
		c.Close()
	}
	eventually(t, "it serves again", func() bool {
		c := n.dial()
		defer c.Close()
		return ask(c).Status() == 200
	})
}
