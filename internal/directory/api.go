package directory

import (
	"pinboard/internal/ownership"
	"time"

	"pinboard"
)

// A Registration is a decoded, authorised and (if Worker.Proven) challenged
// register call. Worker.Session, Process and Past are filled by Register.
type Registration struct {
	Worker      ownership.Worker
	Headroom    float64
	Draining    bool                // the worker's own drain
	Instances   map[string][]string // namespace -> ids the process still holds
	PrevSession string
	Heard       time.Time // when the node began to hear the call, by its own clock; zero: now
}

// An ID names an instance inside the worker's own world.
type ID struct {
	Namespace string `json:"ns"`
	ID        string `json:"id"`
}

// A Grant is the answer to an accepted registration or heartbeat.
type Grant struct {
	Session    string
	ExpiresIn  time.Duration
	Draining   bool                // the operator's drain, never the worker's own flag
	DrainLeft  *time.Duration      // time left until the drain deadline; nil without one
	Duplicates []ID                // register only: ids the worker must quit
	Messages   []ownership.Message // heartbeat only
}

// Answers to a beat other than a Grant or a *pinboard.Refusal.
type (
	// Reregister orders the worker to restate itself: 409 {"reregister":true}.
	Reregister struct{ Reason string }
	// Gone is a session that deregistered: 409 with neither flag.
	Gone struct{}
)

func (e Reregister) Error() string { return e.Reason }
func (e Gone) Error() string       { return "session deregistered" }

// A Release is one item of a release call.
type Release struct {
	Session   string // or
	ClientID  string // the oldest dialects
	Namespace string
	ID        string
	Epoch     pinboard.Epoch
	HasEpoch  bool
}

// A Tag labels a placement for operators; 256 characters at most.
type Tag struct {
	Session   string
	Namespace string
	ID        string
	Epoch     pinboard.Epoch // 0: any
	Tag       string
}

// A WindDown is an operator's order for one id; nil Deadline revokes.
type WindDown struct {
	Host      string // hostname mode: whose id; "" where it is not ambiguous
	Namespace string
	ID        string
	Process   string // only if this process owns it; "" whoever does
	Deadline  *time.Duration
}

// WorkerInfo is one worker as operators see it; no secret.
type WorkerInfo struct {
	ClientID      string            `json:"clientId"`
	SessionID     string            `json:"sessionId"`
	AdvertiseURL  string            `json:"advertiseUrl"`
	Namespaces    []string          `json:"namespaces"`
	Hostname      string            `json:"hostname,omitempty"`
	Env           string            `json:"env,omitempty"`
	Envs          map[string]string `json:"envs,omitempty"`
	BindEpoch     int64             `json:"epoch,omitempty"`
	Draining      bool              `json:"draining"` // by an order or by its own choice
	DrainLeftMs   *int64            `json:"drainDeadlineMs,omitempty"`
	OwnDraining   bool              `json:"ownDraining"`
	Degraded      string            `json:"degraded,omitempty"`    // "", "proof_missing", "proof_refused", "connects_failed"
	ClockSkewMs   int64             `json:"clockSkewMs,omitempty"` // its clock is that far ahead of the answering node's, which saw it refuse attestations
	State         string            `json:"state"`                 // live, restating, replaced, superseded, ejected, lapsed, ended
	Headroom      float64           `json:"headroom"`
	LeaseLeftMs   int64             `json:"leaseLeftMs"`
	RegisteredFor int64             `json:"registeredMs"`
	Placed        int64             `json:"placed"` // placements minus releases since it last restated
	Owner         string            `json:"token,omitempty"`
}

// Invalid is a registration that this mode cannot take: 400 naming the field.
type Invalid struct{ Field, Reason string }

func (e Invalid) Error() string { return e.Field + ": " + e.Reason }

// A Selector names a session, or the newest one of a client.
type Selector struct{ Session, ClientID string }
