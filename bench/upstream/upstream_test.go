package upstream

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coder/websocket"
	"go.uber.org/goleak"
)

func start(t *testing.T, r *Responder) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go r.Serve(l)
	t.Cleanup(func() { l.Close() })
	return l.Addr().String()
}

func TestAnswersKeepTheConnection(t *testing.T) {
	c, err := net.Dial("tcp", start(t, &Responder{}))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	// Three requests, the last one split between two writes.
	io.WriteString(c, strings.Repeat("GET /threads/t_000001/ok?x=1 HTTP/1.1\r\nHost: a\r\n\r\n", 2)+"GET /threads/t_00")
	in := bufio.NewReader(c)
	for i := range 3 {
		if i == 2 {
			io.WriteString(c, "0002/ok HTTP/1.1\r\nHost: a\r\n\r\n")
		}
		resp, err := http.ReadResponse(in, nil)
		if err != nil {
			t.Fatalf("answer %d: %v", i, err)
		}
		body, _ := io.ReadAll(resp.Body)
		if resp.StatusCode != 200 || string(body) != "ok" {
			t.Fatalf("answer %d: %d %q", i, resp.StatusCode, body)
		}
	}
}

func TestRefusesWhatItCannotRead(t *testing.T) {
	resp, err := http.Post("http://"+start(t, &Responder{})+"/threads/t_1/ok", "", nil)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != 400 {
		t.Errorf("status %d", resp.StatusCode)
	}
}

func TestEventStreamStaysOpenAfterItsEvent(t *testing.T) {
	resp, err := http.Get("http://" + start(t, &Responder{}) + "/threads/t_1/events")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	buf := make([]byte, 64)
	n, err := resp.Body.Read(buf)
	if string(buf[:n]) != "data: hello\n\n" || err != nil || resp.Header.Get("Content-Type") != "text/event-stream" {
		t.Errorf("read %q, %v", buf[:n], err)
	}
}

func TestSocketEchoes(t *testing.T) {
	ctx := t.Context()
	ws, _, err := websocket.Dial(ctx, "ws://"+start(t, &Responder{})+"/threads/t_1/socket", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer ws.CloseNow()
	for _, want := range []string{"hello", "", strings.Repeat("x", 125)} {
		if err := ws.Write(ctx, websocket.MessageText, []byte(want)); err != nil {
			t.Fatal(err)
		}
		if _, got, err := ws.Read(ctx); err != nil || string(got) != want {
			t.Fatalf("got %q, %v", got, err)
		}
	}
}

func TestFramesWaitUntilComplete(t *testing.T) {
	frame := []byte{0x81, 0x82, 1, 2, 3, 4, 'a' ^ 1, 'b' ^ 2}
	for n := range len(frame) {
		if _, used := echoFrame(frame[:n]); used != 0 {
			t.Errorf("%d bytes were taken for a frame", n)
		}
	}
	out, used := echoFrame(append(frame, 0x81))
	if used != len(frame) || !bytes.Equal(out, []byte{0x81, 2, 'a', 'b'}) {
		t.Errorf("got %q, used %d", out, used)
	}
}

// A node that probes like Pinboard, forgets its session after two beats and
// defers the first registration.
func TestMemberRegistersProvesBeatsAndReturns(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	defer http.DefaultClient.CloseIdleConnections()
	var registers, beats atomic.Int32
	done := make(chan struct{})
	node := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var b struct{ Secret, AdvertiseURL, Challenge, ChallengeValue, SessionID string }
		json.NewDecoder(r.Body).Decode(&b)
		if r.Header.Get("Authorization") != "Bearer tok" {
			t.Errorf("%s: authorization %q", r.URL.Path, r.Header.Get("Authorization"))
		}
		switch r.URL.Path {
		case "/registry/register":
			n := registers.Add(1)
			if n == 1 {
				w.WriteHeader(503)
				return
			}
			if got := probe(b.AdvertiseURL, b.Challenge, b.Secret); got != b.ChallengeValue {
				t.Errorf("challenge answered %q", got)
			}
			if got := probe(b.AdvertiseURL, b.Challenge, "wrong"); got != "" {
				t.Errorf("challenge answered %q to a wrong secret", got)
			}
			io.WriteString(w, `{"sessionId":"s`+itoa(int(n))+`","expiresInMs":15000,"draining":false}`)
			if n == 3 {
				close(done)
			}
		case "/registry/heartbeat":
			if b.SessionID != "s2" && b.SessionID != "s3" {
				t.Errorf("beat of session %q", b.SessionID)
			}
			if beats.Add(1) == 2 {
				w.WriteHeader(409)
				io.WriteString(w, `{"reregister":true}`)
				return
			}
			io.WriteString(w, `{"expiresInMs":15000,"draining":false}`)
		}
	}))
	defer node.Close()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	m := NewMember(node.URL, "tok", "http://"+l.Addr().String(), "/threads")
	m.Beat = time.Millisecond
	go (&Responder{Challenge: m.Challenge}).Serve(l)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { defer close(ended); m.Run(ctx) }()
	select {
	case <-done:
	case <-time.After(10 * time.Second):
		t.Errorf("%d registrations, %d beats", registers.Load(), beats.Load())
	}
	cancel()
	<-ended
}

func probe(base, challenge, secret string) string {
	req, _ := http.NewRequest("GET", base+"/_pinned/challenge?challenge="+challenge, nil)
	req.Header.Set("Pinboard-Proxy-Secret", secret)
	req.Close = true
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err.Error()
	}
	defer resp.Body.Close()
	var v struct{ Value string }
	json.NewDecoder(resp.Body).Decode(&v)
	return v.Value
}
