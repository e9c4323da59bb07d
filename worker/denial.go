package worker

import (
	"net/http"
	"strings"

	"pinboard/api"
)

// A denial is a request that reaches no instance. Texts and statuses are those
// of the published clients (docs/protocol.md, "What Pinboard says to workers"): Pinboard reads them.
type denial struct {
	status int
	detail string
	final  bool // no Retry-After: the request may have had its effect
	marker bool // Pinned-Refusal: no such instance here, and none will start
}

var (
	unknownRoute   = denial{status: http.StatusNotFound, detail: "Not Found"}
	badAttestation = denial{status: http.StatusForbidden, detail: "invalid attestation"}
	badSecret      = denial{status: http.StatusForbidden, detail: "invalid proxy secret"}
	badID          = denial{status: http.StatusBadRequest, detail: "invalid id"}
	badEpoch       = denial{status: http.StatusBadRequest, detail: "malformed placement epoch"}

	leaseExpired  = denial{status: http.StatusServiceUnavailable, detail: "lease expired; not serving"}
	staleEpoch    = denial{status: http.StatusServiceUnavailable, detail: "stale placement epoch; retry"}
	releasedEpoch = denial{status: http.StatusServiceUnavailable, detail: "released placement epoch; retry"}
	unhealthy     = denial{status: http.StatusServiceUnavailable, detail: "lease unhealthy; refusing new activations", marker: true}
	draining      = denial{status: http.StatusServiceUnavailable, detail: "host draining; retry"}
	full          = denial{status: http.StatusServiceUnavailable, detail: "instance capacity reached; retry"}
	pastDeadline  = denial{status: http.StatusServiceUnavailable, detail: "instance past its wind-down deadline; retry"}
	closing       = denial{status: http.StatusServiceUnavailable, detail: "instance closing; retry"}

	aborted    = denial{status: http.StatusServiceUnavailable, detail: "instance aborted", final: true}
	openFailed = denial{status: http.StatusInternalServerError, detail: "activation failed"}
)

// write answers the request. What is wrong with an upgrade itself is an empty
// 403, as the published clients answer.
func (d *denial) write(rw http.ResponseWriter, r *http.Request) {
	h := rw.Header()
	if d.status == http.StatusServiceUnavailable {
		if !d.final {
			h.Set("Retry-After", "1")
		}
		if d.marker {
			h.Set(api.HeaderRefusal, api.RefusalUnhealthy)
		}
	} else if d.status < 500 && isUpgrade(r) {
		rw.WriteHeader(http.StatusForbidden)
		return
	}
	writeJSON(rw, d.status, map[string]string{"detail": d.detail})
}

func isUpgrade(r *http.Request) bool {
	return strings.EqualFold(r.Header.Get("Upgrade"), "websocket")
}
