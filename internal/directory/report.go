package directory

import (
	"context"
	"pinboard/internal/ownership"
	"sync"
	"time"

	"pinboard"
)

const (
	reportTime   = 2 * time.Second  // a report's own time with the store
	connectFails = 3                // failed data-plane connects in a row that degrade a worker
	refusedPause = time.Second      // between two flags for refused attestations of one session
	elsewhere    = 30 * time.Second // how recent a connect to another worker must be to trust our own network
)

// health is what this node's forwards have shown of workers.
type health struct {
	mu    sync.Mutex
	fails map[string]*streak // by session; only sessions in some trouble
	good  string             // last session that connected and served
	at    time.Time
	other time.Time // last time that a session other than good did
}

type streak struct {
	connects int
	flagged  ownership.Degrade // causes this node has set in the store
	skew     time.Duration     // how far its clock seemed ahead of this node's, 0 not known
	refused  time.Time         // when it last set ProofsRefused; a beat may have cleared it since
}

// Report says what became of a forward and what the request may do next
// (docs/guarantees.md, "Delivery"). It decides nothing about retries left.
func (d *Directory) Report(ctx context.Context, p Placement, e Event) Verdict {
	switch e {
	case Served:
		d.served(p.Worker, p.Sent)
		return Verdict{}
	case Unreachable:
		return d.unreachable(ctx, p)
	case Refused:
		return d.refused(ctx, p)
	}
	return d.badAttestation(ctx, p)
}

// served clears what a success clears; nothing to do for a healthy worker. It
// was resolved at now, which is as good as the moment and needs no clock.
func (d *Directory) served(w *ownership.Worker, now time.Time) {
	h := &d.health
	h.mu.Lock()
	if h.good != w.Session {
		h.other, h.good = h.at, w.Session
	}
	if now.After(h.at) {
		h.at = now
	}
	s := h.fails[w.Session]
	var clear ownership.Degrade
	if s != nil {
		clear = s.flagged
		delete(h.fails, w.Session)
	}
	h.mu.Unlock()
	if clear != 0 {
		d.o.Go(func() { d.setDegraded(w, 0, clear) })
	}
}

func (d *Directory) setDegraded(w *ownership.Worker, set, clear ownership.Degrade) {
	ctx, cancel := d.o.Within(context.Background(), reportTime)
	defer cancel()
	_ = d.each(func(b int) error { // a bucket missed is set again by the next report or beat
		return d.o.Store.Update(ctx, b, ownership.Select{Sessions: []string{w.Session}}, func(tx *ownership.Tx) error {
			d.rules.SetDegraded(tx, w.Session, set, clear)
			return nil
		})
	})
}

func (d *Directory) unreachable(ctx context.Context, p Placement) Verdict {
	d.connectFailed(p.Worker)
	switch {
	case p.Fresh:
		d.releaseFresh(ctx, p)
	case p.Draining:
		return Verdict{Refusal: pinboard.WorkerDraining}
	}
	return Verdict{Refusal: pinboard.WorkerUnreachable}
}

// connectFailed degrades a worker after three failures in a row, unless this
// node's connects fail elsewhere too.
func (d *Directory) connectFailed(w *ownership.Worker) {
	h := &d.health
	h.mu.Lock()
	s := h.fails[w.Session]
	if s == nil {
		s = &streak{}
		h.fails[w.Session] = s
	}
	s.connects++
	works := h.at
	if h.good == w.Session {
		works = h.other
	}
	flag := s.connects >= connectFails && s.flagged&ownership.ConnectsFailed == 0 && !works.IsZero() && d.o.Now().Sub(works) < elsewhere
	if flag {
		s.flagged |= ownership.ConnectsFailed
	}
	h.mu.Unlock()
	if flag {
		d.o.Go(func() { d.setDegraded(w, ownership.ConnectsFailed, 0) })
	}
}

// tryConnect is the one connect that each beat of a worker degraded by failed
// connects is worth; a success clears the cause for every node.
func (d *Directory) tryConnect(w *ownership.Worker) {
	ctx, cancel := context.WithTimeout(context.Background(), reportTime)
	defer cancel()
	if d.o.Connect(ctx, w) == nil {
		d.health.mu.Lock()
		delete(d.health.fails, w.Session)
		d.health.mu.Unlock()
		d.setDegraded(w, 0, ownership.ConnectsFailed)
	}
}

func (d *Directory) releaseFresh(ctx context.Context, p Placement) (released bool) {
	ctx, cancel := d.o.Within(context.WithoutCancel(ctx), reportTime)
	defer cancel()
	d.hints.drop(p.Key)
	err := d.o.Store.Update(ctx, p.Key.Bucket(d.n), ownership.Select{Rows: []ownership.Key{p.Key}}, func(tx *ownership.Tx) error {
		released = d.rules.ReleaseFresh(tx, p.Key, p.Epoch, p.Nonce)
		return nil
	})
	return released && err == nil
}

// refused handles the marker: a new placement is taken back and may be placed
// once more elsewhere; a confirmed one stays, and its worker, inside its last
// buffer, is to restate (R3, R4).
func (d *Directory) refused(ctx context.Context, p Placement) Verdict {
	if p.Fresh && d.releaseFresh(ctx, p) {
		return Verdict{Again: true, Refusal: pinboard.WorkerRefused}
	}
	ctx, cancel := d.o.Within(context.WithoutCancel(ctx), reportTime)
	defer cancel()
	// Lost without harm if the store is away: the next refusal says it again.
	_ = d.o.Store.Update(ctx, p.Key.Bucket(d.n), ownership.Select{Rows: []ownership.Key{p.Key}}, func(tx *ownership.Tx) error {
		d.rules.Begin(tx, 0)
		if row := tx.Row(p.Key); row != nil && row.Session == p.Worker.Session {
			d.rules.Want(tx, p.Worker.Session)
		}
		return nil
	})
	return Verdict{Refusal: pinboard.WorkerRefused}
}

// Skewed notes how far a worker's clock is ahead of this node's, 0 for no
// more, until it serves again. Operators are shown it and nothing is decided by it.
func (d *Directory) Skewed(session string, skew time.Duration) {
	h := &d.health
	h.mu.Lock()
	defer h.mu.Unlock()
	switch s := h.fails[session]; {
	case s != nil:
		s.skew = skew
	case skew != 0:
		h.fails[session] = &streak{skew: skew}
	}
}

// skewOf is what Skewed noted.
func (d *Directory) skewOf(session string) (skew time.Duration) {
	d.health.mu.Lock()
	defer d.health.mu.Unlock()
	if s := d.health.fails[session]; s != nil {
		skew = s.skew
	}
	return skew
}

// badAttestation: a settling session has not processed its register answer
// yet; from any other it means a stranger or a clock that is off.
func (d *Directory) badAttestation(_ context.Context, p Placement) Verdict {
	if p.Settling {
		return Verdict{Again: true, Refusal: pinboard.WorkerNotReady}
	}
	h := &d.health
	h.mu.Lock()
	s := h.fails[p.Worker.Session]
	if s == nil {
		s = &streak{}
		h.fails[p.Worker.Session] = s
	}
	now := d.o.Now()
	flag := now.Sub(s.refused) >= refusedPause
	if flag {
		s.flagged |= ownership.ProofsRefused
		s.refused = now
	}
	h.mu.Unlock()
	if flag {
		d.setDegraded(p.Worker, ownership.ProofsRefused, 0)
	}
	return Verdict{Refusal: pinboard.WorkerNotReady}
}
