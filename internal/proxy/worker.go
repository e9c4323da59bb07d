package proxy

import (
	"context"
	"errors"
	"net/url"
	"strings"
	"sync"
	"time"

	"pinboard"
	"pinboard/internal/ownership"
)

// A worker is what this node holds for one session: idle connections, newest
// last, and the count of finite exchanges with those that wait for a place.
// Connections are not shared between sessions, because a session may be
// another process behind the same address.
type worker struct {
	session string
	secure  bool
	host    string // name or address to dial, without brackets
	port    string
	base    string // path of the advertise URL as it was registered, without trailing "/"
	site    string // Host for a client that sent none

	mu       sync.Mutex
	idle     []*upstream
	active   int
	waiting  []chan struct{} // closed when its place is there
	first    *delivery       // of the list of those that have a place or wait for one
	gone     bool            // connections are closed instead of kept
	used     time.Time
	keeps    bool          // a connection of this worker has outlived the probation
	breaches int           // how often it was believed to and did not
	learned  time.Duration // of idleness that its own closes allow; 0: none was seen
	hinted   time.Duration // of idleness that its Keep-Alive hints allow; 0: it sends none
}

// worker is what this node holds for w's session.
func (p *Proxy) worker(w *ownership.Worker) (*worker, error) {
	p.workersMu.RLock()
	k := p.workers[w.Session]
	p.workersMu.RUnlock()
	if k != nil {
		return k, nil
	}
	k, err := newWorker(w)
	if err != nil {
		return nil, err
	}
	p.workersMu.Lock()
	defer p.workersMu.Unlock()
	if old := p.workers[w.Session]; old != nil {
		return old, nil
	}
	k.used = p.cfg.Now()
	p.workers[w.Session] = k
	return k, nil
}

var errBadURL = errors.New("advertise URL cannot be dialled")

func newWorker(w *ownership.Worker) (*worker, error) {
	u, err := url.Parse(w.URL)
	if err != nil || u.Host == "" {
		return nil, errBadURL
	}
	k := &worker{session: w.Session, host: u.Hostname(), port: u.Port(), site: u.Host}
	switch strings.ToLower(u.Scheme) {
	case "http":
		k.port = orString(k.port, "80")
	case "https":
		k.secure, k.port = true, orString(k.port, "443")
	default:
		return nil, errBadURL
	}
	rest := w.URL[strings.Index(w.URL, "://")+3:]
	if i := strings.IndexByte(rest, '/'); i >= 0 {
		k.base = strings.TrimSuffix(rest[i:], "/")
	}
	return k, nil
}

func orString(s, v string) string {
	if s == "" {
		return v
	}
	return s
}

// enter takes a place among the worker's finite exchanges for d and, if there
// is one young enough, an idle connection. Beyond the worker's cap it waits,
// beyond that of the instance it does not: one hot id must leave places, and the
// queue for them, to the others.
func (k *worker) enter(ctx context.Context, d *delivery, now time.Time) (*upstream, *pinboard.Refusal) {
	p := d.p
	k.mu.Lock()
	if !k.admits(d, p.cfg.InstanceMaxConns) {
		k.mu.Unlock()
		return nil, pinboard.InstanceBusy
	}
	k.link(d)
	if k.active < p.cfg.WorkerMaxConns {
		k.active++
		k.used = now
		u := k.pop(now, p.cfg.PoolIdle)
		k.mu.Unlock()
		return u, nil
	}
	place := make(chan struct{})
	k.waiting = append(k.waiting, place)
	k.mu.Unlock()
	t := time.NewTimer(p.cfg.WorkerQueue)
	defer t.Stop()
	select {
	case <-place:
		return k.take(p.cfg.Now(), p.cfg.PoolIdle), nil
	case <-t.C:
	case <-ctx.Done():
	}
	if !k.abandon(place, d) {
		k.leave(d) // the place came just now
	}
	return nil, pinboard.WorkerBusy
}

// admits reports whether the instance of d has fewer exchanges here than most.
// They are counted only when so many are here at all. mu is held.
func (k *worker) admits(d *delivery, most int) bool {
	if k.active+len(k.waiting) < most {
		return true
	}
	n := 0
	for o := k.first; o != nil && n < most; o = o.later {
		if o.place.Key == d.place.Key {
			n++
		}
	}
	return n < most
}

// link adds d to the list, unlink takes it out. mu is held.
func (k *worker) link(d *delivery) {
	d.earlier, d.later = nil, k.first
	if k.first != nil {
		k.first.earlier = d
	}
	k.first = d
}

func (k *worker) unlink(d *delivery) {
	if d.earlier != nil {
		d.earlier.later = d.later
	} else {
		k.first = d.later
	}
	if d.later != nil {
		d.later.earlier = d.earlier
	}
	d.earlier, d.later = nil, nil
}

// abandon reports whether place was still waiting.
func (k *worker) abandon(place chan struct{}, d *delivery) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	for i, c := range k.waiting {
		if c == place {
			k.waiting = append(k.waiting[:i], k.waiting[i+1:]...)
			k.unlink(d)
			return true
		}
	}
	return false
}

// leave gives d's place to the next in line.
func (k *worker) leave(d *delivery) {
	k.mu.Lock()
	k.leaveLocked(d)
	k.mu.Unlock()
}

func (k *worker) leaveLocked(d *delivery) {
	k.unlink(d)
	if len(k.waiting) > 0 {
		close(k.waiting[0])
		k.waiting = k.waiting[1:]
		return
	}
	k.active--
}
