// Package seldom says which warnings are worth a line: the first about a thing
// at once, the next ones at growing intervals.
package seldom

import (
	"slices"
	"sync"
	"time"
)

const (
	first = 10 * time.Second // from the first warning to the second
	most  = 10 * time.Minute // the interval doubles up to this; what was quiet for so long is news again
	kinds = 8                // ways of one trouble that are each told at once
	keys  = 1024             // things remembered; beyond it all are forgotten, which costs a line each
)

// Warnings remember what has been told. The zero value is ready. Safe for
// concurrent use.
type Warnings struct {
	mu    sync.Mutex
	known map[string]*trouble
}

type trouble struct {
	next   time.Time     // when the next one is due
	wait   time.Duration // from then to the one after it
	last   time.Time
	silent int      // since the last line
	kinds  []string // told so far
}

// Due reports whether the trouble of key is worth a line now, and how many
// were not since the last one. A kind of it that has not been told is.
func (w *Warnings) Due(key, kind string, now time.Time) (others int, ok bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	t := w.known[key]
	switch {
	case t == nil || now.Sub(t.last) > most:
		if w.known == nil || len(w.known) >= keys {
			w.known = map[string]*trouble{}
		}
		w.known[key] = &trouble{next: now.Add(first), wait: 2 * first, last: now, kinds: []string{kind}}
		return 0, true
	case !slices.Contains(t.kinds, kind) && len(t.kinds) < kinds:
		t.kinds = append(t.kinds, kind)
	case now.Before(t.next):
		t.silent, t.last = t.silent+1, now
		return 0, false
	}
	if !now.Before(t.next) {
		t.next, t.wait = now.Add(t.wait), min(2*t.wait, most)
	}
	others, t.silent, t.last = t.silent, 0, now
	return others, true
}

// Over ends the trouble of key and reports whether there was any.
func (w *Warnings) Over(key string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	_, was := w.known[key]
	delete(w.known, key)
	return was
}
