package proxy_test

import (
	"bufio"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"pinboard/internal/proxy"
)

const accepted = "HTTP/1.1 202 Accepted\r\nContent-Length: 2\r\n\r\nok"

// readsOn answers each head at once, then reads the body that follows.
func readsOn(s *scripted, c net.Conn, r *bufio.Reader) {
	for {
		head, err := readHead(r)
		if err != nil {
			return
		}
		io.WriteString(c, accepted)
		rest := io.MultiReader(strings.NewReader(head), r)
		d, err := readMessage(bufio.NewReader(rest))
		s.mu.Lock()
		s.got = append(s.got, d)
		s.mu.Unlock()
		if err != nil {
			return
		}
	}
}

// A worker that answers early gets the rest of the request, however long the
// client takes to send it; both connections go on behind it.
func TestUploadOutlastsItsAnswer(t *testing.T) {
	t.Parallel()
	for name, upload := range map[string][3]string{
		"length":  {"Content-Length: 12", "hello ", "world!"},
		"chunked": {"Transfer-Encoding: chunked", "6\r\nhello \r\n", "6\r\nworld!\r\n0\r\n\r\n"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			s := newScripted(t, readsOn)
			w.dir.place(s.Worker)
			c := w.dial()
			c.send("POST /t/a HTTP/1.1\r\nHost: h\r\n" + upload[0] + "\r\n\r\n" + upload[1])
			c.readExactly(accepted)
			time.Sleep(1200 * time.Millisecond) // longer than any grace
			c.send(upload[2])
			w.eventually("the worker has all of it", func() bool { return len(s.deliveries()) == 1 })
			if got := s.deliveries()[0].body; got != upload[1]+upload[2] {
				t.Errorf("the worker got %q", got)
			}
			if x := w.exchange(0); x.End != proxy.Complete || x.BytesIn != int64(len(upload[1]+upload[2])) {
				t.Errorf("observed %v, %d bytes in", x.End, x.BytesIn)
			}
			c.send(bodyless)
			c.readExactly(accepted)
		})
	}
}

// Where the rest of a request can go nowhere the client learns it from the end
// of its connection, which follows the answer at once.
func TestUploadThatItsWorkerAbandons(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ answer, want string }{
		"closes without a word": {accepted, accepted},
		"says that it closes":   {strings.Replace(accepted, "\r\n\r\n", "\r\nConnection: close\r\n\r\n", 1), strings.Replace(accepted, "\r\n\r\n", "\r\nConnection: close\r\n\r\n", 1)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			read := make(chan struct{})
			s := newScripted(t, func(s *scripted, c net.Conn, r *bufio.Reader) {
				readHead(r)
				io.WriteString(c, test.answer)
				<-read
			})
			w.dir.place(s.Worker)
			c := w.dial()
			c.send("POST /t/a HTTP/1.1\r\nHost: h\r\nContent-Length: 1000000\r\n\r\nbegun")
			c.readExactly(test.want)
			begun := time.Now()
			close(read)
			if rest, err := c.rest(); rest != "" || err != nil {
				t.Errorf("rest %q, %v", rest, err)
			}
			if d := time.Since(begun); d > patience/2 {
				t.Errorf("the end came after %v", d)
			}
			w.eventually("a write fails", func() bool {
				_, err := c.Write([]byte("x"))
				time.Sleep(lingers)
				return err != nil
			})
		})
	}
}

// lingers is longer than a connection is read for behind its end while its
// client is silent.
const lingers = 2200 * time.Millisecond

// A client that was not invited to send its body need not: its connection ends.
func TestUninvitedUploadIsNotWaitedFor(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.dir.place(newScripted(t, func(s *scripted, c net.Conn, r *bufio.Reader) {
		readHead(r)
		io.WriteString(c, accepted)
		io.Copy(io.Discard, r)
	}).Worker)
	c := w.dial()
	c.send(expecting)
	c.readExactly(strings.Replace(accepted, "\r\n\r\n", "\r\nConnection: close\r\n\r\n", 1))
	if rest, err := c.rest(); rest != "" || err != nil {
		t.Errorf("rest %q, %v", rest, err)
	}
}

// An upload that stalls inside its trailers ends, as a head does that stalls.
func TestStalledTrailersAreCutOff(t *testing.T) {
	t.Parallel()
	for _, stall := range []string{"0\r\n", "0\r\nX: y\r\n", "0\r\nX: " + strings.Repeat("y", 40<<10)} {
		w := newWorld(t, func(c *proxy.Config) { c.HeadTimeout = 200 * time.Millisecond })
		w.dir.place(newScripted(t, replying(okAnswer)).Worker)
		c := w.dial()
		c.send("POST /t/a HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n")
		time.Sleep(300 * time.Millisecond) // no clock runs inside a body
		c.send(stall)
		if got := c.answer(); got.line("Pinboard-Error") != "bad_request" || got.line("Connection") != "close" {
			t.Errorf("%.10q: %q", stall, got.head)
		}
	}
}

// The time that trailers may take is no limit of what follows them.
func TestTrailersLeaveNoClock(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(c *proxy.Config) { c.HeadTimeout = 200 * time.Millisecond })
	w.dir.place(newScripted(t, replying(okAnswer)).Worker)
	c := w.dial()
	for range 2 {
		c.send("POST /t/a HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n0")
		time.Sleep(300 * time.Millisecond) // the line of the last chunk may still be another's
		c.send("\r\nX: y\r\n")
		c.send("\r\n")
		c.readExactly(okAnswer)
		time.Sleep(300 * time.Millisecond)
	}
}
