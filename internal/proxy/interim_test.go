package proxy_test

import (
	"bufio"
	"io"
	"net"
	"strings"
	"testing"
	"time"
)

// FC-21: interim answers pass in order, none to HTTP/1.0.
func TestInterimAnswersPass(t *testing.T) {
	t.Parallel()
	const interim = "HTTP/1.1 103 Early Hints\r\nLink: </a.css>; rel=preload\r\n\r\nHTTP/1.1 102 Processing\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: <b>\r\n\r\n"
	many := strings.Repeat("HTTP/1.1 103 Early Hints\r\n\r\n", 30)
	w := newWorld(t)
	for _, sent := range []string{interim, many, "HTTP/1.1 100 Continue\r\n\r\n"} {
		w.dir.place(newScripted(t, replying(sent+okAnswer)).Worker)
		c := w.dial()
		for range 2 {
			c.send(bodyless)
			c.readExactly(sent + okAnswer)
		}
		if got := w.ask("GET /t/a HTTP/1.0\r\n\r\n"); got.head != "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\n" {
			t.Errorf("HTTP/1.0 got %q", got.head)
		}
	}
}

const expecting = "POST /t/a HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n"

// FC-20: the 100 is the worker's; a final answer instead leaves nobody else
// with a spoiled connection.
func TestExpectContinue(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := newScripted(t, func(s *scripted, c net.Conn, r *bufio.Reader) {
		for {
			head, err := readHead(r)
			if err != nil {
				return
			}
			s.mu.Lock()
			s.got = append(s.got, delivery{head: head})
			s.mu.Unlock()
			d := delivery{head: head}
			switch {
			case strings.Contains(head, "/t/no"):
				io.WriteString(c, "HTTP/1.1 401 Unauthorized\r\nContent-Length: 0\r\n\r\n")
				continue // keeps the connection and never reads the body
			case d.line("Expect") != "" && !strings.Contains(head, "/t/silent"):
				time.Sleep(20 * time.Millisecond)
				io.WriteString(c, "HTTP/1.1 100 Continue\r\n\r\n")
			}
			if d.line("Content-Length") != "" {
				body := make([]byte, 2)
				io.ReadFull(r, body)
				io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n"+string(body))
				continue
			}
			io.WriteString(c, okAnswer)
		}
	})
	w.dir.place(s.Worker)
	c := w.dial()
	for range 2 { // (a)
		c.send(expecting)
		c.readExactly("HTTP/1.1 100 Continue\r\n\r\n")
		c.send("hi")
		c.readExactly("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi")
	}
	c.send(expecting + "yo") // (c)
	c.readExactly("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nyo")
	c.send(strings.Replace(expecting, "/t/a", "/t/silent", 1)) // (d)
	time.Sleep(20 * time.Millisecond)
	c.send("ok")
	c.readExactly("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
	for range 20 { // (b), (e)
		no := w.dial()
		no.send(strings.Replace(expecting, "/t/a", "/t/no", 1))
		no.readExactly("HTTP/1.1 401 Unauthorized\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
		no.Close()
		c.send(bodyless)
		c.readExactly(okAnswer)
	}
	got := w.ask("POST /t/a HTTP/1.0\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\nhi") // (g)
	if got.body != "hi" {
		t.Errorf("HTTP/1.0 got %q", got)
	}
	last := s.deliveries()[len(s.deliveries())-1]
	if last.line("Expect") != "" {
		t.Errorf("worker got %q", last.head)
	}
}

// A body that came without the 100 was not refused: the connection stays, even
// if the body holds nothing.
func TestExpectedBodySentAtOnce(t *testing.T) {
	t.Parallel()
	for _, body := range []string{"0\r\n\r\n", "0\r\nX-A: b\r\n\r\n", "2\r\nhi\r\n0\r\n\r\n"} {
		w := newWorld(t)
		w.dir.place(newScripted(t, replying(okAnswer)).Worker)
		c := w.dial()
		c.send("POST /t/a HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\nTransfer-Encoding: chunked\r\n\r\n" + body + bodyless)
		c.readExactly(okAnswer + okAnswer)
		if x := w.exchange(0); x.BytesIn != int64(len(body)) {
			t.Errorf("%d bytes in, want %d", x.BytesIn, len(body))
		}
	}
}

func TestHTTP10Clients(t *testing.T) {
	w := newWorld(t)
	for _, test := range []struct{ request, answer, want string }{
		{"GET /t/a HTTP/1.0\r\n\r\n", okAnswer, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok"},
		{"GET /t/a HTTP/1.0\r\nConnection: keep-alive\r\n\r\n", okAnswer, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: keep-alive\r\n\r\nok"},
		{"GET /t/a HTTP/1.0\r\nConnection: keep-alive\r\n\r\n", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: X\r\n\r\n2;x\r\nab\r\n3\r\ncde\r\n0\r\nX: y\r\n\r\n",
			"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nabcde"},
		{"HEAD /t/a HTTP/1.0\r\n\r\n", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n"},
		{strings.Replace(handshake, "HTTP/1.1", "HTTP/1.0", 1), okAnswer, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: keep-alive\r\n\r\nok"},
	} {
		s := newScripted(t, replying(test.answer))
		w.dir.place(s.Worker)
		c := w.dial()
		c.send(test.request)
		c.readExactly(test.want)
		if strings.Contains(test.want, "Connection: close") {
			if rest, err := c.rest(); rest != "" || err != nil {
				t.Errorf("rest %q, %v", rest, err)
			}
		} else {
			c.send(test.request)
			c.readExactly(test.want)
		}
		d := s.deliveries()[0]
		if !strings.Contains(d.head, " HTTP/1.1\r\n") || d.line("Host") == "" || d.line("Upgrade") != "" {
			t.Errorf("worker got %q", d.head)
		}
	}
}

func TestHTTP10Workers(t *testing.T) {
	w := newWorld(t)
	for _, answer := range []string{
		"HTTP/1.0 200 OK\r\n\r\nok",
		"HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nok",
	} {
		s := newScripted(t, func(s *scripted, c net.Conn, r *bufio.Reader) {
			s.receive(r)
			io.WriteString(c, answer)
		})
		w.dir.place(s.Worker)
		c := w.dial()
		c.send(bodyless)
		want := strings.Replace(answer, "HTTP/1.0", "HTTP/1.1", 1)
		if !strings.Contains(answer, "Content-Length") {
			want = strings.Replace(want, "\r\n\r\n", "\r\nConnection: close\r\n\r\n", 1)
		}
		c.readExactly(want)
	}
}
