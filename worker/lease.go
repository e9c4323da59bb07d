package worker

import "time"

// A lease is the right to serve, as the last answer granted it. It is a value:
// rules take now and say what holds. All times carry Go's monotonic reading,
// so a wall clock that steps moves nothing.
type lease struct {
	until  time.Time     // send time of the last accepted call + what it granted; zero before the first
	limit  time.Time     // a drain deadline caps the lease; zero without one
	ttl    time.Duration // what the last answer granted
	buffer time.Duration // Config.Buffer
}

// renewed is the lease after an answer: anchored at the sending of the call,
// so that it never ends later here than at Pinboard, which started counting on
// receipt (docs/guarantees.md, "The words").
func (l lease) renewed(sent time.Time, ttl time.Duration) lease {
	l.until, l.ttl = sent.Add(ttl), ttl
	return l
}

// expiry is when the right to serve ends; zero: it never began.
func (l lease) expiry() time.Time {
	if l.until.IsZero() {
		return time.Time{}
	}
	return earliest(l.until, l.limit)
}

// healthy reports whether new instances may start.
func (l lease) healthy(now time.Time) bool {
	return l.until.IsZero() || now.Before(l.expiry().Add(-l.buffer))
}

// expired reports whether nothing may be served any more: the ids may have
// another owner.
func (l lease) expired(now time.Time) bool {
	return !l.until.IsZero() && !now.Before(l.expiry())
}

// lapsed reports that the ids may have another owner, whatever this worker's
// own drain says.
func (l lease) lapsed(now time.Time) bool { return !l.until.IsZero() && !now.Before(l.until) }

// ending reports that every instance begins to close, or has.
func (l lease) ending(now time.Time) bool { return !l.until.IsZero() && !now.Before(l.stopAt()) }

// stopAt is when every instance begins to close if no renewal comes: half a
// buffer before the lease can have lapsed, so that closing ends in time.
func (l lease) stopAt() time.Time { return l.until.Add(-l.buffer / 2) }

// fenceMemory is how long a fence outlives its last use: twice the lease, and
// a fixed minute before any lease is known.
func (l lease) fenceMemory() time.Duration {
	if l.ttl == 0 {
		return time.Minute
	}
	return 2 * l.ttl
}

// earliest is the earlier of two times of which zero means never.
func earliest(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}
