package ownership

import "strings"

// A Fitness is the set of reasons why a session may be used less than fully;
// the zero value is fit for everything. It is the one ladder that placement,
// forwarding, beats, lists and metrics all ask.
type Fitness uint32

// Reasons. The lowest one names the session in lists (Fitness.State).
const (
	IsEnded      Fitness = 1 << iota // deregistered
	IsLetGo                          // a newer session of the process has restated
	IsSucceeded                      // ... or is about to
	IsSuperseded                     // none of its bindings is left (H2)
	IsOld                            // of an earlier generation (G2)
	IsLapsed                         // its lease is over
	IsEjected                        // an operator ended its renewals
	IsReplaced                       // another process was proved at its URL (L7)
	IsAsked                          // told to restate itself (F3)
	IsNew                            // of a process with a past, before its first beat (L5)
	IsRefusing                       // its proof or our attestation was refused
	IsUnproven                       // its last proof is missing
	IsUnreached                      // connects fail
	IsLeaving                        // the worker drains by itself
	IsDrained                        // an operator drains it
	IsShort                          // too little of its lease is left for a new id
)

const (
	ownsNothing     = IsEnded | IsLetGo | IsOld | IsLapsed
	forwardsNothing = ownsNothing | IsSucceeded | IsSuperseded | IsReplaced | IsRefusing
	countsAsDead    = ownsNothing | IsSucceeded | IsSuperseded | IsReplaced | IsEjected
)

// Owns reports that rows naming the session are its own.
func (f Fitness) Owns() bool { return f&ownsNothing == 0 }

// Forwards reports that requests for its ids go to it.
func (f Fitness) Forwards() bool { return f&forwardsNothing == 0 }

// Places reports that it may get new ids, as far as the namespace allows.
func (f Fitness) Places() bool { return f == 0 }

// Live reports that it counts as a live worker.
func (f Fitness) Live() bool { return f&countsAsDead == 0 }

// Drains reports that it drains, by its own choice or by an order.
func (f Fitness) Drains() bool { return f&(IsLeaving|IsDrained) != 0 }

// Degraded reports that its proofs or connects fail.
func (f Fitness) Degraded() bool { return f&(IsRefusing|IsUnproven|IsUnreached) != 0 }

// State is the one word that lists show.
func (f Fitness) State() string {
	for _, n := range [...]struct {
		any  Fitness
		name string
	}{
		{IsEnded, "ended"}, {IsLetGo | IsSucceeded, "succeeded"}, {IsSuperseded, "superseded"}, {IsOld | IsLapsed, "lapsed"},
		{IsEjected, "ejected"}, {IsReplaced, "replaced"}, {IsAsked, "restating"},
	} {
		if f&n.any != 0 {
			return n.name
		}
	}
	return "live"
}

// standing is everything about s but time.
func (s *Session) standing(gen string) Fitness {
	return when(s.Phase == Ended, IsEnded) | when(s.Phase == LetGo, IsLetGo) | when(s.Phase == Succeeded, IsSucceeded) |
		when(s.DisplacedBy != "", IsSuperseded) | when(s.Gen != gen, IsOld) | when(s.Ejected, IsEjected) |
		when(s.ReplacedBy != "", IsReplaced) | when(s.Asked != 0, IsAsked) | when(s.Worker.Past && !s.Beaten, IsNew) |
		when(s.Degraded&ProofsRefused != 0, IsRefusing) | when(s.Degraded&ProofsMissing != 0, IsUnproven) |
		when(s.Degraded&ConnectsFailed != 0, IsUnreached) | when(s.OwnDrain, IsLeaving) | when(s.Drain, IsDrained)
}

func when(is bool, reason Fitness) Fitness {
	if is {
		return reason
	}
	return 0
}

// Forwardable reports that forwards may go to s while its lease runs: what a
// hit relies on. Everything else about s is decided by a rule.
func (s *Session) Forwardable(gen string) bool { return s.standing(gen).Forwards() }

// Fitness judges s at time now of the store.
func (p *Rules) Fitness(s *Session, gen string, now Micros) Fitness {
	f := s.standing(gen)
	if now >= s.Until {
		f |= IsLapsed
	}
	if now >= p.placeBy(s) {
		f |= IsShort
	}
	return f
}

// placeBy is when too little is left of the lease for a new id: a worker
// refuses those in its last seconds, and the slack is not its own.
func (p *Rules) placeBy(s *Session) Micros { return s.Until - p.Slack - min(maxMargin, s.TTL/3) }

// placeable reports that s may get a new id under ns for host in env, with
// enough lease left at commit.
func (p *Rules) placeable(tx *Tx, s *Session, host, env, ns string) bool {
	return s != nil && s.standing(tx.Meta.Gen).Places() && s.Worker.Serves(host, env, ns) && tx.Before(p.placeBy(s))
}

// A fate is what a session can still own.
type fate int

const (
	running fate = iota
	unknown      // of an earlier generation, which may still run (G2)
	dead         // owns nothing; see freeAt
)

// fate judges s, which may be nil.
func (p *Rules) fate(tx *Tx, s *Session) fate {
	if s == nil {
		return dead
	}
	switch f := s.standing(tx.Meta.Gen); {
	case f&(IsEnded|IsLetGo) != 0:
		return dead
	case f&IsOld != 0:
		if p.cold(tx) {
			return unknown
		}
		return dead
	case tx.Before(s.Until):
		return running
	}
	return dead
}

// freeAt is when the rows of a dead session became (or become) placeable. Times
// of an earlier generation say nothing by this clock: the cold start covers them.
func (p *Rules) freeAt(tx *Tx, s *Session) Micros {
	switch {
	case s == nil:
		return 0
	case s.Gen != tx.Meta.Gen:
		return min(s.endsAt(), tx.Meta.Cold)
	}
	return s.endsAt()
}

func (s *Session) endsAt() Micros {
	if s.over() {
		return s.Free
	}
	return s.Until
}

// String lists the causes, "" for none.
func (g Degrade) String() string {
	var out []string
	for i, name := range []string{"proof_missing", "proof_refused", "connects_failed"} {
		if g&(1<<i) != 0 {
			out = append(out, name)
		}
	}
	return strings.Join(out, ",")
}
