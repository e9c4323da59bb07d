package proxy

import (
	"pinboard/internal/attest"
	"pinboard/internal/h1"
)

// looped reports a request that goes in a circle. One that bears an
// attestation of this fleet has been here before. One of another fleet may
// come once, and goes on with Pinboard-Hops. If it comes with that field, a
// second fleet has already passed it on, most likely one whose worker we are
// and who is ours.
func (x *exchange) looped() bool {
	if !x.req.Has.Has(h1.Attestation) {
		return false
	}
	for _, f := range x.req.Fields {
		if f.Kind != h1.Attestation {
			continue
		}
		token := f.Value.Of(x.head)
		if minted := x.c.p.cfg.Minted; minted != nil && minted(token) {
			return true
		}
		x.foreign = x.foreign || attest.Formed(token)
	}
	return x.foreign && x.req.Has.Has(h1.Hops)
}

// hopsLine marks a forward of a request that another fleet has forwarded to us.
const hopsLine = "Pinboard-Hops: 1\r\n"
