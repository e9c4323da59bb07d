package fieldtest

import (
	"bytes"
	"encoding/json"
	"net/http"
	"testing"

	"pinboard/internal/rawtest"
)

// Two fleets that name each other as workers: the request ends where it
// returns for the first time.
func TestTwoFleetsThatNameEachOther(t *testing.T) {
	t.Parallel()
	a, b := start(t), start(t)
	a.enlist(b.url, "/t")
	b.enlist(a.url, "/t")
	for i, request := range []string{
		get("/t/x"), post("/t/y", "hi"), handshake,
	} {
		m := rawtest.Do(t, a.addr, request)
		if m.Status() != 508 {
			t.Errorf("%q: %q", request, m.Raw)
		}
		if got := a.metric("pinboard_refusals_total"); got != float64(i+1) {
			t.Errorf("the first fleet refused %v requests of %d", got, i+1)
		}
		const passedOn = `pinboard_forwards_total{result="served"}`
		if fromA, fromB := a.metric(passedOn), b.metric(passedOn); fromA != float64(i+1) || fromB != float64(i+1) {
			t.Errorf("%d requests made %v and %v forwards", i+1, fromA, fromB)
		}
	}
}

// A fleet may stand behind another: nothing returns, nothing is refused.
func TestAFleetBehindAnother(t *testing.T) {
	t.Parallel()
	front, back := start(t), start(t)
	front.enlist(back.url, "/t")
	w := back.worker(rawtest.Always(rawtest.Response(200, "ok")))
	if m := front.do(get("/t/x")); m.Status() != 200 {
		t.Fatalf("%q", m.Raw)
	}
	got := w.last()
	if got.Get("Pinboard-Hops") != "1" || len(got.Values("Pinboard-Attestation")) != 1 {
		t.Errorf("the worker got %q", got.Raw)
	}
}

// enlist registers an address as a worker that proves nothing.
func (n *node) enlist(url, namespace string) {
	n.t.Helper()
	call := func(path string, body map[string]any) (answer struct{ SessionID string }) {
		n.t.Helper()
		b, err := json.Marshal(body)
		if err != nil {
			n.t.Fatal(err)
		}
		r, err := http.NewRequest("POST", n.url+path, bytes.NewReader(b))
		if err != nil {
			n.t.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer "+token)
		res, err := http.DefaultClient.Do(r)
		if err != nil {
			n.t.Fatal(err)
		}
		defer res.Body.Close()
		if err := json.NewDecoder(res.Body).Decode(&answer); err != nil || res.StatusCode != 200 {
			n.t.Fatalf("%s: %d, %v", path, res.StatusCode, err)
		}
		return answer
	}
	session := call("/registry/register", map[string]any{
		"clientId": "fleet", "secret": "secret", "namespaces": []string{namespace}, "advertiseUrl": url, "headroom": 1, "draining": false,
	}).SessionID
	call("/registry/heartbeat", map[string]any{"sessionId": session, "headroom": 1, "draining": false})
}
