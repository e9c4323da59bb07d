package explore

import (
	"testing"
	"time"
)

// worlds are searched whole at every change: any one of these faults, at any
// moment.
var worlds = []World{
	{Name: "no fault", Workers: 2, Symmetric: true},
	{Name: "lost calls", Workers: 2, Symmetric: true, Budget: 1, Faults: []stepKind{LoseCall, LoseAnswer}},
	{Name: "doubled calls", Workers: 2, Symmetric: true, Budget: 1, Faults: []stepKind{TwiceCall}},
	{Name: "releases", Workers: 2, Symmetric: true, Budget: 1, Faults: []stepKind{LoseRelease, LateRelease, TwiceRelease, SlowClose}},
	{Name: "forwards", Workers: 2, Symmetric: true, Budget: 1, Faults: []stepKind{LoseForward, FailConnect, NodeDies}},
	{Name: "ends", Workers: 2, Symmetric: true, Budget: 1, Faults: []stepKind{Crash, Leave}},
	{Name: "servers", Workers: 2, Symmetric: true, Budget: 1, Faults: []stepKind{Restart, Empty, Wipe}},
	{Name: "little steps", Workers: 2, Symmetric: true, Budget: 1, Slack: true, Faults: []stepKind{StepLittle}},
}

func TestSingleFaults(t *testing.T) {
	for _, w := range worlds {
		t.Run(w.Name, func(t *testing.T) {
			began := time.Now()
			r := Search(w)
			t.Logf("%v, %v", r, time.Since(began).Round(time.Millisecond))
			if r.Broken != "" || !r.Whole {
				t.Errorf("%v", r.Trace)
			}
		})
	}
}
