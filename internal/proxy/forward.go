package proxy

import (
	"context"
	"errors"
	"time"

	"pinboard"
	"pinboard/internal/directory"
	"pinboard/internal/h1"
	"pinboard/internal/wait"
)

// A delivery takes one request to the worker of its id and judges what comes
// back. It knows no client: whoever has a request fills in the first part, and
// what else is needed of him goes through from.
type delivery struct {
	p        *Proxy
	from     sender
	request  directory.Request
	caller   string // "/ns/id" of a proven calling instance, or ""
	depth    int    // of its chain of calls
	foreign  bool   // the request bears an attestation of another fleet
	size     int    // of head and body, about
	body     []byte // what of it goes with the head
	whole    bool   // nothing of the body follows later
	hasBody  bool   // such a request is never sent twice
	headOnly bool   // HEAD: the answer has no body
	upgrade  bool   // a WebSocket is asked for

	place    directory.Placement
	resolved time.Time // when place arrived
	fresh    bool      // this request placed the id
	forwards int       // how often the request was written

	u       *upstream // the connection to the worker while this holds it
	slot    bool      // a place among the worker's finite exchanges is held
	earlier *delivery // in the worker's list, with later: the worker's mu guards both
	later   *delivery
	out     []byte      // a head being written, and what goes with it
	res     h1.Response // the head that came last
	interim int
	refusal *pinboard.Refusal // of a rejected delivery
	after   time.Duration     // until its reason ends; 0 when nobody knows
	fault   string            // with WorkerInvalid: what the worker sent
}

// A sender is whom a delivery is made for.
type sender interface {
	// compose appends the request for k, up to the lines that only a delivery
	// adds: no blank line yet, no body.
	compose(b []byte, k *worker) []byte
	// lend shows u to whoever may interrupt the wait for the worker: false when
	// the sender has been interrupted already.
	lend(u *upstream) bool
	// back ends what still goes to u, and takes u back from those it was lent to.
	back(u *upstream)
	// again begins another round: false when the sender has been interrupted.
	again() bool
	// follow sends what follows the head that has been written.
	follow(u *upstream)
	// heard is told that bytes of the worker have come.
	heard()
	// pass takes an interim head: false when nobody is there to have it.
	pass(head []byte) bool
	// cut reports that the sender was interrupted; err, if any, ended a wait for
	// the worker: a deadline is always one that the sender has set.
	cut(err error) bool
}

// An outcome says how a delivery went, or one round of it.
type outcome uint8

const (
	answered    outcome = iota // u holds the worker's final head, unread
	rejected                   // with refusal
	interrupted                // the sender was cut off
	late                       // nothing was written: the resolve is too old
	reached                    // u is there, nothing was written yet
	stale                      // nothing was written: u had been closed
	unreachable                // there is no connection to the worker
	refused                    // the worker has no such instance and starts none
	mistrusted                 // the worker did not take the attestation
)

func (d *delivery) reject(r *pinboard.Refusal) outcome {
	d.refusal = r
	return rejected
}

// What the retry table allows one request.
const (
	maxReresolve = 2
	maxReplace   = 1
	settlePause  = 200 * time.Millisecond // for a worker that has yet to read its register answer
)

// tries counts what it has used up.
type tries struct {
	reresolved, replaced int
	settled              bool // a worker was given its pause: no other try follows
}

// forward is the one loop over placements: it resolves and delivers until the
// request was answered, rejected or interrupted.
func (d *delivery) forward(ctx context.Context) outcome {
	for t := (tries{}); ; {
		if refusal := d.resolve(ctx); refusal != nil {
			return d.reject(refusal)
		}
		switch o := d.deliver(ctx); o {
		case answered:
			d.p.cfg.Directory.Report(ctx, d.place, directory.Served)
			return o
		case late:
			if t.settled || t.reresolved == maxReresolve {
				return d.reject(pinboard.ResolveTooSlow)
			}
			t.reresolved++
		case unreachable, refused, mistrusted:
			if refusal := d.turnedAway(o, &t); refusal != nil {
				return d.reject(refusal)
			}
			if o == mistrusted && !wait.For(ctx, settlePause) {
				return interrupted
			}
		default:
			return o
		}
		if !d.from.again() {
			return interrupted
		}
	}
}

func (d *delivery) resolve(ctx context.Context) *pinboard.Refusal {
	place, err := d.p.cfg.Directory.Resolve(ctx, d.request)
	d.resolved = d.p.cfg.Now()
	if err != nil {
		var later directory.Later
		if errors.As(err, &later) {
			d.after = later.After
		}
		return asRefusal(err)
	}
	d.place, d.fresh = place, d.fresh || place.Fresh
	if place.Worker.PathInURL && d.request.Address.ID == "_pinned" {
		return pinboard.InvalidID // would land on the worker's own control routes
	}
	return nil
}

func asRefusal(err error) *pinboard.Refusal {
	var r *pinboard.Refusal
	if errors.As(err, &r) {
		return r
	}
	return pinboard.StoreUnavailable
}

// turnedAway reports a round in which the worker did not begin the request,
// and says what the sender gets; nil when another round may follow.
func (d *delivery) turnedAway(o outcome, t *tries) *pinboard.Refusal {
	event, refusal := directory.Unreachable, pinboard.WorkerUnreachable
	switch o {
	case refused:
		event, refusal = directory.Refused, pinboard.WorkerRefused
	case mistrusted:
		event, refusal = directory.BadAttestation, pinboard.WorkerNotReady
	}
	v := d.report(event)
	if o == unreachable && !v.Again { // its owner stays until it is back or its lease is over
		d.after = d.place.Deadline.Sub(d.p.cfg.Now())
	}
	again := v.Again && !d.hasBody
	switch {
	case again && o == refused && t.replaced < maxReplace:
		t.replaced++
		d.request.Avoid = d.place.Worker.Session
		return nil
	case again && o == mistrusted && !t.settled && t.reresolved < maxReresolve:
		t.settled = true
		return nil
	case v.Refusal != nil:
		return v.Refusal
	}
	return refusal
}

// reportTimeout bounds a report; it is made even if the sender has left.
const reportTimeout = 5 * time.Second

func (d *delivery) report(e directory.Event) directory.Verdict {
	ctx, cancel := context.WithTimeout(d.p.ctx, reportTimeout)
	defer cancel()
	return d.p.cfg.Directory.Report(ctx, d.place, e)
}
