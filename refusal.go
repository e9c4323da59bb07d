package pinboard

// A Refusal is an answer of Pinboard's own making. The list below is closed:
// clients match on Text, programs on Code (docs/protocol.md,
// "Refusals"). A *Refusal is an error; compare with == or errors.Is.
type Refusal struct {
	Code   string // stable, snake_case; travels in Pinboard-Error and, unless Bare, in "code"
	Status int    // HTTP status at the edge
	Text   string // exact; travels in "error"
	Retry  bool   // carries Retry-After: the same request may succeed later
	Bare   bool   // the body holds "error" alone: a published test of the client compares it whole
}

func (r *Refusal) Error() string { return r.Text }

func refuse(status int, code, text string) *Refusal {
	r := &Refusal{Code: code, Status: status, Text: text}
	Refusals = append(Refusals, r)
	return r
}

func retry(status int, code, text string) *Refusal {
	r := refuse(status, code, text)
	r.Retry = true
	return r
}

func bare(status int, code, text string) *Refusal {
	r := refuse(status, code, text)
	r.Bare = true
	return r
}

// Refusals lists every refusal in the order of this file; docs and tests read it.
var Refusals []*Refusal

// Addressing.
var (
	UnknownNamespace   = refuse(404, "unknown_namespace", "unknown namespace")
	InvalidID          = refuse(400, "invalid_id", "invalid id")
	PathLeavesInstance = refuse(400, "path_leaves_instance", "path leaves the instance")
	NotFound           = refuse(404, "not_found", "not found")
	MissingHost        = refuse(400, "missing_host", "missing Host header")
)

// Resolution.
var (
	ColdStart          = retry(503, "cold_start", "registry cold start, retry")
	NoLiveBackends     = retry(503, "no_live_backends", "no live backends for namespace")
	OwnerReplaced      = retry(503, "owner_replaced", "owner replaced, retry")
	WorkerNotReady     = retry(503, "worker_not_ready", "worker not ready, retry")
	WindingDown        = retry(503, "winding_down", "placement winding down, retry")
	TakeoverInProgress = retry(503, "takeover_in_progress", "takeover in progress, retry")
	HeldElsewhere      = retry(503, "held_elsewhere", "placement held by another hostname")
	BindingDisplaced   = retry(503, "binding_displaced", "hostname binding displaced, retry")
	PlacementRate      = retry(429, "placement_rate", "too many new ids, retry")
	StoreUnavailable   = retry(503, "store_unavailable", "registry unavailable, retry")
)

// Forwarding.
var (
	ResolveTooSlow    = retry(503, "resolve_too_slow", "resolve too slow, retry")
	WorkerRefused     = retry(503, "worker_refused", "worker refused activation, retry")
	WorkerBusy        = retry(503, "worker_busy", "worker busy, retry")
	InstanceBusy      = retry(503, "instance_busy", "instance busy, retry")
	WorkerDraining    = retry(503, "worker_draining", "worker draining, retry")
	WorkerUnreachable = retry(502, "worker_unreachable", "worker unreachable")
	WorkerBroken      = refuse(502, "worker_broken", "worker broke off before it answered")
	WorkerInvalid     = refuse(502, "worker_invalid", "worker sent an invalid response")
	WorkerTimeout     = refuse(504, "worker_timeout", "worker did not answer in time")
	OwnerLost         = retry(503, "owner_lost", "owner lost, retry")
	Overloaded        = retry(503, "overloaded", "node overloaded, retry")
)

// The client's own message (RFC 9110, RFC 9112).
var (
	BadRequest       = refuse(400, "bad_request", "bad request")
	MethodNotAllowed = refuse(405, "method_not_allowed", "method not allowed")
	RequestTimeout   = refuse(408, "request_timeout", "request head too slow")
	BodyTooLarge     = refuse(413, "body_too_large", "body too large")
	TargetTooLong    = refuse(414, "target_too_long", "request target too long")
	HeadTooLarge     = refuse(431, "head_too_large", "request head too large")
	Unimplemented    = refuse(501, "not_implemented", "transfer coding not implemented")
	VersionUnknown   = refuse(505, "version_not_supported", "HTTP version not supported")
	Loop             = refuse(508, "loop_detected", "loop detected")
)

// Instance-to-instance calls.
var (
	InvalidSessionSecret = bare(403, "invalid_session_secret", "invalid session secret")
	CallerMismatch       = bare(403, "caller_mismatch", "caller placement mismatch")
	InvalidDepth         = refuse(400, "invalid_depth", "invalid subrequest depth")
	DepthExceeded        = refuse(508, "depth_exceeded", "subrequest depth exceeded")
)

// The registry. The texts are what is said when there
// is nothing more to say: workers and operators get the reason in "error", for
// instance the name of a wrong field; the code stays.
var (
	Unauthorized      = refuse(401, "unauthorized", "unauthorized")
	Forbidden         = refuse(403, "forbidden", "forbidden")
	InvalidField      = refuse(400, "invalid_field", "invalid field")
	ChallengeRequired = refuse(400, "challenge_required", "challenge required")
	Reregister        = refuse(409, "reregister", "session unknown, register again")
	Superseded        = refuse(409, "superseded", "superseded")
	SessionEnded      = refuse(409, "session_ended", "session deregistered")
	Conflict          = refuse(409, "conflict", "conflict")
	NotReady          = retry(503, "not_ready", "not ready, retry")
)
