package explore

import (
	"testing"
	"time"
)

// singles are searched whole at every change: any one fault, at any moment.
var singles = []World{
	{Name: "messages and parties", Workers: 2, Symmetric: true, Budget: 1, Faults: []stepKind{LoseCall, LoseAnswer, LateCall, TwiceCall,
		LoseRelease, LateRelease, TwiceRelease, LoseForward, FailConnect, Crash, Pause, Leave, NodeDies, SlowClose, SlowCommit, Restart, Empty, Wipe}},
	{Name: "older copy", Workers: 2, Symmetric: true, Budget: 1, Faults: []stepKind{Older}},
	{Name: "clock", Workers: 2, Symmetric: true, Budget: 1, Slack: true, Faults: []stepKind{StepLittle, StepFar}},
	{Name: "two forwards", Workers: 2, Forwards: 2, Symmetric: true, Budget: 1, Faults: []stepKind{FailConnect}},
}

func TestSingleFaults(t *testing.T) {
	for _, w := range singles {
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
