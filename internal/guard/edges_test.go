package guard

import (
	"testing"

	"pinboard/internal/ownership"
)

// Each test holds one judgement to the microsecond (internal/mutants found
// what the others leave open).

// TestWhatAReadIsDoubtedFor: what a node knew of a bucket when it asked,
// against what it is shown (G1, G4).
func TestWhatAReadIsDoubtedFor(t *testing.T) {
	const at, after = 100 * sec, 90 * sec
	known := func() Known { return Known{bucket{server: "run", gen: "run@1", commits: 7, at: at}} }
	elsewhere := func() Known {
		return Known{bucket{server: "other", gen: "other@1", left: map[string]place{"run": {gen: "run@1", at: at}}}}
	}
	type shown = State
	for _, c := range []struct {
		name string
		k    Known
		s    server
		st   shown
		at   Local
		want ownership.Cause
		sure bool
	}{
		{"the same", known(), server{}, shown{Gen: "run@1", Commits: 7}, 0, "", true},
		{"more", known(), server{}, shown{Gen: "run@1", Commits: 8}, 0, "", true},
		{"less", known(), server{}, shown{Gen: "run@1", Commits: 6}, 0, ownership.HistoryLost, true},
		{"stepped since", known(), server{breaks: 1, after: after}, shown{Gen: "run@1", Commits: 9, Since: at}, 0, ownership.ClockStepped, true},
		{"begun by another node, with fewer commits", known(), server{}, shown{Gen: "run@2", Since: at}, 0, "", true},
		{"begun just before the last look", known(), server{}, shown{Gen: "run@2", Since: at - grace}, 0, "", true},
		{"begun long before the last look", known(), server{}, shown{Gen: "run@2", Since: at - grace - 1}, 0, ownership.HistoryLost, true},
		{"begun behind the step", known(), server{breaks: 1, after: after}, shown{Gen: "run@2", Since: after}, 0, "", true},
		{"begun before the step", known(), server{breaks: 1, after: after}, shown{Gen: "run@2", Since: after - 1}, 0, ownership.ClockStepped, true},
		{"begun, and this node slept", known(), server{asked: 5}, shown{Gen: "run@2", Since: at}, 5 + vouching + 1, "", true},
		{"this node slept just now", known(), server{asked: 5}, shown{Gen: "run@1", Commits: 7}, 5 + vouching, "", false},
		{"this node slept, and nobody vouches", known(), server{asked: 5}, shown{Gen: "run@1", Commits: 7}, 5 + vouching + 1, ownership.ClockStepped, true},
		{"never seen", Known{}, server{}, shown{Gen: "run@1"}, 0, "", true},
		{"never seen, stepped before it began", Known{}, server{breaks: 1, after: after}, shown{Gen: "run@1", Since: after}, 0, "", true},
		{"never seen, stepped since it began", Known{}, server{breaks: 1, after: after}, shown{Gen: "run@1", Since: after - 1}, 0, ownership.ClockStepped, true},
		{"never seen, nothing stepped", Known{}, server{after: after}, shown{Gen: "run@1", Since: after - 1}, 0, "", true},
		{"left before, and it is as it was", elsewhere(), server{}, shown{Gen: "run@1", Since: at}, 0, ownership.HistoryLost, true},
		{"left before, and it began another one", elsewhere(), server{}, shown{Gen: "run@2", Since: at - grace}, 0, "", true},
		{"left before, and it shows one of before", elsewhere(), server{}, shown{Gen: "run@0", Since: at - grace - 1}, 0, ownership.HistoryLost, true},
	} {
		doubt, sure := c.k.doubt(&c.s, &Reading{Server: "run", Received: c.at}, &c.st)
		if doubt != c.want || sure != c.sure {
			t.Errorf("%s: %q, sure %v", c.name, doubt, sure)
		}
	}
}

// around is a reading with an offset between lo and hi.
func around(at Local, lo, hi int64) *Reading {
	return &Reading{Server: "run", Now: at + lo, Sent: at + lo - hi + 1, Received: at}
}

// TestHowFarAClockMayMove: up to the limit against every reading of the window,
// and as much further as sound clocks drift apart in a gap.
func TestHowFarAClockMayMove(t *testing.T) {
	const window, limit, at = 10 * sec, sec, 1000 * sec
	for _, c := range []struct {
		name   string
		lo, hi int64 // of the reading, against one of 0 to 10
		later  int64
		want   Verdict
		gained bool
	}{
		{"it stood", 0, 10, sec, Sure, false},
		{"it gained the limit for sure", limit + 10, limit + 10, sec, Unsure, false},
		{"it gained more for sure", limit + 11, limit + 11, sec, Stepped, true},
		{"it may have gained the limit", 0, limit, sec, Sure, false},
		{"it may have gained more", 0, limit + 1, sec, Unsure, false},
		{"it lost the limit", -limit, -limit, sec, Sure, false},
		{"it lost more", -limit - 1, -limit - 1, sec, Stepped, false},
		{"after a gap, the limit and the drift", 0, limit + 2*ms, window + 2*sec, Sure, false},
		{"after a gap, more", 0, limit + 2*ms + 1, window + 2*sec, Unsure, false},
		{"after a gap, gained for sure", limit + 10 + 2*ms + 1, limit + 10 + 2*ms + 1, window + 2*sec, Stepped, true},
		{"after a gap, gained less for sure", limit + 10 + 2*ms, limit + 10 + 2*ms, window + 2*sec, Unsure, false},
		{"after a gap, lost", -limit - 2*ms, -limit - 2*ms, window + 2*sec, Sure, false},
		{"after a gap, lost more", -limit - 2*ms - 1, -limit - 2*ms - 1, window + 2*sec, Stepped, false},
		{"within the window there is no drift", 0, limit + 1, window - sec, Unsure, false},
	} {
		var w watch
		w.keep(around(at, 0, 10))
		if v, gained := w.judge(around(at+c.later, c.lo, c.hi), window, limit); v != c.want || gained != c.gained {
			t.Errorf("%s: %d, gained %v", c.name, v, gained)
		}
	}
	var w watch
	for width, want := range map[int64]Verdict{limit: Sure, limit + 1: Unsure} {
		if v, _ := w.judge(around(at, 0, width), window, limit); v != want {
			t.Errorf("the first one, %d wide: %d", width, v)
		}
	}
	if w.keep(around(at, 0, tight+1)) || w.seen || !w.keep(around(at, 0, tight)) || !w.seen {
		t.Error("what is tight")
	}
}

// TestAnEdgeIsTheBestOfItsWindow, whatever came in between.
func TestAnEdgeIsTheBestOfItsWindow(t *testing.T) {
	least := func(a, b int64) bool { return a <= b }
	var e edge
	for i, v := range []int64{5, 3, 4, 4, 9} {
		e.push(Local(i)*sec, v, least)
	}
	if e.best() != 3 || e.oldest() != sec || len(e.val) != 3 { // of two equal ones the later
		t.Errorf("%+v", e)
	}
	if e.expire(sec); e.best() != 3 {
		t.Errorf("one at the window's begin: %+v", e)
	}
	if e.expire(sec + 1); e.best() != 4 || e.oldest() != 3*sec {
		t.Errorf("one before it: %+v", e)
	}
	if e.expire(99 * sec); e.best() != 9 {
		t.Errorf("the last one stays: %+v", e)
	}
	e = edge{}
	e.push(sec, 5, least)
	if e.push(sec+slotWidth-1, 6, least); len(e.val) != 1 {
		t.Errorf("a worse one of the same slot: %+v", e)
	}
	if e.push(sec+slotWidth-1, 4, least); len(e.val) != 1 || e.best() != 4 {
		t.Errorf("a better one of the same slot: %+v", e)
	}
	if e.push(sec+slotWidth, 6, least); len(e.val) != 2 {
		t.Errorf("one of the next slot: %+v", e)
	}
}

// TestAllEdgesExpire: each of the three looks no further back than the window
// and the pause.
func TestAllEdgesExpire(t *testing.T) {
	const window, limit, at = 10 * sec, sec, 1000 * sec
	for age, want := range map[int64]Verdict{window + pause: Stepped, window + pause + 1: Sure} {
		for _, far := range []int64{-5 * sec, 5 * sec} {
			var w watch
			w.keep(around(at, far, far))
			w.keep(around(at+sec, 0, 0))
			if v, _ := w.judge(around(at+age, 0, 0), window, limit); v != want {
				t.Errorf("%d us old, at %d: %d", age, far, v)
			}
		}
	}
}

// TestAnEstimateNarrows: readings that fit are joined, with what may have
// drifted since; others replace it.
func TestAnEstimateNarrows(t *testing.T) {
	const at = 1000 * sec
	for _, c := range []struct {
		name   string
		lo, hi int64 // against one of 0 to 100, ten seconds later: -10 000 to 10 100
		want   [2]int64
	}{
		{"inside", 20, 50, [2]int64{20, 50}},
		{"around", -20 * ms, 20 * ms, [2]int64{-10 * ms, 10*ms + 100}},
		{"touching above", 10*ms + 100, 11 * ms, [2]int64{10*ms + 100, 10*ms + 100}},
		{"touching below", -11 * ms, -10 * ms, [2]int64{-10 * ms, -10 * ms}},
		{"above", 10*ms + 101, 11 * ms, [2]int64{10*ms + 101, 11 * ms}},
		{"below", -11 * ms, -10*ms - 1, [2]int64{-11 * ms, -10*ms - 1}},
	} {
		var e carried
		e.take(around(at, 0, 100))
		if e.lo != 0 || e.hi != 100 {
			t.Errorf("the first one: %+v", e)
		}
		e.take(around(at+10*sec, c.lo, c.hi))
		if [2]int64{e.lo, e.hi} != c.want || e.at != at+10*sec {
			t.Errorf("%s: %d to %d", c.name, e.lo, e.hi)
		}
	}
	e := carried{hi: 100, at: at}
	if e.latest(at+10*sec) != at+10*sec+100+10*ms || e.latest(at-sec) != at-sec+100 {
		t.Errorf("carried on: %d, back: %d", e.latest(at+10*sec), e.latest(at-sec))
	}
	if e.take(around(at-10*sec, -50*ms, 50*ms)); e.lo != 0 || e.hi != 100 {
		t.Errorf("an older reading: %+v", e)
	}
}

// TestACommitIsLearned: this node's own counts at once, for hits as well, and
// only for the history it was made in.
func TestACommitIsLearned(t *testing.T) {
	for _, c := range []struct {
		name   string
		server string
		gen    string
		n      int64
		want   int64
	}{
		{"the next", "run", "run@1", 8, 8},
		{"overtaken", "run", "run@1", 6, 7},
		{"of another generation", "run", "run@2", 8, 7},
		{"of another server", "other", "run@1", 8, 7},
	} {
		r := newRig()
		r.look()
		x := r.reading(ms, ms)
		x.Server = c.server
		r.g.Committed(0, x, State{Gen: c.gen, Commits: c.n}, false)
		n, ok := r.g.Commits(0)
		if m := r.g.buckets[0]; m.commits != c.want || n != c.want || !ok || (m.at == x.Now) != (c.want == 8) {
			t.Errorf("%s: %d, hits see %d %v", c.name, m.commits, n, ok)
		}
	}
	r := newRig()
	r.look()
	later := r.g.buckets[0].at + 9*sec
	r.g.buckets[0].at = later
	r.g.Committed(0, r.reading(ms, ms), State{Gen: "run@1", Commits: 8}, false)
	if r.g.buckets[0].at != later {
		t.Error("an older reading moves the time of the last look back")
	}
	r.g.Committed(0, r.reading(ms, ms), State{Gen: "run@1", Commits: 9, Longest: 2 * longst}, false)
	if r.g.longest != 2*longst {
		t.Errorf("its lease does not count: %d", r.g.longest)
	}
	r.g.Committed(0, r.reading(ms, ms), State{Gen: "run@1", Commits: 10, Longest: 1}, false)
	r.look()
	if r.g.longest != 2*longst {
		t.Errorf("a shorter lease counts: %d", r.g.longest)
	}
	r.begin()
	if _, ok := r.g.OldNow(r.st.Gen, r.at); !ok {
		t.Error("the clock of a generation that it began is lost")
	}
}

// TestWhatALookTeaches: a later look, never an earlier one, and another history
// altogether.
func TestWhatALookTeaches(t *testing.T) {
	for _, c := range []struct {
		name    string
		by      int64 // against the last look
		gen     string
		n       int64
		breaks  int
		commits int64
		moved   bool
	}{
		{"more", sec, "run@1", 8, 0, 8, true},
		{"as much", sec, "run@1", 7, 0, 7, true},
		{"overtaken", -1, "run@1", 8, 0, 7, false},
		{"at the same time", 0, "run@1", 8, 0, 8, true},
		{"another generation", sec, "run@2", 1, 0, 1, true},
		{"another clock", -sec, "run@1", 3, 1, 3, true},
	} {
		r := newRig()
		r.look()
		s, m := r.g.server("run"), &r.g.buckets[0]
		s.breaks = c.breaks
		x := r.reading(ms, ms)
		x.Now = m.at + c.by
		r.g.learn(0, s, &x, &State{Gen: c.gen, Commits: c.n})
		if m.commits != c.commits || m.gen != c.gen && c.moved || (m.at == x.Now) != c.moved || m.breaks != c.breaks {
			t.Errorf("%s: %+v", c.name, *m)
		}
	}
}

// TestHitsWaitForASleep: nothing is a hit while it is open whether this node
// has missed something.
func TestHitsWaitForASleep(t *testing.T) {
	r := newRig()
	r.look()
	s, m := r.g.server("run"), &r.g.buckets[0]
	x := r.reading(ms, ms)
	x.Now = m.at - 1 // overtaken: nothing is adopted
	s.asked++
	if r.g.learn(0, s, &x, &State{Gen: "run@1", Commits: 7}); m.vouched == s.asked {
		t.Fatal("adopted")
	}
	if _, ok := r.g.Commits(0); ok {
		t.Error("there are hits")
	}
}

// TestWhoCanWatch: a node that has seen the server and has not slept since.
func TestWhoCanWatch(t *testing.T) {
	r := newRig()
	if _, ok := r.g.Watching("run"); ok {
		t.Error("never seen")
	}
	r.g.server("run")
	if _, ok := r.g.Watching("run"); ok {
		t.Error("no reading yet")
	}
	first := r.clock() + ms
	r.look()
	if since, ok := r.g.Watching("run"); !ok || since != first {
		t.Errorf("since %d %v, want %d", since, ok, first)
	}
	r.g.Slept()
	if _, ok := r.g.Watching("run"); ok {
		t.Error("it slept")
	}
	r.look()
	if _, ok := r.g.Watching("run"); !ok {
		t.Error("it is awake")
	}
}

// TestWhoVouches: the same unbroken watch, seen before the sleep and extended
// since the node woke.
func TestWhoVouches(t *testing.T) {
	for _, c := range []struct {
		name   string
		server string
		seen   int64 // number before the sleep
		w      ownership.Watch
		breaks int
		want   bool
	}{
		{"extended since", "run", 4, ownership.Watch{Number: 4, Until: 50}, 0, true},
		{"extended before", "run", 4, ownership.Watch{Number: 4, Until: 49}, 0, false},
		{"another watch", "run", 4, ownership.Watch{Number: 5, Until: 50}, 0, false},
		{"never seen", "run", 0, ownership.Watch{Number: 0, Until: 50}, 0, false},
		{"of another server", "other", 4, ownership.Watch{Number: 4, Until: 50}, 0, false},
		{"a step is open", "run", 4, ownership.Watch{Number: 4, Until: 50}, 1, false},
	} {
		g := New(Options{Buckets: 1, Slack: sec})
		s, m := g.server("run"), &g.buckets[0]
		*m = bucket{server: "run", watch: c.seen}
		s.asked, s.wake, s.breaks = 9, 50, c.breaks
		g.Watched(0, Reading{Server: c.server}, c.w)
		if got := m.vouched == 9; got != c.want {
			t.Errorf("%s: vouched %v", c.name, got)
		}
		if !c.want && m.watch != c.seen {
			t.Errorf("%s: a record that vouches for nothing is taken over: %d", c.name, m.watch)
		}
	}
	g := New(Options{Buckets: 1})
	g.server("run")
	g.buckets[0].server = "run"
	if g.Watched(0, Reading{Server: "run"}, ownership.Watch{Number: 6}); g.buckets[0].watch != 6 {
		t.Error("a record that is seen awake is not remembered")
	}
}

// TestWhatIsRemembered: so many servers and clocks, the oldest ones go.
func TestWhatIsRemembered(t *testing.T) {
	g := New(Options{Buckets: 1})
	name := func(i int) string { return string(rune('A' + i)) }
	for i := range keptServers {
		g.server(name(i))
	}
	if len(g.servers) != keptServers || g.servers[name(0)] == nil {
		t.Errorf("%d servers", len(g.servers))
	}
	if g.server("one more"); len(g.servers) != keptServers || g.servers[name(0)] != nil || g.servers[name(1)] == nil {
		t.Errorf("%d servers with one more", len(g.servers))
	}
	for i := range keptPasts {
		g.remember(name(i), &carried{})
	}
	g.remember(name(5), &carried{}) // known already
	if len(g.past) != keptPasts || len(g.pasts) != keptPasts || g.past[name(0)] == nil {
		t.Errorf("%d clocks", len(g.past))
	}
	if g.remember("one more", &carried{}); len(g.past) != keptPasts || g.past[name(0)] != nil || g.past[name(1)] == nil {
		t.Errorf("%d clocks with one more", len(g.past))
	}
}
