package proxy_test

import (
	"bufio"
	"io"
	"net"
	"strconv"
	"strings"
	"testing"
	"time"

	"pinboard/internal/proxy"
)

// prompt is how late a byte may pass: far below any merging or polling.
const prompt = time.Second

// readExactly reads len(want) bytes and compares.
func (c *rawClient) readExactly(want string) {
	c.t.Helper()
	b := make([]byte, len(want))
	if n, err := io.ReadFull(c.r, b); err != nil || string(b) != want {
		c.t.Fatalf("read %q, %v; want %q", b[:n], err, want)
	}
}

func TestEachWriteOfAStreamPassesAtOnce(t *testing.T) {
	w := newWorld(t)
	step := make(chan string)
	head := "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
	s := newScripted(t, func(s *scripted, c net.Conn, r *bufio.Reader) {
		s.receive(r)
		for text := range step {
			io.WriteString(c, text)
		}
	})
	defer close(step)
	w.dir.place(s.Worker)
	c := w.dial()
	c.send(get("/t/a"))
	c.SetReadDeadline(time.Now().Add(prompt))
	for _, text := range []string{head, "1\r\nx\r\n", "1\r", "\ny\r\n", "3;ext=1\r\na", "b", "c\r\n"} {
		step <- text
		c.readExactly(text)
		c.SetReadDeadline(time.Now().Add(prompt))
	}
	step <- "0\r\nX-T: 1\r\nPinned-Refusal: lease-unhealthy\r\n"
	step <- "Content-Length: 3\r\n\r\n"
	c.readExactly("0\r\nX-T: 1\r\n\r\n")
}

func TestRequestBodyStreamsWhileTheAnswerStreams(t *testing.T) {
	w := newWorld(t)
	s := newScripted(t, func(s *scripted, c net.Conn, r *bufio.Reader) {
		head, err := readHead(r)
		if err != nil {
			return
		}
		s.mu.Lock()
		s.got = append(s.got, delivery{head: head})
		s.mu.Unlock()
		io.WriteString(c, "HTTP/1.1 200 OK\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n")
		echo := make([]byte, 1)
		for range 3 {
			if _, err := io.ReadFull(r, make([]byte, 3)); err != nil { // "1\r\n"
				return
			}
			io.ReadFull(r, echo)
			io.ReadFull(r, make([]byte, 2))
			io.WriteString(c, "1\r\n"+string(echo)+"\r\n")
		}
		rest, _ := readHead(r) // last chunk and trailers
		s.mu.Lock()
		s.got = append(s.got, delivery{head: rest})
		s.mu.Unlock()
		io.WriteString(c, "0\r\n\r\n")
	})
	w.dir.place(s.Worker)
	c := w.dial()
	c.send("POST /t/a HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n")
	c.readExactly("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
	for _, b := range "abc" {
		c.send("1\r\n" + string(b) + "\r\n")
		c.readExactly("1\r\n" + string(b) + "\r\n")
	}
	c.send("0\r\nX-Sum: 3\r\nPinboard-Epoch: 9\r\npinboard_epoch: 9\r\nHost: evil\r\n\r\n")
	c.readExactly("0\r\n\r\n")
	if got := s.deliveries()[1].head; got != "0\r\nX-Sum: 3\r\n\r\n" {
		t.Errorf("worker got trailers %q", got)
	}
	c.send(get("/t/b")) // the connection goes on
	w.eventually("second request", func() bool { return len(s.deliveries()) == 3 })
}

func TestLargeBodiesPassBothWaysUnchanged(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := newScripted(t, func(s *scripted, c net.Conn, r *bufio.Reader) {
		for {
			d, err := readMessage(r)
			if err != nil {
				return
			}
			io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: "+strconv.Itoa(len(d.body))+"\r\n\r\n"+d.body)
		}
	})
	w.dir.place(s.Worker)
	w.prove()
	c := w.dial()
	for _, n := range []int{1, 3000, 5000, 32 << 10, 100_000, 3 << 20} {
		body := strings.Repeat("0123456789abcdef", n/16+1)[:n]
		go io.WriteString(c.Conn, "PUT /t/a HTTP/1.1\r\nHost: h\r\nContent-Length: "+strconv.Itoa(n)+"\r\n\r\n"+body)
		if got := c.answer(); got.body != body {
			t.Fatalf("%d bytes: came back as %d, head %q", n, len(got.body), got.head)
		}
	}
	if n := s.connections(); n != 1 {
		t.Errorf("%d upstream connections, want 1", n)
	}
}

const handshake = "GET /t/a/ws HTTP/1.1\r\nHost: h\r\nConnection: keep-alive, Upgrade\r\nUpgrade: websocket\r\n" +
	"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Protocol: a, b\r\n\r\n"

const switching = "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n" +
	"Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\nSec-WebSocket-Protocol: b\r\nSet-Cookie: k=v\r\nKeep-Alive: timeout=5\r\n\r\n"

const switched = "HTTP/1.1 101 Switching Protocols\r\n" +
	"Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\nSec-WebSocket-Protocol: b\r\nSet-Cookie: k=v\r\n" +
	"Connection: Upgrade\r\nUpgrade: websocket\r\n\r\n"

// inTwo writes s in two pieces, split at i.
func inTwo(w io.Writer, s string, i int) {
	io.WriteString(w, s[:i])
	if i > 0 && i < len(s) {
		time.Sleep(200 * time.Microsecond)
	}
	io.WriteString(w, s[i:])
}

func TestEarlyBytesOfATunnelSurviveSplitsAtEveryOffset(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	early, reply := "\x81\x85mask!hello", "\x81\x05world"
	at := make(chan int, 1)
	s := newScripted(t, func(s *scripted, c net.Conn, r *bufio.Reader) {
		if _, ok := s.receive(r); !ok {
			return
		}
		inTwo(c, switching+reply, <-at)
		b := make([]byte, len(early))
		io.ReadFull(r, b)
		s.mu.Lock()
		s.got[len(s.got)-1].body = string(b)
		s.mu.Unlock()
		io.WriteString(c, "bye")
	})
	w.dir.place(s.Worker)
	for i := range max(len(handshake+early), len(switching+reply)) {
		c := w.dial()
		at <- min(i, len(switching+reply))
		inTwo(c, handshake+early, min(i, len(handshake+early)))
		c.readExactly(switched + reply + "bye")
		if rest, err := c.rest(); rest != "" || err != nil {
			t.Fatalf("split %d: %q, %v behind the tunnel", i, rest, err)
		}
		c.Close()
		if got := s.deliveries()[i].body; got != early {
			t.Fatalf("split %d: worker got %q", i, got)
		}
	}
	head := s.deliveries()[0].head
	if strings.Count(head, "Upgrade: websocket\r\n") != 1 || strings.Count(head, "Connection: Upgrade\r\n") != 1 {
		t.Errorf("worker got %q", head)
	}
}

// Some fronts say the length of every request, also of a handshake: 0.
func TestHandshakeThatSaysItHasNoBody(t *testing.T) {
	w := newWorld(t)
	s := newScripted(t, func(s *scripted, c net.Conn, r *bufio.Reader) {
		s.receive(r)
		io.WriteString(c, switching)
		b := make([]byte, 5)
		io.ReadFull(r, b)
		io.WriteString(c, "got "+string(b))
	})
	w.dir.place(s.Worker)
	c := w.dial()
	c.send(strings.Replace(handshake, "Host: h", "Host: h\r\nContent-Length: 0", 1))
	c.readExactly(switched)
	c.send("frame")
	c.readExactly("got frame")
	if d := s.deliveries()[0]; d.line("Upgrade") != "websocket" || d.line("Content-Length") != "" {
		t.Errorf("worker got %q", d.head)
	}
}

func TestTunnelPassesAHalfClose(t *testing.T) {
	w := newWorld(t)
	s := newScripted(t, func(s *scripted, c net.Conn, r *bufio.Reader) {
		s.receive(r)
		io.WriteString(c, switching)
		b, _ := io.ReadAll(r)
		io.WriteString(c, "got "+string(b))
	})
	w.dir.place(s.Worker)
	c := w.dial()
	c.send(handshake + "all of it")
	c.Conn.(*net.TCPConn).CloseWrite()
	if got, err := c.rest(); got != switched+"got all of it" || err != nil {
		t.Errorf("client got %q, %v", got, err)
	}
	if x := w.exchange(0); x.Kind != proxy.Tunnel || x.End != proxy.Complete || x.Status != 101 {
		t.Errorf("observed %v %v %d", x.Kind, x.End, x.Status)
	}
}

func TestRefusedHandshakeKeepsTheConnection(t *testing.T) {
	w := newWorld(t)
	s := newScripted(t, replying("HTTP/1.1 401 Unauthorized\r\nContent-Length: 2\r\n\r\nno"))
	w.dir.place(s.Worker)
	c := w.dial()
	for range 3 {
		c.send(handshake)
		if got := c.status(); got != "401 Unauthorized" {
			t.Fatal(got)
		}
	}
}

func TestWrongSwitchIs502(t *testing.T) {
	for name, test := range map[string]struct{ request, answer string }{
		"unasked":         {get("/t/a"), switching},
		"other protocol":  {handshake, "HTTP/1.1 101 X\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n\r\n"},
		"no Upgrade":      {handshake, "HTTP/1.1 101 X\r\nConnection: Upgrade\r\n\r\n"},
		"no Connection":   {handshake, "HTTP/1.1 101 X\r\nUpgrade: websocket\r\n\r\n"},
		"two protocols":   {handshake, "HTTP/1.1 101 X\r\nConnection: Upgrade\r\nUpgrade: websocket, h2c\r\n\r\n"},
		"of HTTP/1.0":     {handshake, "HTTP/1.0 101 X\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"},
		"no HTTP at all":  {handshake, "SSH-2.0-OpenSSH\r\n\r\n"},
		"an HTTP/2 frame": {handshake, "\x00\x00\x12\x04\x00\x00\r\n\r\n"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.dir.place(newScripted(t, replying(test.answer)).Worker)
			c := w.dial()
			c.send(test.request)
			if got := c.status(); got != "502 Bad Gateway" {
				t.Error(got)
			}
		})
	}
}

// A stream that had to be waited for leaves its connection as it found it:
// what was sent behind the request, at once or later, is served next.
func TestRequestsBehindAStream(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := newScripted(t, func(s *scripted, c net.Conn, r *bufio.Reader) {
		for {
			d, ok := s.receive(r)
			if !ok {
				return
			}
			if !strings.Contains(d.head, "/t/stream") {
				io.WriteString(c, okAnswer)
				continue
			}
			for _, part := range []string{"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", "2\r\nhi\r\n", "0\r\n", "\r\n"} {
				io.WriteString(c, part)
				time.Sleep(3 * time.Millisecond)
			}
		}
	})
	w.dir.place(s.Worker)
	const streamed = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\n\r\n"
	before := w.p.InFlight(proxy.Stream)
	for _, late := range []bool{false, true} {
		c := w.dial()
		for range 5 {
			c.send(get("/t/stream"))
			if late {
				c.readExactly(streamed)
			}
			c.send(bodyless + get("/t/stream") + bodyless)
			if !late {
				c.readExactly(streamed)
			}
			c.readExactly(okAnswer + streamed + okAnswer)
		}
		c.Conn.(*net.TCPConn).CloseWrite()
		if rest, err := c.rest(); rest != "" || err != nil {
			t.Errorf("after the last answer: %q, %v", rest, err)
		}
	}
	w.eventually("no stream is left", func() bool { return w.p.InFlight(proxy.Stream) == before })
}

// However requests are cut into segments, each is answered once and in order.
func TestRequestsInPieces(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := newScripted(t, replying(okAnswer))
	w.dir.place(s.Worker)
	all := bodyless + "POST /t/a HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\nhello" + "\r\n" + bodyless
	c := w.dial()
	c.Conn.(*net.TCPConn).SetNoDelay(true)
	for cut := 1; cut < len(all); cut++ {
		c.send(all[:cut])
		time.Sleep(time.Millisecond)
		c.send(all[cut:])
		c.readExactly(okAnswer + okAnswer + okAnswer)
	}
	if n := len(s.deliveries()); n != 3*(len(all)-1) {
		t.Errorf("%d deliveries for %d requests", n, 3*(len(all)-1))
	}
}
