package sim

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"path"
	"time"

	"pinboard/api"
	"pinboard/internal/directory"
	"pinboard/internal/outbound"
	"pinboard/internal/ownership"
	"pinboard/internal/passport"
	"pinboard/internal/registry"
	"pinboard/internal/seam"
)

// simToken is what workers of the Go SDK present.
const simToken = "token-of-the-simulation"

var simTokens = must(passport.New(simToken, ""))

// control is the real control plane of a node, in front of its directory.
func (n *Node) control() http.Handler {
	return registry.New(registry.Config{Directory: timeless{n.dir}, Now: n.w.time, Workers: prober{n: n}, Tokens: simTokens,
		HostnameAware: n.w.Hostnames, Log: slog.New(slog.DiscardHandler), Rand: func() float64 {
			if n.w.Still {
				return 0
			}
			return n.w.rand("retry after").Float64()
		}})
}

// timeless keeps deadlines of the wall clock, which the registry sets, away
// from the fake one: the caller's patience bounds a call here.
type timeless struct{ *directory.Directory }

func (t timeless) Register(_ context.Context, r *directory.Registration) (directory.Grant, error) {
	return t.Directory.Register(context.Background(), r)
}

func (t timeless) WorkerOf(_ context.Context, sid string) (*ownership.Worker, error) {
	return t.Directory.WorkerOf(context.Background(), sid)
}

func (t timeless) Beat(_ context.Context, b ownership.Beat) (directory.Grant, error) {
	return t.Directory.Beat(context.Background(), b)
}

func (t timeless) Release(_ context.Context, owner string, items []directory.Release) (int, error) {
	return t.Directory.Release(context.Background(), owner, items)
}

func (t timeless) Deregister(_ context.Context, owner, sid string) error {
	return t.Directory.Deregister(context.Background(), owner, sid)
}

// A prober calls workers over the simulated net.
type prober struct {
	registry.Workers // stats and pushes are nobody's here
	n                *Node
}

// Prove asks whoever listens at the URL.
func (b prober) Prove(_ context.Context, q outbound.Probe) outbound.Proof {
	n := b.n
	p := n.w.listen[q.URL]
	if p == nil {
		return outbound.Proof{Detail: "nobody listens"}
	}
	got, ok := call(n.w, n.Name, p.Name, &p.Host, 2*time.Second, func() outbound.Outcome { return p.proves(q) })
	if !ok {
		return outbound.Proof{Detail: "no answer"}
	}
	return outbound.Proof{Outcome: got, Answered: true, Detail: "not proved"}
}

// proves is a worker's answer to a challenge as a node reads it.
func (p *Proc) proves(q outbound.Probe) outbound.Outcome {
	if p.sdk == nil {
		if p.secret != q.Secret {
			return outbound.Refuted
		}
		return outbound.Unproved // a model shares no pair with anybody
	}
	r := must(http.NewRequest(http.MethodGet, p.url+api.PathChallenge+"?challenge="+url.QueryEscape(q.Challenge), nil))
	r.Header.Set(api.HeaderSecret, q.Secret)
	rec := &recorder{header: http.Header{}}
	p.sdk.h.ServeHTTP(rec, r)
	p.sdk.stir()
	var a struct{ Value string }
	switch _ = json.Unmarshal(rec.body.Bytes(), &a); {
	case rec.status == http.StatusForbidden:
		return outbound.Refuted
	case rec.status != http.StatusOK:
		return outbound.Unproved
	case a.Value != q.Value:
		return outbound.Refuted
	}
	return outbound.Proved
}

// A recorder is an answer as it was written.
type recorder struct {
	header  http.Header
	status  int
	body    bytes.Buffer
	flushed func()         // told of the first flush
	writes  func(b []byte) // takes what is written from then on
}

// Header is http.ResponseWriter's.
func (r *recorder) Header() http.Header { return r.header }

// WriteHeader keeps the first status.
func (r *recorder) WriteHeader(status int) {
	if r.status == 0 {
		r.status = status
	}
}

// Write keeps the body, or passes it on behind a flush.
func (r *recorder) Write(b []byte) (int, error) {
	r.WriteHeader(http.StatusOK)
	if r.flushed == nil && r.writes != nil {
		r.writes(b)
		return len(b), nil
	}
	return r.body.Write(b)
}

// FlushError is for http.ResponseController.
func (r *recorder) FlushError() error {
	if f := r.flushed; f != nil {
		r.flushed = nil
		f()
	}
	return nil
}

// A sdkGrant is an answer that renewed the lease, as the wire saw it.
type sdkGrant struct {
	by        *Task
	sent, ttl time.Duration
}

var errNoAnswer = errors.New("no answer")

// RoundTrip carries one call of the SDK to a node, and its answer back.
func (m *goSDK) RoundTrip(r *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	r.Body.Close()
	m.learn(path.Base(r.URL.Path), body)
	m.worked()
	n, sent, done := m.p.node(), m.w.Now, make(chan struct{})
	var rec *recorder
	var answered bool
	m.Go(func() {
		rec, answered = call(m.w, m.p.Name, n.Name, &n.Host, patience, func() *recorder {
			to := &recorder{header: http.Header{}}
			q := must(http.NewRequest(r.Method, r.URL.String(), bytes.NewReader(body)))
			q.Header = r.Header.Clone()
			n.control().ServeHTTP(to, q)
			return to
		})
		close(done)
	})
	if m.Wait(seam.Forever, done, r.Context().Done()) == 1 {
		return nil, r.Context().Err()
	}
	if !answered {
		m.w.note("%s: %s at %s: no answer", m.p.Name, path.Base(r.URL.Path), n.Name)
		return nil, errNoAnswer
	}
	m.granted(path.Base(r.URL.Path), n, sent, rec)
	return &http.Response{StatusCode: rec.status, Header: rec.header, Body: io.NopCloser(&rec.body), Request: r}, nil
}

// learn reads who the process is off its registration, as a node does.
func (m *goSDK) learn(call string, body []byte) {
	var b struct{ ClientID, Secret string }
	if call == "register" && json.Unmarshal(body, &b) == nil {
		m.p.client, m.p.secret = b.ClientID, b.Secret
	}
}

// granted notes what an answer grants.
func (m *goSDK) granted(call string, n *Node, sent time.Duration, rec *recorder) {
	if rec.status != http.StatusOK {
		m.w.note("%s: %s at %s: %d %s", m.p.Name, call, n.Name, rec.status, rec.header.Get(api.HeaderError))
		return
	}
	var a struct {
		SessionID   string
		ExpiresInMs float64
		Duplicates  []api.Instance
	}
	if json.Unmarshal(rec.body.Bytes(), &a) != nil || a.ExpiresInMs == 0 {
		return
	}
	if a.SessionID != "" {
		var quit []string
		for _, d := range a.Duplicates {
			quit = append(quit, d.ID)
		}
		m.p.last, m.p.session = m.p.session, a.SessionID
		m.w.note("%s: registered, quits %s", m.p.Name, list(quit))
	}
	ttl := time.Duration(a.ExpiresInMs * float64(time.Millisecond))
	m.p.granted = max(m.p.granted, sent+ttl)
	m.grant = &sdkGrant{m.w.cur, sent, ttl}
}

// worked takes a grant into account as soon as the task that brought it has
// worked it off: then duplicates have been quit.
func (m *goSDK) worked() {
	if g := m.grant; g != nil && g.by == m.w.cur {
		m.grant = nil
		m.mirror()
		m.p.renew(g.sent, g.ttl)
	}
}
