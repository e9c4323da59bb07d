package directory

import (
	"pinboard/internal/ownership"
	"time"

	"pinboard"
)

// A Request is what resolution must know of a client's request.
type Request struct {
	Host     string           // canonical authority in hostname mode; ignored otherwise
	Address  pinboard.Address // ID may be "": Resolve then answers UnknownNamespace or InvalidID
	Affinity string           // key whose holder prefers one worker; "" for none
	Client   string           // address of the client, for the rate of new ids; "" for none
	Caller   string           // session of a proven calling instance, "" for none
	Avoid    string           // session that just refused this request
}

// A Placement is the answer of one resolution: who owns the id, at which
// epoch, and until when this node may believe it.
type Placement struct {
	Key      ownership.Key
	Worker   *ownership.Worker
	Epoch    pinboard.Epoch
	Fresh    bool            // this request created the row and nobody confirmed it: R2, R3
	Nonce    ownership.Nonce // the creator's mark of a Fresh row
	Settling bool            // session younger than 5 s or restating: its 403s prove nothing (F3)
	Draining bool            // the owner drains: a refused connect is 503, not 502
	Sent     time.Time       // when the read behind this answer was sent; its age is measured from here (F1)
	Deadline time.Time       // the owner's lease by this node's monotonic clock, never later than the store's (F2)
}

// An Event is what became of a forward, as far as placement is concerned.
type Event int

const (
	Served         Event = iota // the worker answered as a host does: clears a refused proof and failed connects
	Unreachable                 // TCP connect (or TLS) failed: nothing was sent
	Refused                     // 503 with exactly Pinned-Refusal: lease-unhealthy
	BadAttestation              // 403 {"detail":"invalid attestation"}, or an upgrade's empty 403 from a Settling session
)

// A Verdict is what the request may do after an Event.
type Verdict struct {
	Again   bool              // resolve once more (Avoid the worker if Refused); only without a body
	Refusal *pinboard.Refusal // what the client gets otherwise; nil after Served
}

// A Watch is an open stream whose owner must be looked at every lease/3 (F2).
type Watch struct {
	Key      ownership.Key
	Process  string
	Deadline time.Time // updated by Recheck
	Cut      bool      // set by Recheck: the row is gone or names another process
}
