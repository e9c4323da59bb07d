package worker

import (
	"context"
	"slices"
	"sync"
	"time"

	"pinboard"
	"pinboard/api"
	"pinboard/internal/seam"
)

const (
	// attempts of one call that ends something, each a bit later than the last.
	attempts  = 3
	retryStep = 200 * time.Millisecond
	// releaseWait is how long a close waits for its release to be taken before
	// clients see their streams end; after it the release goes on beside.
	releaseWait = 5 * time.Second
	// maxUnsent bounds the releases kept for a Pinboard that takes none. The
	// lease decides about those beyond it.
	maxUnsent = 10_000
)

// releases gives ids back, in batches, one call at a time. What Pinboard did
// not take waits for the next answer of the session, under whatever session
// that is; repeating a release is harmless, it names the epoch.
type releases struct {
	session *Session

	mu      sync.Locker
	waiting []*released
	posting bool
	poster  seam.Group
}

type released struct {
	k      key
	epoch  pinboard.Epoch
	tried  chan struct{} // closed when it was taken, or given up for now
	unsent bool          // a former batch gave it up
}

// add queues a release and waits until it was tried, at most releaseWait.
func (r *releases) add(k key, epoch pinboard.Epoch) {
	one := &released{k: k, epoch: epoch, tried: make(chan struct{})}
	r.mu.Lock()
	r.waiting = append(r.waiting, one)
	if over := len(r.waiting) - maxUnsent; over > 0 {
		for _, old := range r.waiting[:over] {
			old.give()
		}
		r.waiting = slices.Clone(r.waiting[over:])
	}
	r.mu.Unlock()
	r.flush()
	r.session.m.Wait(releaseWait, one.tried)
}

// repeat queues a release again, behind the next answer of the session.
func (r *releases) repeat(k key, epoch pinboard.Epoch) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.waiting = append(r.waiting, &released{k: k, epoch: epoch, tried: make(chan struct{})})
}

func (o *released) give() {
	if !o.unsent {
		o.unsent = true
		close(o.tried)
	}
}

// flush posts what waits, in the background, unless somebody does already or
// there is no session to speak for.
func (r *releases) flush() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.posting || len(r.waiting) == 0 || !r.session.registered() {
		return
	}
	r.posting = true
	r.poster.Go(r.post)
}

// finish makes a last attempt at what waits.
func (r *releases) finish() {
	r.flush()
	r.poster.Wait()
}

func (r *releases) post() {
	for {
		r.mu.Lock()
		batch := r.waiting
		r.waiting = nil
		if len(batch) == 0 {
			r.posting = false
			r.mu.Unlock()
			return
		}
		r.mu.Unlock()

		taken := r.try(batch)

		r.mu.Lock()
		for _, one := range batch {
			one.give()
		}
		if !taken {
			r.waiting = append(batch, r.waiting...)
			r.posting = false
			r.mu.Unlock()
			return
		}
		r.mu.Unlock()
	}
}

// try posts a batch up to three times; false if Pinboard took it in none.
func (r *releases) try(batch []*released) bool {
	s := r.session
	return s.insist("release", func(ctx context.Context) error {
		id := s.lastID()
		body := make(api.Releases, len(batch))
		for i, one := range batch {
			body[i] = api.Release{SessionID: id, Namespace: one.k.ns, ID: one.k.id,
				Epoch: api.Epoch{Given: true, Value: one.epoch}}
		}
		_, err := s.client.Release(ctx, body)
		return err
	})
}

// deregister ends the session; the ids it still owns are free at once. Nothing
// may live here any more.
func (s *Session) deregister() {
	if s.registered() {
		s.insist("deregister", func(ctx context.Context) error { return s.client.Deregister(ctx, s.lastID()) })
	}
	s.mu.Lock()
	s.id = ""
	s.mu.Unlock()
	s.client.Close()
}

// insist repeats a call that is harmless to repeat.
func (s *Session) insist(what string, call func(context.Context) error) bool {
	var err error
	for n := range attempts {
		if n > 0 {
			s.m.Wait(time.Duration(n) * retryStep)
		}
		if err = call(context.Background()); err == nil {
			return true
		}
	}
	s.cfg.Log.Warn("pinboard took no "+what, "error", err)
	return false
}

// lastID is the current session, or the one just lost.
func (s *Session) lastID() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.id == "" {
		return s.prev
	}
	return s.id
}

func sorted(set map[string]bool) []string {
	out := make([]string, 0, len(set))
	for k := range set {
		out = append(out, k)
	}
	slices.Sort(out)
	return out
}
