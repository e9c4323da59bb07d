package worker

import (
	"time"

	"pinboard"
)

// A key names an instance inside this worker.
type key struct{ ns, id string }

// A fence remembers the highest epoch an id was addressed with. Invariant: an
// epoch below it, or the very epoch that was released, is never served.
type fence struct {
	epoch    pinboard.Epoch
	released bool
	given    bool // released, and the id was given back: nothing of it is left here
	used     time.Time
}

// fences is the memory of a worker about epochs; entries are forgotten one
// memory after their last use, when no forward of that age can still arrive.
type fences map[key]fence

// admit judges the epoch of a request and remembers it.
func (f fences) admit(k key, epoch pinboard.Epoch, now time.Time, memory time.Duration) *denial {
	last, known := f[k]
	if known && now.Sub(last.used) > memory {
		known = false
	}
	switch {
	case !known || epoch > last.epoch:
		f[k] = fence{epoch: epoch, used: now}
	case epoch < last.epoch:
		return &staleEpoch
	case last.released:
		return &releasedEpoch
	default:
		last.used = now
		f[k] = last
	}
	return nil
}

// release closes an epoch for ever; a higher one that came meanwhile stands.
// given says that the id goes back to Pinboard.
func (f fences) release(k key, epoch pinboard.Epoch, now time.Time, given bool) {
	if last, known := f[k]; !known || last.epoch <= epoch {
		f[k] = fence{epoch: epoch, released: true, given: given, used: now}
	}
}

// sweep forgets what is too old to matter.
func (f fences) sweep(now time.Time, memory time.Duration) {
	for k, last := range f {
		if now.Sub(last.used) > memory {
			delete(f, k)
		}
	}
}
