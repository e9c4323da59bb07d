package fieldtest

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pinboard/internal/rawtest"
)

// frame is one masked WebSocket text frame, "early bird".
const frame = "\x81\x8a\x01\x02\x03\x04dcqhx\"amsf"

// FC-01: what either side sends right behind the switch belongs to the tunnel,
// wherever the writes are split.
func TestFC01EarlyBytesOfBothSidesSurviveEverySplit(t *testing.T) {
	t.Parallel()
	n := start(t)
	const greeting = "\x81\x05hello"
	early := make(chan string, 1)
	cut := make(chan int, 1)
	w := n.worker(func(c *rawtest.Conn) {
		if _, ok := c.Head(); !ok {
			return
		}
		at := <-cut
		both := switching + greeting
		at = min(at, len(both))
		c.Pieces(2*time.Millisecond, both[:at], both[at:])
		b, _ := c.Read(len(frame))
		early <- string(b)
	})
	sent := handshake + frame
	for at := 0; at <= max(len(sent), len(switching+greeting)); at++ {
		cut <- at
		c := n.dial()
		c.Split(time.Millisecond, sent, min(at, len(sent)))
		if m := c.Head(); m.Status() != 101 {
			t.Fatalf("cut at %d: %q", at, m.Raw)
		}
		if b, _ := c.Read(len(greeting)); string(b) != greeting {
			t.Errorf("cut at %d: the client got %q", at, b)
		}
		if b := <-early; b != frame {
			t.Errorf("cut at %d: the worker got %q", at, b)
		}
		c.Close()
	}
	if got := received(w.got()[0]); got != handshake {
		t.Errorf("the handshake arrived as %q", got)
	}
}

// FC-04: the 101 is the worker's; both handshakes pass as they were written.
func TestFC04TheHandshakeIsTheWorkers(t *testing.T) {
	t.Parallel()
	n := start(t)
	offer := strings.Replace(handshake, "\r\n\r\n", "\r\nSec-WebSocket-Protocol: a, b\r\n"+
		"Sec-WebSocket-Extensions: permessage-deflate; client_max_window_bits\r\n\r\n", 1)
	for name, picked := range map[string]string{
		"picks": "Sec-WebSocket-Protocol: b\r\nSec-WebSocket-Extensions: permessage-deflate\r\nSet-Cookie: s=1\r\nX-Y: z\r\n",
		"none":  "X-Y: z\r\n",
	} {
		w := n.worker(func(c *rawtest.Conn) {
			if _, ok := c.Head(); ok {
				c.Write("HTTP/1.1 101 Web Socket Protocol Handshake\r\nSec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n" +
					picked + "Keep-Alive: timeout=5\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n")
				c.AwaitEnd(patience)
			}
		}, "/"+name)
		c := n.dial()
		c.Write(strings.Replace(offer, "/t/a/ws", "/"+name+"/a/ws", 1))
		got := c.Head()
		const want = "HTTP/1.1 101 Web Socket Protocol Handshake\r\nSec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n"
		if string(got.Head) != want+picked+"Connection: Upgrade\r\nUpgrade: websocket\r\n\r\n" {
			t.Errorf("%s: the client got %q", name, got.Head)
		}
		req := w.last()
		if req.Get("Sec-WebSocket-Protocol") != "a, b" || !strings.HasPrefix(req.Get("Sec-WebSocket-Extensions"), "permessage-deflate; client") ||
			req.Get("Upgrade") != "websocket" || !slices.Equal(req.Values("Connection"), []string{"Upgrade"}) {
			t.Errorf("%s: the worker got %q", name, req.Head)
		}
		c.Close()
	}
}

// FC-06: nothing but a WebSocket is ever switched to: any other offer is
// dropped and the request goes on as an ordinary one.
func TestFC06OnlyWebSocketIsTunnelled(t *testing.T) {
	t.Parallel()
	n := start(t)
	w := n.worker(rawtest.Always(rawtest.Response(200, "plain")))
	const settings = "HTTP2-Settings: AAMAAABkAARAAAAAAAIAAAAA"
	for name, request := range map[string]string{
		"h2c":            ask("GET", "/t/a", "Connection: Upgrade, HTTP2-Settings", "Upgrade: h2c", settings),
		"h2c unlisted":   ask("GET", "/t/a", "Connection: Upgrade", "Upgrade: h2c", settings),
		"two protocols":  ask("GET", "/t/a", "Connection: Upgrade", "Upgrade: websocket, h2c"),
		"two fields":     ask("GET", "/t/a", "Connection: Upgrade", "Upgrade: websocket", "Upgrade: h2c"),
		"TLS":            ask("GET", "/t/a", "Connection: Upgrade", "Upgrade: TLS/1.0"),
		"HTTP/1.0":       strings.Replace(handshake, "HTTP/1.1", "HTTP/1.0", 1),
		"POST":           strings.Replace(handshake, "GET", "POST", 1),
		"with a body":    strings.Replace(handshake, "\r\n\r\n", "\r\nContent-Length: 2\r\n\r\nhi", 1),
		"without option": ask("GET", "/t/a", "Upgrade: websocket"),
	} {
		before := len(w.got())
		m := n.do(request)
		if m.Status() != 200 || string(m.Body) != "plain" {
			t.Errorf("%s: %q", name, m.Raw)
		}
		got := w.got()
		if len(got) != before+1 {
			t.Fatalf("%s: %d deliveries", name, len(got)-before)
		}
		for _, field := range []string{"Upgrade", "HTTP2-Settings", "Connection"} {
			if req := w.last(); req.Has(field) {
				t.Errorf("%s: the worker got %q", name, req.Head)
			}
		}
	}
	w.Play(rawtest.Always("HTTP/1.1 101 Switching Protocols\r\nUpgrade: h2c\r\nConnection: Upgrade\r\n\r\n"))
	time.Sleep(50 * time.Millisecond)
	for _, request := range []string{get("/t/b"), strings.Replace(handshake, "/t/a", "/t/b", 1)} {
		c := n.dial()
		c.Write(request)
		if m := c.Final("GET"); m.Status() != 502 && m.Status() != 200 {
			t.Errorf("a 101 nobody asked for: %q", m.Raw)
		}
		c.Close()
	}
}

// FC-08: a tunnel ends with either peer, and with its owner's lease.
func TestFC08TunnelsOutliveNobody(t *testing.T) {
	t.Parallel()
	n := start(t)
	felt := make(chan rawtest.End, 1)
	w := n.worker(func(c *rawtest.Conn) {
		for {
			m, ok := c.Head()
			if !ok {
				return
			}
			if !strings.HasSuffix(m.Target(), "/ws") {
				c.Write(rawtest.Response(200, "ok"))
				continue
			}
			c.Write(switching)
			felt <- c.AwaitEnd(patience)
			if strings.Contains(m.Target(), "/stubborn") {
				c.AwaitEnd(10 * time.Second) // has seen the FIN and does not care
			}
			return
		}
	})
	before := n.census()
	open := func(path string) *rawtest.Client {
		c := n.dial()
		c.Write(strings.Replace(handshake, "/t/a/ws", path, 1))
		if m := c.Head(); m.Status() != 101 {
			t.Fatalf("%q", m.Raw)
		}
		return c
	}

	c := open("/t/a/ws")
	c.RST()
	within(t, time.Second, "the worker feels the reset", felt)

	c = open("/t/stubborn/ws")
	c.HalfClose()
	if end := within(t, time.Second, "the worker gets the FIN", felt); end != rawtest.FIN {
		t.Errorf("the FIN arrived as %v", end)
	}
	if _, end := c.Rest(8 * time.Second); end == rawtest.Quiet {
		t.Error("a worker that ignores the FIN holds the tunnel for more than 8 s")
	}
	c.Close()
	_ = w
	n.quietly(before)
}

// FC-08 (c): the owner's lease lapses while it still answers: the tunnel is
// cut, and the id lives on elsewhere at a higher epoch.
func TestFC08TunnelsAreCutAtTheLapse(t *testing.T) {
	t.Parallel()
	const lease = 4 * time.Second
	n := start(t, fmt.Sprint("PINBOARD_LEASE_TTL_MS=", lease.Milliseconds()))
	script := func(c *rawtest.Conn) {
		m, ok := c.Head()
		if !ok {
			return
		}
		if m.Has("Upgrade") {
			c.Write(switching)
			for c.Write("tick") {
				time.Sleep(20 * time.Millisecond)
			}
			return
		}
		c.Write(rawtest.Response(200, m.Get("Pinboard-Epoch"), "Connection: close"))
	}
	first := n.workerBeating(script, 200*time.Millisecond, "/t")
	c := n.dial()
	c.Patience = patience
	c.Write(handshake)
	if m := c.Head(); m.Status() != 101 {
		t.Fatalf("%q", m.Raw)
	}
	epoch := first.last().Get("Pinboard-Epoch")
	first.Pause()
	paused := time.Now()
	second := rawtest.NewWorker(t, script)
	second.Register(n.url, token, 200*time.Millisecond, "/t")
	if _, end := c.Rest(patience); end == rawtest.Quiet {
		t.Fatal("the tunnel was never cut")
	}
	if took := time.Since(paused); took > lease+time.Second {
		t.Errorf("cut %v after the last beat, the lease is %v", took, lease)
	}
	eventually(t, "the id is served elsewhere", func() bool {
		m := n.do(get("/t/a"))
		return m.Status() == 200 && second.Deliveries() > 0 && higher(string(m.Body), epoch)
	})
}

// higher compares epochs.
func higher(a, b string) bool { return len(a) > len(b) || len(a) == len(b) && a > b }

func within[T any](t *testing.T, d time.Duration, what string, c <-chan T) (v T) {
	t.Helper()
	select {
	case v = <-c:
	case <-time.After(d + slack):
		t.Fatalf("not within %v: %s", d, what)
	}
	return v
}

// slack is what a busy machine may add to any bound of time.
const slack = 3 * time.Second
