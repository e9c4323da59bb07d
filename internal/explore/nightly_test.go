package explore

import (
	"os"
	"strconv"
	"testing"
	"time"
)

// most is how many classes of states a world of the night may have; a larger
// one ends there, and the test says so.
const most = 1_500_000

var everything = []stepKind{LoseCall, LoseAnswer, LateCall, TwiceCall, LoseRelease, LateRelease, TwiceRelease, LoseForward, FailConnect,
	Crash, Pause, Leave, NodeDies, SlowClose, SlowCommit, Restart, Empty, Wipe}

// nights are the worlds of the night.
var nights = []World{
	{Name: "pairs of lost and late messages", Workers: 2, Symmetric: true, Budget: 2, Faults: []stepKind{LoseCall, LoseAnswer, LateCall, TwiceCall, LateRelease, TwiceRelease, FailConnect}},
	{Name: "pairs of ends and servers", Workers: 2, Symmetric: true, Budget: 2, Faults: []stepKind{Crash, Pause, Leave, NodeDies, Restart, Wipe}},
	{Name: "pairs of everything", Workers: 2, Symmetric: true, Budget: 2, Faults: everything},
	{Name: "older copies with everything", Workers: 2, Symmetric: true, Budget: 2, Faults: append([]stepKind{Older}, everything...)},
	{Name: "clock and pause", Workers: 2, Symmetric: true, Budget: 2, Slack: true, Faults: []stepKind{StepLittle, StepFar, Pause, LoseAnswer, SlowCommit}},
	{Name: "a little step and a pause", Workers: 2, Symmetric: true, Budget: 2, Slack: true, Faults: []stepKind{StepLittle, Pause}},
	{Name: "a slow commit and a pause", Workers: 2, Symmetric: true, Budget: 2, Faults: []stepKind{SlowCommit, Pause}},
	{Name: "two nodes", Workers: 2, Nodes: 2, Forwards: 2, Symmetric: true, Budget: 1, Faults: everything},
	{Name: "two forwards", Workers: 2, Forwards: 2, Symmetric: true, Budget: 1, Faults: everything},
	{Name: "orders", Workers: 2, Symmetric: true, Budget: 2, Faults: []stepKind{WindDown, Revoke, Want, SlowClose, LoseAnswer, Crash, Restart}},
	{Name: "drain", Workers: 2, Symmetric: true, Budget: 1, Faults: []stepKind{Drain}},
	{Name: "takeover between hostnames", Workers: 2, Hostnames: true, Budget: 1, Faults: []stepKind{Crash, Pause, Restart, SlowClose, LoseAnswer}},
	{Name: "one address", Workers: 2, Shared: true, Budget: 2, Faults: []stepKind{Swap, LoseAnswer, Crash, Pause}},
	{Name: "two ids", Workers: 2, IDs: 2, Symmetric: true, Budget: 1, Faults: []stepKind{LoseAnswer, LateCall, Crash, Pause, Restart, Wipe, LateRelease}},
}

// TestNights searches the worlds that take too long for every change. Set
// PINBOARD_NIGHTLY=1; EXPLORE_MOST=n bounds each world for a shorter run.
func TestNights(t *testing.T) {
	if os.Getenv("PINBOARD_NIGHTLY") == "" {
		t.Skip("PINBOARD_NIGHTLY is not set")
	}
	bound := most
	if n, err := strconv.Atoi(os.Getenv("EXPLORE_MOST")); err == nil {
		bound = n
	}
	for _, w := range nights {
		t.Run(w.Name, func(t *testing.T) {
			w.Most = bound
			began := time.Now()
			r := Search(w)
			t.Logf("%v, %v", r, time.Since(began).Round(time.Millisecond))
			if r.Broken != "" {
				t.Errorf("%s: %v", r.Broken, r.Trace)
			}
		})
	}
}
