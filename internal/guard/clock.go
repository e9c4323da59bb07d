package guard

import "pinboard/internal/ownership"

// Local is the node's own clock in microseconds since some start.
type Local = int64

// A Reading is one completed look at a server: it showed Now at some moment
// between Sent and Received.
type Reading struct {
	Server         string // identity of the server's process
	Now            ownership.Micros
	Sent, Received Local
}

// offset is what the server's clock was ahead of the node's, between lo and hi,
// when the reading arrived.
func (r *Reading) offset() (lo, hi int64) {
	return r.Now - r.Received, r.Now - r.Sent + 1
}

const (
	drift     = 1e-3      // how much faster or slower two sound clocks may run
	tight     = 200_000   // microseconds: a reading that took longer is judged, but proves nothing about later ones
	slotWidth = 250_000   // microseconds of the node's clock that share one value of each edge
	pause     = 1_250_000 // between two readings at the most, while a store answers
)

// A Verdict is what a reading says of the clock it was made of.
type Verdict int

// Verdicts.
const (
	Sure    Verdict = iota // the clock did not gain more than the limit on the node's in one window
	Unsure                 // it may have; nothing may be decided on this reading
	Stepped                // it has gained or lost more than that
)

// A watch keeps tight readings of one window, the longest lease, so that small
// steps and slews add up: what counts is how far the clock moved against the
// node's since any of them (G4).
type watch struct {
	leastHi, leastLo, mostLo edge // of the offsets in the window
	seen                     bool
}

// judge compares a reading with all that were kept in the window before it.
func (w *watch) judge(r *Reading, window Local, limit int64) (v Verdict, gained bool) {
	lo, hi := r.offset()
	from := r.Received - window - pause
	w.leastHi.expire(from)
	w.leastLo.expire(from)
	w.mostLo.expire(from)
	if !w.seen {
		if hi-lo > limit {
			return Unsure, false
		}
		return Sure, false
	}
	// A gap longer than the window leaves one reading on either side of it; in
	// it sound clocks may have drifted apart.
	spare := int64(float64(max(0, r.Received-w.leastHi.oldest()-window)) * drift)
	switch {
	case lo-w.leastHi.best() > limit+spare:
		return Stepped, true
	case w.mostLo.best()-hi > limit+spare:
		return Stepped, false
	case hi-w.leastLo.best() > limit+spare:
		return Unsure, false
	}
	return Sure, false
}

// keep remembers a tight reading, as far as it moves an edge of its slot; false
// if it is not tight.
func (w *watch) keep(r *Reading) bool {
	lo, hi := r.offset()
	if hi-lo > tight {
		return false
	}
	w.seen = true
	w.leastHi.push(r.Received, hi, func(a, b int64) bool { return a <= b })
	w.leastLo.push(r.Received, lo, func(a, b int64) bool { return a <= b })
	w.mostLo.push(r.Received, lo, func(a, b int64) bool { return a >= b })
	return true
}

// An edge is the best value of a sliding window: values that a later and
// better one outlives are dropped, so the first is the best.
type edge struct {
	at  []Local
	val []int64
}

func (e *edge) best() int64   { return e.val[0] }
func (e *edge) oldest() Local { return e.at[0] }

// expire drops what is older than from, but never the last value: behind a gap
// it is all that is known of the time before.
func (e *edge) expire(from Local) {
	n := 0
	for n < len(e.at)-1 && e.at[n] < from {
		n++
	}
	e.at, e.val = e.at[n:], e.val[n:]
}

func (e *edge) push(at Local, v int64, better func(a, b int64) bool) {
	n := len(e.val)
	if n > 0 && e.at[n-1]/slotWidth == at/slotWidth && !better(v, e.val[n-1]) {
		return
	}
	for n > 0 && better(v, e.val[n-1]) {
		n--
	}
	e.at, e.val = append(e.at[:n], at), append(e.val[:n], v)
}
