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
	second       Micros = 1_000_000
	graceLeases         = 10 // rows and sessions outlive their lease by this many (R8)
	orderLeases         = 4  // restate orders that clients can cause: one per process in this many (L9)
	takeoverRest        = 2  // leases before a takeover may be taken over (H3)
	maxMargin           = 5 * second
	lostMints           = second / 10 // more epochs than a bucket mints while a replica lags (R1)
)

// Begin opens every rule. A server that this bucket has not seen, a clock that
// stepped or a history that went back begins a new generation, which is cold
// for the longest lease and mints above anything an earlier one can have minted
// in it (G1, G2, G4, G5, R1).
func (p *Rules) Begin(tx *Tx, longest Micros) {
	m := tx.Meta
	longest = max(longest, m.Longest, p.Lease+p.Slack)
	if p.Longest != nil {
		longest = max(longest, p.Longest())
	}
	switch {
	case ServerOf(m.Gen) != tx.Server:
		p.generation(tx, longest, Generation)
	case tx.Doubt != "":
		p.generation(tx, longest, tx.Doubt)
	case longest > m.Longest:
		m.Longest = longest
		if !p.NoCold {
			m.Cold = max(m.Cold, m.Since+longest+p.Lag)
		}
		tx.PutMeta(m)
	}
}

// generation begins a new one.
func (p *Rules) generation(tx *Tx, longest Micros, cause Cause) {
	m := Meta{Gen: genName(tx.Server, tx.Now), Since: tx.Now, Cold: tx.Now + longest + p.Lag, Longest: longest}
	if m.Gen == tx.Meta.Gen {
		m.Gen = genName(tx.Server, tx.Now+1)
	}
	if p.NoCold {
		m.Cold = 0
	}
	// Also above what an earlier generation minted above its clock and then
	// lost with its last writes.
	tx.Out.Floor, tx.Out.Leap = pinboard.Epoch(tx.Now+longest), lostMints
	tx.Doubt = ""
	tx.PutMeta(m)
	tx.Log(Entry{Cause: cause, Node: p.Node})
}

func genName(server string, began Micros) string { return server + "@" + strconv.FormatInt(began, 36) }

// ServerOf is the server that a generation names. Its begin is part of the
// generation: a server whose clock or history is not what it was begins a new
// one, in which its sessions of before must restate (G2).
func ServerOf(gen string) string {
	server, _, _ := strings.Cut(gen, "@")
	return server
}

// cold reports that the bucket places nothing new yet.
func (p *Rules) cold(tx *Tx) bool { return tx.Now < tx.Meta.Cold }
