package worker

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"pinboard/api"
)

func probe(h http.Handler, target, secret string) *httptest.ResponseRecorder {
	r := httptest.NewRequest("GET", target, nil)
	r.Header.Set(api.HeaderSecret, secret)
	return serve(h, r)
}

func TestChallenge(t *testing.T) {
	bubble(t, func(t *testing.T, g *registry, h *Handler, d *diary) {
		s := h.Session()
		first := g.sent("register")[0].fields()
		target := "/_pinned/challenge?challenge=" + first["challenge"].(string)
		rec := probe(h, target, s.secret)
		expect(t, "the pair under way", rec, 200, `{"value":"`+first["challengeValue"].(string)+`"}`)
		expect(t, "wrong secret", probe(h, target, "x"), 403, "invalid proxy secret")
		expect(t, "no secret", probe(h, target, ""), 403, "invalid proxy secret")
		expect(t, "another pair", probe(h, "/_pinned/challenge?challenge=0", s.secret), 404, "unknown challenge")
		expect(t, "nothing asked", probe(h, "/_pinned/challenge", s.secret), 422, "")
		expect(t, "attested", serve(h, stamp(httptest.NewRequest("GET", target, nil), s.secret, s.ID(), 1)), 200, "value")
		post := httptest.NewRequest("POST", target, nil)
		post.Header.Set(api.HeaderSecret, s.secret)
		expect(t, "POST", serve(h, post), 405, "")
		time.Sleep(4 * time.Second)
		expect(t, "replaced by the next beat", probe(h, target, s.secret), 404, "unknown challenge")
	})
}

// Before the first call there is no pair, and no empty one either.
func TestNoChallengeBeforeRun(t *testing.T) {
	g := newRegistry(t, time.Second)
	h := g.newWorker("w1", Class{Open: func(*Instance) (http.Handler, error) { return nil, nil }})
	expect(t, "empty", probe(h, "/_pinned/challenge?challenge=", h.session.secret), 404, "")
}

func TestStats(t *testing.T) {
	bubble(t, func(t *testing.T, g *registry, h *Handler, d *diary) {
		opened := time.Now().UnixMilli()
		g.get("/t/a")
		go g.get("/t/b?hold=1h")
		synctest.Wait()
		g.fail("heartbeat", fault{status: 409, body: `{"reregister":true}`})
		time.Sleep(4 * time.Second)
		rec := probe(h, "/_pinned/stats", h.session.secret)
		var got stats
		if err := json.Unmarshal(rec.Body.Bytes(), &got); err != nil || rec.Code != 200 {
			t.Fatal(rec.Code, err)
		}
		if got.Instances[0].ID == "b" {
			got.Instances[0], got.Instances[1] = got.Instances[1], got.Instances[0]
		}
		want := stats{
			Reregistrations: 1,
			Namespaces:      map[string]*counts{"/t": {Activations: 2}},
			Instances: []instanceStats{
				{Namespace: "/t", ID: "a", IdleMs: 4000, ActivatedAt: opened},
				{Namespace: "/t", ID: "b", Tasks: 1, ActivatedAt: opened},
			},
		}
		want.Process.UptimeMs = 4000
		if d := cmp.Diff(want, got, cmpopts.IgnoreUnexported(counts{})); d != "" {
			t.Error(d)
		}
		expect(t, "a stranger", probe(h, "/_pinned/stats", "x"), 403, "invalid proxy secret")
	})
}
