package metrics

import (
	"errors"
	"flag"
	"fmt"
	"net/http/httptest"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"pinboard"
)

var update = flag.Bool("update", false, "rewrite docs/metrics.md")

const document = "../../docs/metrics.md"

func TestDocumentIsTheCatalogue(t *testing.T) {
	if *update {
		if err := os.WriteFile(document, []byte(Document()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(document)
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != Document() {
		t.Errorf("docs/metrics.md is not what the catalogue says: go test ./internal/metrics -update")
	}
}

func TestExpositionHoldsExactlyTheCatalogue(t *testing.T) {
	text := scrape(t, New(func() Snapshot { return Snapshot{} }))
	exposed := map[string]string{}
	for _, m := range regexp.MustCompile(`(?m)^# TYPE (\S+) (\S+)$`).FindAllStringSubmatch(text, -1) {
		exposed[m[1]] = m[2]
	}
	for _, f := range Catalogue {
		name := "pinboard_" + f.Name
		if exposed[name] != f.Kind {
			t.Errorf("%s: exposed as %q, catalogued as %q", name, exposed[name], f.Kind)
		}
		delete(exposed, name)
	}
	for name := range exposed {
		if !strings.HasPrefix(name, "go_") && !strings.HasPrefix(name, "process_") {
			t.Errorf("%s is exposed but not in the catalogue", name)
		}
	}
	if !strings.Contains(text, "go_goroutines") || !strings.Contains(text, "process_open_fds") {
		t.Error("the Go and process collectors are missing")
	}
}

// FC-64: whatever the outside invents, the number of series stays.
func TestSeriesAreBounded(t *testing.T) {
	workers := map[string]int{}
	m := New(func() Snapshot { return Snapshot{Workers: workers} })
	before := series(scrape(t, m))
	for i := range 20000 {
		odd := fmt.Sprintf("A%d", i)
		m.Request("/t/"+odd, i, time.Millisecond)
		m.Request(odd, -i, 0)
		m.Resolved(odd)
		m.Forwarded(odd)
		m.Refused(odd)
		m.Stored(odd, 0, errors.New(odd))
		m.Proved(odd)
		m.Began(odd)
		m.LoopFailed(odd)
		if i < 2000 {
			workers[odd] = 1
		}
	}
	text := scrape(t, m)
	if after := series(text); after != before {
		t.Errorf("%d series became %d", before, after)
	}
	if before > 1000 {
		t.Errorf("%d series: a scrape should stay small", before)
	}
	if !strings.Contains(text, `pinboard_workers{state="other"} 2000`) {
		t.Error("unknown states must be summed up as other")
	}
	clear(workers)
	if !strings.Contains(scrape(t, m), `pinboard_workers{state="other"} 0`) {
		t.Error("workers that left are still counted")
	}
}

// FC-59: the endpoint is open: counts, and of versions only the node's own.
func TestExpositionTellsOnlyTheVersionOfTheNode(t *testing.T) {
	text := scrape(t, New(func() Snapshot { return Snapshot{Version: "v1.2", StoreFormat: 3} }))
	if strings.Contains(text, "go_info") || strings.Count(text, `version="`) != 1 {
		t.Error("the open endpoint tells versions of its parts")
	}
	if line := `pinboard_build_info{store_format="3",version="v1.2"} 1` + "\n"; !strings.Contains(text, line) {
		t.Errorf("missing: %s", line)
	}
}

func TestCounts(t *testing.T) {
	m := New(func() Snapshot {
		return Snapshot{Connections: map[string]int{"tunnel": 3}, Workers: map[string]int{"live": 2},
			Placements: 7, Ready: true, Lag: time.Second / 2, StoreSafe: true, StoreState: "one_server", StoreDisagrees: true, LogLost: 9,
			Nodes: 4, Differing: map[string]int{"leaseMs": 3}}
	})
	m.Request(RouteInstance, 204, 3*time.Millisecond)
	m.Request(RouteInstance, 0, 0)
	m.Request("/registry/register", 503, time.Second)
	m.Resolved("placed")
	m.Resolved(pinboard.ColdStart.Code)
	m.Forwarded("worker_abort")
	m.Refused(pinboard.WorkerBusy.Code)
	m.Stored("update", time.Millisecond, nil)
	m.Stored("update", time.Millisecond, errors.New("away"))
	m.Proved("missing")
	m.Began("clock stepped")
	m.LoopFailed("census")
	text := scrape(t, m)
	for _, line := range []string{
		`pinboard_requests_total{class="2xx",route="/{namespace}/{id}"} 1`,
		`pinboard_requests_total{class="none",route="/{namespace}/{id}"} 1`,
		`pinboard_requests_total{class="5xx",route="/registry/register"} 1`,
		`pinboard_request_duration_seconds_bucket{route="/{namespace}/{id}",le="0.005"} 2`,
		`pinboard_request_duration_seconds_count{route="/registry/register"} 1`,
		`pinboard_resolutions_total{outcome="placed"} 1`,
		`pinboard_resolutions_total{outcome="cold_start"} 1`,
		`pinboard_forwards_total{result="worker_abort"} 1`,
		`pinboard_refusals_total{code="worker_busy"} 1`,
		`pinboard_store_duration_seconds_count{op="update"} 2`,
		`pinboard_store_errors_total{op="update"} 1`,
		`pinboard_loop_failures_total{loop="census"} 1`,
		`pinboard_proofs_total{result="missing"} 1`,
		`pinboard_store_disagrees 1`,
		`pinboard_nodes 4`,
		`pinboard_nodes_differing{setting="leaseMs"} 3`,
		`pinboard_nodes_differing{setting="version"} 0`,
		`pinboard_generations_total{cause="clock stepped"} 1`,
		`pinboard_connections{kind="tunnel"} 3`,
		`pinboard_workers{state="live"} 2`,
		`pinboard_placements 7`,
		`pinboard_ready 1`,
		`pinboard_scheduler_lag_seconds 0.5`,
		`pinboard_store_safe 1`,
		`pinboard_log_lines_lost_total 9`,
		`pinboard_store_guarantee{state="one_server"} 1`,
		`pinboard_store_guarantee{state="lax"} 0`,
	} {
		if !strings.Contains(text, line+"\n") {
			t.Errorf("missing: %s", line)
		}
	}
}

// The alert rules may only speak of metrics that exist.
func TestAlertsNameRealMetrics(t *testing.T) {
	rules, err := os.ReadFile("../../deploy/prometheus/alerts.yaml")
	if err != nil {
		t.Fatal(err)
	}
	text := scrape(t, New(func() Snapshot { return Snapshot{} }))
	for _, name := range regexp.MustCompile(`\b(?:pinboard|process|go)_[a-z_]+\b`).FindAllString(string(rules), -1) {
		if !strings.Contains(text, "\n"+name+" ") && !strings.Contains(text, "\n"+name+"{") {
			t.Errorf("alerts.yaml speaks of %s, which is not exposed", name)
		}
	}
}

// One healthy server without replicas is no reason for an alert; a store that
// could break single ownership is, and one that does not tell.
func TestTheAlertOnTheStore(t *testing.T) {
	rules, err := os.ReadFile("../../deploy/prometheus/alerts.yaml")
	if err != nil {
		t.Fatal(err)
	}
	m := regexp.MustCompile(`expr: max by \(state\) \(pinboard_store_guarantee\{state=~"([a-z_|]+)"\}\) == 1\n`).FindSubmatch(rules)
	if m == nil || strings.Contains(string(rules), "pinboard_store_safe") {
		t.Fatal("the alert is another; judge it here again")
	}
	for _, state := range StoreStates {
		alerts := regexp.MustCompile("^(?:" + string(m[1]) + ")$").MatchString(state)
		if alerts != (state == "lax" || state == "unknown") {
			t.Errorf("%s: alerts %v", state, alerts)
		}
	}
}

// The hot path counts without allocating.
func TestCountingAllocatesNothing(t *testing.T) {
	m := New(func() Snapshot { return Snapshot{} })
	n := testing.AllocsPerRun(100, func() {
		m.Request(RouteInstance, 200, time.Millisecond)
		m.Resolved("found")
		m.Forwarded("served")
	})
	if n != 0 {
		t.Errorf("%v allocations per request", n)
	}
}

func scrape(t *testing.T, m *Metrics) string {
	t.Helper()
	w := httptest.NewRecorder()
	m.Handler().ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	if w.Code != 200 {
		t.Fatalf("scrape: %d %s", w.Code, w.Body)
	}
	return w.Body.String()
}

func series(text string) int {
	n := 0
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, "pinboard_") {
			n++
		}
	}
	return n
}
