// Package redisstore keeps the directory's buckets in Redis: one server, a
// primary under Sentinel, or a cluster.
//
// A rule runs as an optimistic transaction. read.lua fetches what it wants to
// see at one instant, with the server's time and identity; the rule runs on
// that view in this process; commit.lua compares every value that was read
// and applies the writes only if all are unchanged, the same server answers,
// and its clock lies between the read and the not-after and no further ahead
// than the node believes possible. So the rules of ownership live once, in
// package directory, and the scripts know none of them.
package redisstore

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"pinboard/internal/ownership"
)

// ErrContended ends an Update whose reads kept changing under it.
var ErrContended = errors.New("store contended")

// ErrExhausted means that no epoch is left below 2^63 in a bucket.
var ErrExhausted = errors.New("no epoch left in this bucket")

// A Store is a ownership.Store on Redis.
type Store struct {
	opt     Options
	keys    keyspace
	topo    *topology
	scripts scripts
	clocks  *clocks
	workers *workers
	nonce   string
	calls   atomic.Uint64
	cool    []atomic.Bool // buckets whose server's clock stepped (G4)
	state   atomic.Pointer[Guarantee]
	stop    context.CancelFunc
	done    chan struct{}
}

var _ ownership.Store = (*Store)(nil)

// Buckets is fixed for the life of a store.
func (s *Store) Buckets() int { return s.opt.Buckets }

// Update implements ownership.Store.
func (s *Store) Update(ctx context.Context, b int, prefetch ownership.Select, rule func(*ownership.Tx) error) error {
	ctx, cancel := bounded(ctx, opTimeout)
	defer cancel()
	begun := s.clocks.now()
	err := s.update(ctx, b, prefetch, rule)
	s.observe("update", begun, err)
	return err
}

func (s *Store) observe(op string, begun time.Time, err error) {
	if s.opt.Observe != nil {
		s.opt.Observe(op, s.clocks.now().Sub(begun), failure(err))
	}
}

// failure is err if it is the store's and not the rule's.
func failure(err error) error {
	for _, own := range []error{ErrUnavailable, ErrContended, ErrExhausted, errCorrupt} {
		if errors.Is(err, own) {
			return err
		}
	}
	return nil
}

func (s *Store) update(ctx context.Context, b int, prefetch ownership.Select, rule func(*ownership.Tx) error) error {
	w := &want{}
	w.add(prefetch)
	for {
		err := s.transact(ctx, b, w, rule, false)
		if err != errStepped {
			return err
		}
		if err := s.transact(ctx, b, &want{}, coldForALease, true); err != nil {
			return err
		}
		s.cool[b].Store(false)
	}
}

// errStepped says that the bucket must be made cold before any rule runs.
var errStepped = errors.New("clock stepped")

// coldForALease is what a stepped clock does to a bucket (G4); one of another
// generation begins cold anyway. A cold time of before the step may lie far
// ahead of a clock that went back: it is replaced.
func coldForALease(tx *ownership.Tx) error {
	m := tx.Meta
	if cold := tx.Now + m.Longest; ownership.ServerOf(m.Gen) == tx.Server && (m.Cold < cold || m.Cold > cold+m.Longest) {
		m.Cold = cold
		tx.PutMeta(m)
		tx.Log(ownership.Entry{Cause: "clock_stepped"})
	}
	return nil
}

func (s *Store) transact(ctx context.Context, b int, w *want, rule func(*ownership.Tx) error, cooling bool) error {
	for failed := 0; ; {
		tx, v, err := s.read(ctx, b, w)
		if err != nil {
			return err
		}
		if !cooling && s.cool[b].Load() {
			return errStepped
		}
		if v != nil {
			miss, err := runRule(rule, tx)
			if miss != nil {
				w.add(miss.Select)
				continue
			}
			if err != nil || tx.Out.Empty() {
				return err
			}
			switch got, err := s.commit(ctx, b, v, tx); {
			case err != nil:
				return err
			case got == committed:
				return nil
			case got == exhausted:
				return ErrExhausted
			}
		}
		failed++
		if !sleep(ctx, backoff(failed)) {
			return errors.Join(ErrContended, context.Cause(ctx))
		}
	}
}

// backoff spreads those who collided; the first loser tries again at once.
func backoff(failed int) time.Duration {
	if failed < 2 {
		return 0
	}
	return rand.N(time.Millisecond << min(failed, 5))
}

// read is one view; nil without an error when it was outdated already.
func (s *Store) read(ctx context.Context, b int, w *want) (*ownership.Tx, *view, error) {
	keys, args := w.request(s.keys, b)
	r, n, err := s.onBucket(ctx, b, s.scripts.read, keys, args)
	if err != nil {
		return nil, nil, err
	}
	v, err := newView(w, r.body)
	if err != nil {
		return nil, nil, err
	}
	if ok, err := s.complete(ctx, b, n, v); !ok {
		return nil, nil, err
	}
	tx := ownership.NewTx(v)
	tx.Now, tx.Sent, tx.Server, tx.Bucket = r.now, r.sent, r.gen, b
	v.received = r.received
	if tx.Meta, err = decodeMeta(v.meta); err != nil {
		return nil, nil, err
	}
	return tx, v, nil
}

// runRule runs the rule until it returns or asks for what is not there.
func runRule(rule func(*ownership.Tx) error, tx *ownership.Tx) (miss *missing, err error) {
	defer func() {
		switch p := recover().(type) {
		case nil:
		case *missing:
			miss = p
		default:
			panic(p)
		}
	}()
	return nil, rule(tx)
}

// limits says when the commit may happen: not before the read, not at a time
// the node cannot believe, not when the rule or the caller has given up. It
// rests on this view's own reading, so that a step which others have noticed
// meanwhile moves nothing.
func (s *Store) limits(ctx context.Context, v *view, tx *ownership.Tx) limits {
	now := s.clocks.now()
	most := float64(now.Sub(tx.Sent).Microseconds()) * (1 + drift)
	l := limits{from: tx.Now, believed: tx.Now + int64(most) + tolerance, notAfter: math.MaxInt64}
	if tx.Out.NotAfter > 0 {
		l.notAfter = tx.Out.NotAfter
	}
	if d, ok := ctx.Deadline(); ok {
		least := float64(now.Sub(v.received).Microseconds()) * (1 - drift)
		l.notAfter = min(l.notAfter, tx.Now+int64(least)+time.Until(d).Microseconds())
	}
	return l
}

// sampled feeds a completed reading to the clock. If it shows that the clock
// stepped, every bucket of the server is made cold before its next rule runs.
func (s *Store) sampled(n *node, r *reply) {
	stepped := s.clocks.sample(r.gen, r.now, r.sent, r.received, func() {
		for _, b := range s.topo.buckets(n) {
			s.cool[b].Store(true)
		}
	})
	if stepped && s.opt.OnStep != nil {
		s.opt.OnStep(n.addr)
	}
}

// OldNow is what the clock of a server generation shows now at the latest, as
// this node carried it on; false when the node has no estimate (R6).
func (s *Store) OldNow(gen string) (ownership.Micros, bool) { return s.clocks.oldNow(gen) }
