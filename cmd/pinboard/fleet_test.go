package main

import (
	"slices"
	"strings"
	"syscall"
	"testing"

	"pinboard/internal/metrics"
	"pinboard/internal/ownership"
	"pinboard/internal/redistest"
)

// A difference is one line while it lasts, whoever has it.
func TestDifferencesAreToldOnce(t *testing.T) {
	log, out := jsonLog()
	f := fleetWatch{log: log}
	lines := func(want ...string) {
		t.Helper()
		got := strings.TrimSuffix(out.String(), "\n")
		if n := strings.Count(out.String(), "\n"); n != len(want) {
			t.Errorf("%d lines, want %d:\n%s", n, len(want), got)
		}
		for _, w := range want {
			if !strings.Contains(got, w) {
				t.Errorf("no %s in\n%s", w, got)
			}
		}
		out.Reset()
	}
	v2 := ownership.Difference{Setting: "version", Here: "v1", There: "v2", Nodes: 1, Name: "b"}
	f.look(nil)
	lines()
	f.look([]ownership.Difference{v2})
	lines(`"level":"WARN","msg":"another node of this store runs otherwise","setting":"version","here":"v1","there":"v2","nodes":1,"node":"b"`)
	v2.Nodes, v2.Name = 2, "c"
	lease := ownership.Difference{Setting: "leaseMs", Here: "15000", There: "9000", Nodes: 1, Name: "b"}
	f.look([]ownership.Difference{v2, lease})
	f.look([]ownership.Difference{v2, lease})
	lines(`"setting":"leaseMs"`)
	if got := differing([]ownership.Difference{v2, lease}); got["version"] != 2 || got["leaseMs"] != 1 {
		t.Errorf("counted %v", got)
	}
	f.look([]ownership.Difference{v2})
	lines()
	f.look(nil)
	f.look(nil)
	lines(`"level":"INFO","msg":"all nodes of this store run alike"`)
}

// The settings of the metric are those that are compared.
func TestComparedSettingsAreTheMetrics(t *testing.T) {
	if !slices.Equal(ownership.NodeSettings, metrics.NodeSettings) {
		t.Errorf("%v and %v", ownership.NodeSettings, metrics.NodeSettings)
	}
}

// Two nodes of one store with different leases say so, both of them, until one
// has left.
func TestNodesWithDifferentLeasesSaySo(t *testing.T) {
	t.Parallel()
	r := redistest.Start(t)
	a := onRedis(t, r.URL()).ready()
	b := onRedis(t, r.URL(), "PINBOARD_LEASE_TTL_MS=3000").ready()
	for p, there := range map[*process]string{a: "3000", b: "2000"} {
		if l := p.line("another node of this store runs otherwise"); l["setting"] != "leaseMs" || l["there"] != there {
			t.Errorf("%v", l)
		}
		p.wait("the metric", func() bool {
			_, text := p.get("/metrics")
			return strings.Contains(text, "pinboard_nodes 2\n") && strings.Contains(text, `pinboard_nodes_differing{setting="leaseMs"} 1`+"\n") &&
				strings.Contains(text, `pinboard_nodes_differing{setting="version"} 0`+"\n")
		})
		_, health := p.getAs(secret, "/registry/health")
		for _, want := range []string{`"leaseMs":2000,`, `"leaseMs":3000,`, `"sinceMs":`, `"version":"` + version() + `"`} {
			if !strings.Contains(health, want) {
				t.Errorf("no %s in %s", want, health)
			}
		}
		if strings.Count(health, `"self":true`) != 1 {
			t.Errorf("%s", health)
		}
	}
	b.signal(syscall.SIGTERM)
	b.exit()
	a.line("all nodes of this store run alike")
	if n := strings.Count(a.log(), "another node of this store runs otherwise"); n != 1 {
		t.Errorf("%d lines", n)
	}
	if _, health := a.getAs(secret, "/registry/health"); strings.Contains(health, `"leaseMs":3000`) {
		t.Errorf("still listed: %s", health)
	}
}
