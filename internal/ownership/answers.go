package ownership

import "time"

// A Message is a control message on a heartbeat answer (docs/protocol.md, "heartbeat").
type Message struct {
	MsgID    string
	Type     string // "wind_down"
	NS, ID   string
	Deadline *time.Duration // time left, 0 = now, nil = revoke
}

// A Proof is the outcome of the challenge that came with a beat.
type Proof int

const (
	ProofNone    Proof = iota // no challenge in the beat
	ProofOK                   // the URL ends in this process
	ProofMissing              // timeout, connect, 404, 5xx: nothing proved
	ProofRefused              // 403 or a wrong value: somebody else answers
)

// A Beat is a decoded heartbeat.
type Beat struct {
	Session  string
	Heard    time.Time // when the node began to hear it, by its own clock; zero: now
	Headroom float64
	Draining bool
	Acks     []string
	HasAcks  bool // the field was present: the client confirms messages
	Proof    Proof
}

// Answers to a registration that is not accepted; a beat may be Superseded, too.
type (
	// Wait is a retryable no to a worker: 503 + Retry-After with the reason.
	Wait struct {
		Reason string
		After  time.Duration
	}
	// Conflict is a final no to a registration: 409 with the reason.
	Conflict struct{ Reason string }
	// Superseded ends the process for good: 409 {"superseded":true}; hostname mode only.
	Superseded struct {
		Env   string
		Epoch int64
	}
)

func (e Wait) Error() string       { return e.Reason }
func (e Conflict) Error() string   { return e.Reason }
func (e Superseded) Error() string { return "superseded" }
