package worker

import "time"

// A drain is one of the two reasons to take no new instances: the worker's own
// or the operator's. They are independent; the earliest deadline counts.
type drain struct {
	on bool
	at time.Time // everything is stopped then; zero: no deadline
}

// echo is the operator's drain after an answer that carried it, and whether
// that changed anything: a flip, or a target moved by more than a second. A
// plain countdown of remaining seconds keeps its target.
func (d drain) echo(on bool, left *time.Duration, now time.Time) (drain, bool) {
	next := drain{on: on}
	if on && left != nil {
		next.at = now.Add(*left)
	}
	same := next.on == d.on && next.at.IsZero() == d.at.IsZero() && next.at.Sub(d.at).Abs() <= time.Second
	if same {
		return d, false
	}
	return next, true
}
