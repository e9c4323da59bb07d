package fieldtest

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pinboard/internal/rawtest"
)

// FC-10: Pinboard never asks for a coding and never undoes one.
func TestFC10NobodyAskedForCompression(t *testing.T) {
	t.Parallel()
	n := start(t)
	const packed = "\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\x03\xcbH\xcd\xc9\xc9\x07\x00\x86\xa6\x106\x05\x00\x00\x00"
	answer := "HTTP/1.1 200 OK\r\nETag: \"strong\"\r\nContent-Type: text/plain\r\nVary: Accept-Encoding\r\n"
	w := n.worker(func(c *rawtest.Conn) {
		for {
			m, ok := c.Request()
			if !ok {
				return
			}
			head, body := answer, "hello"
			if strings.Contains(m.Get("Accept-Encoding"), "gzip") {
				head, body = head+"Content-Encoding: gzip\r\n", packed
			}
			switch {
			case m.Has("Range"):
				head, body = strings.Replace(head, "200 OK", "206 Partial Content", 1)+"Content-Range: bytes 0-1/5\r\n", body[:2]
			case m.Method() == "HEAD":
				c.Write(fmt.Sprintf("%sContent-Length: %d\r\n\r\n", head, len(body)))
				continue
			case m.Has("Accept"):
				c.Write(strings.Replace(head, "text/plain", "text/event-stream", 1) + "Transfer-Encoding: chunked\r\n\r\n" + chunk(body) + "0\r\n\r\n")
				continue
			}
			c.Write(fmt.Sprintf("%sContent-Length: %d\r\n\r\n%s", head, len(body), body))
		}
	})
	for _, coding := range [][]string{nil, {"Accept-Encoding: gzip"}, {"Accept-Encoding: gzip;q=0, identity"}, {"Accept-Encoding:"}} {
		for _, more := range [][]string{nil, {"Range: bytes=0-1"}, {"Accept: text/event-stream"}} {
			for _, method := range []string{"GET", "HEAD"} {
				fields := append(slices.Clone(coding), more...)
				m := n.do(ask(method, "/t/a", fields...))
				if !m.Complete || m.Get("ETag") != `"strong"` {
					t.Errorf("%s %q: %q", method, fields, m.Raw)
				}
				if got := received(w.last()); got != ask(method, "/t/a", fields...) {
					t.Errorf("%s %q arrived as %q", method, fields, got)
				}
				zipped := strings.Contains(strings.Join(coding, ""), "gzip")
				want := map[bool]string{false: "hello", true: packed}[zipped]
				if len(more) > 0 && strings.HasPrefix(more[0], "Range") {
					want = want[:2]
				}
				if method == "GET" && string(m.Body) != want || m.Has("Content-Encoding") != zipped {
					t.Errorf("%s %q: body %q of %q", method, fields, m.Body, m.Head)
				}
				if length := fmt.Sprint(len(want)); m.Has("Content-Length") && m.Get("Content-Length") != length {
					t.Errorf("%s %q: Content-Length %s, want %s", method, fields, m.Get("Content-Length"), length)
				}
			}
		}
	}
}

// FC-11: no clock of Pinboard's ends a live stream, however it is idle; only
// the wait for a head is bounded. The clocks are shortened, the streams
// outlive each of them several times.
func TestFC11NoClockEndsAStream(t *testing.T) {
	t.Parallel()
	n := start(t, "PINBOARD_RESPONSE_TIMEOUT_MS=2500", "PINBOARD_POOL_IDLE_MS=300", "PINBOARD_HALF_CLOSE_GRACE_MS=300",
		"PINBOARD_CONNECT_TIMEOUT_MS=300", "PINBOARD_LEASE_TTL_MS=8000")
	const gap, events = 2800 * time.Millisecond, 3 // a stream is longer than a lease, a gap than a third of one
	n.worker(func(c *rawtest.Conn) {
		for {
			m, ok := c.Head()
			if !ok {
				return
			}
			switch _, rest, _ := strings.Cut(m.Target()[1:], "/"); rest {
			case "sse":
				c.Write(sseHead)
				for i := range events {
					time.Sleep(gap)
					c.Write(chunk(fmt.Sprintf("data: %d\n\n", i)))
				}
				c.Write("0\r\n\r\n")
			case "ws":
				c.Write(switching)
				b, _ := c.Read(4)
				c.Write(string(b))
				return
			case "silent":
				c.AwaitEnd(patience)
				return
			default: // an answer only when the whole body has come
				m = c.Body()
				c.Write(rawtest.Response(200, fmt.Sprint(len(m.Body))))
			}
		}
	})
	t.Run("events", func(t *testing.T) {
		t.Parallel()
		m := n.do(get("/t/sse"))
		if !m.Complete || strings.Count(string(m.Body), "data: ") != events {
			t.Errorf("%q", m.Raw)
		}
	})
	t.Run("quiet WebSocket", func(t *testing.T) {
		t.Parallel()
		c := n.dial()
		c.Write(strings.Replace(handshake, "/t/a/ws", "/t/ws", 1))
		if m := c.Head(); m.Status() != 101 {
			t.Fatalf("%q", m.Raw)
		}
		time.Sleep(events * gap)
		c.Write("ping")
		if b, _ := c.Read(4); string(b) != "ping" {
			t.Errorf("after the silence: %q", b)
		}
	})
	for _, framing := range []string{"length", "chunked"} {
		t.Run("slow upload/"+framing, func(t *testing.T) {
			t.Parallel()
			c := n.dial()
			const pieces = 45
			if framing == "length" {
				c.Write(ask("POST", "/t/up", fmt.Sprint("Content-Length: ", pieces)))
			} else {
				c.Write(ask("POST", "/t/up", "Transfer-Encoding: chunked"))
			}
			for range pieces {
				time.Sleep(100 * time.Millisecond)
				if framing == "length" {
					c.Write("x")
				} else {
					c.Write(chunk("x"))
				}
			}
			if framing == "chunked" {
				c.Write("0\r\n\r\n")
			}
			if m := c.Final("POST"); m.Status() != 200 || string(m.Body) != fmt.Sprint(pieces) {
				t.Errorf("%q", m.Raw)
			}
		})
	}
	t.Run("no head", func(t *testing.T) {
		t.Parallel()
		begun := time.Now()
		if m := n.do(get("/t/silent")); !ours(m, 504, "worker_timeout") {
			t.Errorf("%q", m.Raw)
		}
		if took := time.Since(begun); took < 2500*time.Millisecond || took > 2500*time.Millisecond+slack {
			t.Errorf("504 after %v", took)
		}
	})
}

// FC-11: the head of a slow client is bounded, 10 s.
func TestFC11SlowHeadsAreCutOff(t *testing.T) {
	t.Parallel()
	n := start(t)
	w := n.worker(rawtest.Always(rawtest.Response(200, "ok")))
	c := n.dial()
	c.Patience = time.Second
	begun := time.Now()
	for i := range 20 {
		if !c.Write(get("/t/a")[i : i+1]) {
			break
		}
		if b, end := c.Rest(time.Second); len(b) > 0 || end != rawtest.Quiet {
			if !strings.HasPrefix(string(b), "HTTP/1.1 408 ") || !strings.Contains(string(b), "Connection: close") {
				t.Errorf("%q", b)
			}
			if took := time.Since(begun); took < 9*time.Second || took > 10*time.Second+slack {
				t.Errorf("after %v", took)
			}
			if len(w.got()) > 0 {
				t.Error("the worker heard of it")
			}
			return
		}
	}
	t.Errorf("a byte a second goes on for %v", time.Since(begun))
}

// FC-12: wherever the client leaves, the worker feels it and nothing stays.
func TestFC12ClientGoneIsFelt(t *testing.T) {
	t.Parallel()
	n := start(t)
	felt := make(chan rawtest.End, 1)
	answer := make(chan string, 1)
	w := n.worker(func(c *rawtest.Conn) {
		if _, ok := c.Head(); ok {
			c.Write(<-answer)
			felt <- c.AwaitEnd(patience)
		}
	})
	before := n.census()
	for name, trial := range map[string]struct{ request, answer string }{
		"before the head":         {get("/t/a"), ""},
		"after one event":         {get("/t/a"), sseHead + chunk("data: 1\n\n")},
		"in the middle of a body": {get("/t/a"), "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhello"},
		"with a second request":   {get("/t/a") + get("/t/a"), sseHead + chunk("data: 1\n\n")},
		"inside an upload":        {ask("POST", "/t/a", "Content-Length: 100") + "hello", ""},
		"inside a chunked upload": {ask("POST", "/t/a", "Transfer-Encoding: chunked") + "5\r\nhel", ""},
		"with a body behind":      {post("/t/a", "hello"), ""},
	} {
		for _, leave := range []struct {
			how string
			do  func(*rawtest.Client)
		}{{"RST", (*rawtest.Client).RST}, {"close", (*rawtest.Client).Close}} {
			seen := len(w.got())
			c := n.dial()
			c.Write(trial.request)
			answer <- trial.answer
			w.awaitGot(seen + 1)
			if trial.answer != "" {
				c.Head()
			}
			leave.do(c)
			within(t, time.Second, name+"/"+leave.how, felt)
		}
	}
	n.quietly(before)
	if served := n.metric(`pinboard_forwards_total{result="client_abort"}`); served < 14 {
		t.Errorf("%v exchanges count as left by their clients, 14 were", served)
	}
}

// FC-13: FIN behind a complete request is no good-bye.
func TestFC13HalfClosedClientsAreAnswered(t *testing.T) {
	t.Parallel()
	n := start(t, "PINBOARD_HALF_CLOSE_GRACE_MS=2500")
	n.worker(func(c *rawtest.Conn) {
		for {
			m, ok := c.Request()
			if !ok {
				return
			}
			time.Sleep(300 * time.Millisecond)
			if strings.HasSuffix(m.Target(), "/slowly") { // longer than the grace, never silent for it
				c.Write(sseHead)
				for range 8 {
					time.Sleep(400 * time.Millisecond)
					c.Write(chunk("x"))
				}
				c.Write("0\r\n\r\n")
				continue
			}
			c.Write(rawtest.Response(200, m.Target()+string(m.Body)))
		}
	})
	for request, want := range map[string]string{
		get("/t/a"):         "/t/a",
		post("/t/a", "hey"): "/t/ahey",
		ask("POST", "/t/a", "Transfer-Encoding: chunked") + "3\r\nhey\r\n0\r\n\r\n": "/t/ahey",
		get("/t/slowly"): "xxxxxxxx",
	} {
		c := n.dial()
		c.Write(request)
		c.HalfClose()
		if m := c.Final("GET"); m.Status() != 200 || !m.Complete || string(m.Body) != want {
			t.Errorf("%q: %q", request, m.Raw)
		}
		if rest, end := c.Rest(patience); len(rest) > 0 || end != rawtest.FIN {
			t.Errorf("%q: then %q, %v", request, rest, end)
		}
	}
}

// FC-14: a worker that dies inside its answer: the client reads what was sent
// and then an error, never a clean end and never a word of ours.
func TestFC14CutAnswersStayCut(t *testing.T) {
	t.Parallel()
	n := start(t)
	const length = "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n"
	const open = "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n\r\n"
	const whole = "(whole)"
	trials := 0
	for name, trial := range map[string]struct {
		sends string
		rst   bool
		want  string // the body as far as it came; whole: the answer ends well
	}{
		"length, some":      {length + "hello", false, "hello"},
		"length, none":      {length, false, ""},
		"chunks":            {chunkedHead + chunk("hello"), false, "hello"},
		"inside a chunk":    {chunkedHead + "5\r\nhel", false, "hel"},
		"inside a size":     {chunkedHead + chunk("hello") + "1", false, "hello"},
		"inside trailers":   {chunkedHead + chunk("hello") + "0\r\nX-T: ", false, "hello"},
		"events, reset":     {sseHead + chunk("data: 1\n\n"), true, "data: 1\n\n"},
		"until close":       {open + "hello", false, whole},
		"until close/reset": {open + "hello", true, "hello"},
		"bad chunk":         {chunkedHead + chunk("hello") + "zz\r\nmore", false, "hello"},
	} {
		for _, method := range []string{"GET", "POST"} {
			w := rawtest.NewWorker(t, nil)
			w.Play(func(c *rawtest.Conn) {
				m, ok := c.Request()
				switch {
				case !ok:
				case strings.HasSuffix(m.Target(), "/warm"):
					c.Write(rawtest.Response(200, "", "Connection: close"))
				default:
					c.Write(trial.sends)
					time.Sleep(50 * time.Millisecond) // a reset overtakes what is still on its way
					if trial.rst {
						c.RST()
					}
				}
			})
			trials++
			ns := fmt.Sprintf("/n%d", trials)
			w.Register(n.url, token, time.Minute, ns)
			eventually(t, "an id", func() bool { return n.do(get(ns+"/a/warm")).Status() == 200 })
			request := get(ns + "/a")
			if method == "POST" {
				request = post(ns+"/a", "hi")
			}
			m := n.do(request)
			if m.Status() != 200 {
				t.Errorf("%s %s: no head: %q, %v", method, name, m.Raw, m.End)
				continue
			}
			if trial.want == whole {
				if !m.Complete || string(m.Body) != "hello" {
					t.Errorf("%s %s: %q, %v", method, name, m.Raw, m.End)
				}
				continue
			}
			got := string(m.Raw[len(m.Head):])
			want := trial.sends[strings.Index(trial.sends, "\r\n\r\n")+4:]
			if m.Complete || m.End != rawtest.FIN && m.End != rawtest.RST || !strings.HasPrefix(want, got) {
				t.Errorf("%s %s: %q ended %v", method, name, m.Raw, m.End)
			}
			// What came in whole writes before the end has passed.
			if body := string(m.Body); body != trial.want && !strings.HasPrefix(name, "inside a chunk") {
				t.Errorf("%s %s: body %q, want %q", method, name, body, trial.want)
			}
		}
	}
	eventually(t, "cut answers are counted", func() bool {
		return n.metric(`pinboard_forwards_total{result="worker_abort"}`) == 18
	})
	if l := n.line("response cut short"); l["cause"] != "worker_gone" {
		t.Errorf("logged as %v", l)
	}
}
