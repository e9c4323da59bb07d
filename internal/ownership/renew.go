package ownership

import "time"

// A Pulse is a beat as one bucket sees it.
type Pulse struct {
	Beat
	Longest Micros
}

// A Standing is what a bucket answers to a beat. Values are ordered: the
// worst of all buckets decides.
type Standing int

const (
	Renewed    Standing = iota
	RestateDue          // renewed, but a restate order is due (L9 limits it)
	Lost                // unknown, lapsed, succeeded or of an old generation: restate (G2, L3, L6)
	Unrenewed           // not renewed: degraded for too long, ejected, or replaced (L7)
	Over                // deregistered
	Ousted              // superseded (H2)
)

// A Renewal is one bucket's answer to a beat.
type Renewal struct {
	Standing Standing
	Reason   string
	Worker   *Worker
	Lease    Lease
	Now      Micros
	Messages []Message
	Placed   int64

	Displaced bool // bindings changed: BeginWait once every bucket has them
}

// Renew extends the lease of a session that still runs here; a lease that has
// ended is never renewed (L3).
func (p *Rules) Renew(tx *Tx, b Pulse) Renewal {
	p.Begin(tx, b.Longest)
	s := tx.Session(b.Session)
	if s == nil {
		return Renewal{Standing: Lost, Reason: "unknown session", Now: tx.Now}
	}
	before := s.Lease
	s.Beaten = true
	s.Acks = s.Acks || b.HasAcks
	p.proved(tx, s, b.Proof)
	r := Renewal{Now: tx.Now, Placed: tx.Count(PlaceCount(b.Session))}
	if f := s.standing(tx.Meta.Gen); f&(ownsNothing|IsSucceeded|IsReplaced|IsAsked) == 0 && tx.Before(s.Until) {
		r.Displaced = p.proveBindings(tx, s.Worker)
	}
	r.Standing, r.Reason = p.deserves(tx, s, b)
	if r.Standing <= RestateDue {
		s.Until = max(s.Until, tx.Now+p.Lease+p.Slack)
		s.TTL = p.Lease
		if at := heard(tx, b.Heard); at >= s.HeardAt { // else it overtook an older one (L6)
			s.Headroom, s.OwnDrain, s.HeardAt = b.Headroom, b.Draining, at
		}
		r.Messages = p.deliver(tx, s, b)
	}
	if s.Phase == Due && r.Standing == Renewed && p.MayOrder(&s.Lease, tx.Now) {
		r.Standing, r.Reason = RestateDue, "restatement wanted"
	}
	r.Worker, r.Lease = s.Worker, s.Lease
	if !sameLease(&before, &s.Lease) {
		tx.PutSession(*s)
	}
	return r
}

func sameLease(a, b *Lease) bool {
	return a.Until == b.Until && a.Beaten == b.Beaten && a.Acks == b.Acks && a.Degraded == b.Degraded &&
		a.FailSince == b.FailSince && a.ProvedAt == b.ProvedAt && a.DisplacedBy == b.DisplacedBy && a.Phase == b.Phase
}

// proved keeps the causes that proofs set and clear (docs/rules.md, "Degraded").
func (p *Rules) proved(tx *Tx, s *Session, proof Proof) {
	switch proof {
	case ProofOK:
		s.Degraded &^= ProofsMissing | ProofsRefused
		s.ProvedAt, s.FailSince = tx.Now, 0
		return
	case ProofMissing:
		s.Degraded |= ProofsMissing
	case ProofRefused:
		s.Degraded |= ProofsRefused
	case ProofNone:
		if !s.Worker.Proven { // and never will be: each beat is worth another forward
			s.Degraded &^= ProofsRefused
		}
		return
	}
	if s.FailSince == 0 {
		s.FailSince = tx.Now
	}
}

// deserves says what a beat of s is answered.
func (p *Rules) deserves(tx *Tx, s *Session, b Pulse) (Standing, string) {
	if env, epoch, yes := p.superseded(tx, s.Worker); yes && s.Phase != Ended {
		s.DisplacedBy, s.DisplacedAt = env, epoch
		return Ousted, "superseded"
	}
	switch f := s.standing(tx.Meta.Gen); {
	case f&IsEnded != 0:
		return Over, "deregistered"
	case f&IsOld != 0:
		return Lost, "registry restarted"
	case f&(IsSucceeded|IsLetGo) != 0:
		return Lost, "replaced by a newer session of this process"
	case f&IsReplaced != 0:
		newer := tx.Session(s.ReplacedBy)
		if p.fate(tx, newer) != running && !tx.Before(s.Until) && b.Proof == ProofOK {
			return Lost, "the address is this process's again"
		}
		return Unrenewed, "another process was proved at the advertise URL"
	case f&IsEjected != 0 && tx.Before(s.Until):
		return Unrenewed, "session was ejected"
	case !tx.Before(s.Until):
		return Lost, "lease lapsed"
	case f&IsAsked != 0:
		return Lost, "restatement ordered"
	case p.unbound(tx, s.Worker):
		return Lost, "a hostname binding was deleted"
	case s.FailSince != 0 && tx.Now >= s.FailSince+3*s.TTL:
		return Unrenewed, "advertise URL not proved for three leases"
	}
	return Renewed, ""
}

// MayOrder limits restate orders that clients could cause (L9).
func (p *Rules) MayOrder(l *Lease, now Micros) bool {
	return !l.Aborts && (l.Ordered == 0 || l.Ordered > now || now >= l.Ordered+orderLeases*l.TTL)
}

// MarkRestating records that a restate order is about to be answered, so that
// nothing new is placed there and its refusals prove nothing (F3). caused
// tells orders that clients can cause from those of L3, L6 and G2.
func (p *Rules) MarkRestating(tx *Tx, session string, caused bool) {
	p.Begin(tx, 0)
	s := tx.Session(session)
	if s == nil || !s.ask(tx.Now) {
		return
	}
	if caused {
		s.Ordered = tx.Now
	}
	tx.PutSession(*s)
	tx.Log(Entry{Cause: RestateOrdered, Session: session, Node: p.Node})
}

// lapse makes the end of a session's lease final before one of its rows goes
// to somebody else: no step back of the clock may renew it (L3, G4).
func (p *Rules) lapse(tx *Tx, session string) {
	s := tx.Session(session)
	if s != nil && !s.over() && s.Gen == tx.Meta.Gen && s.ask(tx.Now) {
		tx.PutSession(*s)
	}
}

// Want makes the session's next beat a restate order, within L9's limit.
func (p *Rules) Want(tx *Tx, session string) {
	p.Begin(tx, 0)
	if s := tx.Session(session); s != nil && s.due() {
		tx.PutSession(*s)
	}
}

// SetDegraded sets and clears causes that forwards have shown.
func (p *Rules) SetDegraded(tx *Tx, session string, set, clear Degrade) {
	p.Begin(tx, 0)
	s := tx.Session(session)
	if s == nil {
		return
	}
	d := s.Degraded&^clear | set
	if d == s.Degraded {
		return
	}
	s.Degraded = d
	if d == 0 {
		s.FailSince = 0
	}
	tx.PutSession(*s)
}

// SetDrain sets or ends the operator's drain of a session's process.
func (p *Rules) SetDrain(tx *Tx, session string, on bool, deadline *time.Duration) bool {
	p.Begin(tx, 0)
	s := tx.Session(session)
	if s == nil || s.over() {
		return false
	}
	s.Drain, s.DrainAt = on, 0
	if on && deadline != nil {
		s.DrainAt = tx.Now + max(deadline.Microseconds(), 1)
	}
	tx.PutSession(*s)
	return true
}

// Eject stops renewing the session; its lease runs out.
func (p *Rules) Eject(tx *Tx, session string) bool {
	p.Begin(tx, 0)
	s := tx.Session(session)
	if s == nil || p.fate(tx, s) != running {
		return false
	}
	s.Ejected = true
	tx.PutSession(*s)
	tx.Log(Entry{Cause: WasEjected, Session: session, Node: p.Node})
	return true
}
