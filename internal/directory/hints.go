package directory

import (
	"crypto/rand"
	"pinboard/internal/ownership"
	"strings"
	"sync"

	"pinboard"
)

const hintShards = 64

// hints remembers who owned an id last, and at which epoch. It is bounded: each shard keeps two
// generations and forgets the older one when the younger is full.
type hints struct {
	shards [hintShards]hintShard
	half   int
}

type hintShard struct {
	mu         sync.RWMutex
	young, old map[ownership.Key]owner
}

// An owner as it was seen last. No two placements of a bucket share an epoch:
// what a hit reads at another epoch is another placement, or the answer to
// another question (R10).
type owner struct {
	worker *ownership.Worker
	epoch  pinboard.Epoch
}

func newHints(n int) *hints {
	h := &hints{half: max(1, n/hintShards/2)}
	for i := range h.shards {
		h.shards[i].young = map[ownership.Key]owner{}
	}
	return h
}

func (h *hints) shard(k ownership.Key) *hintShard { return &h.shards[k.Bucket(hintShards)] }

func (h *hints) get(k ownership.Key) (owner, bool) {
	s := h.shard(k)
	s.mu.RLock()
	o, ok := s.young[k]
	if !ok {
		o, ok = s.old[k]
	}
	s.mu.RUnlock()
	return o, ok
}

// put copies the key's texts: callers may pass views of a buffer.
func (h *hints) put(k ownership.Key, w *ownership.Worker, epoch pinboard.Epoch) {
	s := h.shard(k)
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, known := s.young[k]; known {
		s.young[k] = owner{w, epoch} // under the key that is there
		return
	}
	if len(s.young) >= h.half {
		s.old, s.young = s.young, map[ownership.Key]owner{}
	}
	k.Env, k.ID = strings.Clone(k.Env), strings.Clone(k.ID)
	k.Namespace = namespaceOf(w, k.Namespace)
	s.young[k] = owner{w, epoch}
}

// namespaceOf returns the worker's own copy of ns, which all its hints share.
func namespaceOf(w *ownership.Worker, ns string) string {
	for _, n := range w.Namespaces {
		if n == ns {
			return n
		}
	}
	return strings.Clone(ns)
}

func (h *hints) drop(k ownership.Key) {
	s := h.shard(k)
	s.mu.Lock()
	delete(s.young, k)
	delete(s.old, k)
	s.mu.Unlock()
}

func secretBytes(n int) []byte {
	b := make([]byte, n)
	_, _ = rand.Read(b) // never fails (crypto/rand)
	return b
}
