package proxy

import (
	"slices"
	"time"
)

// take pops another idle connection for an exchange that has its place.
func (k *worker) take(now time.Time, limit time.Duration) *upstream {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.pop(now, limit)
}

// A worker may close each connection right after its answer without saying so;
// a request written meanwhile is lost (FC-16). So a connection counts as kept
// only when one has been idle for a while and still serves, and no longer once
// one was closed young.
const (
	probation = 50 * time.Millisecond // doubled each time it proved too short
	young     = 100 * time.Millisecond
	onTrial   = 4 // idle connections held meanwhile

	maxBreaches = 5 // 1.6 s
)

// A worker closes connections that have been idle for a while of its own
// choosing, and a request that crosses that close is lost. So its closes are
// watched, and what it says of them is read: a connection is used only while it
// has been idle for three quarters of that time. Those beyond are kept, a few,
// to see whether the limit still holds.
func safely(limit time.Duration) time.Duration { return limit - limit/4 }

// usable is how long a connection may have been idle and still serve.
func (k *worker) usable(limit time.Duration) time.Duration {
	if k.learned > 0 {
		limit = min(limit, k.learned)
	}
	if k.hinted > 0 {
		limit = min(limit, k.hinted)
	}
	return limit
}

// pop takes the newest idle connection, or, before the worker is known to keep
// them, the oldest one that may still serve and is past the probation.
func (k *worker) pop(now time.Time, limit time.Duration) *upstream {
	n := len(k.idle)
	if n == 0 {
		return nil
	}
	i := n - 1
	limit = k.usable(limit)
	if !k.keeps {
		for i = 0; i < n-1 && now.Sub(k.idle[i].idle) > limit; {
			i++
		}
	}
	u := k.idle[i]
	u.taken, u.age = now, now.Sub(u.idle)
	if u.age > limit || !k.keeps && u.age < probation<<k.breaches {
		return nil // what is too old the sweep closes
	}
	copy(k.idle[i:], k.idle[i+1:])
	k.idle[n-1] = nil
	k.idle = k.idle[:n-1]
	u.reused, u.proving = true, !k.keeps
	return u
}

// give keeps u for the next exchange. leaves, if any, gives up its place, and
// hint is how long the worker says it keeps u, if not 0.
func (k *worker) give(u *upstream, now time.Time, leaves *delivery, hint time.Duration) {
	u.idle = now
	k.mu.Lock()
	if hint > 0 {
		k.hinted = safely(hint)
	}
	keep := !k.gone && (k.keeps || len(k.idle) < onTrial)
	if keep {
		k.idle = append(k.idle, u)
	}
	if leaves != nil {
		k.leaveLocked(leaves)
	}
	k.mu.Unlock()
	if !keep {
		u.close()
	}
}

// served notes that u, kept before, has served again.
func (k *worker) served(u *upstream) {
	if u.proving {
		k.mu.Lock()
		k.keeps = true
		k.mu.Unlock()
	}
}

// failed notes that u was closed by the worker while it was idle, or before
// it answered.
func (k *worker) failed(u *upstream) {
	if !u.reused {
		return
	}
	k.mu.Lock()
	k.closedAt(u.age)
	k.mu.Unlock()
}

// ended hears that the worker has closed u: true if u was idle, and is the
// caller's now.
func (k *worker) ended(u *upstream, now time.Time) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	i := slices.Index(k.idle, u)
	if i < 0 {
		return false
	}
	k.idle = slices.Delete(k.idle, i, i+1)
	k.closedAt(now.Sub(u.idle))
	return true
}

// closedAt learns from a connection that the worker closed when it had been
// idle for so long at most. mu is held.
func (k *worker) closedAt(age time.Duration) {
	switch {
	case age >= young:
		if k.learned == 0 || safely(age) < k.learned {
			k.learned = safely(age)
		}
	case k.keeps:
		k.keeps, k.breaches = false, min(k.breaches+1, maxBreaches)
	}
}

// remembered is how long a worker's limit is, while nothing is asked of it.
const remembered = 10 * time.Minute

// expire closes connections idle for longer than limit, and all but a few of
// those that are only kept to see when the worker closes them. It reports
// whether nothing is left that a new exchange would miss.
func (k *worker) expire(now time.Time, limit time.Duration) (empty bool) {
	k.mu.Lock()
	tooOld := k.idleFor(now, limit)
	if tooOld > 0 && !hasSpoken(k.idle[0].tcp) {
		k.learned = 0 // the worker keeps them for longer
	}
	unused := k.idleFor(now, k.usable(limit))
	kept := min(unused, tooOld+onTrial)
	old := slices.Concat(k.idle[:tooOld], k.idle[kept:unused])
	k.idle = slices.Delete(slices.Delete(k.idle, kept, unused), 0, tooOld)
	if k.learned > 0 {
		limit = max(limit, remembered)
	}
	empty = len(k.idle) == 0 && k.active == 0 && len(k.waiting) == 0 && k.used.Before(now.Add(-limit))
	k.gone = k.gone || empty // whoever holds it still will not leave connections here
	k.mu.Unlock()
	for _, u := range old {
		u.close()
	}
	return empty
}

// idleFor counts the connections that have been idle for longer than limit.
func (k *worker) idleFor(now time.Time, limit time.Duration) (n int) {
	for n < len(k.idle) && now.Sub(k.idle[n].idle) > limit {
		n++
	}
	return n
}

// closeIdle closes all idle connections; with forget also those that come
// back later.
func (k *worker) closeIdle(forget bool) {
	k.mu.Lock()
	old := k.idle
	k.idle = nil
	k.gone = k.gone || forget
	k.mu.Unlock()
	for _, u := range old {
		u.close()
	}
}
