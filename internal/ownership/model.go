package ownership

import (
	"pinboard"
)

// Times in the store are microseconds of the store's own clock (Micros). They
// are compared with each other and never with a node's clock (G4).
type Micros = int64

// Meta is what a bucket knows of itself.
type Meta struct {
	Gen     string // generation: the server that last owned the bucket and when it began (G1); "" before first use
	Since   Micros // when this generation began here
	Cold    Micros // no new placement before this (G2)
	Longest Micros // longest lease ever granted or read (G5)
}

// A Kind says what a row stands for.
type Kind byte

const (
	Placed  Kind = 'P' // an owner; Confirmed unless Nonce is set
	Closing Kind = 'C' // a duplicate still flushing in Session (R7): refuses everything
	Held    Kind = 'H' // nobody's, placeable after Until (R5) or by Claim's hostname (H3)
)

// A Row is the record of one key. Invariants: Placed and Closing name a
// session; Held names none; Epoch only ever grows for one key.
type Row struct {
	Kind    Kind
	Session string
	Epoch   pinboard.Epoch
	Nonce   Nonce          // non-zero: unconfirmed, and whose (R2)
	Since   pinboard.Epoch // Placed: a release at Since or above frees it (R6); 0: only at Epoch
	Others  string         // Closing: further sessions that flush the same id (R7), a space between
	Twin    string         // Closing: env in which the same instance has another closing row
	Until   Micros         // Held, Closing: not placeable before
	Made    Micros         // Closing: when it began; ordered to restate after four leases
	Wind    Micros         // Placed: wind-down deadline, 0 none (F4)
	Claim   string         // hostname that alone may place the id when it frees (H3)
	Taken   Micros         // when a takeover placed it; settles before the next one (H3)
	Tag     string         // operator's label
}

// Plain reports a confirmed placement that a hit may serve without a rule.
func (r *Row) Plain() bool {
	return r.Kind == Placed && r.Nonce == Nonce{} && r.Since == 0 && r.Wind == 0 && r.Claim == ""
}

// A BindKey names a binding (hostname mode).
type BindKey struct{ Host, Namespace string }

// An Order is a wind-down on its way to a process; it lives in the row's
// bucket, so it survives nodes and sessions (F4). The JSON names are stored bytes.
type Order struct {
	MsgID     string         `json:"msg"`
	Key       Key            `json:"key"`
	Epoch     pinboard.Epoch `json:"epoch"` // of the row when ordered
	Revoke    bool           `json:"revoke,omitempty"`
	Evict     bool           `json:"evict,omitempty"` // the deadline has passed: delivered with deadline 0
	Delivered int            `json:"delivered,omitempty"`
	Acked     bool           `json:"acked,omitempty"`
	Passed    int            `json:"passed,omitempty"` // acks of others since this was first delivered
}

// A Cause says what kind of change an Entry tells. The texts are stored and
// shown to operators: they never change.
type Cause string

// Causes.
const (
	Generation      Cause = "generation"    // a server that the bucket had not seen
	ClockStepped    Cause = "clock stepped" // the server's clock is another one (G4)
	HistoryLost     Cause = "history lost"  // the server shows less than it has shown before (G1)
	Registered      Cause = "registered"
	Duplicates      Cause = "duplicates"
	Replaced        Cause = "replaced"
	RestateOrdered  Cause = "restate ordered"
	WasPlaced       Cause = "placed"
	Moved           Cause = "moved" // placed, from an owner whose lease is over
	TakenBack       Cause = "taken back"
	Released        Cause = "released"
	WindDownOrdered Cause = "wind-down"
	WindDownRevoked Cause = "wind-down revoked"
	Deregistered    Cause = "deregistered"
	WasEjected      Cause = "ejected"
	Displaced       Cause = "displaced"
	BindingDeleted  Cause = "binding deleted"
)

// An Entry is one ownership change, kept in a capped ring per bucket.
type Entry struct {
	At      Micros         `json:"at"`
	Cause   Cause          `json:"cause"`
	Key     string         `json:"key,omitempty"`
	Session string         `json:"sessionId,omitempty"`
	Epoch   pinboard.Epoch `json:"epoch,string,omitempty"`
	Count   int            `json:"count,omitempty"`
	Node    string         `json:"node,omitempty"`

	Mint *Mint `json:"-"` // the commit fills in Epoch from here
}
