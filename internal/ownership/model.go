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
	Until   Micros         // Held: not placeable before
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

// A Degrade is a set of causes; each is cleared only by its own success.
type Degrade uint8

const (
	ProofsMissing  Degrade = 1 << iota // keeps ids and forwards
	ProofsRefused                      // nothing is forwarded
	ConnectsFailed                     // keeps ids and forwards
)

// A Lease is the changing part of a session, one record in every bucket.
type Lease struct {
	Gen       string   // generation that granted it: in another one it does not run (G2)
	Until     Micros   // deadline; a renewal never lowers it (L1)
	TTL       Micros   // length last granted
	At        Micros   // when the session was registered here
	Headroom  float64  // last report
	Beaten    bool     // a beat has shown that the register answer was processed (L5)
	OwnDrain  bool     // the worker's own drain
	Drain     bool     // the operator's drain; belongs to the process
	DrainAt   Micros   // operator's drain deadline, 0 none
	Degraded  Degrade  // causes set
	FailSince Micros   // start of an unbroken run of failed proofs, 0 none
	ProvedAt  Micros   // last proof of the URL, 0 never
	Replaced  string   // newer session of another process at the same URL (L7)
	Successor string   // newer session of the same process (L6)
	Behind    []string // older sessions of the process whose rows are not all restated yet
	Restated  bool     // Successor has restated: rows still naming this session are nobody's
	Hold      Micros   // ... but placeable only after this (R5)
	Restating Micros   // when a restate order was given, 0 none (F3)
	Ordered   Micros   // last such order that a client could cause; passes to successors (L9)
	Want      bool     // a restate order is due at the next beat (R4, R7, F4)
	Acks      bool     // the process has sent acks
	Old       bool     // the process aborts its instances when told to register again (before 0.8.4)
	Ejected   bool     // not renewed any more
	Ended     Micros   // deregistered
	Super     string   // env that displaced its last binding (H2), "" none
	SuperAt   int64    // that binding's epoch
}

// A Worker is the immutable part of one accepted session. Values are shared:
// never modify one.
type Worker struct {
	Session    string // session id: opaque, also the attestation audience
	Process    string // digest of clientId and secret; all sessions of one process share it
	ClientID   string
	Secret     string // keys probes and attestations; never shown
	URL        string // advertise URL without trailing "/"
	Namespaces []string
	Hostname   string            // "*" outside hostname mode
	Env        string            // default env of its namespaces, "*" outside hostname mode
	Envs       map[string]string // per-namespace override
	Takeover   string            // "wind_down" or "deny"
	BindEpoch  int64             // binding epoch, 0 when the worker sent none
	Owner      string            // token that registered it: provider id + "/" + key name
	Proven     bool              // registered with a challenge that was proved
	PathInURL  bool              // dialect D1-D4.1: the URL already ends in the namespace
	SendSecret bool              // dialect D1-D4: forwards carry the worker's secret
	Past       bool              // the process was known before: placeable after its first beat (L5)
	LeaseMs    int64             // lease granted at registration, milliseconds
}

// A Session is one accepted registration as a bucket knows it.
type Session struct {
	Worker *Worker // immutable
	Lease
}

// A BindKey names a binding (hostname mode).
type BindKey struct{ Host, Namespace string }

// A Binding says which env a hostname's namespace shows (H1).
type Binding struct {
	Env   string // "" for a deleted one, which is there for its Wait alone
	Epoch int64
	Wait  Micros // displaced: no new ids before this
}

// An Order is a wind-down on its way to a process; it lives in the row's
// bucket, so it survives nodes and sessions (F4).
type Order struct {
	MsgID     string
	Key       Key
	Epoch     pinboard.Epoch // of the row when ordered
	Deadline  Micros
	Revoke    bool
	Evict     bool // the deadline has passed: delivered with deadline 0
	Delivered int
	Acked     bool
	Passed    int // acks of others since this was first delivered
}

// An Entry is one ownership change, kept in a capped ring per bucket.
type Entry struct {
	At      Micros         `json:"at"`
	Cause   string         `json:"cause"`
	Key     string         `json:"key,omitempty"`
	Session string         `json:"sessionId,omitempty"`
	Epoch   pinboard.Epoch `json:"epoch,string,omitempty"`
	Count   int            `json:"count,omitempty"`
	Node    string         `json:"node,omitempty"`

	Mint *Mint `json:"-"` // the commit fills in Epoch from here
}
