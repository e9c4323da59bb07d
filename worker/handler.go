package worker

import (
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"pinboard"
	"pinboard/api"
	"pinboard/internal/attest"
	"pinboard/internal/seam"
)

// A Handler is a worker: an http.Handler to be served at Config.Advertise and
// a session at Pinboard that Run keeps alive. It lets a request through to an
// instance only if Pinboard sent it (attestation), to the session this process
// holds now, inside the lease, at an epoch no older than any it has seen.
type Handler struct {
	cfg     Config
	m       seam.Machine
	base    string // path of the advertise URL without trailing "/"
	session *Session
	calls   http.RoundTripper // of instances to instances
	started time.Time
	classes map[string]Class // fixed once Run begins

	mu       sync.Locker
	running  bool // Run began
	over     bool // superseded, or Run is at its end: nothing opens any more
	table    map[key]*Instance
	fences   fences
	own      drain // of this process
	operator drain
	counts   map[string]*counts
	timers   timers
	emptied  chan struct{} // told when the table becomes empty

	closers seam.Group // one for each instance being closed
}

// counts of one namespace since the start.
type counts struct {
	Activations int `json:"activations"`
	Evictions   int `json:"evictions"`
	resident    int // in the table now
}

// New checks the configuration; nothing happens before Run.
func New(cfg Config) (*Handler, error) {
	base, err := cfg.complete()
	if err != nil {
		return nil, err
	}
	m := seam.Of(cfg.Transport)
	h := &Handler{
		cfg: cfg, m: m, mu: m.NewLock(), closers: seam.Group{On: m},
		base: strings.TrimRight(base.EscapedPath(), "/"), started: m.Now(),
		classes: map[string]Class{}, counts: map[string]*counts{},
		table: map[key]*Instance{}, fences: fences{}, emptied: make(chan struct{}, 1),
	}
	h.calls = cfg.Transport
	if h.calls == nil {
		h.calls = &http.Transport{DisableCompression: true, MaxIdleConnsPerHost: 64, IdleConnTimeout: 30 * time.Second}
	}
	h.session = newSession(&h.cfg, h)
	return h, nil
}

// Handle adds a namespace ("/counter"). Like http.ServeMux it panics on what
// is a mistake in the program: a namespace that Pinboard would refuse, one
// named twice, or one added after Run.
func (h *Handler) Handle(namespace string, c Class) {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch _, twice := h.classes[namespace]; {
	case !pinboard.ValidNamespace(namespace):
		panic("worker: invalid namespace " + namespace)
	case c.Open == nil:
		panic("worker: no Open for namespace " + namespace)
	case twice, h.running:
		panic("worker: too late for namespace " + namespace)
	}
	h.classes[namespace] = c.complete()
	h.counts[namespace] = &counts{}
	h.cfg.namespaces = append(h.cfg.namespaces, namespace)
	slices.Sort(h.cfg.namespaces)
}

// Session is the registration, to look at.
func (h *Handler) Session() *Session { return h.session }

// ServeHTTP takes a request through the checks of the published clients, in
// their order, and then to its instance.
func (h *Handler) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
	path, ok := strings.CutPrefix(rawPath(r), h.base)
	if !ok {
		unknownRoute.write(rw, r)
		return
	}
	switch path {
	case api.PathChallenge:
		h.serveChallenge(rw, r)
		return
	case api.PathStats:
		h.serveStats(rw, r)
		return
	}
	addr, bad := pinboard.ParseAddress(path, h.namespaceOf)
	class, known := h.classes[addr.Namespace]
	if bad == nil && !known {
		unknownRoute.write(rw, r)
		return
	}
	claims, ok := h.verify(r)
	if !ok {
		badAttestation.write(rw, r)
		return
	}
	if bad != nil || addr.ID == "" {
		badID.write(rw, r)
		return
	}
	epoch, ok := parseEpoch(r.Header.Values(api.HeaderEpoch))
	if !ok {
		badEpoch.write(rw, r)
		return
	}
	if addr.Rest == "/_wake" && r.Method == http.MethodPost {
		unknownRoute.write(rw, r) // nothing durable to wake: this SDK writes no index
		return
	}
	in, denied := h.enter(class, key{addr.Namespace, addr.ID}, epoch, claims.Audience)
	if denied != nil {
		denied.write(rw, r)
		return
	}
	in.serve(rw, r, addr.Rest, callerOf(claims))
}

// rawPath is the path as it came over the wire.
func rawPath(r *http.Request) string {
	if strings.HasPrefix(r.RequestURI, "/") {
		path, _, _ := strings.Cut(r.RequestURI, "?")
		return path
	}
	return r.URL.EscapedPath()
}

// namespaceOf is a pinboard.Prefix over the classes.
func (h *Handler) namespaceOf(path string) (longest int) {
	for ns := range h.classes {
		if len(ns) > longest && pinboard.InNamespace(path, ns) {
			longest = len(ns)
		}
	}
	return longest
}

// verify checks the attestation: our secret, our current session, our clock
// within half a minute of the node's.
func (h *Handler) verify(r *http.Request) (attest.Claims, bool) {
	id := h.session.ID()
	c, err := attest.Verify(r.Header.Get(api.HeaderAttestation), h.session.secret,
		func(audience string) bool { return id != "" && audience == id }, h.m.Now())
	return c, err == nil
}

// parseEpoch reads the first header. Pinboard sends one with every forward;
// without it there is no fence, so nothing is served.
func parseEpoch(values []string) (pinboard.Epoch, bool) {
	if len(values) == 0 || values[0] == "" {
		return 0, false
	}
	e, err := pinboard.ParseEpoch(strings.TrimLeft(values[0], "0"))
	return e, err == nil
}

// look reads the lease and then the clock, so that no time spent waiting for a
// lock goes unseen. What begins something in the name of an instance looks
// right before it, behind its last wait: the ids may have another owner by then.
func (h *Handler) look() (lease, time.Time) {
	_, l := h.session.standing()
	return l, h.m.Now()
}

// enter decides whether a request may go in. Everything it rests on is looked
// at under one lock: the session the request was meant for, the lease, the
// fence, the instance.
func (h *Handler) enter(class Class, k key, epoch pinboard.Epoch, session string) (*Instance, *denial) {
	h.mu.Lock()
	defer h.mu.Unlock()
	current, lease := h.session.standing()
	now := h.m.Now() // behind both locks
	if current != session {
		return nil, &badAttestation
	}
	if lease.expired(now) {
		return nil, &leaseExpired
	}
	if d := h.fences.admit(k, epoch, now, lease.fenceMemory()); d != nil {
		return nil, d
	}
	in := h.table[k]
	switch {
	case in == nil && !lease.healthy(now):
		return nil, &unhealthy
	case in == nil && (h.drainingLocked() || h.over):
		return nil, &draining
	case in == nil && h.counts[k.ns].resident >= class.Max:
		return nil, &full
	case in == nil:
		in = h.openLocked(class, k)
	case epoch < in.epoch:
		return nil, &staleEpoch
	case !h.deadlineLocked(in).IsZero() && !now.Before(h.deadlineLocked(in)):
		return nil, &pastDeadline
	case in.closing:
		return nil, &closing
	}
	in.epoch = max(in.epoch, epoch)
	in.requests++
	return in, nil
}
