package ownership

import (
	"strconv"
	"strings"

	"pinboard"
)

// Rules are the settings that every rule obeys. All durations in Micros.
type Rules struct {
	Lease     Micros // lease granted to sessions
	Slack     Micros // the store holds leases this much longer than it tells: steps of its clock below it go unseen (G4)
	Lag       Micros // added to cold starts for replicas (G3)
	NoCold    bool   // development only: no cold start on a fresh in-process store
	Hostnames bool   // hostname-aware mode
	Node      string // names this node in the ring

	Longest func() Micros // longest lease this node granted or read, for a store that forgot it (G5)
}

const (
	second      Micros = 1_000_000
	graceLeases        = 10 // rows and sessions outlive their lease by this many (R8)
	orderLeases        = 4  // restate orders that clients can cause: one per process in this many (L9)
	settle             = 10 // leases before a takeover may be taken over (H3)
	maxMargin          = 5 * second
	lostMints          = second / 10 // more epochs than a bucket mints while a replica lags (R1)
)

// margin is the lease a worker must have left to get a new id.
func Margin(ttl Micros) Micros { return min(maxMargin, ttl/3) }

// begin opens every rule: a server that this bucket has not seen begins a new
// generation, which is cold for the longest lease and mints above anything an
// earlier one can have minted in it (G1, G2, G5, R1).
func (p *Rules) Begin(tx *Tx, longest Micros) {
	m := tx.Meta
	longest = max(longest, m.Longest, p.Lease+p.Slack)
	if p.Longest != nil {
		longest = max(longest, p.Longest())
	}
	switch {
	case ServerOf(m.Gen) != tx.Server:
		m = Meta{Gen: tx.Server + "@" + strconv.FormatInt(tx.Now, 36), Since: tx.Now, Cold: tx.Now + longest + p.Lag, Longest: longest}
		if p.NoCold {
			m.Cold = 0
		}
		// Also above what an earlier generation minted above its clock and
		// then lost with its last writes.
		tx.Out.Floor, tx.Out.Leap = pinboard.Epoch(tx.Now+longest), lostMints
		tx.PutMeta(m)
		tx.Log(Entry{Cause: "generation", Node: p.Node})
	case longest > m.Longest:
		m.Longest = longest
		if !p.NoCold {
			m.Cold = max(m.Cold, m.Since+longest+p.Lag)
		}
		tx.PutMeta(m)
	}
}

// ServerOf is the server that a generation names. Its begin is part of the
// generation: a server that comes back after another one took over begins a
// new one, in which its sessions of before must restate (G2).
func ServerOf(gen string) string {
	server, _, _ := strings.Cut(gen, "@")
	return server
}

// cold reports that the bucket places nothing new yet.
func (p *Rules) cold(tx *Tx) bool { return tx.Now < tx.Meta.Cold }

// Chill makes the bucket cold for its longest lease: the store's clock stepped (G4).
func (p *Rules) Chill(tx *Tx) {
	p.Begin(tx, 0)
	m := tx.Meta
	m.Cold = max(m.Cold, tx.Now+m.Longest+p.Lag)
	tx.PutMeta(m)
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
	switch {
	case s == nil || s.Ended != 0 || s.Restated:
		return dead
	case s.Gen != tx.Meta.Gen:
		if p.cold(tx) {
			return unknown
		}
		return dead
	case tx.Before(s.Until):
		return running
	}
	return dead
}

// freeAt is when the rows of a dead session became (or become) placeable.
func freeAt(s *Session) Micros {
	switch {
	case s == nil:
		return 0
	case s.Restated:
		return s.Hold
	case s.Ended != 0:
		return s.Ended
	}
	return s.Until
}

// Forwardable reports that forwards may go to s while its lease runs: what a
// hit relies on. Everything else about s is decided by a rule.
func (s *Session) Forwardable(gen string) bool {
	return s.Gen == gen && s.Replaced == "" && s.Degraded&ProofsRefused == 0 && s.Successor == "" &&
		s.Super == "" && s.Ended == 0 && !s.Restated
}

// placeable reports that s may get a new id under ns for host in env, with
// enough lease left at commit.
func (p *Rules) placeable(tx *Tx, s *Session, host, env, ns string) bool {
	return s != nil && s.Eligible(tx.Meta.Gen) && s.Worker.Serves(host, env, ns) &&
		tx.Before(s.Until-p.Slack-Margin(s.TTL))
}

// Eligible reports everything about s that new ids need, except time and namespace.
func (s *Session) Eligible(gen string) bool {
	return s.Forwardable(gen) && s.Degraded == 0 && !s.OwnDrain && !s.Drain && !s.Ejected &&
		s.Restating == 0 && (s.Beaten || !s.Worker.Past)
}

// EnvOf is the env that the worker shows under ns.
func (w *Worker) EnvOf(ns string) string {
	if e, ok := w.Envs[ns]; ok {
		return e
	}
	return w.Env
}

// Serves reports that the worker shows env under ns to host.
func (w *Worker) Serves(host, env, ns string) bool {
	if w.Hostname != host || w.EnvOf(ns) != env {
		return false
	}
	for _, n := range w.Namespaces {
		if n == ns {
			return true
		}
	}
	return false
}
