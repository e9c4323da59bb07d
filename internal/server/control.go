package server

import (
	"encoding/json"
	"net/http"
	"strings"
)

// Control answers everything on the port that is not an instance request:
// probes, metrics, the registry. Paths are compared exactly and never cleaned;
// which paths are control paths the data plane decides by the same rule
// (docs/protocol.md, "Endpoints").
type Control struct {
	Health   func() Health
	Metrics  http.Handler
	Registry http.Handler // everything under /registry, authentication included
}

// Health is what /readyz tells.
type Health struct {
	Status        Status `json:"status"`
	UptimeSeconds int64  `json:"uptimeSeconds"`
	Workers       int    `json:"workers"`
	Version       string `json:"version"`
	StoreFormat   int    `json:"storeFormat"`
	Reason        string `json:"reason,omitempty"` // why it is unavailable, where the node knows it for sure
}

// A refusal is the body of an error, its members in the order of all others.
type refusal struct {
	Error string `json:"error"`
	Code  string `json:"code"`
}

// ServeHTTP implements http.Handler.
func (c *Control) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	path := r.URL.Path
	if path == "/registry" || strings.HasPrefix(path, "/registry/") {
		c.Registry.ServeHTTP(w, r)
		return
	}
	serve, ok := map[string]http.HandlerFunc{
		"/healthz": c.healthz, "/readyz": c.readyz, "/metrics": c.Metrics.ServeHTTP,
	}[path]
	switch {
	case !ok:
		answer(w, http.StatusNotFound, refusal{"not found", "not_found"})
	case r.Method != http.MethodGet && r.Method != http.MethodHead:
		w.Header().Set("Allow", "GET, HEAD")
		answer(w, http.StatusMethodNotAllowed, refusal{"method not allowed", "method_not_allowed"})
	default:
		w.Header().Set("Cache-Control", "no-store")
		serve(w, r)
	}
}

// healthz says that the process lives. It must do no I/O and ask nobody: a
// probe that follows the store restarts every node at once (FC-63).
func (c *Control) healthz(w http.ResponseWriter, _ *http.Request) {
	answer(w, http.StatusOK, map[string]string{"status": "ok"})
}

func (c *Control) readyz(w http.ResponseWriter, _ *http.Request) {
	h := c.Health()
	status := http.StatusServiceUnavailable
	if h.Status == Ready {
		status = http.StatusOK
	}
	answer(w, status, h)
}

func answer(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	// The client may be gone; there is nobody left to tell.
	_ = json.NewEncoder(w).Encode(body)
}
