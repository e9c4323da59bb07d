package registry

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"pinboard"
	"pinboard/internal/directory"
	"pinboard/internal/outbound"
	"pinboard/internal/ownership"
)

const (
	pair     = `"challenge":"c0","challengeValue":"v0"`
	register = `{"clientId":"c1","secret":"k1","namespaces":["/t"],"advertiseUrl":"http://w:8000/","headroom":512,"draining":false,` + pair + `}`
)

// with is the register body with one field set, or left out where value is "".
func with(field, value string) string {
	var m map[string]json.RawMessage
	if err := json.Unmarshal([]byte(register), &m); err != nil {
		panic(err)
	}
	delete(m, field)
	if value != "" {
		m[field] = json.RawMessage(value)
	}
	b, _ := json.Marshal(m)
	return string(b)
}

// Today's client registers: its URL is proved with its own secret, then the
// directory hears what it is.
func TestRegister(t *testing.T) {
	n := start(t, nil)
	a := n.post("/registry/register", "worker-a", register)
	if a.status != 200 || a.text != `{"sessionId":"s1","expiresInMs":15000,"draining":false}` {
		t.Fatalf("%d %s", a.status, a.text)
	}
	if d := cmp.Diff([]string{"Prove http://w:8000", "Register c1"}, n.calls); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff([]outbound.Probe{{URL: "http://w:8000", Secret: "k1", Challenge: "c0", Value: "v0"}}, n.probes); d != "" {
		t.Error(d)
	}
	want := &directory.Registration{Headroom: 512, Worker: ownership.Worker{
		ClientID: "c1", Secret: "k1", URL: "http://w:8000", Namespaces: []string{"/t"}, Owner: "p/a", Proven: true}}
	if n.registered.Heard.IsZero() {
		t.Error("heard at no time")
	}
	n.registered.Heard = time.Time{}
	if d := cmp.Diff(want, n.registered); d != "" {
		t.Error(d)
	}
}

// A drain comes back with what is left of it, duplicates by name.
func TestRegisterAnswer(t *testing.T) {
	n := start(t, nil)
	left := 2500 * time.Millisecond
	n.grant = directory.Grant{Session: "s2", ExpiresIn: time.Second, Draining: true, DrainLeft: &left, Duplicates: []directory.ID{{Namespace: "/t", ID: "a"}, {Namespace: "/x", ID: "%"}}}
	a := n.post("/registry/register", "worker-a", with("instances", `{"/t":["a"],"/x":["%"]}`))
	if a.text != `{"sessionId":"s2","expiresInMs":1000,"draining":true,"drainDeadline":2.5,"duplicates":[{"ns":"/t","id":"a"},{"ns":"/x","id":"%"}]}` {
		t.Error(a.text)
	}
	if n.registered.Instances["/t"][0] != "a" {
		t.Errorf("%+v", n.registered)
	}
}

// Any failure of the proof is worth another try, and says why; nothing is
// registered. Only a token's limits and true misconfiguration are final.
func TestRegisterRefused(t *testing.T) {
	for name, c := range map[string]struct {
		token, body string
		change      func(*Config)
		proof       outbound.Proof
		want        int
		text        string
	}{
		"no answer":          {proof: outbound.Proof{Detail: "certificate not trusted"}, want: 503, text: "challenge not answered"},
		"somebody else":      {proof: outbound.Proof{Outcome: outbound.Refuted, Answered: true, Detail: "refused"}, want: 503, text: "challenge answered wrongly"},
		"no challenge":       {body: strings.Replace(register, ","+pair, "", 1), change: func(c *Config) { c.RequireProof = true }, want: 400, text: "challenge required"},
		"half a pair":        {body: with("challengeValue", ""), want: 400, text: "challengeValue: required beside challenge"},
		"namespace":          {body: with("namespaces", `["/t","/b"]`), want: 403, text: "token may not use the namespace /b"},
		"reserved namespace": {token: "root", body: with("namespaces", `["/_pinned"]`), want: 400, text: `namespaces: want "/" and segments of visible ASCII, the first not one of Pinboard's own paths`},
		"backend host":       {body: with("advertiseUrl", `"http://evil:1"`), want: 403, text: "token may not advertise this host"},
		"scheme":             {body: with("advertiseUrl", `"file:///etc"`), want: 400, text: "advertiseUrl: want http:// or https://"},
		"metadata":           {token: "root", body: with("advertiseUrl", `"http://[::ffff:169.254.169.254]/"`), want: 400, text: "advertiseUrl: this address is refused"},
		"hostname missing":   {change: func(c *Config) { c.HostnameAware = true }, want: 400, text: "hostname: required in hostname-aware mode"},
		"hostname any":       {token: "root", body: with("hostname", `"*"`), change: func(c *Config) { c.HostnameAware = true }, want: 400, text: "hostname: want a host name without port"},
		"hostname and port":  {token: "root", body: with("hostname", `"a.example:80"`), change: func(c *Config) { c.HostnameAware = true }, want: 400, text: "hostname: want a host name without port"},
		"hostname":           {body: with("hostname", `"b.example"`), change: func(c *Config) { c.HostnameAware = true }, want: 403, text: "token may not use this hostname"},
		"headroom":           {body: with("headroom", `1e308`), want: 400, text: "headroom: want a number from 0 to 1e+15"},
	} {
		n := start(t, c.change)
		if c.proof.Detail != "" {
			n.proof = c.proof
		}
		if c.token == "" {
			c.token = "worker-a"
		}
		if c.body == "" {
			c.body = register
		}
		a := n.post("/registry/register", c.token, c.body)
		if a.status != c.want || a.body["error"] != c.text || (a.header.Get("Retry-After") != "") != (c.want == 503) {
			t.Errorf("%s: %d %s %v", name, a.status, a.text, a.header)
		}
		if n.registered != nil {
			t.Errorf("%s: registered", name)
		}
		if c.want != 503 && len(n.probes) > 0 {
			t.Errorf("%s: the URL was called", name)
		}
	}
}

// Outside hostname mode its fields are accepted and decide nothing here.
func TestHostnameFieldsOutsideTheirMode(t *testing.T) {
	n := start(t, nil)
	if a := n.post("/registry/register", "worker-a", with("hostname", `"b.example"`)); a.status != 200 {
		t.Errorf("%d %s", a.status, a.text)
	}
}

// A worker gives up on its call after 5 s: whatever hangs, it has an answer by then.
func TestWorkersAreAnsweredInTime(t *testing.T) {
	for path, body := range map[string]string{"/registry/register": register, "/registry/heartbeat": beat, "/registry/release": `[]`, "/registry/deregister": `{"sessionId":"s"}`} {
		synctest.Test(t, func(t *testing.T) {
			n := start(t, nil)
			n.server.Directory, n.server.Workers = hanging{n.fake}, hanging{n.fake}
			began := time.Now()
			a := n.post(path, "worker-a", body)
			if took := time.Since(began); a.status != 503 || took > 4600*time.Millisecond {
				t.Errorf("%s: %d after %v", path, a.status, took)
			}
		})
	}
}

// Which workers get the old path and the secret on forwards.
func TestDialect(t *testing.T) {
	old := func(extra string) string {
		return `{"clientId":"c","secret":"k","namespaces":["/t"],"advertiseUrl":"http://w/x/t/","headroom":1,"draining":false` + extra + `}`
	}
	for name, c := range map[string]struct {
		body   string
		rule8  bool
		proven bool
		legacy bool
	}{
		"0.1.0":                               {body: old(``), legacy: true},
		"0.1.0 draining":                      {body: old(`,"drainDeadline":1800000000000`), legacy: true},
		"challenge, URL ends in namespace":    {body: old(`,` + pair), proven: true},
		"the same where the operator says so": {body: old(`,` + pair), proven: true, rule8: true, legacy: true},
		"0.9+, whatever the operator says":    {body: old(`,` + pair + `,"prevSessionId":"p"`), proven: true, rule8: true},
		"simple worker":                       {body: strings.Replace(old(``), "/x/t/", "/x", 1)},
		"simple worker, several namespaces":   {body: strings.Replace(old(``), `["/t"]`, `["/t","/a"]`, 1)},
		"namespace only as a tail of a word":  {body: strings.Replace(old(``), "/x/t/", "/xt", 1)},
		"instances":                           {body: old(`,` + pair + `,"instances":{"/t":["a"]}`), proven: true},
	} {
		n := start(t, func(cfg *Config) { cfg.LegacyPaths = c.rule8 })
		if a := n.post("/registry/register", "worker-a", c.body); a.status != 200 {
			t.Errorf("%s: %d %s", name, a.status, a.text)
			continue
		}
		w := n.registered.Worker
		if w.Proven != c.proven || w.PathInURL != c.legacy || w.SendSecret != c.legacy {
			t.Errorf("%s: %+v", name, n.registered)
		}
	}
}

func (n *node) session(w ownership.Worker) {
	n.sessions[w.Session] = &w
}

const beat = `{"sessionId":"s1","headroom":7,"draining":true,"acks":["m1","m2"],` + pair + `}`

// A beat is proved with the secret and the URL of its session, then renewed.
func TestHeartbeat(t *testing.T) {
	n := start(t, nil)
	n.session(ownership.Worker{Session: "s1", Owner: "p/a", URL: "http://w:8000", Secret: "k1", Proven: true})
	left, now := 1500*time.Millisecond, time.Duration(0)
	n.grant = directory.Grant{ExpiresIn: 15 * time.Second, Draining: true, DrainLeft: &now, Messages: []ownership.Message{
		{MsgID: "m3", Type: "wind_down", NS: "/t", ID: "a", Deadline: &left}, {MsgID: "m4", Type: "wind_down", NS: "/t", ID: "b", Deadline: &now}, {MsgID: "m5", Type: "wind_down", NS: "/t", ID: "c"}}}
	a := n.post("/registry/heartbeat", "worker-a", beat)
	want := `{"expiresInMs":15000,"draining":true,"drainDeadline":0,"messages":[{"msgId":"m3","type":"wind_down","ns":"/t","id":"a","deadline":1.5},{"msgId":"m4","type":"wind_down","ns":"/t","id":"b","deadline":0},{"msgId":"m5","type":"wind_down","ns":"/t","id":"c","deadline":null}]}`
	if a.status != 200 || a.text != want {
		t.Errorf("%d %s", a.status, a.text)
	}
	if n.beat.Heard.IsZero() {
		t.Error("heard at no time")
	}
	n.beat.Heard = time.Time{}
	if d := cmp.Diff(ownership.Beat{Session: "s1", Headroom: 7, Draining: true, Acks: []string{"m1", "m2"}, HasAcks: true, Proof: ownership.ProofOK}, n.beat); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff([]outbound.Probe{{URL: "http://w:8000", Secret: "k1", Challenge: "c0", Value: "v0"}}, n.probes); d != "" {
		t.Error(d)
	}
	if len(n.pushes) > 0 {
		t.Errorf("a worker that reads messages was called back: %v", n.pushes)
	}
}

// The proof's outcome goes to the directory, which decides; the log says why.
func TestHeartbeatProofs(t *testing.T) {
	for proof, want := range map[outbound.Outcome]ownership.Proof{outbound.Proved: ownership.ProofOK, outbound.Unproved: ownership.ProofMissing, outbound.Refuted: ownership.ProofRefused} {
		var seen []outbound.Outcome
		n := start(t, func(c *Config) { c.Proved = func(o outbound.Outcome) { seen = append(seen, o) } })
		n.session(ownership.Worker{Session: "s1", Owner: "p/a", URL: "http://w", Secret: "k-secret"})
		n.proof = outbound.Proof{Outcome: proof, Detail: "the listener said 418"}
		a := n.post("/registry/heartbeat", "worker-a", beat)
		if a.status != 200 || n.beat.Proof != want || len(seen) != 1 || seen[0] != proof {
			t.Errorf("%v: %d %+v %v", proof, a.status, n.beat, seen)
		}
		if (proof != outbound.Proved) != strings.Contains(n.logs.String(), "the listener said 418") || strings.Contains(n.logs.String(), "k-secret") {
			t.Errorf("%v: log %q", proof, n.logs)
		}
	}
}

// Without a pair nothing is proved. A session of nobody is Beat's to answer; one
// of another token is left alone, root's included.
func TestHeartbeatUnproved(t *testing.T) {
	n := start(t, nil)
	n.session(ownership.Worker{Session: "s1", Owner: "p/a", URL: "http://w", Proven: true})
	n.post("/registry/heartbeat", "worker-a", `{"sessionId":"s1","headroom":0}`)
	n.post("/registry/heartbeat", "root", strings.Replace(beat, "s1", "s9", 1))
	want := []string{"Session s1", "Beat s1 proof=0", "Session s9", "Beat s9 proof=0"}
	for _, token := range []string{"worker-b", "root"} {
		if a := n.post("/registry/heartbeat", token, beat); a.status != 403 || a.body["error"] != "session belongs to another token" {
			t.Errorf("%s: %d %s", token, a.status, a.text)
		}
		want = append(want, "Session s1")
	}
	if d := cmp.Diff(want, n.calls); d != "" {
		t.Error(d)
	}
}

// With the store away a beat fails before anything is called.
func TestHeartbeatStoreAway(t *testing.T) {
	n := start(t, nil)
	n.server.Directory = away{n.fake}
	if a := n.post("/registry/heartbeat", "root", beat); a.status != 503 || a.body["code"] != "store_unavailable" || len(n.calls) != 0 {
		t.Errorf("%d %s %v", a.status, a.text, n.calls)
	}
}

func TestRelease(t *testing.T) {
	n := start(t, nil)
	for body, want := range map[string][]directory.Release{
		`{"clientId":"c","namespace":"/t","id":"a"}`:                                                                               {{ClientID: "c", Namespace: "/t", ID: "a"}},
		`{"sessionId":"s","namespace":"/t","id":"a"}`:                                                                              {{Session: "s", Namespace: "/t", ID: "a"}},
		`[{"sessionId":"s","namespace":"/t","id":"a","epoch":"12"}]`:                                                               {{Session: "s", Namespace: "/t", ID: "a", Epoch: 12, HasEpoch: true}},
		`[{"sessionId":"s","namespace":"/t","id":"a","epoch":"012"}]`:                                                              {{Session: "s", Namespace: "/t", ID: "a", Epoch: 12, HasEpoch: true}},
		`[{"sessionId":"s","namespace":"/t","id":"a","epoch":"99999999999999999999"},{"sessionId":"s","namespace":"/u","id":"b"}]`: {{Session: "s", Namespace: "/u", ID: "b"}},
		`[]`: {},
	} {
		a := n.post("/registry/release", "worker-a", body)
		if d := cmp.Diff(want, n.released); a.status != 200 || int(a.body["released"].(float64)) != len(want) || d != "" {
			t.Errorf("%s: %d %s %s", body, a.status, a.text, d)
		}
	}
	if a := n.post("/registry/release", "worker-a", `[{"sessionId":"s","namespace":"/t","id":"a","epoch":12}]`); a.status != 400 || a.body["error"] != "[0].epoch: want a string" {
		t.Errorf("%d %s", a.status, a.text)
	}
	n.err = errors.Join(pinboard.StoreUnavailable, errors.New("boom"))
	if a := n.post("/registry/release", "worker-a", `[]`); a.status != 503 || a.header.Get("Retry-After") == "" {
		t.Errorf("%d %s", a.status, a.text)
	}
}

func TestDeregisterTagMark(t *testing.T) {
	n := start(t, nil)
	for _, c := range []struct{ path, body, want string }{
		{"/registry/deregister", `{"sessionId":"s1"}`, `{"ok":true}`},
		{"/registry/deregister", `{"sessionId":"s1","instances":{"/t":[]}}`, `{"ok":true}`},
		{"/registry/durability/mark", `{"sessionId":"s","ns":"/t","id":"a","delayUntil":1e12}`, `{"ok":true}`},
		{"/registry/durability/unmark", `{"sessionId":"s","ns":"/t","id":"a"}`, `{"ok":true}`},
		{"/registry/tag", `{"sessionId":"s","namespace":"/t","id":"a","epoch":"7","tag":"blue"}`, `{"tagged":true}`},
		{"/registry/tag", `{"sessionId":"s","namespace":"/t","id":"a","epoch":"99999999999999999999","tag":"blue"}`, `{"tagged":false}`},
	} {
		if a := n.post(c.path, "worker-a", c.body); a.status != 200 || a.text != c.want {
			t.Errorf("%s %s: %d %s", c.path, c.body, a.status, a.text)
		}
	}
	if d := cmp.Diff(directory.Tag{Session: "s", Namespace: "/t", ID: "a", Epoch: 7, Tag: "blue"}, n.tagged); d != "" {
		t.Error(d)
	}
	n.no = true
	if a := n.post("/registry/tag", "worker-a", `{"sessionId":"s","namespace":"/t","id":"a","tag":""}`); a.text != `{"tagged":false}` {
		t.Error(a.text)
	}
}
