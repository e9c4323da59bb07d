package registry

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"pinboard"
	"pinboard/internal/passport"
)

// A worker comes, serves, gives an id back, and goes; what it says afterwards
// revives nothing.
func TestLifeOfAWorker(t *testing.T) {
	h := open(t, nil)
	w := h.process("c1")
	w.register().is(t, 200, `"expiresInMs":15000,"draining":false`)
	placed := h.place("/t/a")
	if placed.Worker.Session != w.session || placed.Worker.URL != w.url || !placed.Worker.Proven {
		t.Fatalf("%+v", placed.Worker)
	}
	w.beat("").is(t, 200, `"expiresInMs":15000,"draining":false`)
	if w.probesAnswered != 2 {
		t.Errorf("%d probes", w.probesAnswered)
	}
	release := func(epoch string) answer {
		return h.post("/registry/release", w.token, fmt.Sprintf(`[{"sessionId":%q,"namespace":"/t","id":"a","epoch":%q}]`, w.session, epoch))
	}
	h.post("/registry/tag", w.token, fmt.Sprintf(`{"sessionId":%q,"namespace":"/t","id":"a","epoch":"%s","tag":"blue"}`, w.session, placed.Epoch)).is(t, 200, `{"tagged":true}`)
	release("1").is(t, 200, `{"released":0}`)
	release("0"+placed.Epoch.String()).is(t, 200, `{"released":1}`)
	release(placed.Epoch.String()).is(t, 200, `{"released":0}`)
	again := h.place("/t/a")
	if again.Epoch <= placed.Epoch {
		t.Errorf("epoch %s after %s", again.Epoch, placed.Epoch)
	}
	for range 2 {
		h.post("/registry/deregister", w.token, fmt.Sprintf(`{"sessionId":%q}`, w.session)).is(t, 200)
	}
	a := w.beat("")
	if a.is(t, 409); a.body["reregister"] != nil || a.body["superseded"] != nil {
		t.Errorf("a deregistered session must get neither flag: %s", a.text)
	}
	if _, err := h.resolve("/t/a"); err != pinboard.NoLiveBackends {
		t.Errorf("%v", err)
	}
}

// FC-48: a beat after the lease has ended restates, it never renews.
func TestLateBeat(t *testing.T) {
	h := open(t, nil)
	w := h.process("c1")
	w.register().is(t, 200)
	epoch := h.place("/t/a").Epoch
	h.now = h.now.Add(lease + time.Second)
	w.beat("").is(t, 409, `"reregister":true`)
	if _, err := h.resolve("/t/a"); err == nil {
		t.Error("a late beat revived the session")
	}
	w.extra = fmt.Sprintf(`,"prevSessionId":%q,"instances":{"/t":["a","b"],"/x":["c"]}`, w.session)
	w.register().is(t, 200, `{"ns":"/t","id":"b"}`, `{"ns":"/x","id":"c"}`)
	if p := h.place("/t/a"); p.Epoch != epoch || p.Worker.Session != w.session {
		t.Errorf("the id comes back with its epoch: %+v", p)
	}
	h.post("/registry/heartbeat", w.token, `{"sessionId":"never-seen","headroom":1}`).is(t, 409, `"reregister":true`)
}

// A worker's token reaches its own sessions and nobody else's; two keys of one
// name are one owner.
func TestTenants(t *testing.T) {
	h := open(t, nil)
	w := h.process("c1")
	w.register().is(t, 200)
	placed := h.place("/t/a")
	for token, port := range map[string]string{"worker-a": "8", "root": "7"} {
		h.post("/registry/heartbeat", token, fmt.Sprintf(`{"sessionId":%q,"headroom":1}`, w.session)).is(t, 403)
		h.post("/registry/release", token, fmt.Sprintf(`[{"sessionId":%q,"namespace":"/t","id":"a","epoch":"%s"}]`, w.session, placed.Epoch)).is(t, 200, `"released":0`)
		h.post("/registry/release", token, `{"clientId":"c1","namespace":"/t","id":"a"}`).is(t, 200, `"released":0`)
		h.post("/registry/tag", token, fmt.Sprintf(`{"sessionId":%q,"namespace":"/t","id":"a","tag":"x"}`, w.session)).is(t, 200, `"tagged":false`)
		h.post("/registry/deregister", token, fmt.Sprintf(`{"sessionId":%q}`, w.session)).is(t, 200)
		w.beat("").is(t, 200)
		// A stranger of the same name is another worker; it cannot take the process
		// over by its secret.
		h.post("/registry/register", token, `{"clientId":"c1","secret":"guess-of-`+token+`","namespaces":["/t"],"advertiseUrl":"http://127.0.0.1:`+port+`","headroom":1,"draining":true}`).is(t, 200)
		h.post("/registry/register", token, fmt.Sprintf(`{"clientId":"c1","secret":%q,"namespaces":["/t"],"advertiseUrl":"http://127.0.0.1:9","headroom":1,"draining":false}`, w.secret)).is(t, 503, "not_ready")
	}
	if p := h.place("/t/a"); p.Epoch != placed.Epoch || p.Worker.Session != w.session {
		t.Errorf("%+v", p)
	}
	rotated, err := passport.Open("", strings.Replace(tokens, `{"name":"ops"`, `{"name":"b","token":"worker-b2","scopes":["pinboard:worker"]},{"name":"ops"`, 1))
	if err != nil {
		t.Fatal(err)
	}
	h.server.Tokens = rotated
	w.token = "worker-b2"
	w.beat("").is(t, 200)
}

// FC-56: an advertise URL that leads back to a node proves nothing, and one
// request ends it. Strangers and redirects prove nothing either.
func TestNotAWorker(t *testing.T) {
	h := open(t, nil)
	var hits int
	loop := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		hits++
		r.Header.Set("Authorization", "Bearer root")
		h.server.ServeHTTP(w, r)
	}))
	defer loop.Close()
	w := h.process("c1")
	target := w.url
	w.url = loop.URL
	w.register().is(t, 503, "challenge answered wrongly")
	w.url = loop.URL + "/registry"
	w.register().is(t, 503, "challenge answered wrongly")
	if hits != 2 {
		t.Errorf("%d requests for two registrations", hits)
	}
	away := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, target+r.URL.String(), http.StatusTemporaryRedirect)
	}))
	defer away.Close()
	w.url = away.URL
	w.register().is(t, 503, "challenge answered wrongly")
	w.url = h.process("other").url
	w.register().is(t, 503, "challenge answered wrongly")
	w.url = "http://127.0.0.1:1"
	if a := w.register(); a.header.Get("Retry-After") == "" {
		t.Errorf("%v", a.header)
	}
	if list := h.get("/registry/workers").body["workers"].([]any); len(list) != 0 {
		t.Errorf("registered: %v", list)
	}
}

// A proof that fails at a beat renews and shows in the overview; a refused one
// also stops forwards; each is over with the next success.
func TestDegraded(t *testing.T) {
	h := open(t, nil)
	w := h.process("c1")
	w.register().is(t, 200)
	h.place("/t/a")
	w.answer = 500
	w.beat("").is(t, 200)
	h.get("/registry/overview").is(t, 200, `"degraded":"proof_missing"`)
	h.place("/t/a")
	if _, err := h.resolve("/t/b"); err != pinboard.NoLiveBackends {
		t.Errorf("no new ids: %v", err)
	}
	w.answer = 403
	w.beat("").is(t, 200)
	h.get("/registry/workers").is(t, 200, `proof_refused`)
	h.now = h.now.Add(time.Second)
	if _, err := h.resolve("/t/a"); err != pinboard.WorkerNotReady {
		t.Errorf("nothing attested goes to a stranger: %v", err)
	}
	w.answer = 0
	w.beat("").is(t, 200)
	h.place("/t/a")
	if !strings.Contains(h.logs.String(), "reason=refused") || !strings.Contains(h.logs.String(), `reason="answered 500"`) {
		t.Errorf("the log must say why: %s", h.logs)
	}
	w.answer = 500
	for range 16 { // three leases of failures
		h.now = h.now.Add(3 * time.Second)
		if a := w.beat(""); a.status != 200 {
			a.is(t, 503, "not proved for three leases")
			return
		}
	}
	t.Error("renewed for ever")
}

// An order rides the beats until it is acked: floored once, aged from then on.
func TestWindDownOverBeats(t *testing.T) {
	h := open(t, nil)
	w := h.process("c1")
	w.register().is(t, 200)
	h.place("/t/a")
	h.post("/registry/wind_down", "ops", `{"namespace":"/t","id":"a","deadline":0}`).is(t, 200, `{"queued":true}`)
	h.post("/registry/wind_down", "ops", `{"namespace":"/t","id":"nobody","deadline":0}`).is(t, 200, `{"queued":false}`)
	message := func(a answer) map[string]any {
		a.is(t, 200, `"type":"wind_down","ns":"/t","id":"a"`)
		return a.body["messages"].([]any)[0].(map[string]any)
	}
	first := message(w.beat(`,"acks":[]`))
	h.now = h.now.Add(3 * time.Second)
	second := message(w.beat(`,"acks":[]`))
	if first["deadline"] != 15.0 || second["deadline"] != 12.0 || first["msgId"] != second["msgId"] {
		t.Errorf("%v, then %v", first, second)
	}
	if a := w.beat(fmt.Sprintf(`,"acks":[%q]`, first["msgId"])); a.body["messages"] != nil {
		t.Errorf("acked and sent again: %s", a.text)
	}
	h.place("/t/a")
	for range 4 {
		h.now = h.now.Add(3 * time.Second)
		if a := w.beat(`,"acks":[]`); a.body["messages"] != nil {
			if m := message(a); m["deadline"] != 0.0 || m["msgId"] == first["msgId"] {
				t.Errorf("the eviction has a new id and no time left: %v", m)
			}
			break
		}
	}
	if _, err := h.resolve("/t/a"); err != pinboard.WindingDown {
		t.Errorf("after the deadline nothing is forwarded: %v", err)
	}
}

// Drain, undrain and eject reach the worker through its beats.
func TestDrainAndEject(t *testing.T) {
	h := open(t, nil)
	w := h.process("c1")
	w.register().is(t, 200)
	h.place("/t/a")
	h.post("/registry/drain", "ops", fmt.Sprintf(`{"sessionId":%q,"deadline":60}`, w.session)).is(t, 200, `{"queued":true}`)
	w.beat("").is(t, 200, `"draining":true,"drainDeadline":60`)
	h.now = h.now.Add(2 * time.Second)
	w.beat("").is(t, 200, `"draining":true,"drainDeadline":58`)
	h.place("/t/a")
	if _, err := h.resolve("/t/b"); err != pinboard.NoLiveBackends {
		t.Errorf("%v", err)
	}
	h.post("/registry/undrain", "ops", `{"clientId":"c1"}`).is(t, 200, `{"queued":true}`)
	if a := w.beat(""); a.body["draining"] != false || a.body["drainDeadline"] != nil {
		t.Error(a.text)
	}
	h.post("/registry/eject", "ops", `{"clientId":"c1"}`).is(t, 200, `{"ejected":1}`)
	w.beat("").is(t, 503, "session was ejected")
	w.register().is(t, 503, "session was ejected")
	h.now = h.now.Add(lease + time.Second)
	w.register().is(t, 200)
}

// 0.1.0: no challenge, the namespace in its URL, orders called back.
func TestOldestClient(t *testing.T) {
	h := open(t, nil)
	w := h.process("c1")
	w.quiet = true
	w.url += "/t"
	w.register().is(t, 200)
	placed := h.place("/t/a")
	if p := placed.Worker; !p.PathInURL || !p.SendSecret || p.Proven {
		t.Fatalf("%+v", p)
	}
	h.post("/registry/push", "ops", `{"clientId":"c1","type":"evict","id":"a"}`).is(t, 200, `{"queued":true,"delivered":true,"attempts":1}`)
	if len(w.callbacks) != 1 || !strings.HasPrefix(w.callbacks[0], `/t/_pinned/wind_down {"id":"a","deadline":1`) {
		t.Errorf("%v", w.callbacks)
	}
	w.beat("").is(t, 200)
	h.server.pushes.Wait()
	if len(w.callbacks) != 2 || !strings.HasPrefix(w.callbacks[1], `/t/_pinned/wind_down {"id":"a","deadline":1`) {
		t.Errorf("the message of the beat is called back: %v", w.callbacks)
	}
	h.post("/registry/push", "ops", `{"clientId":"c1","type":"resume","id":"a"}`).is(t, 200, `"delivered":true`)
	h.post("/registry/push", "ops", `{"clientId":"c1","type":"drain","deadline":5}`).is(t, 200, `"delivered":true`)
	if got := strings.Join(w.callbacks[2:], "; "); got != `/t/_pinned/resume {"id":"a"}; /t/_pinned/drain {"deadline":5}` && !strings.Contains(got, `/t/_pinned/drain {"deadline":4.9`) {
		t.Error(got)
	}
	h.post("/registry/release", w.token, `{"clientId":"c1","namespace":"/t","id":"a"}`).is(t, 200, `{"released":1}`)
}

// PINBOARD_REQUIRE_PROOF refuses it.
func TestRequireProof(t *testing.T) {
	h := open(t, func(c *Config) { c.RequireProof = true })
	w := h.process("c1")
	w.quiet = true
	w.register().is(t, 400, `{"error":"challenge required","code":"challenge_required"}`)
}

// Hostname mode over the wire: a newer deployment displaces an older one, which
// is told once and for all; a mistaken epoch can be deleted.
func TestHostnames(t *testing.T) {
	h := open(t, func(c *Config) { c.HostnameAware = true })
	old, young := h.process("c1"), h.process("c2")
	old.register().is(t, 400, "hostname: required")
	old.extra = `,"hostname":"A.Example","env":"blue"`
	old.register().is(t, 200)
	old.beat("").is(t, 200)
	young.extra = `,"hostname":"a.example","env":"green"`
	young.register().is(t, 409, `"code":"conflict"`)
	young.extra += `,"epoch":2`
	young.register().is(t, 200)
	old.beat("").is(t, 200)
	young.beat("").is(t, 200)
	old.register().is(t, 200) // clients take only a beat's answer for the end
	old.beat("").is(t, 409, `"superseded":true`, `"env":"green","epoch":2`)
	h.post("/registry/binding/delete", "ops", `{"hostname":"a.example","namespace":"/t"}`).is(t, 200, `{"deleted":true}`)
	h.post("/registry/binding/delete", "ops", `{"hostname":"a.example","namespace":"/t"}`).is(t, 200, `{"deleted":false}`)
}

// No secret ever comes out: not in answers, not in lists, not in logs, whatever
// went wrong before.
func TestSecretsStayInside(t *testing.T) {
	h := open(t, nil)
	h.server.Log = slog.New(slog.NewJSONHandler(h.logs, &slog.HandlerOptions{Level: slog.LevelDebug}))
	w := h.process("c1")
	w.register()
	h.place("/t/a")
	w.beat("")
	w.answer = 403
	w.beat("")
	for _, path := range []string{"register", "heartbeat", "release", "deregister", "tag", "wind_down", "drain", "undrain", "eject", "push", "binding/delete", "durability/mark"} {
		for _, field := range []string{"secret", "challengeValue", "sessionId", "namespaces", "advertiseUrl"} {
			h.post("/registry/"+path, "root", fmt.Sprintf(`{%q:{"x":%q},"secret":%q,"token":"root"}`, field, w.secret, w.secret))
		}
		h.post("/registry/"+path, "root", w.secret)
		h.post("/registry/"+path, "wrong-"+w.secret, "{}")
	}
	w.url = "http://user:" + w.secret + "@h"
	w.register().is(t, 400)
	for _, path := range []string{"workers", "overview", "health", "stats", "events"} {
		h.get("/registry/"+path).is(t, 200)
	}
	everything := h.said.String() + h.logs.String()
	for _, secret := range []string{w.secret, "worker-b", "Bearer root", w.challenge, w.value} {
		if i := strings.Index(everything, secret); i >= 0 {
			t.Errorf("%q came out: ...%s", secret, everything[max(0, i-100):i+len(secret)])
		}
	}
	var list struct {
		Workers []map[string]any
	}
	if err := json.Unmarshal([]byte(h.get("/registry/workers").text), &list); err != nil || len(list.Workers) != 1 || list.Workers[0]["secret"] != nil {
		t.Errorf("%v %v", err, list)
	}
}

// A flood of registrations of one tenant, each at a URL that never answers,
// keeps nobody else waiting and leaves nothing behind.
func TestRegisterFlood(t *testing.T) {
	t.Parallel()
	h := open(t, nil)
	w := h.process("c1")
	w.register().is(t, 200)
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	var flood sync.WaitGroup
	for i := range 200 {
		flood.Go(func() {
			a := h.call("POST", "/registry/register", "worker-a", fmt.Sprintf(`{"clientId":"f%d","secret":"k","namespaces":["/t"],"advertiseUrl":"http://%s","headroom":1,"draining":false,"challenge":"c","challengeValue":"v"}`, i, silent.Addr()))
			if a.status != 503 || !strings.Contains(a.text, "challenge not answered") {
				t.Errorf("%d %s", a.status, a.text)
			}
		})
	}
	began := time.Now()
	for range 20 {
		w.beat("").is(t, 200)
	}
	if took := time.Since(began); took > 1500*time.Millisecond {
		t.Errorf("20 beats of another tenant took %v", took)
	}
	flood.Wait()
	if list := h.get("/registry/workers").body["workers"].([]any); len(list) != 1 {
		t.Errorf("%d sessions", len(list))
	}
}
