package sim

import (
	"strings"
	"testing"
	"time"
)

// points are those that are tried, of either kind: from the first request over
// openings, beats, streams and an idle close to the release of its id.
const points = 300

// stopped plays two workers of the Go SDK and clients that keep asking for two
// ids, and stops the first worker for far longer than its lease at one point
// of its code, counted from the request on.
func stopped(at int, behind bool) (w *World, m *goSDK) {
	w = NewWorld(Setup{Seed: 1, Still: true, Nodes: 1, Buckets: 1, Lease: 8 * time.Second, Slack: time.Second})
	w.trace.keep = true
	k := Today
	k.Go, k.Build, k.Idle = true, time.Second, 2*time.Second
	w.Run(12 * time.Second)
	p := w.Spawn("w1", "http://w1", k)
	p.Start()
	w.Run(2 * time.Second)
	m = p.sdk
	m.points = 0
	m.freeze = sdkFreeze{at: at, d: 25 * time.Second, behind: behind}
	client := func(id string, every time.Duration) {
		w.Go(nil, func() {
			for i := 0; ; i++ {
				q := Ask{NS: "/t", ID: id, Busy: 100 * time.Millisecond}
				if i%3 == 1 {
					q.Stream = 2 * time.Second
				}
				w.Go(nil, func() { w.ask(w.nodes[0], q, time.Minute) })
				w.Sleep(every)
			}
		})
	}
	client("a", 1700*time.Millisecond)
	w.Run(time.Second)
	w.Spawn("w2", "http://w2", k).Start()
	client("b", 5*time.Second) // idles in between: it closes and opens again
	w.Run(44 * time.Second)
	return w, m
}

// TestTheGoSDKStoppedAnywhere: wherever the process is stopped, it neither
// begins anything behind its lease nor is one of two owners, and goes on as a
// worker afterwards.
func TestTheGoSDKStoppedAnywhere(t *testing.T) {
	t.Parallel()
	for at := 1; at <= points; at++ {
		w, m := stopped(at, false)
		if len(w.check.violations) > 0 || m.late > 0 {
			t.Errorf("stopped at point %d: %v", at, w.check.violations)
			t.Log(strings.Join(w.trace.lines, "\n"))
		}
		if len(w.trace.lines) == 0 || !strings.Contains(strings.Join(w.trace.lines, "\n"), "goes on") {
			t.Errorf("point %d was not reached", at)
		}
		w.Close()
		if t.Failed() {
			return
		}
	}
}

// TestWhatTheGoSDKCannotSee: a stop behind the very last look at the clock,
// before the first instruction, is the only one that lets something begin
// late (package worker says so). Any other stop behind a look is seen by a
// later one.
func TestWhatTheGoSDKCannotSee(t *testing.T) {
	t.Parallel()
	late := 0
	for at := 1; at <= points; at++ {
		w, m := stopped(at, true)
		if len(w.check.violations) > 0 {
			t.Fatalf("stopped at point %d: %v\n%s", at, w.check.violations, strings.Join(w.trace.lines, "\n"))
		}
		late += m.late
		w.Close()
	}
	if late == 0 {
		t.Error("no stop lies in the gap: what the package says of it is not what it does")
	}
	t.Logf("%d of %d stops lie in the gap", late, points)
}

// TestTheCheckerSeesTheSDK: silence about the SDK's lease means something.
func TestTheCheckerSeesTheSDK(t *testing.T) {
	for say, do := range map[string]func(w *World, p *Proc){
		"begins":              func(w *World, p *Proc) { w.net.Cut("w1", "n1", 1, false); w.Run(10 * time.Second) },
		"believes in a lease": func(w *World, p *Proc) { p.granted -= time.Second },
	} {
		w := NewWorld(Setup{Seed: 1, Still: true, Nodes: 1, Buckets: 1, Lease: 8 * time.Second})
		k := Today
		k.Go = true
		p := w.Spawn("w1", "http://w1", k)
		p.Start()
		w.Run(time.Second)
		p.sdk.begins("nothing yet")
		if len(w.check.violations) > 0 {
			t.Error(w.check.violations)
		}
		do(w, p)
		w.Go(&p.Host, func() { p.sdk.begins("something") })
		w.Run(time.Second)
		if got := strings.Join(w.check.violations, "; "); !strings.Contains(got, say) {
			t.Errorf("the checker says %q, not %q", got, say)
		}
		w.Close()
	}
}
