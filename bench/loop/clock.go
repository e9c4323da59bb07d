package main

import "time"

// drift is how much faster or slower two clocks may run (G4).
const drift = 1e-3

// An estimate says that at local time at, the server's clock minus the local
// one lay in [lo, hi], in microseconds. The zero value knows nothing.
type estimate struct {
	lo, hi, at int64
	known      bool
}

// estimateOf is a reading: the server showed server at some moment between
// sent and received.
func estimateOf(server, sent, received int64) estimate {
	trip := float64(received - sent)
	return estimate{lo: server - received, hi: server - received + int64(trip*(1+drift)) + 1, at: received, known: true}
}

// met narrows the estimate by an earlier one, if both can be true.
func (e estimate) met(old estimate) estimate {
	if !old.known {
		return e
	}
	d := int64(float64(max(e.at-old.at, 0)) * drift)
	if lo, hi := old.lo-d, old.hi+d; e.lo <= hi && lo <= e.hi {
		e.lo, e.hi = max(e.lo, lo), min(e.hi, hi)
	}
	return e
}

// until is the last local time at which the server certainly shows deadline
// or less.
func (e estimate) until(deadline int64) int64 {
	return min(e.at+int64(float64(deadline-e.hi-e.at)/(1+drift)), deadline-e.hi)
}

// micros is t on the loop's own clock.
func (l *loop) micros(t time.Time) int64 { return t.Sub(l.base).Microseconds() }
