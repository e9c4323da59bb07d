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

	"pinboard/internal/guard"
	"pinboard/internal/ownership"
	"pinboard/internal/wait"
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
	guard   *guard.Guard
	raw     func() guard.Local // the node's clock that is neither set nor slewed
	header  header
	slept   time.Duration // of this machine, at the last tick; the loop's own
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
	return s.update(ctx, b, prefetch, rule)
}

func (s *Store) update(ctx context.Context, b int, prefetch ownership.Select, rule func(*ownership.Tx) error) error {
	w := &want{}
	w.add(prefetch)
	for failed := 0; ; {
		tx, v, err := s.read(ctx, b, w)
		if err != nil {
			return err
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
		if !wait.For(ctx, backoff(failed)) {
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

// read is one view; nil without an error when it was outdated already, or
// nothing may be decided on it.
func (s *Store) read(ctx context.Context, b int, w *want) (*ownership.Tx, *view, error) {
	tx, v, err := s.see(ctx, b, w)
	if err != nil || v == nil || !v.sure {
		return nil, nil, err
	}
	return tx, v, s.agree(ctx, b, v.gen)
}

// see is one view with what the guard says of it.
func (s *Store) see(ctx context.Context, b int, w *want) (*ownership.Tx, *view, error) {
	known := s.guard.Known(b)
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
	if tx.Meta, err = decodeMeta(v.meta); err != nil {
		return nil, nil, err
	}
	v.received, v.gen, v.reading = r.received, tx.Meta.Gen, r.reading()
	doubt, sure := s.guard.Judge(b, known, v.reading, guard.State{Gen: v.gen, Since: tx.Meta.Since, Commits: v.commits, Longest: tx.Meta.Longest})
	tx.Doubt, v.sure = doubt, sure && r.verdict != guard.Unsure
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

// sampled feeds a completed reading to the guard, and then to the estimate that
// hits and commits use.
func (s *Store) sampled(r *reply) {
	r.verdict = s.guard.Time(r.reading())
	s.clocks.sample(r.gen, r.now, r.sent, r.received)
}

// OldNow is what the clock behind an earlier generation shows now at the
// latest, as this node carried it on; false when it has lost sight of it (R6).
func (s *Store) OldNow(gen string) (ownership.Micros, bool) { return s.guard.OldNow(gen, s.raw()) }
