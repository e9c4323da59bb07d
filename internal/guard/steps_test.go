package guard

import (
	"testing"

	"pinboard/internal/ownership"
)

// TestAllReadingsOfAWindowCount: the lowest and the highest of them, not the
// first nor the last.
func TestAllReadingsOfAWindowCount(t *testing.T) {
	const window, limit, at = 10 * sec, sec, 1000 * sec
	for _, c := range []struct {
		name string
		kept [][2]int64
		lo   int64
		want Verdict
	}{
		{"gained since the lowest", [][2]int64{{0, 0}, {-600 * ms, -600 * ms}}, 500 * ms, Stepped},
		{"gained since the lowest, then higher", [][2]int64{{-600 * ms, -600 * ms}, {0, 0}}, 500 * ms, Stepped},
		{"may have gained since the lowest", [][2]int64{{0, 0}, {-150 * ms, 0}}, 900 * ms, Unsure},
		{"may have gained since the lowest, then higher", [][2]int64{{-150 * ms, 0}, {0, 0}}, 900 * ms, Unsure},
		{"lost since the highest", [][2]int64{{0, 0}, {600 * ms, 600 * ms}}, -500 * ms, Stepped},
		{"lost since the highest, then lower", [][2]int64{{600 * ms, 600 * ms}, {0, 0}}, -500 * ms, Stepped},
	} {
		var w watch
		for i, k := range c.kept {
			w.keep(around(at+int64(i)*sec, k[0], k[1]))
		}
		if v, _ := w.judge(around(at+3*sec, c.lo, c.lo), window, limit); v != c.want {
			t.Errorf("%s: %d", c.name, v)
		}
	}
}

// TestWhenAStepHappened: no earlier than the last sure reading; what was sent
// before it was noticed says nothing new.
func TestWhenAStepHappened(t *testing.T) {
	r := newRig()
	r.look()
	last := r.at
	r.at += 3 * sec
	old := r.reading(ms, 500*ms) // on its way while the clock steps
	r.at -= 500 * ms
	r.ahead += 5 * sec
	x := r.reading(ms, ms)
	if v := r.g.Time(x); v != Stepped || r.steps != 1 {
		t.Fatalf("%d, %d steps", v, r.steps)
	}
	s := r.g.server("run")
	if want := x.Now - int64(float64(x.Received-last)*(1+drift)) - tight; s.after != want || s.broke != x.Received || s.since != x.Now {
		t.Errorf("after %d, want %d; %+v", s.after, want, *s)
	}
	if v := r.g.Time(old); v != Unsure || r.steps != 1 {
		t.Errorf("a reading of before the step: %d, %d steps", v, r.steps)
	}
	early := r.reading(ms, ms)
	early.Sent = x.Received - 1
	if v := r.g.Time(early); v != Sure {
		t.Errorf("sent before it was noticed, and of the new clock: %d", v)
	}
	next := r.reading(ms, ms)
	next.Sent, next.Now = x.Received, next.Now+9*sec
	if v := r.g.Time(next); v != Stepped || r.steps != 2 {
		t.Errorf("the next step, sent when the first was noticed: %d, %d steps", v, r.steps)
	}
	r = newRig()
	r.look()
	r.ahead += 5 * sec
	x = r.reading(ms, ms)
	x.Sent, x.Received = x.Sent-sec, x.Received-sec // overtaken by the last sure one
	x.Now -= sec
	if v := r.g.Time(x); v != Stepped || r.g.server("run").after != x.Now-tight {
		t.Errorf("overtaken: %d, after %d", v, r.g.server("run").after-x.Now)
	}
}

// TestTheSlackIsOfBothClocks: a step counts together with what sound clocks
// may drift apart in one window.
func TestTheSlackIsOfBothClocks(t *testing.T) {
	for by, want := range map[int64]Verdict{980 * ms: Sure, 990 * ms: Stepped} {
		r := newRig()
		r.look()
		r.at += sec
		r.look()
		r.ahead += by
		if v, _, _ := r.look(); v != want {
			t.Errorf("%d us: %d", by, v)
		}
	}
}

// TestAStepBackIsNoSleep: a node's own sleep only ever lets a server gain.
func TestAStepBackIsNoSleep(t *testing.T) {
	for by, want := range map[int64]Verdict{-5 * sec: Stepped, 5 * sec: Sure} {
		r := newRig()
		r.look()
		r.g.Slept()
		r.ahead += by
		if v, _, _ := r.look(); v != want {
			t.Errorf("%d us: %d", by, v)
		}
	}
}

// TestANewWatchBeginsAtTheStep: its first reading is kept and carried on, and
// nothing of other servers is doubted.
func TestANewWatchBeginsAtTheStep(t *testing.T) {
	g := New(Options{Buckets: 2, Slack: sec}) // nobody is told of steps
	read := func(server string, b int, at, ahead int64) Verdict {
		x := Reading{Server: server, Now: at + ahead, Sent: at - ms, Received: at}
		v := g.Time(x)
		g.Judge(b, g.Known(b), x, State{Gen: server + "@1", Since: x.Now, Commits: 7, Longest: longst})
		return v
	}
	read("run", 0, 1000*sec, 5*sec)
	read("other", 1, 1000*sec, 5*sec)
	if v := read("run", 0, 1001*sec, 9*sec); v != Stepped {
		t.Fatalf("%d", v)
	}
	if s := g.server("run"); s.now.at != 1001*sec || !s.seen {
		t.Errorf("the reading of the step is lost: %+v", *s)
	}
	if _, ok := g.Commits(1); !ok {
		t.Error("another server's bucket is doubted")
	}
	if _, ok := g.Commits(0); ok {
		t.Error("its own bucket is not")
	}
	if v := read("run", 0, 1002*sec, 13*sec); v != Stepped {
		t.Errorf("the next step: %d", v)
	}
}

// TestManyServersWereLeft: none of them may come back as it was.
func TestManyServersWereLeft(t *testing.T) {
	r := newRig()
	r.look()
	at, st := r.server, r.st
	for _, server := range []string{"b", "c"} {
		r.server, r.st = server, State{Gen: server + "@1", Since: r.clock(), Commits: 1, Longest: longst}
		r.look()
	}
	r.server, r.st = at, st
	if _, doubt, _ := r.look(); doubt != ownership.HistoryLost {
		t.Errorf("the first one is back as it was: %q", doubt)
	}
}

// TestWhatALookKeeps: the watch record over later looks, the counter against
// overtaken ones, and nothing of another server.
func TestWhatALookKeeps(t *testing.T) {
	r := newRig()
	r.look()
	s, m := r.g.server("run"), &r.g.buckets[0]
	m.watch = 4
	x := r.reading(ms, ms)
	if r.g.learn(0, s, &x, &State{Gen: "run@1", Commits: 9}); m.watch != 4 || m.commits != 9 {
		t.Errorf("%+v", *m)
	}
	x = r.reading(ms, ms)
	if r.g.learn(0, s, &x, &State{Gen: "run@1", Commits: 8}); m.commits != 9 || m.at != x.Now {
		t.Errorf("a look that was sent before a commit: %+v", *m)
	}
	x.Server, x.Now = "other", m.at-sec
	if r.g.learn(0, r.g.server("other"), &x, &State{Gen: "other@1", Commits: 1}); m.server != "other" {
		t.Errorf("another server's clock is behind: %+v", *m)
	}
	k := Known{bucket{server: "run", gen: "run@1", at: 91 * sec, breaks: 1}}
	if doubt, sure := k.doubt(&server{breaks: 1, after: 90 * sec}, &Reading{Server: "run"}, &State{Gen: "run@2", Since: 90*sec - 1}); doubt != "" || !sure {
		t.Errorf("a step that was answered: %q", doubt)
	}
	var e carried
	if e.take(around(1000*sec, -2*sec, 2*sec)); e.lo != -2*sec || e.hi != 2*sec {
		t.Errorf("a wide first reading: %+v", e)
	}
}
