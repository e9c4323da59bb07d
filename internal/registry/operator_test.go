package registry

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"pinboard/internal/directory"
	"pinboard/internal/outbound"
	"pinboard/internal/ownership"
)

func TestLists(t *testing.T) {
	n := start(t, func(c *Config) { c.Node = func() any { return map[string]int{"streams": 2} } })
	n.infos = []directory.WorkerInfo{{SessionID: "s1", ClientID: "c1", AdvertiseURL: "http://w:1", Namespaces: []string{"/t"}, State: "live"}, {SessionID: "s2", State: "ended"}}
	for _, c := range []struct{ path, want string }{
		{"/registry/workers?limit=1", `{"workers":[{"clientId":"c1","sessionId":"s1","advertiseUrl":"http://w:1","namespaces":["/t"],"draining":false,"ownDraining":false,"state":"live","headroom":0,"leaseLeftMs":0,"registeredMs":0,"placed":0}],"next":"s1"}`},
		{"/registry/workers?after=s2", `{"workers":[],"next":null}`},
		{"/registry/overview", `{"workers":[],"next":null,"placed":[],"buckets":3,"coldMs":0,"node":{"streams":2}}`},
		{"/registry/events", `{"events":[],"next":"17"}`},
	} {
		if a := n.call("GET", c.path, "ops", ""); a.status != 200 || a.text != c.want {
			t.Errorf("%s: %d %s", c.path, a.status, a.text)
		}
	}
	if a := n.call("GET", "/registry/health", "ops", ""); a.status != 200 || a.body["buckets"] != 3.0 || a.body["node"] == nil {
		t.Errorf("%d %s", a.status, a.text)
	}
}

func TestPaging(t *testing.T) {
	n := start(t, nil)
	for query, want := range map[string]string{"": `Workers "" 100`, "?limit=7&after=x": `Workers "x" 7`, "?limit=1000": `Workers "" 1000`, "?limit=1000000": `Workers "" 1000`} {
		n.calls = nil
		n.call("GET", "/registry/workers"+query, "ops", "")
		if d := cmp.Diff([]string{want}, n.calls); d != "" {
			t.Errorf("%s: %s", query, d)
		}
	}
	for _, query := range []string{"?limit=0", "?limit=-1", "?limit=x", "?limit=1.5", "?limit=99999999999999999999"} {
		if a := n.call("GET", "/registry/workers"+query, "ops", ""); a.status != 400 || a.body["error"] != "limit: want an integer from 1 to 1000" {
			t.Errorf("%s: %d %s", query, a.status, a.text)
		}
	}
}

func TestStats(t *testing.T) {
	n := start(t, nil)
	n.infos = []directory.WorkerInfo{{SessionID: "s1", ClientID: "c1", State: "live"}, {SessionID: "s2", State: "lapsed"}, {SessionID: "s3", State: "live"}, {SessionID: "s4", State: "restating"}, {SessionID: "s5", State: "live"}}
	n.session(ownership.Worker{Session: "s1", URL: "http://w1", Secret: "k1"})
	n.session(ownership.Worker{Session: "s3", URL: "http://w3/t", PathInURL: true})
	n.session(ownership.Worker{Session: "s4", URL: "http://w4", Secret: "k4"})
	a := n.call("GET", "/registry/stats", "ops", "")
	want := `{"workers":[{"sessionId":"s1","clientId":"c1","status":"ok","stats":{"draining":false}},{"sessionId":"s2","clientId":"","status":"skipped","reason":"lapsed"},{"sessionId":"s3","clientId":"","status":"unsupported"},{"sessionId":"s4","clientId":"","status":"ok","stats":{"draining":false}},{"sessionId":"s5","clientId":"","status":"skipped","reason":"ended"}],"partial":true,"next":null}`
	if a.status != 200 || a.text != want {
		t.Errorf("%d %s", a.status, a.text)
	}
	if d := cmp.Diff([]outbound.StatsTarget{{URL: "http://w1", Secret: "k1"}, {URL: "http://w4", Secret: "k4"}}, n.asked); d != "" {
		t.Error(d)
	}
}

func TestWindDown(t *testing.T) {
	n := start(t, nil)
	zero, later := time.Duration(0), 1500*time.Millisecond
	for body, want := range map[string]directory.WindDown{
		`{"namespace":"/a","id":"x","deadline":0}`:                          {Namespace: "/a", ID: "x", Deadline: &zero},
		`{"namespace":"/a","id":"x","deadline":1.5,"hostname":"A.example"}`: {Host: "a.example", Namespace: "/a", ID: "x", Deadline: &later},
		`{"namespace":"/a","id":"x","deadline":null}`:                       {Namespace: "/a", ID: "x"},
	} {
		a := n.post("/registry/wind_down", "ops-a", body)
		if d := cmp.Diff(want, n.order); a.status != 200 || a.text != `{"queued":true}` || d != "" {
			t.Errorf("%s: %d %s %s", body, a.status, a.text, d)
		}
	}
	n.no = true
	if a := n.post("/registry/wind_down", "ops-a", `{"namespace":"/a","id":"x","deadline":0}`); a.status != 200 || a.text != `{"queued":false}` {
		t.Errorf("not placed: %d %s", a.status, a.text)
	}
}

// An operator's token ends where its namespaces and hostnames end; what it
// names otherwise is answered before anything happens.
func TestOperatorLimits(t *testing.T) {
	n := start(t, nil)
	n.session(ownership.Worker{Session: "sa", Namespaces: []string{"/a"}, Hostname: "a.example", Proven: true})
	n.session(ownership.Worker{Session: "sb", Namespaces: []string{"/a", "/b"}, Hostname: ownership.World, Proven: true})
	n.session(ownership.Worker{Session: "sh", Namespaces: []string{"/a"}, Hostname: "b.example", Proven: true})
	for _, c := range []struct {
		path, body string
		want       int
	}{
		{"/registry/wind_down", `{"namespace":"/b","id":"x","deadline":0}`, 403},
		{"/registry/wind_down", `{"namespace":"/a","id":"x","deadline":0,"hostname":"b.example"}`, 403},
		{"/registry/binding/delete", `{"namespace":"/b","hostname":"a.example"}`, 403},
		{"/registry/binding/delete", `{"namespace":"/a","hostname":"b.example"}`, 403},
		{"/registry/binding/delete", `{"namespace":"/a","hostname":"a.example"}`, 200},
		{"/registry/drain", `{"sessionId":"sa"}`, 200},
		{"/registry/drain", `{"sessionId":"sb"}`, 403},
		{"/registry/undrain", `{"sessionId":"sb"}`, 403},
		{"/registry/eject", `{"sessionId":"sb"}`, 403},
		{"/registry/eject", `{"sessionId":"sh"}`, 403},
		{"/registry/push", `{"sessionId":"sb","type":"evict","id":"x","namespace":"/a"}`, 403},
		{"/registry/drain", `{"sessionId":"nobody"}`, 404},
		{"/registry/eject", `{"clientId":"nobody"}`, 404},
	} {
		n.calls = nil
		a := n.post(c.path, "ops-a", c.body)
		if a.status != c.want {
			t.Errorf("%s %s: %d %s", c.path, c.body, a.status, a.text)
		}
		if acted := len(n.calls) > 0 && !strings.HasPrefix(n.calls[len(n.calls)-1], "Session") && !strings.HasPrefix(n.calls[len(n.calls)-1], "Workers"); acted != (c.want == 200) {
			t.Errorf("%s %s: %d, but %v", c.path, c.body, a.status, n.calls)
		}
	}
}

func TestWorkerOrders(t *testing.T) {
	n := start(t, nil)
	n.session(ownership.Worker{Session: "s1", ClientID: "c1", Namespaces: []string{"/t"}, Hostname: ownership.World, Proven: true})
	n.session(ownership.Worker{Session: "s2", ClientID: "c1", Namespaces: []string{"/t"}, Hostname: ownership.World, Proven: true})
	n.infos = []directory.WorkerInfo{
		{SessionID: "s0", ClientID: "c1", State: "ended", RegisteredFor: 1}, {SessionID: "s1", ClientID: "c1", State: "lapsed", RegisteredFor: 90}, {SessionID: "s2", ClientID: "c1", State: "live", RegisteredFor: 5}, {SessionID: "s3", ClientID: "c2", State: "live"}}
	for _, c := range []struct{ path, body, want, call string }{
		{"/registry/drain", `{"sessionId":"s1"}`, `{"queued":true}`, "Drain s1"},
		{"/registry/drain", `{"clientId":"c1","deadline":2}`, `{"queued":true}`, "Drain s2"},
		{"/registry/undrain", `{"clientId":"c1"}`, `{"queued":true}`, "Undrain s2"},
		{"/registry/eject", `{"clientId":"c1"}`, `{"ejected":1}`, "Eject s2"},
		{"/registry/push", `{"clientId":"c1","type":"drain"}`, `{"queued":true}`, "Drain s2"},
		{"/registry/push", `{"clientId":"c1","type":"resume"}`, `{"queued":true}`, "Undrain s2"},
		{"/registry/push", `{"sessionId":"s1","type":"resume","id":"x"}`, `{"queued":true}`, "WindDown  /t x"},
		{"/registry/push", `{"sessionId":"s1","type":"evict","id":"x"}`, `{"queued":true}`, "WindDown  /t x"},
		{"/registry/push", `{"sessionId":"s1","type":"wind_down","id":"x","namespace":"/t","deadline":3}`, `{"queued":true}`, "WindDown  /t x"},
	} {
		a := n.post(c.path, "ops", c.body)
		if a.status != 200 || a.text != c.want || n.calls[len(n.calls)-1] != c.call {
			t.Errorf("%s %s: %d %s %v", c.path, c.body, a.status, a.text, n.calls)
		}
	}
	if n.drained != nil {
		t.Errorf("a drain without a deadline has none: %v", n.drained)
	}
	if *n.order.Deadline != 3*time.Second {
		t.Errorf("%+v", n.order)
	}
	if len(n.pushes) > 0 {
		t.Errorf("workers that read messages were called back: %v", n.pushes)
	}
}

// The push dialect: the order is on record, the worker is called back with its
// own secret, the operator hears how it went.
func TestPushDialect(t *testing.T) {
	n := start(t, nil)
	n.session(ownership.Worker{Session: "s1", URL: "http://w/t", Secret: "k1", Namespaces: []string{"/t"}, Hostname: ownership.World, LeaseMs: 15000})
	n.pushed = outbound.PushResult{Delivered: true, Attempts: 1}
	two, lease, minute := 2*time.Second, 15*time.Second, time.Minute
	for _, c := range []struct {
		path, body string
		want       outbound.Push
	}{
		{"/registry/push", `{"sessionId":"s1","type":"evict","id":"x"}`, outbound.Push{Path: "/_pinned/wind_down", ID: "x", Deadline: &lease}},
		{"/registry/push", `{"sessionId":"s1","type":"wind_down","id":"x"}`, outbound.Push{Path: "/_pinned/wind_down", ID: "x", Deadline: &lease}},
		{"/registry/push", `{"sessionId":"s1","type":"wind_down","id":"x","deadline":60}`, outbound.Push{Path: "/_pinned/wind_down", ID: "x", Deadline: &minute}},
		{"/registry/push", `{"sessionId":"s1","type":"resume","id":"x"}`, outbound.Push{Path: "/_pinned/resume", ID: "x"}},
		{"/registry/push", `{"sessionId":"s1","type":"resume"}`, outbound.Push{Path: "/_pinned/resume"}},
		{"/registry/push", `{"sessionId":"s1","type":"drain","deadline":2}`, outbound.Push{Path: "/_pinned/drain", Deadline: &two}},
		{"/registry/drain", `{"sessionId":"s1"}`, outbound.Push{Path: "/_pinned/drain"}},
		{"/registry/undrain", `{"sessionId":"s1"}`, outbound.Push{Path: "/_pinned/resume"}},
	} {
		n.pushes = nil
		a := n.post(c.path, "ops", c.body)
		c.want.URL, c.want.Secret = "http://w/t", "k1"
		if d := cmp.Diff([]outbound.Push{c.want}, n.pushes); a.status != 200 || a.text != `{"queued":true,"delivered":true,"attempts":1}` || d != "" {
			t.Errorf("%s %s: %d %s %s", c.path, c.body, a.status, a.text, d)
		}
	}
	n.pushed = outbound.PushResult{Attempts: 3, Reason: "not answered"}
	if a := n.post("/registry/drain", "ops", `{"sessionId":"s1"}`); a.text != `{"queued":true,"delivered":false,"attempts":3,"reason":"not answered"}` {
		t.Error(a.text)
	}
	n.pushes, n.no = nil, true
	if a := n.post("/registry/push", "ops", `{"sessionId":"s1","type":"evict","id":"x"}`); a.text != `{"queued":false}` || len(n.pushes) > 0 {
		t.Errorf("an id that is not placed: %s %v", a.text, n.pushes)
	}
	n.session(ownership.Worker{Session: "s2", Namespaces: []string{"/t", "/u"}, Hostname: ownership.World})
	if a := n.post("/registry/push", "ops", `{"sessionId":"s2","type":"evict","id":"x"}`); a.status != 400 || a.body["error"] != "namespace: required: the worker serves several" {
		t.Error(a.text)
	}
}

// Orders that reach such a worker otherwise (POST /registry/wind_down, the
// eviction at a deadline, a takeover) come as messages of its beats, which it
// does not read: they are called back too, beside the answer.
func TestMessagesAreCalledBack(t *testing.T) {
	n := start(t, nil)
	n.session(ownership.Worker{Session: "s1", Owner: "p/a", URL: "http://w/t", Secret: "k1", Namespaces: []string{"/t"}})
	two := 2 * time.Second
	n.grant.Messages = []ownership.Message{{MsgID: "m", Type: "wind_down", NS: "/t", ID: "x", Deadline: &two}, {MsgID: "n", Type: "wind_down", NS: "/t", ID: "y"}}
	n.pushed = outbound.PushResult{Attempts: 3, Reason: "not answered"}
	if a := n.post("/registry/heartbeat", "worker-a", `{"sessionId":"s1","headroom":1,"draining":false}`); a.status != 200 {
		t.Fatal(a.text)
	}
	n.server.pushes.Wait()
	if len(n.pushes) != 2 || n.pushes[0].Path != "/_pinned/wind_down" || *n.pushes[0].Deadline > two || n.pushes[1].Path != "/_pinned/resume" || n.pushes[1].ID != "y" {
		t.Errorf("%+v", n.pushes)
	}
	if !strings.Contains(n.logs.String(), "order not delivered") {
		t.Error("a failure must be logged")
	}
	n.pushes = nil
	n.post("/registry/heartbeat", "worker-a", `{"sessionId":"s1","headroom":1,"draining":false,"acks":[]}`)
	n.server.pushes.Wait()
	if len(n.pushes) != 0 {
		t.Error("a client that acks reads its messages itself")
	}
}
