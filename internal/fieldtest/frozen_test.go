package fieldtest

import (
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"pinboard/internal/freeze"
	"pinboard/internal/rawtest"
)

// FC-47: a worker that is stopped for real keeps its sockets. What hangs on it
// ends with its lease; then the id lives elsewhere, at a higher epoch; when it
// goes on it is told to register again.
func TestFC47TheFrozenWorker(t *testing.T) {
	if url := os.Getenv(childVariable); url != "" {
		childWorker(t, url)
		return
	}
	t.Parallel()
	const lease = 4 * time.Second
	n := start(t, fmt.Sprint("PINBOARD_LEASE_TTL_MS=", lease.Milliseconds()))
	frozen := n.child()
	frozen.hear("beat 200 <nil>")
	var epoch string
	eventually(t, "an id on the worker", func() bool {
		m := n.do(get("/t/a"))
		epoch = string(m.Body)
		return m.Status() == 200
	})
	open := map[string]*rawtest.Client{}
	for name, request := range map[string]string{
		"sse": get("/t/a/sse"), "ws": strings.Replace(handshake, "/t/a/ws", "/t/a/ws", 1), "post": post("/t/a/hold", "hi"),
	} {
		c := n.dial()
		c.Patience = patience
		c.Write(request)
		if name != "post" {
			if m := c.Head(); m.Status() != 200 && m.Status() != 101 {
				t.Fatalf("%s: %q", name, m.Raw)
			}
		}
		open[name] = c
	}
	second := rawtest.NewWorker(t, func(c *rawtest.Conn) {
		if m, ok := c.Request(); ok {
			c.Write(rawtest.Response(200, m.Get("Pinboard-Epoch"), "Connection: close"))
		}
	})
	second.Register(n.url, token, 300*time.Millisecond, "/t")

	stopped := time.Now()
	if err := freeze.Process(frozen.cmd.Process); err != nil {
		t.Fatal(err)
	}
	during := n.dial()
	during.Patience = patience
	during.Write(get("/t/a"))

	for _, name := range []string{"sse", "ws"} {
		b, end := open[name].Rest(patience)
		if end == rawtest.Quiet {
			t.Errorf("%s: still open", name)
		}
		if strings.HasSuffix(string(b), "0\r\n\r\n") || strings.Contains(string(b), "error") {
			t.Errorf("%s: ended as if it were whole: %q", name, b)
		}
	}
	if m := open["post"].Final("POST"); !ours(m, 503, "owner_lost") {
		t.Errorf("the request in flight: %q, %v", m.Raw, m.End)
	}
	if m := during.Final("GET"); !ours(m, 503, "owner_lost") {
		t.Errorf("the request made meanwhile: %q, %v", m.Raw, m.End)
	}
	if took := time.Since(stopped); took > lease+slack {
		t.Errorf("all this took %v, the lease is %v", took, lease)
	}
	eventually(t, "the id lives elsewhere", func() bool {
		m := n.do(get("/t/a"))
		if m.Status() != 200 {
			return false
		}
		if second.Deliveries() == 0 || !higher(string(m.Body), epoch) {
			t.Fatalf("epoch %s behind %s, %d deliveries", m.Body, epoch, second.Deliveries())
		}
		return true
	})
	frozen.signal(syscall.SIGCONT)
	frozen.hear("beat 409 true")
	if m := n.do(get("/t/a")); m.Status() != 200 || second.Deliveries() < 2 {
		t.Errorf("the id went back: %q", m.Raw)
	}
}

// FC-47: a worker whose connects go nowhere fails in bounded time. A new
// placement moves on, an old one stays.
func TestFC47TheBlackHole(t *testing.T) {
	t.Parallel()
	n := start(t, "PINBOARD_CONNECT_TIMEOUT_MS=300")
	status, answer := n.post("/registry/register", map[string]any{
		"clientId": strings.Repeat("b", 32), "secret": strings.Repeat("b", 64), "namespaces": []string{"/t"},
		"advertiseUrl": "http://" + rawtest.BlackHole(t), "headroom": 1024, "draining": false,
	})
	if status != 200 {
		t.Fatalf("register: %d %v", status, answer)
	}
	eventually(t, "502", func() bool {
		begun := time.Now()
		m := n.do(get("/t/a"))
		if took := time.Since(begun); took > 300*time.Millisecond+slack {
			t.Fatalf("%v: %q", took, m.Raw)
		}
		return ours(m, 502, "worker_unreachable")
	})
	good := rawtest.NewWorker(t, func(c *rawtest.Conn) {
		if m, ok := c.Request(); ok {
			c.Write(rawtest.Response(200, m.Get("Pinboard-Epoch"), "Connection: close"))
		}
	})
	good.Register(n.url, token, 300*time.Millisecond, "/t")
	var epoch string
	eventually(t, "the id is placed again", func() bool {
		m := n.do(get("/t/a"))
		epoch = string(m.Body)
		return m.Status() == 200
	})

	if m := n.do(get("/t/a")); string(m.Body) != epoch { // a hit confirms the row
		t.Fatalf("%q", m.Raw)
	}
	good.Refuse()
	time.Sleep(50 * time.Millisecond)
	if m := n.do(get("/t/a")); !ours(m, 502, "worker_unreachable") {
		t.Errorf("a confirmed row, connect refused: %q", m.Raw)
	}
	good.Accept()
	if m := n.do(get("/t/a")); string(m.Body) != epoch {
		t.Errorf("the row is gone: epoch %q, was %s", m.Raw, epoch)
	}
}
