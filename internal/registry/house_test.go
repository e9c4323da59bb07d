package registry

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"pinboard"
	"pinboard/api"
	"pinboard/internal/directory"
	"pinboard/internal/memstore"
	"pinboard/internal/outbound"
	"pinboard/internal/ownership"
)

// The stories of story_test.go run on the real directory over the in-process store, with
// real probes and callbacks over loopback. Only the clock is ours.

const lease = 15 * time.Second

// A house is one node and everything it ever said.
type house struct {
	*node
	dir  *directory.Directory
	now  time.Time
	said *strings.Builder // every answer's head and body
}

func open(t *testing.T, change func(*Config)) *house {
	t.Helper()
	h := &house{now: time.Unix(1_800_000_000, 0), said: new(strings.Builder)}
	clock := func() time.Time { return h.now }
	store := memstore.New(memstore.Options{Buckets: 4, Server: "run1", Now: clock, Clock: func() ownership.Micros { return h.now.UnixMicro() }})
	h.dir = directory.New(directory.Options{Store: store, Lease: lease, Node: "n1", NoCold: true, Now: clock,
		Hostnames: change != nil && func() bool { c := Config{}; change(&c); return c.HostnameAware }()})
	if err := h.dir.Touch(t.Context()); err != nil {
		t.Fatal(err)
	}
	h.node = start(t, func(c *Config) {
		c.Directory, c.Workers, c.Now = h.dir, outbound.New(outbound.Config{}), clock
		if change != nil {
			change(c)
		}
	})
	return h
}

func (h *house) post(path, token, body string) answer {
	h.t.Helper()
	return h.heard(h.node.post(path, token, body))
}

func (h *house) get(path string) answer {
	h.t.Helper()
	return h.heard(h.call("GET", path, "ops", ""))
}

func (h *house) heard(a answer) answer {
	fmt.Fprintln(h.said, a.status, a.header, a.text)
	return a
}

// A process is a worker as the real client is one: fresh pair per call, the
// challenge answered under its secret.
type process struct {
	h              *house
	token          string
	client         string
	secret         string
	url            string
	namespaces     string // JSON
	extra          string // further members of the register body
	quiet          bool   // sends no challenge (0.1.0)
	session        string
	n              int
	mu             sync.Mutex
	answer         int    // status instead of an answer to the challenge, 0: none
	challenge      string // the pair last posted
	value          string
	callbacks      []string // "path body" of pushed callbacks
	probesAnswered int
}

func (h *house) process(client string) *process {
	p := &process{h: h, token: "worker-b", client: client, secret: "secret-of-" + client + "-0123456789", namespaces: `["/t"]`}
	s := httptest.NewServer(p)
	h.t.Cleanup(s.Close)
	p.url = s.URL
	return p
}

func (p *process) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	defer p.mu.Unlock()
	body, _ := io.ReadAll(r.Body)
	switch {
	case r.Header.Get(api.HeaderSecret) != p.secret && r.Header.Get(api.HeaderLegacySecret) != p.secret:
		http.Error(w, `{"detail":"invalid proxy secret"}`, http.StatusForbidden)
	case r.Method == http.MethodPost:
		p.callbacks = append(p.callbacks, r.URL.Path+" "+string(body))
		io.WriteString(w, `{"ok":true}`)
	case p.answer != 0:
		w.WriteHeader(p.answer)
	case r.URL.Query().Get("challenge") != p.challenge:
		http.NotFound(w, r)
	default:
		p.probesAnswered++
		fmt.Fprintf(w, `{"value":%q}`, p.value)
	}
}

func (p *process) pair() string {
	if p.quiet {
		return ""
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.n++
	p.challenge, p.value = fmt.Sprint("challenge", p.n), fmt.Sprint("value", p.n)
	return fmt.Sprintf(`,"challenge":%q,"challengeValue":%q`, p.challenge, p.value)
}

func (p *process) register() answer {
	p.h.t.Helper()
	a := p.h.post("/registry/register", p.token, fmt.Sprintf(`{"clientId":%q,"secret":%q,"namespaces":%s,"advertiseUrl":%q,"headroom":100,"draining":false%s%s}`,
		p.client, p.secret, p.namespaces, p.url, p.pair(), p.extra))
	if a.status == 200 {
		p.session = a.body["sessionId"].(string)
	}
	return a
}

func (p *process) beat(extra string) answer {
	p.h.t.Helper()
	return p.h.post("/registry/heartbeat", p.token, fmt.Sprintf(`{"sessionId":%q,"headroom":100,"draining":false%s%s}`, p.session, p.pair(), extra))
}

func (h *house) resolve(path string) (directory.Placement, error) {
	a, refusal := pinboard.ParseAddress(path, h.dir.Prefix)
	if refusal != nil {
		h.t.Fatal(refusal)
	}
	return h.dir.Resolve(h.t.Context(), directory.Request{Address: a})
}

func (h *house) place(path string) directory.Placement {
	h.t.Helper()
	p, err := h.resolve(path)
	if err != nil {
		h.t.Fatalf("%s: %v", path, err)
	}
	return p
}

func (a answer) is(t *testing.T, status int, want ...string) {
	t.Helper()
	if a.status != status {
		t.Fatalf("status %d, want %d: %s", a.status, status, a.text)
	}
	for _, w := range want {
		if !strings.Contains(a.text, w) {
			t.Fatalf("%s\nlacks %s", a.text, w)
		}
	}
}
