package registry

import (
	"fmt"
	"strings"
	"testing"

	"pinboard/internal/passport"
)

// A token that is limited to a hostname reaches no other tenant's env: it
// neither joins it nor gives orders for it, until somebody who may has bound
// the env to its hostname.
func TestATokenJoinsOnlyItsOwnEnvs(t *testing.T) {
	h := open(t, func(c *Config) { c.HostnameAware = true })
	victim := h.process("c1")
	victim.extra = `,"hostname":"b.example","env":"victim"`
	victim.register().is(t, 200)
	victim.beat("").is(t, 200)

	register := func(token, client, rest string) answer {
		return h.post("/registry/register", token, fmt.Sprintf(`{"clientId":%q,"secret":"s-%s","namespaces":["/t"],"advertiseUrl":"http://127.0.0.1:%d","headroom":1,"draining":false,"hostname":"a.example"%s}`, client, client, int(client[1]-'0')+10*int(client[0]), rest))
	}
	register("worker-a", "e1", `,"env":"victim"`).is(t, 403, "token may not use this env")
	register("worker-a", "e2", `,"env":"mine","envs":{"/t":"victim"}`).is(t, 403, "token may not use this env")
	register("worker-a", "e3", `,"env":"a.example","epoch":1`).is(t, 200)
	register("worker-a", "e4", `,"epoch":1`).is(t, 200) // the hostname is the env by default

	// A token that may binds the env to the hostname: its own workers may follow.
	register("worker-b", "f1", `,"env":"shared","epoch":2`).is(t, 200)
	register("worker-a", "e5", `,"env":"shared","epoch":2`).is(t, 403, "token may not use this env") // claimed, not in force
	beat := func(session string) answer {
		return h.post("/registry/heartbeat", "worker-b", fmt.Sprintf(`{"sessionId":%q,"headroom":1}`, session))
	}
	beat(h.sessionOf("f1")).is(t, 200)
	register("worker-a", "e6", `,"env":"shared","epoch":2`).is(t, 200)
}

// The claim envs decides alone where a token has it.
func TestTheClaimEnvsDecides(t *testing.T) {
	h := open(t, func(c *Config) { c.HostnameAware = true })
	limited, err := passport.Open("", strings.Replace(tokens, `{"name":"ops"`, `{"name":"e","token":"worker-e","scopes":["pinboard:worker","pinboard:operator"],"claims":{"pinboard":{"namespaces":["/t"],"allowedBackendHosts":["*"],"hostnames":["e.example"],"envs":["green"]}}},{"name":"ops"`, 1))
	if err != nil {
		t.Fatal(err)
	}
	h.server.Tokens = limited
	for env, status := range map[string]int{"green": 200, "e.example": 403, "blue": 403} {
		h.post("/registry/register", "worker-e", fmt.Sprintf(`{"clientId":%q,"secret":"s","namespaces":["/t"],"advertiseUrl":"http://127.0.0.1:9","headroom":1,"draining":false,"hostname":"e.example","env":%q}`, "c-"+env, env)).is(t, status)
	}
	// Orders are judged by the env that they reach: blue is shown here now.
	h.post("/registry/binding/delete", "ops", `{"hostname":"e.example","namespace":"/t"}`).is(t, 200)
	h.post("/registry/register", "worker-b", `{"clientId":"b","secret":"s","namespaces":["/t"],"advertiseUrl":"http://127.0.0.1:8","headroom":1,"draining":false,"hostname":"e.example","env":"blue","epoch":7}`).is(t, 200)
	h.post("/registry/wind_down", "worker-e", `{"hostname":"e.example","namespace":"/t","id":"x","deadline":0}`).is(t, 403, "token may not use this env")
	h.post("/registry/drain", "worker-e", fmt.Sprintf(`{"sessionId":%q}`, h.sessionOf("b"))).is(t, 403, "token may not use this env")
}

// A push is judged by what the worker serves and owns.
func TestAPushStaysWithItsWorker(t *testing.T) {
	h := open(t, nil)
	a, b := h.process("c1"), h.process("c2")
	a.register().is(t, 200)
	h.place("/t/x")
	b.register().is(t, 200)
	h.post("/registry/push", "ops", fmt.Sprintf(`{"type":"evict","sessionId":%q,"namespace":"/app","id":"x"}`, b.session)).is(t, 400, "namespace")
	h.post("/registry/push", "ops", fmt.Sprintf(`{"type":"evict","sessionId":%q,"namespace":"/t","id":"x"}`, b.session)).is(t, 200, `"queued":false`)
	h.post("/registry/push", "ops", fmt.Sprintf(`{"type":"evict","sessionId":%q,"namespace":"/t","id":"x"}`, a.session)).is(t, 200, `"queued":true`)
}

// sessionOf is the session that a client registered last.
func (h *house) sessionOf(client string) string {
	h.t.Helper()
	list, _, err := h.dir.Workers(h.t.Context(), "", 100)
	if err != nil {
		h.t.Fatal(err)
	}
	for _, w := range list {
		if w.ClientID == client {
			return w.SessionID
		}
	}
	h.t.Fatalf("no session of %s", client)
	return ""
}

// At one address an unproven worker of another token replaces nobody, and a
// client id of another token blocks nobody.
func TestAnUnprovenStrangerReplacesNobody(t *testing.T) {
	h := open(t, nil)
	body := `{"clientId":%q,"secret":%q,"namespaces":["/t"],"advertiseUrl":"http://127.0.0.1:%d","headroom":1,"draining":false}`
	h.post("/registry/register", "worker-b", fmt.Sprintf(body, "c1", "one", 9)).is(t, 200)
	mine := h.sessionOf("c1")
	h.post("/registry/register", "worker-a", fmt.Sprintf(body, "c2", "two", 9)).is(t, 503, "advertise URL is in use by a worker of another token")
	h.post("/registry/register", "worker-a", fmt.Sprintf(body, "c1", "three", 8)).is(t, 200)
	h.post("/registry/heartbeat", "worker-b", fmt.Sprintf(`{"sessionId":%q,"headroom":1}`, mine)).is(t, 200)
}
