package directory

import (
	"context"
	"pinboard/internal/ownership"
	"slices"
	"sync"
	"time"

	"pinboard/internal/pick"
)

// rosterAge is how old the list of workers may be when an id is placed. It is
// only a hint: the store judges the chosen worker again.
const rosterAge = time.Second

// debitParts is what one own placement takes off a worker's reported headroom
// until it reports again, as a part of the mean.
const debitParts = 128

// roster is the node's list of workers, read from one bucket (every bucket has
// every session), with the placements this node made since each one's report.
type roster struct {
	mu       sync.Mutex
	read     time.Time
	gen      string
	now      ownership.Micros // the store's clock when read
	sessions []ownership.Session
	reports  map[string]ownership.Micros // deadline at the last report: it moves with each beat
	placed   map[string]int
	reading  chan struct{} // closed when the read under way ends
	err      error
}

// debit remembers a placement on session.
func (r *roster) debit(session string) {
	r.mu.Lock()
	r.placed[session]++
	r.mu.Unlock()
}

// process is the process of a session, "" if the node has not seen it yet.
func (r *roster) process(session string) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := range r.sessions {
		if w := r.sessions[i].Worker; w.Session == session {
			return w.Process
		}
	}
	return ""
}

// expire makes the next placement read the roster: this node changed it.
func (r *roster) expire() {
	r.mu.Lock()
	r.read = time.Time{}
	r.mu.Unlock()
}

// refresh reads the roster from bucket b, once for all who ask meanwhile.
func (d *Directory) refresh(ctx context.Context, b int) error {
	r := &d.roster
	r.mu.Lock()
	if wait := r.reading; wait != nil {
		r.mu.Unlock()
		select {
		case <-wait:
			r.mu.Lock()
			defer r.mu.Unlock()
			return r.err
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	done := make(chan struct{})
	r.reading = done
	r.mu.Unlock()

	var sessions []ownership.Session
	var gen string
	var now ownership.Micros
	err := d.o.Store.Update(ctx, b, ownership.Select{Roster: true}, func(tx *ownership.Tx) error {
		d.rules.Begin(tx, d.long.Load())
		sessions, gen, now = tx.Roster(), tx.Meta.Gen, tx.Now
		raise(&d.long, tx.Meta.Longest)
		return nil
	})

	r.mu.Lock()
	defer r.mu.Unlock()
	defer close(done)
	r.reading, r.err = nil, err
	if err == nil {
		r.take(sessions, gen, now, d.o.Now())
		for i := range sessions {
			for _, ns := range sessions[i].Worker.Namespaces {
				d.known.add(ns)
			}
		}
	}
	return err
}

// recent reads the roster if it is older than rosterAge.
func (d *Directory) recent(ctx context.Context) error {
	d.roster.mu.Lock()
	old := d.roster.read.IsZero() || d.o.Now().Sub(d.roster.read) > rosterAge
	d.roster.mu.Unlock()
	if old {
		return d.refresh(ctx, 0)
	}
	return nil
}

// take adopts a reading; r.mu is held.
func (r *roster) take(sessions []ownership.Session, gen string, now ownership.Micros, at time.Time) {
	reports := make(map[string]ownership.Micros, len(sessions))
	placed := make(map[string]int, len(sessions))
	for i := range sessions {
		id := sessions[i].Worker.Session
		reports[id] = sessions[i].Until
		if reports[id] == r.reports[id] {
			placed[id] = r.placed[id]
		}
	}
	r.sessions, r.gen, r.now, r.read, r.reports, r.placed = sessions, gen, now, at, reports, placed
}

// candidates lists who may get a new id. fresh tells that the list was read
// for this call, so that an empty one is the truth.
func (d *Directory) candidates(ctx context.Context, b int, host, env, ns string, avoid []string, stale bool) (cs []pick.Candidate, fresh bool, err error) {
	r := &d.roster
	r.mu.Lock()
	old := stale || r.read.IsZero() || d.o.Now().Sub(r.read) > rosterAge
	r.mu.Unlock()
	if old {
		if err := d.refresh(ctx, b); err != nil {
			return nil, false, err
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	now := r.now + d.o.Now().Sub(r.read).Microseconds()
	var mean float64
	for i := range r.sessions {
		s := &r.sessions[i]
		id := s.Worker.Session
		if d.rules.Fitness(s, r.gen, now).Places() && s.Worker.Serves(host, env, ns) && !slices.Contains(avoid, id) {
			cs = append(cs, pick.Candidate{Session: id, Process: s.Worker.Process, Headroom: s.Headroom})
		}
	}
	for i := range cs {
		mean += cs[i].Headroom / float64(len(cs))
	}
	for i := range cs {
		cs[i].Headroom -= float64(r.placed[cs[i].Session]) * max(mean, 1) / debitParts
	}
	return cs, old, nil
}
