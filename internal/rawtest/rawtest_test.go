package rawtest

import (
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// Worker and Client are the two ends of one wire: what one writes the other
// must see to the byte, whatever stands between.
func TestExactBytesBothWays(t *testing.T) {
	const ask = "POST /t/a//{}?x=%zz;y HTTP/1.1\r\nHost: h\r\nX-Odd:  v \r\nContent-Length: 5\r\n\r\nhello"
	const answer = "HTTP/1.1 200 Fine By Me\r\nX-A: 1\r\nx-a: 2\r\nContent-Length: 2\r\n\r\nok"
	w := NewWorker(t, Always(answer))
	got := Do(t, w.Addr(), ask)
	if string(got.Raw) != answer || !got.Complete || got.Status() != 200 || got.Reason() != "Fine By Me" {
		t.Errorf("client read %q", got.Raw)
	}
	if v := got.Values("X-A"); !slices.Equal(v, []string{"1", "2"}) {
		t.Errorf("X-A = %q", v)
	}
	req := w.AwaitDeliveries(1)[0]
	if string(req.Raw) != ask || string(req.Body) != "hello" || req.Target() != "/t/a//{}?x=%zz;y" || req.Method() != "POST" {
		t.Errorf("worker read %q", req.Raw)
	}
	if req.Get("x-odd") != "v" {
		t.Errorf("X-Odd = %q", req.Get("x-odd"))
	}
}

func TestFraming(t *testing.T) {
	for _, c := range []struct {
		name, method, answer, body string
		complete                   bool
		end                        End
	}{
		{"length", "GET", "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc", "abc", true, Alive},
		{"length cut", "GET", "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nabc", "abc", false, FIN},
		{"chunked", "GET", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2;x=y\r\nab\r\n1\r\nc\r\n0\r\nX-T: 1\r\n\r\n", "abc", true, Alive},
		{"chunked cut", "GET", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n", "abc", false, FIN},
		{"until close", "GET", "HTTP/1.1 200 OK\r\n\r\nabc", "abc", true, FIN},
		{"head", "HEAD", "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n", "", true, Alive},
		{"not modified", "GET", "HTTP/1.1 304 Not Modified\r\nContent-Length: 3\r\n\r\n", "", true, Alive},
		{"head cut", "GET", "HTTP/1.1 200 OK\r\nContent-", "", false, FIN},
		{"nothing", "GET", "", "", false, FIN},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := NewWorker(t, Each(c.answer))
			m := Do(t, w.Addr(), c.method+" / HTTP/1.1\r\nHost: h\r\n\r\n")
			if string(m.Body) != c.body || m.Complete != c.complete || m.End != c.end || string(m.Raw) != c.answer {
				t.Errorf("got %+v", m)
			}
			if c.name == "chunked" && !slices.Equal(m.Trailer("x-t"), []string{"1"}) {
				t.Errorf("trailers %v", m.Trailers)
			}
		})
	}
}

func TestFinalSkipsInterimAnswers(t *testing.T) {
	w := NewWorker(t, Each("HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\nHTTP/1.1 100 Continue\r\n\r\n"+Response(401, "no")))
	c := Dial(t, w.URL())
	c.Split(time.Millisecond, "GET / HTTP/1.1\r\nHost: h\r\n\r\n", 1, 5, 20)
	if m := c.Response("GET"); m.Status() != 103 || m.Get("Link") != "x" {
		t.Errorf("first %q", m.Raw)
	}
	if m := c.Final("GET"); m.Status() != 401 || string(m.Body) != "no" {
		t.Errorf("final %q", m.Raw)
	}
}

// Each way a peer can end is told apart, on both sides.
func TestEndsAreTold(t *testing.T) {
	ends := make(chan End, 8)
	w := NewWorker(t, func(c *Conn) {
		c.Head()
		c.Write("x")
		ends <- c.AwaitEnd(5 * time.Second)
		c.Write("still here")
	})
	ask := "GET / HTTP/1.1\r\nHost: h\r\n\r\n"

	c := Dial(t, w.Addr())
	c.Write(ask)
	c.HalfClose()
	if b, end := c.Rest(5 * time.Second); string(b) != "xstill here" || end != FIN || <-ends != FIN {
		t.Errorf("half-close: %q %v", b, end)
	}

	c = Dial(t, w.Addr())
	c.Write(ask)
	c.Read(1)
	c.RST()
	if end := <-ends; end != RST {
		t.Errorf("reset: %v", end)
	}

	w.Play(func(c *Conn) { c.Head(); c.RST() })
	c = Dial(t, w.Addr())
	c.Write(ask)
	if _, end := c.Rest(5 * time.Second); end != RST {
		t.Errorf("reset by worker: %v", end)
	}

	w.Play(func(c *Conn) { c.Head(); c.Stall() })
	c = Dial(t, w.Addr())
	c.Write(ask)
	if !c.Silent(20 * time.Millisecond) {
		t.Error("a stalled worker spoke")
	}
	if w.AwaitOpen(1); w.Deliveries() != 4 || w.Accepted() != 4 {
		t.Errorf("deliveries %d, accepted %d", w.Deliveries(), w.Accepted())
	}
}

func TestPerConnAndPieces(t *testing.T) {
	w := NewWorker(t, PerConn(
		func(c *Conn) {
			c.Request()
			c.Pieces(time.Millisecond, "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n", "\r\n", "1")
		},
		Always(Response(200, "2")),
	))
	for i, want := range []string{"1", "2", "2"} {
		if m := Do(t, w.Addr(), "GET / HTTP/1.1\r\nHost: h\r\n\r\n"); string(m.Body) != want {
			t.Errorf("connection %d: %q", i+1, m.Body)
		}
	}
}

func TestRefuseAndAccept(t *testing.T) {
	w := NewWorker(t, Always(Response(200, "")))
	w.Refuse()
	if c, err := net.Dial("tcp", w.Addr()); err == nil {
		c.Close()
		t.Error("connected to a worker that refuses")
	}
	w.Accept()
	if m := Do(t, w.Addr(), "GET / HTTP/1.1\r\nHost: h\r\n\r\n"); m.Status() != 200 {
		t.Errorf("after Accept: %q", m.Raw)
	}
}

func TestBlackHoleNeitherAcceptsNorRefuses(t *testing.T) {
	c, err := net.DialTimeout("tcp", BlackHole(t), 200*time.Millisecond)
	if err == nil {
		c.Close()
		t.Fatal("connected")
	}
	if ne, ok := err.(net.Error); !ok || !ne.Timeout() {
		t.Errorf("want a timeout, got %v", err)
	}
}

// A registration ends in a proved URL although the script never hears of the
// challenge; Pause silences the heartbeats.
func TestRegister(t *testing.T) {
	beats := make(chan string, 100)
	deferrals := 0
	node := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		var b struct{ AdvertiseURL, Challenge, ChallengeValue, SessionID string }
		json.NewDecoder(r.Body).Decode(&b)
		if r.URL.Path == "/registry/heartbeat" {
			beats <- b.SessionID
			return
		}
		if deferrals++; deferrals == 1 {
			rw.WriteHeader(503)
			return
		}
		u, _ := url.Parse(b.AdvertiseURL)
		m := Do(t, u.Host, "GET /_pinned/challenge?challenge="+b.Challenge+" HTTP/1.1\r\nHost: h\r\n\r\n")
		if !strings.Contains(string(m.Body), b.ChallengeValue) || r.Header.Get("Authorization") != "Bearer tok" {
			rw.WriteHeader(400)
			return
		}
		io.WriteString(rw, `{"sessionId":"s1","expiresInMs":1000,"draining":false}`)
	}))
	defer node.Close()
	w := NewWorker(t, Always(Response(500, "")))
	s := w.Register(node.URL, "tok", 5*time.Millisecond, "/t")
	if s.ID != "s1" || <-beats != "s1" || w.Deliveries() != 0 {
		t.Errorf("session %q, deliveries %d", s.ID, w.Deliveries())
	}
	s.Pause()
}
