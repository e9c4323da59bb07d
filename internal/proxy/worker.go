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
	gone     bool            // connections are closed instead of kept
	used     time.Time
	keeps    bool // a connection of this worker has outlived the probation
	breaches int  // how often it was believed to and did not
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

// enter takes a place among the worker's finite exchanges and, if there is
// one younger than limit, an idle connection. Beyond the cap it waits.
func (k *worker) enter(ctx context.Context, p *Proxy, now time.Time) (*upstream, *pinboard.Refusal) {
	k.mu.Lock()
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
	if !k.abandon(place) {
		k.leave() // the place came just now
	}
	return nil, pinboard.WorkerBusy
}

// abandon reports whether place was still waiting.
func (k *worker) abandon(place chan struct{}) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	for i, c := range k.waiting {
		if c == place {
			k.waiting = append(k.waiting[:i], k.waiting[i+1:]...)
			return true
		}
	}
	return false
}

// take pops another idle connection for an exchange that has its place.
func (k *worker) take(now time.Time, limit time.Duration) *upstream {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.pop(now, limit)
}

// A worker may close each connection right after its answer without saying so;
// a request written meanwhile is lost (FC-16). So a connection counts as kept
// only when one has been idle for a while and still serves, and no longer once
// one was closed young.
const (
	probation = 50 * time.Millisecond // doubled each time it proved too short
	young     = 100 * time.Millisecond
	onTrial   = 4 // idle connections held meanwhile

	maxBreaches = 5 // 1.6 s
)

// pop takes the newest idle connection, or, before the worker is known to keep
// them, the oldest one that is past the probation.
func (k *worker) pop(now time.Time, limit time.Duration) *upstream {
	n := len(k.idle)
	if n == 0 {
		return nil
	}
	i := n - 1
	if !k.keeps {
		i = 0
	}
	u := k.idle[i]
	u.taken, u.age = now, now.Sub(u.idle)
	if u.age > limit || !k.keeps && u.age < probation<<k.breaches {
		return nil // what is too old the sweep closes
	}
	copy(k.idle[i:], k.idle[i+1:])
	k.idle[n-1] = nil
	k.idle = k.idle[:n-1]
	u.reused, u.proving = true, !k.keeps
	return u
}

// give keeps u for the next exchange; place says that the caller leaves, too.
func (k *worker) give(u *upstream, now time.Time, place bool) {
	u.idle = now
	k.mu.Lock()
	keep := !k.gone && (k.keeps || len(k.idle) < onTrial)
	if keep {
		k.idle = append(k.idle, u)
	}
	if place {
		k.leaveLocked()
	}
	k.mu.Unlock()
	if !keep {
		u.close()
	}
}

// leave gives the place to the next in line.
func (k *worker) leave() {
	k.mu.Lock()
	k.leaveLocked()
	k.mu.Unlock()
}

func (k *worker) leaveLocked() {
	if len(k.waiting) > 0 {
		close(k.waiting[0])
		k.waiting = k.waiting[1:]
		return
	}
	k.active--
}

// served notes that u, kept before, has served again.
func (k *worker) served(u *upstream) {
	if u.proving {
		k.mu.Lock()
		k.keeps = true
		k.mu.Unlock()
	}
}

// failed notes that u was closed by the worker while it was idle, or before
// it answered.
func (k *worker) failed(u *upstream) {
	if !u.reused || u.age >= young {
		return
	}
	k.mu.Lock()
	if k.keeps {
		k.keeps, k.breaches = false, min(k.breaches+1, maxBreaches)
	}
	k.mu.Unlock()
}

// expire closes connections idle since before. It reports whether nothing is
// left that a new exchange would miss.
func (k *worker) expire(since time.Time) (empty bool) {
	k.mu.Lock()
	n := 0
	for n < len(k.idle) && k.idle[n].idle.Before(since) {
		n++
	}
	old := append([]*upstream(nil), k.idle[:n]...)
	k.idle = append(k.idle[:0], k.idle[n:]...)
	clear(k.idle[len(k.idle) : len(k.idle)+n])
	empty = len(k.idle) == 0 && k.active == 0 && len(k.waiting) == 0 && k.used.Before(since)
	k.gone = k.gone || empty // whoever holds it still will not leave connections here
	k.mu.Unlock()
	for _, u := range old {
		u.close()
	}
	return empty
}

// closeIdle closes all idle connections; with forget also those that come
// back later.
func (k *worker) closeIdle(forget bool) {
	k.mu.Lock()
	old := k.idle
	k.idle = nil
	k.gone = k.gone || forget
	k.mu.Unlock()
	for _, u := range old {
		u.close()
	}
}
