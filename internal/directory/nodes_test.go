package directory_test

import (
	"testing"
	"time"

	"pinboard/internal/directory"
)

// Nodes of one store see each other and where they differ; one that leaves is
// gone at once.
func TestNodesMeet(t *testing.T) {
	i := 0
	w := newWorld(t, 2, func(o *directory.Options) {
		o.Version, o.Format = "v1", 2
		if i++; i == 2 {
			o.Lease = 9 * time.Second
		}
	})
	if diffs, err := w.nodes[0].Meet(bg); err != nil || len(diffs) != 0 {
		t.Errorf("alone: %v %v", diffs, err)
	}
	w.now = w.now.Add(3 * time.Second)
	if diffs, err := w.nodes[1].Meet(bg); err != nil || len(diffs) != 1 || diffs[0].Setting != "leaseMs" || diffs[0].There != "15000" {
		t.Errorf("the second: %v %v", diffs, err)
	}
	w.now = w.now.Add(time.Second)
	want := []directory.NodeInfo{
		{Name: "n0", Version: "v1", StoreFormat: 2, LeaseMs: 15000, ColdStart: true, SinceMs: 4000, SeenMs: 4000},
		{Name: "n1", Self: true, Version: "v1", StoreFormat: 2, LeaseMs: 9000, ColdStart: true, SinceMs: 1000, SeenMs: 1000},
	}
	h, err := w.nodes[1].Health(bg)
	if err != nil || len(h.Nodes) != 2 || h.Nodes[0] != want[0] || h.Nodes[1] != want[1] {
		t.Errorf("%+v %v, want %+v", h.Nodes, err, want)
	}
	if err := w.nodes[0].Leave(bg); err != nil {
		t.Fatal(err)
	}
	if diffs, err := w.nodes[1].Meet(bg); err != nil || len(diffs) != 0 || len(w.nodes[1].Nodes()) != 1 {
		t.Errorf("the first has left: %v %v", diffs, err)
	}
}
