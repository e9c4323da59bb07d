package rawtest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"sync/atomic"
	"testing"
	"time"
)

// serial numbers what must be unlike anything another test process sends: two
// with one client id are one worker process to a node.
var serial atomic.Int64

func init() { serial.Store(rand.Int64N(1 << 62)) }

// A Session is a Worker's registration at a node, kept alive by heartbeats
// until the test ends or Pause is called.
type Session struct {
	ID       string // audience of attestations
	ClientID string
	Secret   string // keys attestations

	tb     testing.TB
	worker *Worker
	node   string
	token  string
	paused atomic.Bool
	stop   chan struct{}
}

// Register registers the worker for namespaces at a node (its base URL) as a
// process of its own, answering the node's challenge, and beats every
// interval. It waits out deferrals (503) such as a node that is still booting.
func (w *Worker) Register(node, token string, beat time.Duration, namespaces ...string) *Session {
	w.tb.Helper()
	n := serial.Add(1)
	s := &Session{
		ClientID: fmt.Sprintf("%032x", n), Secret: fmt.Sprintf("%064x", n+0x5ec4e7),
		tb: w.tb, worker: w, node: node, token: token, stop: make(chan struct{}),
	}
	body := map[string]any{
		"clientId": s.ClientID, "secret": s.Secret, "namespaces": namespaces,
		"advertiseUrl": w.URL(), "headroom": 1024, "draining": false,
	}
	deadline := time.Now().Add(Patience)
	for {
		s.pair(body)
		status, answer := s.Post("/registry/register", body)
		if s.ID, _ = answer["sessionId"].(string); status == 200 && s.ID != "" {
			break
		}
		if status != 503 || time.Now().After(deadline) {
			w.tb.Fatalf("rawtest: register: %d %v", status, answer)
		}
		time.Sleep(50 * time.Millisecond)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.beats(beat)
	}()
	w.tb.Cleanup(func() { close(s.stop); <-done })
	return s
}

// Pause stops the heartbeats, as a frozen worker would; Resume starts them
// again.
func (s *Session) Pause()  { s.paused.Store(true) }
func (s *Session) Resume() { s.paused.Store(false) }

// Beat sends one heartbeat and returns the answer.
func (s *Session) Beat() (int, map[string]any) {
	body := map[string]any{"sessionId": s.ID, "headroom": 1024, "draining": false}
	s.pair(body)
	return s.Post("/registry/heartbeat", body)
}

// Post sends a JSON body to a path of the node; status 0 is a transport
// failure.
func (s *Session) Post(path string, body any) (int, map[string]any) {
	b, _ := json.Marshal(body)
	req, err := http.NewRequest("POST", s.node+path, bytes.NewReader(b))
	if err != nil {
		return 0, nil
	}
	req.Close = true
	req.Header.Set("Authorization", "Bearer "+s.token)
	req.Header.Set("Content-Type", "application/json")
	res, err := (&http.Client{Timeout: 5 * time.Second}).Do(req)
	if err != nil {
		return 0, nil
	}
	defer res.Body.Close()
	raw, _ := io.ReadAll(res.Body)
	var answer map[string]any
	json.Unmarshal(raw, &answer)
	return res.StatusCode, answer
}

func (s *Session) beats(every time.Duration) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-s.stop:
			return
		case <-tick.C:
			if !s.paused.Load() {
				s.Beat()
			}
		}
	}
}

func (s *Session) pair(body map[string]any) {
	challenge, value := fmt.Sprintf("%032x", serial.Add(1)), fmt.Sprintf("%032x", serial.Add(1))
	s.worker.Prove(challenge, value)
	body["challenge"], body["challengeValue"] = challenge, value
}
