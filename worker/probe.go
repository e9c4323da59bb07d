package worker

import (
	"crypto/subtle"
	"encoding/json"
	"net/http"
	"strconv"

	"pinboard/api"
)

// serveChallenge proves to Pinboard that the advertise URL ends in this
// process: it knows the pair of the call that is under way.
func (h *Handler) serveChallenge(rw http.ResponseWriter, r *http.Request) {
	if !h.probed(rw, r) {
		return
	}
	asked := r.URL.Query()["challenge"]
	if len(asked) == 0 {
		writeJSON(rw, http.StatusUnprocessableEntity, map[string]string{"detail": "challenge is missing"})
		return
	}
	s := h.session
	s.mu.Lock()
	challenge, value := s.challenge[0], s.challenge[1]
	s.mu.Unlock()
	if challenge == "" || !same(asked[0], challenge) {
		writeJSON(rw, http.StatusNotFound, map[string]string{"detail": "unknown challenge"})
		return
	}
	writeJSON(rw, http.StatusOK, map[string]string{"value": value})
}

// stats in the form of the published clients (docs/protocol.md).
type stats struct {
	Draining        bool               `json:"draining"`
	LeaseFlaps      int                `json:"leaseFlaps"`
	Reregistrations int                `json:"reregistrations"`
	Namespaces      map[string]*counts `json:"namespaces"`
	Instances       []instanceStats    `json:"instances"`
	Process         struct {
		UptimeMs int64 `json:"uptimeMs"`
	} `json:"process"`
}

type instanceStats struct {
	Namespace   string `json:"namespace"`
	ID          string `json:"id"`
	Connections int    `json:"connections"`
	Tasks       int    `json:"tasks"`
	IdleMs      int64  `json:"idleMs"`
	ActivatedAt int64  `json:"activatedAt,omitempty"` // Unix milliseconds
}

func (h *Handler) serveStats(rw http.ResponseWriter, r *http.Request) {
	if !h.probed(rw, r) {
		return
	}
	s := stats{Namespaces: map[string]*counts{}, Instances: []instanceStats{}}
	now := h.m.Now()
	s.Process.UptimeMs = now.Sub(h.started).Milliseconds()
	h.session.mu.Lock()
	s.LeaseFlaps, s.Reregistrations = h.session.flaps, h.session.again
	h.session.mu.Unlock()

	h.mu.Lock()
	s.Draining = h.drainingLocked()
	for ns, c := range h.counts {
		one := *c
		s.Namespaces[ns] = &one
	}
	for _, in := range h.table {
		row := instanceStats{Namespace: in.Namespace, ID: in.ID, Connections: in.streams, Tasks: in.requests + in.tasks}
		if row.Tasks == 0 && !in.left.IsZero() {
			row.IdleMs = now.Sub(in.left).Milliseconds()
		}
		if !in.began.IsZero() {
			row.ActivatedAt = in.began.UnixMilli()
		}
		s.Instances = append(s.Instances, row)
	}
	h.mu.Unlock()
	writeJSON(rw, http.StatusOK, s)
}

// probed lets Pinboard through: by the process's secret, which is all it has
// before the first session, or by an attestation.
func (h *Handler) probed(rw http.ResponseWriter, r *http.Request) bool {
	if r.Method != http.MethodGet {
		rw.Header().Set("Allow", http.MethodGet)
		writeJSON(rw, http.StatusMethodNotAllowed, map[string]string{"detail": "Method Not Allowed"})
		return false
	}
	if same(r.Header.Get(api.HeaderSecret), h.session.secret) {
		return true
	}
	if _, ok := h.verify(r); ok {
		return true
	}
	badSecret.write(rw, r)
	return false
}

func same(a, b string) bool { return subtle.ConstantTimeCompare([]byte(a), []byte(b)) == 1 }

// writeJSON writes compact JSON and not a byte more: Pinboard compares the
// bodies of denials.
func writeJSON(rw http.ResponseWriter, status int, body any) {
	b, _ := json.Marshal(body) // plain maps and structs always marshal
	rw.Header().Set("Content-Type", "application/json")
	rw.Header().Set("Content-Length", strconv.Itoa(len(b)))
	rw.WriteHeader(status)
	rw.Write(b)
}
