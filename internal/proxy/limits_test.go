package proxy_test

import (
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"pinboard/internal/proxy"
)

func TestSlowHeadIs408(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(c *proxy.Config) { c.HeadTimeout = 100 * time.Millisecond })
	w.dir.place(newScripted(t, replying(okAnswer)).Worker)
	c := w.dial()
	c.send(bodyless)
	c.answer()
	begun := time.Now()
	for _, b := range "GET /t/a HTTP/1.1\r\nHost: h\r\nX: " {
		if _, err := c.Write([]byte{byte(b)}); err != nil || time.Since(begun) > patience {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	if got := c.answer(); !strings.HasPrefix(got.head, "HTTP/1.1 408 ") || got.line("Connection") != "close" {
		t.Errorf("client got %q", got.head)
	}
	if rest, err := c.rest(); rest != "" || err != nil {
		t.Errorf("rest %q, %v", rest, err)
	}
}

func TestHeadLimits(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ name, request, status string }{
		{"16 kB of cookies", "GET /t/a HTTP/1.1\r\nHost: h\r\nCookie: " + strings.Repeat("c", 16<<10) + "\r\n\r\n", "200 OK"},
		{"60 kB", "GET /t/a HTTP/1.1\r\nHost: h\r\nCookie: " + strings.Repeat("c", 60<<10) + "\r\n\r\n", "200 OK"},
		{"10,000 tiny fields", "GET /t/a HTTP/1.1\r\nHost: h\r\n" + strings.Repeat("a:\r\n", 10_000) + "\r\n", "200 OK"},
		{"8 kB path", "GET /t/a/" + strings.Repeat("p", 8<<10) + " HTTP/1.1\r\nHost: h\r\n\r\n", "200 OK"},
		{"66 kB", "GET /t/a HTTP/1.1\r\nHost: h\r\nCookie: " + strings.Repeat("c", 66<<10) + "\r\n\r\n", "431 Request Header Fields Too Large"},
		{"2 MB", "GET /t/a HTTP/1.1\r\nHost: h\r\nCookie: " + strings.Repeat("c", 2<<20) + "\r\n\r\n", "431 Request Header Fields Too Large"},
		{"70 kB target", "GET /t/a/" + strings.Repeat("p", 70<<10) + " HTTP/1.1\r\nHost: h\r\n\r\n", "414 Request URI Too Long"},
		{"256 character id", get("/t/" + strings.Repeat("i", 256)), "200 OK"},
		{"257 character id", get("/t/" + strings.Repeat("i", 257)), "400 Bad Request"},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := newWorld(t)
			w.dir.place(newScripted(t, replying(okAnswer)).Worker)
			c := w.dial()
			go io.WriteString(c.Conn, test.request)
			got := c.status()
			if got != test.status {
				t.Errorf("%s, want %s", got, test.status)
			}
			if strings.HasPrefix(test.status, "400") && len(w.dir.resolved()) > 0 {
				t.Error("the store was asked")
			}
		})
	}
}

func TestWorkerHeadsOf60kBPass(t *testing.T) {
	w := newWorld(t)
	answer := "HTTP/1.1 200 OK\r\nSet-Cookie: " + strings.Repeat("c", 60<<10) + "\r\nContent-Length: 0\r\n\r\n"
	w.dir.place(newScripted(t, replying(answer)).Worker)
	if got := w.ask(bodyless); got.head != answer {
		t.Errorf("client got %d bytes", len(got.head))
	}
}

// After any doubtful framing the connection closes, and nothing behind it is
// taken for a request (FC-24).
func TestDoubtfulFramingClosesTheConnection(t *testing.T) {
	for name, request := range map[string]string{
		"CL and TE":        "POST /t/a HTTP/1.1\r\nHost: h\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
		"bad chunk size":   "POST /t/a HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n0x2\r\nhi\r\n0\r\n\r\n",
		"bad chunk end":    "POST /t/a HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi!\r\n0\r\n\r\n",
		"bad trailer":      "POST /t/a HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nX : y\r\n\r\n",
		"bare LF":          "GET /t/a HTTP/1.1\nHost: h\n\n",
		"gzip, chunked":    "POST /t/a HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
		"CONNECT":          "CONNECT h:80 HTTP/1.1\r\nHost: h\r\n\r\n",
		"TRACE":            "TRACE /t/a HTTP/1.1\r\nHost: h\r\n\r\n",
		"HTTP/2 preface":   "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
		"TLS client hello": "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			s := newScripted(t, replying(okAnswer))
			w.dir.place(s.Worker)
			c := w.dial()
			c.send(request + get("/t/victim"))
			got := c.answer()
			if status := got.head[9:12]; status != "400" && status != "501" && status != "405" {
				t.Errorf("client got %q", got.head)
			}
			if got.line("Connection") != "close" || got.line("Pinboard-Error") == "" {
				t.Errorf("client got %q", got.head)
			}
			if rest, err := c.rest(); rest != "" || err != nil {
				t.Errorf("rest %q, %v", rest, err)
			}
			for _, d := range s.deliveries() {
				if strings.Contains(d.head+d.body, "victim") {
					t.Errorf("the worker got %q", d)
				}
			}
		})
	}
}

// A client that is still uploading gets the early answer of its worker.
func TestEarlyAnswerReachesAnUploader(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	const tooLarge = "HTTP/1.1 413 Content Too Large\r\nContent-Length: 3\r\nConnection: close\r\n\r\nno!"
	s, _ := sensor(t, tooLarge)
	w.dir.place(s.Worker)
	c := w.dial()
	c.send("POST /t/a HTTP/1.1\r\nHost: h\r\nContent-Length: 1000000000\r\n\r\n")
	stop := make(chan struct{})
	go func() {
		defer close(stop)
		b := make([]byte, 64<<10)
		for {
			if _, err := c.Write(b); err != nil {
				return
			}
		}
	}()
	if got := c.answer(); got.body != "no!" {
		t.Errorf("client got %q", got)
	}
	c.Close()
	<-stop
}

func TestResponseTimeoutIs504(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(c *proxy.Config) { c.ResponseTimeout = 100 * time.Millisecond })
	for name, request := range map[string]string{"no body": bodyless, "upload": chunkedBody} {
		s, ended := sensor(t, "HTTP/1.1 103 Hints\r\n\r\n")
		w.dir.place(s.Worker)
		c := w.dial()
		c.send(request)
		c.readExactly("HTTP/1.1 103 Hints\r\n\r\n")
		if got := c.status(); got != "504 Gateway Timeout" {
			t.Errorf("%s: %s", name, got)
		}
		await(t, "the worker's side ends", ended, felt)
	}
}

func TestSlowUploadsOutliveTheResponseTimeout(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(c *proxy.Config) { c.ResponseTimeout = 50 * time.Millisecond })
	w.dir.place(newScripted(t, replying(okAnswer)).Worker)
	c := w.dial()
	c.send("POST /t/a HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\n")
	for _, b := range "hello" {
		time.Sleep(50 * time.Millisecond)
		c.send(string(b))
	}
	if got := c.answer(); got.body != "ok" {
		t.Errorf("client got %q", got)
	}
}

func TestStreamsOutliveTheResponseTimeout(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(c *proxy.Config) { c.ResponseTimeout = 50 * time.Millisecond })
	s, _ := sensor(t, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n")
	w.dir.place(s.Worker)
	c := w.dial()
	c.send(bodyless)
	c.readExactly("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n")
	c.SetReadDeadline(time.Now().Add(300 * time.Millisecond))
	if _, err := c.r.ReadByte(); err == nil || !err.(net.Error).Timeout() {
		t.Errorf("the stream ended: %v", err)
	}
}

func TestIdleClientsAreClosed(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(c *proxy.Config) { c.ClientIdle = 50 * time.Millisecond })
	w.dir.place(newScripted(t, replying(okAnswer)).Worker)
	c := w.dial()
	c.send(bodyless)
	c.answer()
	if rest, err := c.rest(); rest != "" || err != nil {
		t.Errorf("rest %q, %v", rest, err)
	}
}
