package proxy_test

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"pinboard/internal/proxy"
)

// A corked connection holds what TLS writes until it is let go, so that several
// records leave in one segment.
type corked struct {
	net.Conn
	held bytes.Buffer
	on   bool
}

func (c *corked) Write(b []byte) (int, error) {
	if c.on {
		return c.held.Write(b)
	}
	return c.Conn.Write(b)
}

func (c *corked) letGo() {
	c.on = false
	c.SetWriteDeadline(time.Time{}) // TLS sets one behind its good-bye
	c.Conn.Write(c.held.Bytes())
	c.held.Reset()
}

// tlsWorld is a world whose worker speaks TLS of a version; serve gets each
// connection behind its handshake.
func tlsWorld(t *testing.T, version uint16, serve func(s *scripted, beneath *corked, c *tls.Conn, r *bufio.Reader)) (*world, *scripted) {
	t.Helper()
	keys := httptest.NewTLSServer(http.NotFoundHandler())
	defer keys.Close()
	cfg := &tls.Config{Certificates: keys.TLS.Certificates, MinVersion: version, MaxVersion: version}
	s := newScripted(t, func(s *scripted, nc net.Conn, _ *bufio.Reader) {
		beneath := &corked{Conn: nc}
		c := tls.Server(beneath, cfg)
		if c.Handshake() == nil {
			serve(s, beneath, c, bufio.NewReader(c))
		}
	})
	roots := keys.Client().Transport.(*http.Transport).TLSClientConfig.RootCAs
	w := newWorld(t, func(c *proxy.Config) { c.TLS = &tls.Config{RootCAs: roots, ServerName: "example.com"} })
	k := *s.Worker
	k.URL = "https://" + s.l.Addr().String()
	w.dir.place(&k)
	return w, s
}

var tlsVersions = map[string]uint16{"1.2": tls.VersionTLS12, "1.3": tls.VersionTLS13}

// A worker that says good-bye together with its answer, and keeps TCP open, is
// asked nothing more there.
func TestGoodbyeOfTLSBehindAnAnswer(t *testing.T) {
	for name, version := range tlsVersions {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const asked = 12
			w, s := tlsWorld(t, version, func(s *scripted, beneath *corked, c *tls.Conn, r *bufio.Reader) {
				if _, ok := s.receive(r); !ok {
					return
				}
				beneath.on = true
				io.WriteString(c, okAnswer)
				c.CloseWrite()
				beneath.letGo()
				s.receive(r) // only TCP tells of the end
			})
			c := w.dial()
			for i := range asked {
				c.send(withBody)
				if got := c.answer(); got.body != "ok" {
					t.Fatalf("request %d: %q", i, got)
				}
				w.exchange(i)
				time.Sleep(proven)
			}
			if n := len(s.deliveries()); n != asked {
				t.Errorf("%d deliveries", n)
			}
			w.eventually("no connection is kept", func() bool { return s.connections() == 0 })
		})
	}
}

// TLS tells a whole body from a cut one also where its length does not.
func TestBodiesThatEndWithTLS(t *testing.T) {
	for name, version := range tlsVersions {
		for _, whole := range []bool{true, false} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				read := make(chan struct{})
				w, _ := tlsWorld(t, version, func(s *scripted, beneath *corked, c *tls.Conn, r *bufio.Reader) {
					s.receive(r)
					io.WriteString(c, "HTTP/1.1 200 OK\r\n\r\nhello")
					<-read
					if whole {
						c.CloseWrite()
					}
					beneath.Conn.Close()
				})
				c := w.dial()
				c.send(bodyless)
				c.readExactly("HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nhello")
				close(read)
				rest, err := c.rest()
				want := proxy.WorkerGone
				if whole {
					want = proxy.Complete
				}
				if x := w.exchange(0); x.End != want || rest != "" || whole != (err == nil) {
					t.Errorf("whole %v: observed %v, %q, %v", whole, x.End, rest, err)
				}
			})
		}
	}
}
