// Package api holds the JSON bodies and header names of /registry/* and
// /_pinned/* as the wire has them. A request type decodes itself strictly:
// names match exactly, a wrong type or value is a *FieldError that names the
// field, unknown fields are ignored, null counts as absent unless said
// otherwise. docs/protocol.md is the prose beside it.
package api

// Headers of Pinboard's own on its control plane and towards workers.
const (
	HeaderError        = "Pinboard-Error"          // code of an answer of Pinboard's own making
	HeaderSecret       = "Pinboard-Proxy-Secret"   // probes, since 0.4.0
	HeaderLegacySecret = "X-Pinned-Proxy-Secret"   // probes, pushes and forwards of the oldest dialects
	HeaderEpoch        = "Pinboard-Epoch"          // placement epoch of a forward
	HeaderAttestation  = "Pinboard-Attestation"    // signed identity of a forward
	HeaderRefusal      = "Pinned-Refusal"          // a worker refuses to start an instance
	RefusalUnhealthy   = "lease-unhealthy"         // its only value
	HeaderFrom         = "Pinboard-From"           // instance calls: the calling instance
	HeaderSession      = "Pinboard-Session"        // instance calls: session of the caller's worker
	HeaderSessionKey   = "Pinboard-Session-Secret" // instance calls: secret of the caller's worker
	HeaderDepth        = "Pinboard-Subrequest-Depth"
)

// Paths below a worker's advertise URL.
const (
	PathChallenge = "/_pinned/challenge"
	PathStats     = "/_pinned/stats"
	PathWindDown  = "/_pinned/wind_down"
	PathDrain     = "/_pinned/drain"
	PathResume    = "/_pinned/resume"
)

// MaxBody bounds a request body under /registry: a register body restates up
// to 10 000 ids of 256 bytes and more (docs/protocol.md, "In general").
const MaxBody = 16 << 20
