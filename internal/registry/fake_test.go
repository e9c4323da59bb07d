package registry

import (
	"cmp"
	"context"
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
	"pinboard/internal/directory"
	"pinboard/internal/outbound"
	"pinboard/internal/ownership"
	"pinboard/internal/passport"
)

// fake is a directory and a network of workers that write down what they are
// asked and answer what a test put there.
type fake struct {
	mu    sync.Mutex
	calls []string // "Beat s1 proof=1", in order

	sessions map[string]*ownership.Worker
	infos    []directory.WorkerInfo
	grant    directory.Grant
	err      error // every directory call's
	no       bool  // every order finds nothing

	registered *directory.Registration
	beat       ownership.Beat
	released   []directory.Release
	tagged     directory.Tag
	order      directory.WindDown
	drained    *time.Duration

	proof  outbound.Proof
	probes []outbound.Probe
	pushes []outbound.Push
	pushed outbound.PushResult
	asked  []outbound.StatsTarget

	statsText string // of every worker; nothing but draining if empty
}

func (f *fake) note(format string, args ...any) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.calls = append(f.calls, fmt.Sprintf(format, args...))
}

func (f *fake) Register(_ context.Context, r *directory.Registration) (directory.Grant, error) {
	f.note("Register %s", r.Worker.ClientID)
	f.registered = r
	return f.grant, f.err
}

func (f *fake) WorkerOf(_ context.Context, sid string) (*ownership.Worker, error) {
	f.note("Session %s", sid)
	if w := f.sessions[sid]; w != nil {
		return w, nil
	}
	return nil, directory.Reregister{Reason: "unknown session"}
}

func (f *fake) Beat(_ context.Context, b ownership.Beat) (directory.Grant, error) {
	f.note("Beat %s proof=%d", b.Session, b.Proof)
	f.beat = b
	return f.grant, f.err
}

func (f *fake) Release(_ context.Context, owner string, items []directory.Release) (int, error) {
	f.note("Release %s %d", owner, len(items))
	f.released = items
	return len(items), f.err
}

func (f *fake) Deregister(_ context.Context, owner, sid string) error {
	f.note("Deregister %s %s", owner, sid)
	return f.err
}

func (f *fake) Tag(_ context.Context, owner string, t directory.Tag) (bool, error) {
	f.note("Tag %s", owner)
	f.tagged = t
	return !f.no, f.err
}

func (f *fake) WindDown(_ context.Context, o directory.WindDown) (bool, error) {
	f.note("WindDown %s %s %s", o.Host, o.Namespace, o.ID)
	f.order = o
	return !f.no, f.err
}

func (f *fake) count() int {
	if f.no {
		return 0
	}
	return 1
}

func (f *fake) Drain(_ context.Context, s directory.Selector, d *time.Duration) (int, error) {
	f.note("Drain %s", s.Session)
	f.drained = d
	return f.count(), f.err
}

func (f *fake) Undrain(_ context.Context, s directory.Selector) (int, error) {
	f.note("Undrain %s", s.Session)
	return f.count(), f.err
}

func (f *fake) Eject(_ context.Context, s directory.Selector) (int, error) {
	f.note("Eject %s", s.Session)
	return f.count(), f.err
}

func (f *fake) Bound(context.Context, string, string) (string, error) { return "", f.err }

func (f *fake) DeleteBinding(_ context.Context, hostname, ns string) (bool, error) {
	f.note("DeleteBinding %s %s", hostname, ns)
	return !f.no, f.err
}

func (f *fake) Workers(_ context.Context, after string, limit int) ([]directory.WorkerInfo, string, error) {
	f.note("Workers %q %d", after, limit)
	var out []directory.WorkerInfo
	for _, w := range f.infos {
		if w.SessionID <= after {
			continue
		}
		if len(out) == limit {
			return out, out[limit-1].SessionID, f.err
		}
		out = append(out, w)
	}
	return out, "", f.err
}

func (f *fake) Overview(_ context.Context, after string, limit int) (directory.Overview, error) {
	f.note("Overview %q %d", after, limit)
	return directory.Overview{Buckets: 3}, f.err
}

func (f *fake) Events(_ context.Context, after string, limit int) ([]ownership.Entry, string, error) {
	f.note("Events %q %d", after, limit)
	return nil, "17", f.err
}

func (f *fake) Health(context.Context) (directory.Health, error) {
	f.note("Health")
	return directory.Health{Buckets: 3}, f.err
}

func (f *fake) Prove(_ context.Context, p outbound.Probe) outbound.Proof {
	f.note("Prove %s", p.URL)
	f.probes = append(f.probes, p)
	return f.proof
}

func (f *fake) Stats(_ context.Context, targets []outbound.StatsTarget) []outbound.Stats {
	f.asked = targets
	out := make([]outbound.Stats, len(targets))
	for i := range out {
		out[i] = outbound.Stats{Status: "ok", Stats: json.RawMessage(cmp.Or(f.statsText, `{"draining":false}`))}
	}
	return out
}

func (f *fake) Push(_ context.Context, p outbound.Push) outbound.PushResult {
	f.note("Push %s%s", p.URL, p.Path)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.pushes = append(f.pushes, p)
	return f.pushed
}

// Two tenants, two operators and the token that may do everything.
const tokens = `{"providers":[{"type":"staticToken","id":"p","keys":[
 {"name":"a","token":"worker-a","scopes":["pinboard:worker"],"claims":{"pinboard":{"namespaces":["/a","/t"],"allowedBackendHosts":["127.0.0.1","w"],"hostnames":["a.example"]}}},
 {"name":"b","token":"worker-b","scopes":["pinboard:worker"],"claims":{"pinboard":{"namespaces":["*"],"allowedBackendHosts":["*"]}}},
 {"name":"ops","token":"ops","scopes":["pinboard:operator"],"claims":{"pinboard":{"namespaces":["*"]}}},
 {"name":"ops-a","token":"ops-a","scopes":["pinboard:operator"],"claims":{"pinboard":{"namespaces":["/a"],"hostnames":["a.example"]}}}]}]}`

type node struct {
	t *testing.T
	*fake
	server *Server
	logs   *strings.Builder
}

func start(t *testing.T, change func(*Config)) *node {
	t.Helper()
	source, err := passport.Open("root", tokens)
	if err != nil {
		t.Fatal(err)
	}
	logs := new(strings.Builder)
	f := &fake{sessions: map[string]*ownership.Worker{}, proof: outbound.Proof{Outcome: outbound.Proved}, grant: directory.Grant{Session: "s1", ExpiresIn: 15 * time.Second}}
	c := Config{Directory: f, Workers: f, Tokens: source, Log: slog.New(slog.NewTextHandler(logs, nil)), Rand: func() float64 { return 0 }}
	if change != nil {
		change(&c)
	}
	n := &node{t: t, fake: f, server: New(c), logs: logs}
	t.Cleanup(n.server.Close)
	return n
}

// An answer as a client sees it.
type answer struct {
	status int
	header http.Header
	body   map[string]any
	text   string
}

func (n *node) call(method, path, token, body string) answer {
	n.t.Helper()
	r := httptest.NewRequest(method, path, strings.NewReader(body))
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	return n.send(r)
}

func (n *node) send(r *http.Request) answer {
	n.t.Helper()
	w := httptest.NewRecorder()
	n.server.ServeHTTP(w, r)
	text, _ := io.ReadAll(w.Body)
	a := answer{status: w.Code, header: w.Header(), text: string(text)}
	if err := json.Unmarshal(text, &a.body); err != nil {
		n.t.Errorf("%s %s: the body is no JSON object: %q", r.Method, r.URL, text)
	}
	if ct := w.Header().Get("Content-Type"); ct != "application/json" {
		n.t.Errorf("%s %s: Content-Type %q", r.Method, r.URL, ct)
	}
	return a
}

func (n *node) post(path, token, body string) answer {
	n.t.Helper()
	return n.call("POST", path, token, body)
}

// away is a directory whose store is gone.
type away struct{ *fake }

func (away) WorkerOf(context.Context, string) (*ownership.Worker, error) {
	return nil, errors.Join(pinboard.StoreUnavailable, errors.New("i/o timeout"))
}

// hanging answers nothing before the call's time is over.
type hanging struct{ *fake }

func (hanging) WorkerOf(ctx context.Context, _ string) (*ownership.Worker, error) {
	return nil, late(ctx)
}

func (hanging) Register(ctx context.Context, _ *directory.Registration) (directory.Grant, error) {
	return directory.Grant{}, late(ctx)
}

func (hanging) Release(ctx context.Context, _ string, _ []directory.Release) (int, error) {
	return 0, late(ctx)
}

func (hanging) Deregister(ctx context.Context, _, _ string) error { return late(ctx) }

func (h hanging) Prove(ctx context.Context, p outbound.Probe) outbound.Proof {
	time.Sleep(2 * time.Second)
	return h.fake.Prove(ctx, p)
}

func late(ctx context.Context) error {
	<-ctx.Done()
	return errors.Join(pinboard.StoreUnavailable, ctx.Err())
}
