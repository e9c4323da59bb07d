package server

import "time"

// Hysteresis of readiness: one slow answer of the store must not take a node
// out, and one lucky answer must not bring it back (FC-63). With a probe each
// second a dead store shows within about five seconds and a healed one within
// two.
const (
	probeEvery   = time.Second
	probeTimeout = 2 * time.Second
	unreadyAfter = 3 // probes in a row that failed
	readyAfter   = 2 // probes in a row that worked
)

// A Status is the word of /readyz.
type Status string

// The four statuses; only Ready answers 200.
const (
	Booting     Status = "booting"
	Ready       Status = "ready"
	Unavailable Status = "unavailable" // this node cannot resolve ids
	Draining    Status = "draining"    // on its way out; final
)

// readiness is the rule behind /readyz. The zero value is a node that boots.
type readiness struct {
	status Status
	good   int // probes in a row that worked
	bad    int // probes in a row that failed
}

// observe takes the outcome of one probe. The first success ends the boot:
// before it there is nothing to be steady about.
func (r readiness) observe(ok bool) readiness {
	if ok {
		r.good, r.bad = r.good+1, 0
	} else {
		r.good, r.bad = 0, r.bad+1
	}
	switch {
	case r.status == Draining:
	case r.status == "" || r.status == Booting:
		if ok {
			r.status = Ready
		}
	case r.status == Ready && r.bad >= unreadyAfter:
		r.status = Unavailable
	case r.status == Unavailable && r.good >= readyAfter:
		r.status = Ready
	}
	return r
}

// drain ends readiness for good.
func (r readiness) drain() readiness {
	r.status = Draining
	return r
}

func (r readiness) word() Status {
	if r.status == "" {
		return Booting
	}
	return r.status
}
