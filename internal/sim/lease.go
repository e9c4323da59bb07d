package sim

import (
	"time"

	"pinboard"
	"pinboard/internal/ownership"
)

// A Lease is the worker's own view of its right to serve, as the client keeps
// it (TestModelAgreesWithTheRealClient).
type Lease struct {
	Buffer   time.Duration
	ttl      time.Duration
	deadline time.Duration
	granted  bool
	cap      time.Duration // of later renewals; 0 none
	promised time.Duration // the deadline without the cap: what the store believes
}

// Renewed takes an answer to a call that was sent at sent.
func (l *Lease) Renewed(sent, ttl time.Duration) {
	l.ttl, l.granted = ttl, true
	l.deadline = sent + ttl
	l.promised = l.deadline
	if l.cap != 0 {
		l.deadline = min(l.deadline, l.cap)
	}
}

// Cap bounds later renewals; 0 lifts that.
func (l *Lease) Cap(at time.Duration) { l.cap = at }

// Healthy allows new activations.
func (l *Lease) Healthy(now time.Duration) bool { return !l.granted || now < l.deadline-l.Buffer }

// Expired forbids every request.
func (l *Lease) Expired(now time.Duration) bool { return l.granted && now >= l.deadline }

// over reports that the lease has ended as the store knows it, without the cap.
func (l *Lease) over(now time.Duration) bool { return l.granted && now >= l.promised }

// A Fence remembers the epochs that ids were addressed with, as
// the client does.
type Fence struct {
	lease *Lease
	marks map[ownership.Key]*mark
}

type mark struct {
	epoch    pinboard.Epoch
	released bool
	used     time.Duration
}

const noLease = 30 * time.Second // what the fence assumes before the first answer

func newFence(l *Lease) *Fence { return &Fence{lease: l, marks: map[ownership.Key]*mark{}} }

// What a fence says no with.
const (
	stale    = "stale placement epoch; retry"
	released = "released placement epoch; retry"
)

func (f *Fence) forgets() time.Duration {
	if f.lease.granted {
		return 2 * f.lease.ttl
	}
	return 2 * noLease
}

// Admit says "" or why a request at epoch may not pass.
func (f *Fence) Admit(k ownership.Key, epoch pinboard.Epoch, now time.Duration) string {
	m := f.marks[k]
	if m != nil && now-m.used > f.forgets() {
		delete(f.marks, k)
		m = nil
	}
	switch {
	case m == nil || epoch > m.epoch:
		f.marks[k] = &mark{epoch: epoch, used: now}
		return ""
	case epoch < m.epoch:
		return stale
	case m.released:
		return released
	}
	m.used = now
	return ""
}

// Release closes the generation epoch.
func (f *Fence) Release(k ownership.Key, epoch pinboard.Epoch, now time.Duration) {
	m := f.marks[k]
	if m == nil {
		m = &mark{epoch: epoch, used: now}
		f.marks[k] = m
	}
	if m.epoch == epoch {
		m.released, m.used = true, now
	}
}
