package directory

import (
	"crypto/rand"
	"strings"
	"sync"
)

const hintShards = 64

// hints remembers who owned an id last. It is bounded: each shard keeps two
// generations and forgets the older one when the younger is full.
type hints struct {
	shards [hintShards]hintShard
	half   int
}

type hintShard struct {
	mu         sync.RWMutex
	young, old map[Key]*Worker
}

func newHints(n int) *hints {
	h := &hints{half: max(1, n/hintShards/2)}
	for i := range h.shards {
		h.shards[i].young = map[Key]*Worker{}
	}
	return h
}

func (h *hints) shard(k Key) *hintShard { return &h.shards[k.Bucket(hintShards)] }

func (h *hints) get(k Key) *Worker {
	s := h.shard(k)
	s.mu.RLock()
	w := s.young[k]
	if w == nil {
		w = s.old[k]
	}
	s.mu.RUnlock()
	return w
}

// put copies the key's texts: callers may pass views of a buffer.
func (h *hints) put(k Key, w *Worker) {
	s := h.shard(k)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.young[k] == w {
		return
	}
	if len(s.young) >= h.half {
		s.old, s.young = s.young, map[Key]*Worker{}
	}
	k.Env, k.ID = strings.Clone(k.Env), strings.Clone(k.ID)
	k.Namespace = namespaceOf(w, k.Namespace)
	s.young[k] = w
}

// namespaceOf returns the worker's own copy of ns, which all its hints share.
func namespaceOf(w *Worker, ns string) string {
	for _, n := range w.Namespaces {
		if n == ns {
			return n
		}
	}
	return strings.Clone(ns)
}

func (h *hints) drop(k Key) {
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
