package guard

import (
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"pinboard/internal/ownership"
)

const (
	ms     = int64(1000)
	sec    = int64(1_000_000)
	longst = 16 * sec // a lease and its slack
)

// A rig is one node, one server and one bucket there, under control.
type rig struct {
	g      *Guard
	at     Local // the node's clock
	ahead  int64 // the server's clock against it
	server string
	st     State
	steps  int
}

func newRig() *rig {
	r := &rig{server: "run", at: 1000 * sec, ahead: 5_000_000 * sec}
	r.g = New(Options{Buckets: 1, Slack: sec, OnStep: func(string) { r.steps++ }})
	r.st = State{Gen: "run@1", Since: r.clock(), Commits: 7, Longest: longst}
	return r
}

func (r *rig) clock() ownership.Micros { return r.at + r.ahead }

func (r *rig) reading(there, back int64) Reading {
	x := Reading{Server: r.server, Sent: r.at}
	r.at += there
	x.Now = r.clock()
	r.at += back
	x.Received = r.at
	return x
}

// look is one read of the bucket.
func (r *rig) look() (Verdict, ownership.Cause, bool) { return r.slow(ms, ms) }

func (r *rig) slow(there, back int64) (Verdict, ownership.Cause, bool) {
	k := r.g.Known(0)
	x := r.reading(there, back)
	v := r.g.Time(x)
	doubt, sure := r.g.Judge(0, k, x, r.st)
	return v, doubt, sure
}

// fine looks each second for d and fails when anything is doubted.
func (r *rig) fine(t *testing.T, d int64) {
	t.Helper()
	for end := r.at + d; r.at < end; r.at += sec {
		if v, doubt, sure := r.look(); v != Sure || doubt != "" || !sure {
			t.Fatalf("verdict %d, doubt %q, sure %v", v, doubt, sure)
		}
	}
}

// begin is a commit of this node that begins a generation.
func (r *rig) begin() {
	x := r.reading(ms, ms)
	r.g.Time(x)
	r.st.Commits++
	r.st.Gen, r.st.Since = fmt.Sprint("run@", x.Now), x.Now
	r.g.Committed(0, x, r.st, true)
}

// G4: one step is noticed beyond the slack, in both directions, once; small
// ones and slews add up over a longest lease.
func TestStepsAddUp(t *testing.T) {
	for name, c := range map[string]struct {
		steps []int64 // one a second, after a second
		want  bool
	}{
		"one of 0.9 s":                {[]int64{900 * ms}, false},
		"one of 0.9 s back":           {[]int64{-900 * ms}, false},
		"one of 1.1 s":                {[]int64{1100 * ms}, true},
		"one of 1.1 s back":           {[]int64{-1100 * ms}, true},
		"an hour":                     {[]int64{3600 * sec}, true},
		"an hour back":                {[]int64{-3600 * sec}, true},
		"two of 0.9 s":                {[]int64{900 * ms, 0, 0, 900 * ms}, true},
		"two of 0.9 s back":           {[]int64{-900 * ms, 0, 0, -900 * ms}, true},
		"there and back by 0.9 s":     {[]int64{900 * ms, -900 * ms, 900 * ms, -900 * ms}, false},
		"a slew of 500 ppm":           {slew(500, 120), false},
		"a slew of 8.3 % in a lease":  {slew(83_000, 16), true},
		"0.9 s, a lease later 0.9 s":  {append(append([]int64{900 * ms}, make([]int64, 20)...), 900*ms), false},
		"ten of 0.2 s, one each 2 s":  {spread(200*ms, 2, 10), true},
		"ten of 0.2 s, one each 16 s": {spread(200*ms, 16, 10), false},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig()
			r.fine(t, 20*sec)
			for _, by := range c.steps {
				r.ahead += by
				if v, doubt, _ := r.look(); v == Stepped {
					if doubt != ownership.ClockStepped {
						t.Errorf("doubt %q", doubt)
					}
					r.begin()
				}
				r.at += sec
			}
			if got := r.steps > 0; got != c.want {
				t.Fatalf("noticed: %v", got)
			}
			if len(c.steps) == 1 {
				r.fine(t, 20*sec) // and no more
			}
		})
	}
}

func slew(ppm int64, seconds int) []int64 {
	out := make([]int64, seconds)
	for i := range out {
		out[i] = ppm
	}
	return out
}

func spread(by int64, every, n int) (out []int64) {
	for range n {
		out = append(append(out, by), make([]int64, every-1)...)
	}
	return out
}

// A slow reply hides no step: nothing is decided on it, and the next one shows
// what happened behind it.
func TestAStepBehindASlowReply(t *testing.T) {
	for _, by := range []int64{0, 1500 * ms, 2300 * ms} {
		r := newRig()
		r.fine(t, 5*sec)
		r.ahead += by
		if v, _, _ := r.slow(1300*ms, 0); v == Sure {
			t.Errorf("%d us: a reply of 1.3 s was believed", by)
		}
		v, doubt, _ := r.look()
		if (doubt == ownership.ClockStepped) != (by > 0) {
			t.Errorf("%d us: verdict %d, doubt %q", by, v, doubt)
		}
	}
}

// A stalled server is no stepped clock, however often.
func TestSlowRepliesAreNoStep(t *testing.T) {
	r := newRig()
	r.fine(t, 5*sec)
	for range 50 {
		r.slow(1200*ms, 100*ms)
	}
	if r.look(); r.steps > 0 {
		t.Fatal("a step was seen")
	}
}

// A node that was stopped and continued measures on: its clock ran.
func TestAStalledNodeIsSure(t *testing.T) {
	r := newRig()
	r.fine(t, 20*sec)
	r.at += 40 * sec
	r.g.Slept()
	r.fine(t, 5*sec)
	r.ahead += 2 * sec
	r.at += 40 * sec // and a step in such a gap is seen
	if v, doubt, _ := r.look(); v != Stepped || doubt != ownership.ClockStepped {
		t.Fatalf("verdict %d, doubt %q", v, doubt)
	}
}

// A node whose own clock stood still decides nothing until another node's
// watch covers the gap; without one it begins a generation.
func TestANodeThatSlept(t *testing.T) {
	for name, c := range map[string]struct {
		watched bool // by another node, all the time
		broken  bool // ... which found a break
		want    ownership.Cause
	}{
		"watched": {watched: true}, "alone": {want: ownership.ClockStepped}, "watched, with a break": {true, true, ownership.ClockStepped},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig()
			r.fine(t, 20*sec)
			r.g.Watched(0, r.reading(ms, ms), ownership.Watch{Number: 3, Until: r.clock()})
			r.ahead += 60 * sec // the node's clock stood still for a minute
			r.g.Slept()
			if _, doubt, sure := r.look(); doubt != "" || sure {
				t.Fatalf("doubt %q, sure %v", doubt, sure)
			}
			if _, ok := r.g.OldNow("run@1", r.at); ok {
				t.Error("a clock was carried on through a sleep")
			}
			n := int64(3)
			if c.broken {
				n++
			}
			if c.watched {
				r.at += sec
				r.g.Watched(0, r.reading(ms, ms), ownership.Watch{Number: n, Until: r.clock()})
			}
			var doubt ownership.Cause
			sure := false
			for i := 0; i < 5 && !sure && doubt == ""; i++ {
				r.at += sec
				_, doubt, sure = r.look()
			}
			if doubt != c.want {
				t.Fatalf("doubt %q, want %q", doubt, c.want)
			}
			if doubt != "" {
				r.begin()
			}
			r.fine(t, 20*sec)
		})
	}
}

// A reading may come before anybody told the guard of the sleep: it asks the
// machine. Where that did not sleep, the clock stepped.
func TestAReadingRightBehindASleep(t *testing.T) {
	for _, slept := range []int64{0, 60 * sec} {
		r := newRig()
		var asleep Local
		r.g.o.Asleep = func() Local { return asleep }
		r.fine(t, 20*sec)
		r.ahead += 60 * sec
		asleep += slept
		switch v, doubt, sure := r.look(); {
		case slept == 0 && (v != Stepped || doubt != ownership.ClockStepped):
			t.Errorf("a step: verdict %d, doubt %q", v, doubt)
		case slept > 0 && (v == Stepped || doubt != "" || sure):
			t.Errorf("a sleep: verdict %d, doubt %q, sure %v", v, doubt, sure)
		}
	}
}

// What the record said before the node woke proves nothing.
func TestAnOldWatchVouchesForNothing(t *testing.T) {
	r := newRig()
	r.fine(t, 5*sec)
	w := ownership.Watch{Number: 3, Until: r.clock()}
	r.g.Watched(0, r.reading(ms, ms), w)
	r.ahead += 60 * sec
	r.g.Slept()
	r.look()
	r.g.Watched(0, r.reading(ms, ms), w)
	if _, _, sure := r.look(); sure {
		t.Fatal("vouched for by a record of before")
	}
}

// G1: a bucket that shows less than this node has seen is another history.
func TestForgottenCommits(t *testing.T) {
	r := newRig()
	r.fine(t, 3*sec)
	old := r.st
	r.st.Commits += 5
	r.fine(t, 3*sec)
	r.st = old
	if _, doubt, _ := r.look(); doubt != ownership.HistoryLost {
		t.Fatalf("doubt %q", doubt)
	}
	r.begin()
	r.fine(t, 3*sec)
}

// A commit of this node counts as seen.
func TestForgottenCommitsOfOurOwn(t *testing.T) {
	r := newRig()
	r.fine(t, 3*sec)
	old := r.st
	r.st.Commits++
	r.g.Committed(0, r.reading(ms, ms), r.st, false)
	r.st = old
	if _, doubt, _ := r.look(); doubt != ownership.HistoryLost {
		t.Fatalf("doubt %q", doubt)
	}
}

// An older copy of an earlier generation is another history, too, even when it
// counts more commits than this node has seen; a generation that another node
// has begun is not.
func TestGenerationsOfOthers(t *testing.T) {
	r := newRig()
	r.fine(t, 30*sec)
	older := State{Gen: "run@0", Since: r.clock() - 20*sec, Commits: 100, Longest: longst}
	r.st = State{Gen: "run@2", Since: r.clock(), Commits: 9, Longest: longst}
	r.fine(t, 3*sec)
	r.st = older
	if _, doubt, _ := r.look(); doubt != ownership.HistoryLost {
		t.Fatalf("doubt %q", doubt)
	}
}

// There and back: a server that another one followed is another generation
// when it returns with what it had.
func TestThereAndBack(t *testing.T) {
	r := newRig()
	r.fine(t, 3*sec)
	first := r.st
	r.server = "other"
	r.begin()
	r.st.Gen = "other@5"
	r.g.Committed(0, r.reading(ms, ms), r.st, true)
	r.server, r.st = "run", first
	if _, doubt, _ := r.look(); doubt != ownership.HistoryLost {
		t.Fatalf("doubt %q", doubt)
	}
}

// Replies that overtake each other are judged by what was known when each was
// sent.
func TestOvertakenReplies(t *testing.T) {
	r := newRig()
	r.fine(t, 3*sec)
	k := r.g.Known(0)
	early := r.reading(ms, 0)
	old := r.st
	r.st.Commits += 3
	r.fine(t, sec)
	early.Received = r.at
	if r.g.Time(early) == Stepped {
		t.Fatal("a late reply is a step")
	}
	if doubt, _ := r.g.Judge(0, k, early, old); doubt != "" {
		t.Fatalf("doubt %q", doubt)
	}
	if n, ok := r.g.Commits(0); n != r.st.Commits || !ok {
		t.Fatalf("%d commits, %v", n, ok)
	}
}

// Hits wait while anything is doubted.
func TestHitsWaitForCertainty(t *testing.T) {
	r := newRig()
	if _, ok := r.g.Commits(0); ok {
		t.Fatal("a bucket never seen")
	}
	r.fine(t, 3*sec)
	if n, ok := r.g.Commits(0); !ok || n != 7 {
		t.Fatalf("%d %v", n, ok)
	}
	r.ahead += 5 * sec
	r.look()
	if _, ok := r.g.Commits(0); ok {
		t.Fatal("behind a step")
	}
	r.begin()
	if _, ok := r.g.Commits(0); !ok {
		t.Fatal("not again")
	}
}

// R6: the clock behind a generation is carried on through what ends it.
func TestOldClocks(t *testing.T) {
	r := newRig()
	r.fine(t, 3*sec)
	before := r.ahead
	r.ahead -= 3600 * sec
	r.look()
	r.begin()
	r.fine(t, 10*sec)
	now, ok := r.g.OldNow("run@1", r.at)
	if truth := r.at + before; !ok || now < truth || now > truth+50*ms {
		t.Fatalf("%d %v, the clock would show %d", now, ok, truth)
	}
	if _, ok := r.g.OldNow("another", r.at); ok {
		t.Fatal("a clock out of nothing")
	}
	for i := range 2 * keptPasts {
		r.g.remember(fmt.Sprint("g", i), &carried{})
	}
	if _, ok := r.g.OldNow("run@1", r.at); ok || len(r.g.past) > keptPasts {
		t.Fatal("clocks are kept without bound")
	}
}

// A lease may be granted on any reading: each counts, however soon it follows
// another.
func TestAStepBackAndFurtherAheadAtOnce(t *testing.T) {
	r := newRig()
	r.fine(t, 5*sec)
	r.look()
	r.ahead -= 800 * ms
	if v, _, _ := r.look(); v != Sure {
		t.Fatalf("verdict %d", v)
	}
	r.ahead += 1500 * ms
	if v, _, _ := r.look(); v != Stepped {
		t.Fatalf("gained 1.5 s on a reading of a moment ago: verdict %d", v)
	}
}

// Whatever round trips, drift and steps there are: while every reading is
// judged sure, the clock has not gained more than the slack in any longest
// lease.
func TestSureMeansWithinTheSlack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := newRig()
		r.g.longest = longst
		type mark struct {
			at    Local
			ahead int64
		}
		var marks []mark
		for range rapid.IntRange(1, 60).Draw(t, "readings") {
			r.at += rapid.Int64Range(0, sec).Draw(t, "pause")
			if rapid.IntRange(0, 3).Draw(t, "steps") == 0 {
				r.ahead += rapid.Int64Range(-1500*ms, 1500*ms).Draw(t, "by")
			}
			x := r.reading(rapid.Int64Range(0, 600*ms).Draw(t, "there"), rapid.Int64Range(0, 600*ms).Draw(t, "back"))
			switch r.g.Time(x) {
			case Stepped:
				marks = nil
			case Unsure:
				continue
			}
			if x.Received-x.Sent <= tight { // what was granted on it counts from here
				marks = append(marks, mark{x.Received, r.ahead})
			}
			for _, m := range marks {
				if x.Received-m.at <= longst-sec && r.ahead-m.ahead > sec {
					t.Fatalf("gained %d us in %v and was sure", r.ahead-m.ahead, time.Duration(x.Received-m.at)*time.Microsecond)
				}
			}
		}
	})
}
