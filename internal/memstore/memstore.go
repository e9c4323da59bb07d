// Package memstore is the in-process store: a mutex, a clock and buckets. One
// node alone runs on it (REDIS_URL=memory:); everything is lost when it ends.
package memstore

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strconv"
	"sync"
	"time"

	"pinboard"
	"pinboard/internal/ownership"
)

var errCursor = errors.New("memstore: not a cursor of this store")

// ringSize is how many entries a bucket's ring keeps.
const ringSize = 512

// Options configure a Store.
type Options struct {
	Buckets int
	Server  string                  // generation of this process, unique
	Now     func() time.Time        // the node's clock, monotonic; time.Now if nil
	Clock   func() ownership.Micros // the store's clock; Now carried on from the start if nil
}

// A Store implements ownership.Store. Updates of one bucket exclude each other.
type Store struct {
	now     func() time.Time
	clock   func() ownership.Micros
	server  string
	buckets []*bucket
}

type bucket struct {
	mu       sync.Mutex
	meta     ownership.Meta
	last     pinboard.Epoch // epoch counter: only grows
	rows     map[ownership.Key]*cell
	order    []*cell // every cell, at its own place
	sessions map[string]ownership.Session
	index    map[string]string
	bindings map[ownership.BindKey]ownership.Binding
	orders   map[string][]ownership.Order
	counts   map[string]int64
	ring     []ownership.Entry // oldest first
	commits  int64             // only grows
}

// A cell is a row and its place in order, so that a walk can go on where it
// stopped.
type cell struct {
	key ownership.Key
	row ownership.Row
	at  int
}

// New returns an empty store.
func New(o Options) *Store {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Clock == nil {
		// Wall time once, monotonic from there: epochs of a later process are
		// higher, and a stepped clock changes nothing.
		start, wall := o.Now(), time.Now().UnixMicro()
		o.Clock = func() ownership.Micros { return wall + o.Now().Sub(start).Microseconds() }
	}
	s := &Store{now: o.Now, clock: o.Clock, server: o.Server, buckets: make([]*bucket, o.Buckets)}
	for i := range s.buckets {
		s.buckets[i] = newBucket()
	}
	return s
}

func newBucket() *bucket {
	return &bucket{
		rows:     map[ownership.Key]*cell{},
		sessions: map[string]ownership.Session{},
		index:    map[string]string{},
		bindings: map[ownership.BindKey]ownership.Binding{},
		orders:   map[string][]ownership.Order{},
		counts:   map[string]int64{},
	}
}

// Buckets implements ownership.Store.
func (s *Store) Buckets() int { return len(s.buckets) }

// Update implements ownership.Store: the rule runs under the bucket's lock.
func (s *Store) Update(ctx context.Context, n int, _ ownership.Select, rule func(*ownership.Tx) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	b := s.buckets[n]
	b.mu.Lock()
	defer b.mu.Unlock()
	tx := ownership.NewTx(b)
	tx.Sent, tx.Now, tx.Server, tx.Bucket, tx.Meta = s.now(), s.clock(), s.server, n, b.meta
	if err := rule(tx); err != nil {
		return err
	}
	b.commit(&tx.Out, tx.Now)
	return nil
}

// Commits counts the commits of a bucket that changed something: what has
// forgotten some shows fewer (G1).
func (s *Store) Commits(n int) int64 {
	b := s.buckets[n]
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.commits
}

// commit applies what a rule wrote.
func (b *bucket) commit(w *ownership.Writes, now ownership.Micros) {
	if !w.Empty() {
		b.commits++
	}
	if w.Meta != nil {
		b.meta = *w.Meta
	}
	b.last = max(b.last, w.Floor)
	if w.Leap > 0 {
		b.last = max(b.last, pinboard.Epoch(now)) + pinboard.Epoch(w.Leap)
	}
	for _, m := range w.Minted {
		b.last = max(b.last+1, pinboard.Epoch(now), m.Seen+1)
		m.Epoch = b.last
		if r := w.Rows[m.Key]; r != nil {
			r.Epoch = m.Epoch
		}
	}
	for k, r := range w.Rows {
		b.putRow(k, r)
	}
	put(b.sessions, w.Sessions)
	put(b.bindings, w.Bindings)
	for id, s := range w.Sessions {
		if s == nil {
			delete(b.counts, ownership.PlaceCount(id))
		}
	}
	for name, v := range w.Index {
		if b.index[name] = v; v == "" {
			delete(b.index, name)
		}
	}
	for process, o := range w.Orders {
		if b.orders[process] = slices.Clone(o); len(o) == 0 {
			delete(b.orders, process)
		}
	}
	for name, d := range w.Counts {
		if b.counts[name] += d; b.counts[name] == 0 {
			delete(b.counts, name)
		}
	}
	for _, e := range w.Entries {
		if e.Mint != nil {
			e.Epoch, e.Mint = e.Mint.Epoch, nil
		}
		b.ring = append(b.ring, e)
	}
	if over := len(b.ring) - ringSize; over > 0 {
		b.ring = slices.Delete(b.ring, 0, over)
	}
}

// putRow writes or (nil) deletes a row. A deleted cell's place is taken by the
// last one.
func (b *bucket) putRow(k ownership.Key, r *ownership.Row) {
	c := b.rows[k]
	switch {
	case r != nil && c != nil:
		c.row = *r
	case r != nil:
		c = &cell{key: k, row: *r, at: len(b.order)}
		b.rows[k] = c
		b.order = append(b.order, c)
	case c != nil:
		last := len(b.order) - 1
		b.order[c.at] = b.order[last]
		b.order[c.at].at = c.at
		b.order[last] = nil
		b.order = b.order[:last]
		delete(b.rows, k)
	}
}

func put[K comparable, V any](m map[K]V, w map[K]*V) {
	for k, v := range w {
		if v == nil {
			delete(m, k)
		} else {
			m[k] = *v
		}
	}
}

// The bucket is the Source of its rules; all of it is at hand.

func (b *bucket) Row(k ownership.Key) (ownership.Row, bool) {
	if c := b.rows[k]; c != nil {
		return c.row, true
	}
	return ownership.Row{}, false
}
func (b *bucket) Session(id string) (ownership.Session, bool) {
	s, ok := b.sessions[id]
	s.Behind = slices.Clone(s.Behind)
	return s, ok
}
func (b *bucket) Index(name string) string { return b.index[name] }
func (b *bucket) Binding(k ownership.BindKey) (ownership.Binding, bool) {
	v, ok := b.bindings[k]
	return v, ok
}
func (b *bucket) Orders(process string) []ownership.Order { return b.orders[process] }
func (b *bucket) Count(name string) int64                 { return b.counts[name] }
func (b *bucket) Roster() []ownership.Session {
	out := make([]ownership.Session, 0, len(b.sessions))
	for _, s := range b.sessions {
		out = append(out, s)
	}
	slices.SortFunc(out, func(x, y ownership.Session) int {
		return cmp.Compare(x.Worker.Session, y.Worker.Session)
	})
	return out
}

func inForce(b *bucket, k ownership.BindKey) string {
	v := b.bindings[k]
	return v.InForce()
}

// Peek implements ownership.Store.
func (s *Store) Peek(ctx context.Context, n int, h ownership.Hint) (ownership.Peek, bool, error) {
	if err := ctx.Err(); err != nil {
		return ownership.Peek{}, false, err
	}
	b := s.buckets[n]
	b.mu.Lock()
	defer b.mu.Unlock()
	sent, now := s.now(), s.clock()
	row, ok := b.Row(h.Key)
	if ownership.ServerOf(b.meta.Gen) != s.server || !ok || row.Session != h.Session || !row.Plain() {
		return ownership.Peek{Sent: sent}, false, nil
	}
	if h.Bind.Host != "" && inForce(b, h.Bind) != h.Key.Env {
		return ownership.Peek{Sent: sent}, false, nil
	}
	l, ok := b.sessions[row.Session]
	if !ok || !l.Forwardable(b.meta.Gen) || now >= l.Until || h.Bind.Host != "" && l.Worker.Hostname != h.Bind.Host {
		return ownership.Peek{Sent: sent}, false, nil
	}
	return ownership.Peek{
		Row: row, Sent: sent,
		Until:    sent.Add(time.Duration(l.Until-now) * time.Microsecond),
		Age:      time.Duration(now-l.At) * time.Microsecond,
		Draining: l.OwnDrain || l.Drain,
		Settling: l.Asked != 0,
	}, true, nil
}

// Walk implements ownership.Store. It goes from the last place to the first:
// a deletion moves only rows that were listed already.
func (s *Store) Walk(ctx context.Context, n int, cursor string, limit int) ([]ownership.Walked, string, error) {
	if err := ctx.Err(); err != nil {
		return nil, "", err
	}
	b := s.buckets[n]
	b.mu.Lock()
	defer b.mu.Unlock()
	at := len(b.order)
	if cursor != "" {
		c, err := strconv.Atoi(cursor)
		if err != nil || c < 0 {
			return nil, "", errCursor
		}
		at = min(at, c)
	}
	var out []ownership.Walked
	for ; at > 0 && len(out) < limit; at-- {
		c := b.order[at-1]
		out = append(out, ownership.Walked{Key: c.key, Row: c.row})
	}
	if at == 0 {
		return out, "", nil
	}
	return out, strconv.Itoa(at), nil
}

// Entries implements ownership.Store.
func (s *Store) Entries(ctx context.Context, n int, limit int) ([]ownership.Entry, error) {
	b := s.buckets[n]
	b.mu.Lock()
	defer b.mu.Unlock()
	out := slices.Clone(b.ring)
	slices.Reverse(out)
	return out[:min(limit, len(out))], nil
}
