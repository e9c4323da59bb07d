package proxy_test

import (
	"bufio"
	"io"
	"net"
	"strings"
	"testing"

	"pinboard/internal/proxy"
)

// FC-14: a cut answer reaches the client cut: what the worker sent and then an
// error, never a clean end, never a text of ours.
func TestCutAnswersStayCut(t *testing.T) {
	t.Parallel()
	rst := func(c net.Conn) { c.(*net.TCPConn).SetLinger(0) }
	fin := func(net.Conn) {}
	for _, test := range []struct {
		name, sent string
		end        func(net.Conn)
		complete   bool
	}{
		{"length, some", "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhello", fin, false},
		{"length, none", "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n", fin, false},
		{"length, none, RST", "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n", rst, false},
		{"chunked", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n", fin, false},
		{"chunked, RST", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n", rst, false},
		{"chunked, inside a chunk", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhel", fin, false},
		{"chunked, no trailers' end", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n", fin, false},
		{"until close, RST", "HTTP/1.1 200 OK\r\n\r\nhello", rst, false},
		{"until close, FIN", "HTTP/1.1 200 OK\r\n\r\nhello", fin, true},
		{"bad chunk", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\nxyz\r\n", fin, false},
	} {
		for _, request := range []string{bodyless, withBody} {
			t.Run(test.name+"/"+request[:4], func(t *testing.T) {
				w := newWorld(t)
				sent := make(chan struct{})
				s := newScripted(t, func(s *scripted, c net.Conn, r *bufio.Reader) {
					s.receive(r)
					io.WriteString(c, test.sent)
					<-sent // an RST may overtake bytes that nobody has read yet
					test.end(c)
				})
				w.dir.place(s.Worker)
				c := w.dial()
				c.send(request)
				head, err := readHead(c.r)
				if err != nil || !strings.HasPrefix(head, "HTTP/1.1 200 OK\r\n") {
					t.Fatalf("head %q, %v", head, err)
				}
				if strings.Contains(test.sent, "hello") {
					for body := ""; !strings.HasSuffix(body, "hello"); {
						b, err := c.r.ReadByte()
						if err != nil {
							t.Fatalf("body %q, %v", body, err)
						}
						body += string(b)
					}
				}
				close(sent)
				rest, err := c.rest()
				end := proxy.WorkerGone
				if test.complete {
					end = proxy.Complete
				}
				switch x := w.exchange(0); {
				case x.End != end || x.Status != 200:
					t.Errorf("observed %v, %d", x.End, x.Status)
				case test.complete && (rest != "" || err != nil):
					t.Errorf("rest %q, %v", rest, err)
				case !test.complete && strings.Contains(rest, "0\r\n\r\n"), strings.Contains(rest, "error"):
					t.Errorf("the cut was covered up: %q", rest)
				case strings.HasPrefix(test.name, "until close") && !test.complete && err == nil:
					t.Error("a cut answer without length ended cleanly")
				}
			})
		}
	}
}

// A chunked body that ends inside its last chunk is cut, and nobody may take it
// for whole: some readers ask for no more than the line "0".
func TestALastChunkPassesWholeOrNotAtAll(t *testing.T) {
	t.Parallel()
	const begun = "5\r\nhello\r\n"
	for _, last := range []string{"0\r\n\r\n", "00;a=b\r\nX: y\r\n\r\n"} {
		for n := range len(last) {
			t.Run(last[:n], func(t *testing.T) {
				w := newWorld(t)
				received := make(chan string, 1)
				s := newScripted(t, func(s *scripted, c net.Conn, r *bufio.Reader) {
					head, _ := readHead(r)
					if strings.HasPrefix(head, "POST") {
						body, _ := io.ReadAll(r)
						received <- string(body)
						return
					}
					io.WriteString(c, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"+begun+last[:n])
				})
				w.dir.place(s.Worker)
				c := w.dial()
				c.send(bodyless)
				if _, err := readHead(c.r); err != nil {
					t.Fatal(err)
				}
				if rest, _ := c.rest(); rest != begun {
					t.Errorf("the client was sent %q", rest)
				}
				if x := w.exchange(0); x.End != proxy.WorkerGone {
					t.Errorf("observed %v", x.End)
				}
				c = w.dial()
				c.send("POST /t/a HTTP/1.1\r\nHost: pin.test\r\nTransfer-Encoding: chunked\r\n\r\n" + begun + last[:n])
				c.Conn.(*net.TCPConn).CloseWrite()
				if body := <-received; body != begun {
					t.Errorf("the worker was sent %q", body)
				}
			})
		}
	}
}

// FC-26: bodies that are or are not there, with a second request behind.
func TestBodiesThatAreNotThere(t *testing.T) {
	head := strings.Replace(bodyless, "GET", "HEAD", 1)
	for _, test := range []struct{ name, request, answer, want string }{
		{"HEAD with length", head, "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n", "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n"},
		{"HEAD with coding", head, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"},
		{"HEAD with stray body", head, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi", "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n"},
		{"304 with length", bodyless, "HTTP/1.1 304 Not Modified\r\nContent-Length: 10\r\nETag: x\r\n\r\n", "HTTP/1.1 304 Not Modified\r\nContent-Length: 10\r\nETag: x\r\n\r\n"},
		{"204 with length and body", bodyless, "HTTP/1.1 204 No Content\r\nContent-Length: 2\r\n\r\nhi", "HTTP/1.1 204 No Content\r\n\r\n"},
		{"stray bytes behind a length", bodyless, okAnswer + "HTTP/1.1 200 stray\r\n\r\n", okAnswer},
		{"empty chunked", bodyless, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"},
		{"trailers of an empty body", bodyless, "HTTP/1.1 200 OK\r\nTrailer: Grpc-Status\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nGrpc-Status: 0\r\n\r\n",
			"HTTP/1.1 200 OK\r\nTrailer: Grpc-Status\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nGrpc-Status: 0\r\n\r\n"},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := newWorld(t)
			s := newScripted(t, replying(test.answer))
			w.dir.place(s.Worker)
			c := w.dial()
			for range 3 {
				c.send(test.request)
				c.readExactly(test.want)
			}
			if n := len(s.deliveries()); n != 3 {
				t.Errorf("%d deliveries", n)
			}
		})
	}
}

func TestRequestBodiesPassForAnyMethod(t *testing.T) {
	w := newWorld(t)
	s := newScripted(t, replying(okAnswer))
	w.dir.place(s.Worker)
	c := w.dial()
	for i, request := range []string{
		"GET /t/a HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\n\r\nabc",
		"DELETE /t/a HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
		"PURGE /t/a HTTP/1.1\r\nHost: h\r\nContent-Length: 0\r\n\r\n",
		"POST /t/a HTTP/1.1\r\nHost: h\r\n\r\n",
		"get /t/a HTTP/1.1\r\nHost: h\r\n\r\n",
	} {
		c.send(request)
		c.answer()
		got := s.deliveries()[i]
		method, body := strings.SplitN(request, " ", 2)[0], request[strings.Index(request, "\r\n\r\n")+4:]
		if !strings.HasPrefix(got.head, method+" ") || got.body != body {
			t.Errorf("worker got %q", got)
		}
	}
}

// A head of the worker that cannot be trusted is a 502, and the next request
// goes over another connection.
func TestInvalidHeadsAre502(t *testing.T) {
	for name, answer := range map[string]string{
		"CL and TE":   "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
		"two CL":      "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 4\r\n\r\nhello",
		"bare LF":     "HTTP/1.1 200 OK\nContent-Length: 0\n\n",
		"fold":        "HTTP/1.1 200 OK\r\nX: y\r\n z\r\nContent-Length: 0\r\n\r\n",
		"too long":    "HTTP/1.1 200 OK\r\nX: " + strings.Repeat("x", 64<<10) + "\r\n\r\n",
		"endless 1xx": strings.Repeat("HTTP/1.1 103 Hints\r\n\r\n", 200) + okAnswer,
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			first := true
			s := newScripted(t, func(s *scripted, c net.Conn, r *bufio.Reader) {
				if _, ok := s.receive(r); !ok {
					return
				}
				s.mu.Lock()
				a := okAnswer
				if first {
					a, first = answer, false
				}
				s.mu.Unlock()
				io.WriteString(c, a)
				s.receive(r)
			})
			w.dir.place(s.Worker)
			c := w.dial()
			c.send(get("/t/a"))
			got := c.answer()
			for strings.HasPrefix(got.head, "HTTP/1.1 103") {
				got = c.answer()
			}
			if got.line("Pinboard-Error") != "worker_invalid" {
				t.Fatalf("client got %q", got.head)
			}
			c.send(get("/t/a"))
			if got := c.answer(); got.body != "ok" {
				t.Errorf("next: %q", got)
			}
		})
	}
}
