package redisstore

import (
	"cmp"
	"context"
	"slices"
	"sync"

	"github.com/cespare/xxhash/v2"
	"github.com/redis/rueidis"

	"pinboard/internal/ownership"
)

const keptWorkers = 1 << 14

// workers remembers the immutable part of sessions by its digest, so that a
// read fetches only what changes. A digest names one content for ever, which
// is why nothing here is ever stale.
type workers struct {
	mu       sync.Mutex
	byDigest map[uint64]*ownership.Worker
	digests  map[*ownership.Worker]uint64
}

func newWorkers() *workers {
	return &workers{byDigest: map[uint64]*ownership.Worker{}, digests: map[*ownership.Worker]uint64{}}
}

func (w *workers) get(digest uint64) *ownership.Worker {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.byDigest[digest]
}

func (w *workers) put(digest uint64, v *ownership.Worker) *ownership.Worker {
	w.mu.Lock()
	defer w.mu.Unlock()
	if old := w.byDigest[digest]; old != nil {
		return old
	}
	for d, old := range w.byDigest {
		if len(w.byDigest) < keptWorkers {
			break
		}
		delete(w.byDigest, d)
		delete(w.digests, old)
	}
	w.byDigest[digest], w.digests[v] = v, digest
	return v
}

// digest is that of a worker this cache handed out.
func (w *workers) digest(v *ownership.Worker) (uint64, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	d, ok := w.digests[v]
	return d, ok
}

// complete gives the view's sessions their workers, fetching those this node
// has not met. It reports false when one is gone or was replaced meanwhile:
// the view is then outdated.
func (s *Store) complete(ctx context.Context, b int, n *node, v *view) (bool, error) {
	var unknown []*session
	cmd := []string{"HMGET", s.keys.fixed(b)[keyWorkers-1]}
	for id, e := range v.sessions {
		if e.raw == "" {
			continue
		}
		if e.s.Worker = s.workers.get(e.digest); e.s.Worker == nil {
			unknown = append(unknown, e)
			cmd = append(cmd, packed(id))
		}
	}
	if len(unknown) > 0 {
		m, err := n.do(ctx, cmd...)
		if _, ok := rueidis.IsRedisErr(err); ok {
			return false, nil // the bucket moved: the next read follows it, or says what is wrong
		}
		if err != nil {
			return false, err
		}
		records := texts(m)
		if len(records) != len(unknown) {
			return false, unavailable("a reply to something else")
		}
		for i, e := range unknown {
			if records[i] == "" || xxhash.Sum64String(records[i]) != e.digest {
				return false, nil
			}
			w, err := decodeWorker(records[i])
			if err != nil {
				return false, err
			}
			e.s.Worker = s.workers.put(e.digest, w)
		}
	}
	if v.digest != "" {
		for _, e := range v.sessions {
			v.roster = append(v.roster, e.s)
		}
		slices.SortFunc(v.roster, func(a, b ownership.Session) int {
			return cmp.Compare(a.Worker.Session, b.Worker.Session)
		})
	}
	return true, nil
}
