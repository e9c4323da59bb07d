package guard

import "testing"

// TestWhatCountsAsADoze: what the machine has slept since it was asked last,
// more than a doze; every server's next step may be that sleep.
func TestWhatCountsAsADoze(t *testing.T) {
	var asleep Local = 100 * sec // before this node began
	g := New(Options{Buckets: 1, Slack: sec, Asleep: func() Local { return asleep }})
	s := g.server("run")
	for _, c := range []struct {
		by   Local
		want bool
	}{{0, false}, {doze, false}, {doze + 1, true}, {doze, false}} {
		asleep += c.by
		s.slept = false
		if got := g.dozed(); got != c.want || s.slept != c.want {
			t.Errorf("%d us more: %v, servers told %v", c.by, got, s.slept)
		}
	}
}
