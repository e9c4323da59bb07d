package pinboard

import "time"

// Limits bound how late a request may reach the worker that a look-up named
// (docs/rules.md F1).
type Limits struct {
	// Age is the longest time from the sending of the read that named the owner
	// to the first byte of the request.
	Age time.Duration
	// Unacknowledged is how long the worker's kernel may owe the
	// acknowledgement of the request head before the connection is given up.
	Unacknowledged time.Duration
}

const (
	// ShortestLease is the least lease whose Limits a sound network keeps. A
	// third of it is Unacknowledged: a lost segment is sent again after 200 ms
	// at the earliest, and its acknowledgement may take 40 ms and a round trip.
	ShortestLease = time.Second
	// longestLimit serves every longer lease: more would only make requests later.
	longestLimit = 5 * time.Second
)

// Elapsed is the time from one reading of a node's clock to another. The clock
// that timers run by stands still while the machine sleeps, and the wall clock
// can be set: the longer of both counts, so that nothing is younger than it is.
func Elapsed(from, to time.Time) time.Duration {
	return max(to.Sub(from), to.Round(0).Sub(from.Round(0)))
}

// LimitsFor are the limits under a lease L.
//
// Let the read that named session and epoch be sent at t. The row was that
// session's at t or later. The worker's kernel has the request at
// t + Age + Unacknowledged, or never. The worker may be stopped then. But it
// begins nothing without a running lease, so it looks at the request at most
// one L later. If it has given the id up meanwhile, it did so after t, and its
// fence remembers that for two leases. So it refuses whatever is late if
//
//	Age + Unacknowledged + L <= 2 L
//
// A third of L for each keeps that and leaves a third for what is not
// counted: the kernel's timers, clocks of unequal speed, a node that stops
// between its last look and its write. An attestation is valid for one second,
// and Age + Unacknowledged + 1 s <= 2 L holds from ShortestLease on. It bounds
// nothing by itself: workers accept it for 30 s more.
func LimitsFor(lease time.Duration) Limits {
	each := min(lease/3, longestLimit)
	return Limits{Age: each, Unacknowledged: each}
}
