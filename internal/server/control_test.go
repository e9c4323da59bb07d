package server

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
)

func TestControlPathsAreExact(t *testing.T) {
	health := Health{Ready, 12, 3, "v1", 1, ""}
	c := &Control{
		Health:   func() Health { return health },
		Metrics:  http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "metrics") }),
		Registry: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, "registry "+r.Method) }),
	}
	for _, tt := range []struct {
		method, path string
		status       int
		body         string
	}{
		{"GET", "/healthz", 200, `{"status":"ok"}` + "\n"},
		{"GET", "/readyz", 200, `{"status":"ready","uptimeSeconds":12,"workers":3,"version":"v1","storeFormat":1}` + "\n"},
		{"GET", "/metrics", 200, "metrics"},
		{"POST", "/healthz", 405, `{"error":"method not allowed","code":"method_not_allowed"}` + "\n"},
		{"GET", "/healthz/", 404, `{"error":"not found","code":"not_found"}` + "\n"},
		{"GET", "/registry", 200, "registry GET"},
		{"OPTIONS", "/registry/../metrics", 200, "registry OPTIONS"},
		{"GET", "/registryx", 404, `{"error":"not found","code":"not_found"}` + "\n"},
	} {
		w := httptest.NewRecorder()
		r := httptest.NewRequest(tt.method, "/", nil)
		r.URL.Path = tt.path
		c.ServeHTTP(w, r)
		if w.Code != tt.status || w.Body.String() != tt.body {
			t.Errorf("%s %s: %d %q", tt.method, tt.path, w.Code, w.Body)
		}
	}
	for _, status := range []Status{Booting, Unavailable, Draining} {
		health.Status = status
		w := httptest.NewRecorder()
		c.ServeHTTP(w, httptest.NewRequest("GET", "/readyz", nil))
		if w.Code != 503 {
			t.Errorf("/readyz while %s: %d", status, w.Code)
		}
		w = httptest.NewRecorder()
		c.ServeHTTP(w, httptest.NewRequest("GET", "/healthz", nil))
		if w.Code != 200 {
			t.Errorf("/healthz while %s: %d", status, w.Code)
		}
	}
}
