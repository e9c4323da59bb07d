package pinboard

import (
	"testing"
	"time"
	"unsafe"
)

// What a worker's protection can bear, in its own words: see LimitsFor.
func TestLimitsFitEveryLease(t *testing.T) {
	const attested = time.Second
	for lease := ShortestLease; lease <= 10*time.Minute; lease += 7 * time.Millisecond {
		l := LimitsFor(lease)
		late, memory := l.Age+l.Unacknowledged, 2*lease
		spare := memory - lease - late
		switch {
		case late+lease > memory:
			t.Fatalf("%v: a stopped worker has forgotten: %+v", lease, l)
		case late+attested > memory:
			t.Fatalf("%v: an attestation outlasts the fence: %+v", lease, l)
		case spare < lease/3:
			t.Fatalf("%v: %v to spare: %+v", lease, spare, l)
		case l.Unacknowledged < 300*time.Millisecond || l.Age < 300*time.Millisecond:
			t.Fatalf("%v: too short for one lost segment: %+v", lease, l)
		case l.Age > 5*time.Second || l.Unacknowledged > 5*time.Second:
			t.Fatalf("%v: later than need be: %+v", lease, l)
		}
	}
	if l := LimitsFor(15 * time.Second); l != (Limits{5 * time.Second, 5 * time.Second}) {
		t.Errorf("the default lease has %+v", l)
	}
}

// A sleep of the machine is on the wall clock alone, a wall clock that was set
// back makes nothing younger.
func TestElapsedCountsASleep(t *testing.T) {
	from := time.Now()
	for _, c := range []struct{ timers, wall, want time.Duration }{
		{0, 0, 0}, {3 * time.Second, 3 * time.Second, 3 * time.Second},
		{time.Second, time.Minute, time.Minute}, {time.Minute, -time.Hour, time.Minute},
	} {
		to := from.Add(c.wall)
		// No call moves the two readings of a time apart: the second word is
		// the one of timers.
		(*[2]int64)(unsafe.Pointer(&to))[1] += int64(c.timers - c.wall)
		if got := Elapsed(from, to); got != c.want {
			t.Errorf("timers %v, wall %v: %v", c.timers, c.wall, got)
		}
	}
}
