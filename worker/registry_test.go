package worker

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"pinboard"
	"pinboard/api"
	"pinboard/internal/attest"
)

// A registry is a small Pinboard for tests: sessions with leases, rows with
// epochs, the rules of restating (R6, R7), and faults. It is the transport
// of its workers and runs on the clock of the bubble.
type registry struct {
	t   *testing.T
	ttl time.Duration

	mu       sync.Mutex
	workers  map[string]http.Handler // by host of the advertise URL
	sessions map[string]*regSession
	rows     map[key]*regRow
	epoch    pinboard.Epoch
	serial   int
	faults   map[string][]fault // by last word of the path
	calls    []call
	messages []map[string]any // for the next beats, until acked
	extra    map[string]any   // of every beat answer
}

type regSession struct {
	client, secret, url string
	until               time.Time
	over                bool // deregistered or replaced
}

type regRow struct {
	session, client string
	epoch           pinboard.Epoch
}

// A call is what a worker sent, as it sent it.
type call struct {
	path string
	at   time.Time
	body string
}

// A fault befalls one call. Every fault has its twin: not applied, or applied
// and the reply lost.
type fault struct {
	skip   bool          // the registry never hears of it
	lost   bool          // the worker never hears of the answer
	before time.Duration // delay of the request
	after  time.Duration // delay of the answer
	status int           // answer with this and nothing else
	body   string
	header string // Retry-After
}

var errLost = errors.New("connection lost")

func newRegistry(t *testing.T, ttl time.Duration) *registry {
	return &registry{
		t: t, ttl: ttl, workers: map[string]http.Handler{}, sessions: map[string]*regSession{},
		rows: map[key]*regRow{}, epoch: 1000, faults: map[string][]fault{}, extra: map[string]any{},
	}
}

// fail lines up faults for the next calls of a path.
func (g *registry) fail(path string, f ...fault) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.faults[path] = append(g.faults[path], f...)
}

// sent are the bodies of all calls of a path so far.
func (g *registry) sent(path string) (out []call) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, c := range g.calls {
		if c.path == path {
			out = append(out, c)
		}
	}
	return out
}

// owned are the rows there are.
func (g *registry) owned() map[key]regRow {
	g.mu.Lock()
	defer g.mu.Unlock()
	out := map[key]regRow{}
	for k, row := range g.rows {
		out[k] = *row
	}
	return out
}

// minted is the last epoch.
func (g *registry) minted() pinboard.Epoch {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.epoch
}

func (g *registry) RoundTrip(r *http.Request) (*http.Response, error) {
	raw, _ := io.ReadAll(r.Body)
	path := r.URL.Path[strings.LastIndexByte(r.URL.Path, '/')+1:]
	g.mu.Lock()
	g.calls = append(g.calls, call{path, time.Now(), string(raw)})
	var f fault
	if q := g.faults[path]; len(q) > 0 {
		f, g.faults[path] = q[0], q[1:]
	}
	g.mu.Unlock()
	if err := nap(r, f.before); err != nil || f.skip {
		return nil, errors.Join(err, errLost)
	}
	status, body, header := f.status, f.body, http.Header{}
	if f.header != "" {
		header.Set("Retry-After", f.header)
	}
	if status == 0 {
		var answer any
		status, answer = g.answer(path, raw)
		b, _ := json.Marshal(answer)
		body = string(b)
	}
	if err := nap(r, f.after); err != nil || f.lost {
		return nil, errors.Join(err, errLost)
	}
	return &http.Response{StatusCode: status, Header: header, Body: io.NopCloser(strings.NewReader(body)), Request: r}, nil
}

func nap(r *http.Request, d time.Duration) error {
	select {
	case <-r.Context().Done():
		return r.Context().Err()
	case <-time.After(d):
		return nil
	}
}

func (g *registry) answer(path string, raw []byte) (int, any) {
	switch path {
	case "register":
		var b api.Register
		g.decode(raw, &b)
		return g.register(b)
	case "heartbeat":
		var b api.Heartbeat
		g.decode(raw, &b)
		return g.beat(b)
	case "release":
		var b api.Releases
		g.decode(raw, &b)
		return g.release(b)
	case "deregister":
		var b api.Deregister
		g.decode(raw, &b)
		g.mu.Lock()
		defer g.mu.Unlock()
		if s := g.sessions[b.SessionID]; s != nil {
			s.over = true
			g.freeRows(b.SessionID)
		}
		return 200, api.Done{OK: true}
	}
	return 404, nil
}

// decode uses the strict decoders of the real registry: what they refuse, no
// worker may send.
func (g *registry) decode(raw []byte, into any) {
	if err := json.Unmarshal(raw, into); err != nil {
		g.t.Errorf("worker sent %s: %v", raw, err)
	}
}

func (g *registry) register(b api.Register) (int, any) {
	if !g.proved(b.AdvertiseURL, b.Secret, b.Challenge, b.ChallengeValue) {
		return 503, api.Error{Error: "challenge failed"}
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.serial++
	id := fmt.Sprintf("s%d", g.serial)
	now := time.Now()
	duplicates := []api.Instance{}
	for ns, ids := range b.Instances {
		for _, one := range ids {
			row := g.rows[key{ns, one}]
			if row == nil || row.client != b.ClientID {
				duplicates = append(duplicates, api.Instance{NS: ns, ID: one})
				continue
			}
			row.session = id
		}
	}
	for old, s := range g.sessions {
		if s.client == b.ClientID {
			s.over = true
			g.freeRows(old)
		}
	}
	g.sessions[id] = &regSession{client: b.ClientID, secret: b.Secret, url: b.AdvertiseURL, until: now.Add(g.ttl)}
	return 200, map[string]any{"sessionId": id, "expiresInMs": g.ttl.Milliseconds(), "draining": false, "duplicates": duplicates}
}

func (g *registry) beat(b api.Heartbeat) (int, any) {
	g.mu.Lock()
	s := g.sessions[b.SessionID]
	if s == nil || s.over || !time.Now().Before(s.until) {
		g.mu.Unlock()
		return 409, api.Error{Error: "unknown session", Reregister: true}
	}
	g.mu.Unlock()
	if !g.proved(s.url, s.secret, b.Challenge, b.ChallengeValue) {
		g.t.Errorf("heartbeat of %s: challenge not proved", b.SessionID)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	s.until = time.Now().Add(g.ttl)
	for _, ack := range b.Acks {
		for i, m := range g.messages {
			if m["msgId"] == ack {
				g.messages = append(g.messages[:i:i], g.messages[i+1:]...)
				break
			}
		}
	}
	out := map[string]any{"expiresInMs": g.ttl.Milliseconds(), "draining": false}
	if len(g.messages) > 0 {
		out["messages"] = g.messages
	}
	for k, v := range g.extra {
		out[k] = v
	}
	return 200, out
}

func (g *registry) release(items api.Releases) (int, any) {
	g.mu.Lock()
	defer g.mu.Unlock()
	n := 0
	for _, i := range items {
		k := key{i.Namespace, i.ID}
		row, s := g.rows[k], g.sessions[i.SessionID]
		if row != nil && s != nil && row.client == s.client && row.epoch == i.Epoch.Value {
			delete(g.rows, k)
			n++
		}
	}
	return 200, api.ReleaseAnswer{Released: n}
}

func (g *registry) freeRows(session string) {
	for k, row := range g.rows {
		if row.session == session {
			delete(g.rows, k)
		}
	}
}

// forget wipes the registry, as a lost store does.
func (g *registry) forget() {
	g.mu.Lock()
	defer g.mu.Unlock()
	clear(g.sessions)
	clear(g.rows)
}

func (g *registry) proved(url, secret, challenge, value string) bool {
	g.mu.Lock()
	w := g.workers[strings.TrimPrefix(url, "http://")]
	g.mu.Unlock()
	r := httptest.NewRequest("GET", "/_pinned/challenge?challenge="+challenge, nil)
	r.Header.Set(api.HeaderSecret, secret)
	rec := httptest.NewRecorder()
	w.ServeHTTP(rec, r)
	var a struct{ Value string }
	json.Unmarshal(rec.Body.Bytes(), &a)
	return rec.Code == 200 && a.Value == value
}

// place finds the owner of an id, or takes any worker whose lease runs.
func (g *registry) place(k key) (session, secret string, w http.Handler, epoch pinboard.Epoch, ok bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	now := time.Now()
	live := func(id string) bool { s := g.sessions[id]; return s != nil && !s.over && now.Before(s.until) }
	row := g.rows[k]
	if row == nil || !live(row.session) {
		row = nil
		for id := range g.sessions {
			if live(id) {
				g.epoch++
				row = &regRow{session: id, client: g.sessions[id].client, epoch: g.epoch}
				g.rows[k] = row
				break
			}
		}
		if row == nil {
			return "", "", nil, 0, false
		}
	}
	s := g.sessions[row.session]
	return row.session, s.secret, g.workers[strings.TrimPrefix(s.url, "http://")], row.epoch, true
}

// get sends a client's request to wherever the id lives.
func (g *registry) get(path string) *httptest.ResponseRecorder {
	return g.do(httptest.NewRequest("GET", path, nil))
}

func (g *registry) do(r *http.Request) *httptest.ResponseRecorder {
	a, _ := pinboard.ParseAddress(r.URL.Path, nil)
	session, secret, w, epoch, ok := g.place(key{a.Namespace, a.ID})
	rec := httptest.NewRecorder()
	if !ok {
		rec.WriteHeader(503)
		rec.WriteString("no live backends")
		return rec
	}
	stamp(r, secret, session, epoch)
	w.ServeHTTP(rec, r)
	if rec.Header().Get(api.HeaderRefusal) != "" {
		g.mu.Lock()
		delete(g.rows, key{a.Namespace, a.ID})
		g.mu.Unlock()
	}
	return rec
}

func stamp(r *http.Request, secret, session string, epoch pinboard.Epoch) *http.Request {
	r.Header.Set(api.HeaderAttestation, string(attest.Append(nil, secret, session, "", 0, time.Now())))
	r.Header.Set(api.HeaderEpoch, epoch.String())
	return r
}

// newWorker makes a worker of namespace /t that answers with what it is told.
func (g *registry) newWorker(name string, c Class, change ...func(*Config)) *Handler {
	cfg := Config{
		Pinboard: "http://pinboard", Token: "tok", Advertise: "http://" + name,
		Headroom: func() float64 { return 1 }, Transport: g, Log: slog.New(slog.DiscardHandler),
	}
	for _, f := range change {
		f(&cfg)
	}
	h, err := New(cfg)
	if err != nil {
		g.t.Fatal(err)
	}
	h.session.chance = func() float64 { return 1 }
	h.Handle("/t", c)
	g.mu.Lock()
	g.workers[name] = h
	g.mu.Unlock()
	return h
}

// fields decodes a recorded body.
func (c call) fields() map[string]any {
	var m map[string]any
	json.NewDecoder(bytes.NewReader([]byte(c.body))).Decode(&m)
	return m
}
