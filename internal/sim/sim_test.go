package sim

import (
	"flag"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"pinboard"
	"pinboard/internal/directory"
	"pinboard/internal/ownership"
)

var (
	seeds = flag.Int("sim.seeds", 300, "seeds to run (also SIM_SEEDS)")
	first = flag.Uint64("sim.first", 1, "first seed")
	raw   = flag.Bool("sim.noshrink", false, "do not shrink failing seeds")
	one   = flag.Uint64("sim.seed", 0, "run this seed alone and print its trace")
)

// TestSeeds runs clusters under faults, one per seed.
func TestSeeds(t *testing.T) {
	if *one != 0 {
		r := Run(*one, PlanOf(*one), true)
		t.Log("\n" + strings.Join(r.Lines, "\n"))
		t.Logf("sum %x, served %d", r.Sum, r.Served)
		if r.Failed() {
			t.Errorf("seed %d: %v", *one, r.Violations)
		}
		return
	}
	next := make(chan uint64)
	var wg sync.WaitGroup
	var mu sync.Mutex
	failed, total := 0, 0
	for range runtime.GOMAXPROCS(0) {
		wg.Add(1)
		go func() {
			defer wg.Done()
			for seed := range next {
				r := Run(seed, PlanOf(seed), false)
				mu.Lock()
				total += r.Served
				if r.Failed() {
					if failed++; failed <= 5 {
						report(t, seed, &r)
					}
				}
				mu.Unlock()
			}
		}()
	}
	for i := range *seeds {
		next <- *first + uint64(i)
	}
	close(next)
	wg.Wait()
	t.Logf("%d seeds, %d failed, %d requests served", *seeds, failed, total)
	if failed > 5 {
		t.Errorf("%d seeds failed in all", failed)
	}
}

// report prints a failing seed, its smallest plan and the trace of that.
func report(t *testing.T, seed uint64, r *Result) {
	t.Errorf("seed %d: %v (replay: go test ./internal/sim -run TestSeeds -sim.seed=%d)", seed, r.Violations, seed)
	if *raw {
		return
	}
	small := Shrink(seed, r.Plan)
	var b strings.Builder
	for _, f := range small.Plan {
		b.WriteString("\n  " + f.String())
	}
	t.Logf("seed %d shrinks to %d faults: %v%s", seed, len(small.Plan), small.Violations, b.String())
	if dir := os.Getenv("SIM_TRACES"); dir != "" {
		_ = os.WriteFile(dir+"/seed.txt", []byte(strings.Join(small.Lines, "\n")), 0o644)
	}
}

// TestSeedsReplay: the same seed gives the same trace.
func TestSeedsReplay(t *testing.T) {
	for seed := uint64(1); seed <= 10; seed++ {
		a, b := Run(seed, PlanOf(seed), true), Run(seed, PlanOf(seed), true)
		if a.Sum != b.Sum {
			for i := range a.Lines {
				if i >= len(b.Lines) || a.Lines[i] != b.Lines[i] {
					t.Fatalf("seed %d differs at\n%s\n%s", seed, a.Lines[i], b.Lines[min(i, len(b.Lines)-1)])
				}
			}
			t.Fatalf("seed %d: %x and %x", seed, a.Sum, b.Sum)
		}
	}
}

// TestShrink: what a failure does not need is dropped.
func TestShrink(t *testing.T) {
	list := make([]int, 40)
	for i := range list {
		list[i] = i
	}
	got := shrink(list, func(l []int) bool { return slices.Contains(l, 7) && slices.Contains(l, 8) && slices.Contains(l, 31) })
	if !slices.Equal(got, []int{7, 8, 31}) {
		t.Errorf("shrinks to %v", got)
	}
}

// TestTheCheckerSees: broken promises are seen, so that silence means something.
func TestTheCheckerSees(t *testing.T) {
	k := ownership.Key{Env: ownership.World, Namespace: "/t", ID: "a"}
	for name, c := range map[string]struct {
		say string
		do  func(w *World, a, b *Proc)
	}{
		"two owners": {"two live owners", func(w *World, a, b *Proc) {
			a.activate(hit{key: k, epoch: 1})
			b.activate(hit{key: k, epoch: 2})
		}},
		"old memory": {"rule R", func(w *World, a, b *Proc) {
			in := a.activate(hit{key: k, epoch: 1})
			w.check.minted[k] = []placed{{1, directory.ProcessOf(a.client, a.secret)}, {2, directory.ProcessOf(b.client, b.secret)}}
			w.check.adopts(in, 3)
		}},
		"epochs": {"does not grow", func(w *World, a, b *Proc) {
			row := &ownership.Row{Kind: ownership.Placed}
			for _, e := range []pinboard.Epoch{5, 5} {
				w.check.committed(w.server, 0, &ownership.Writes{Rows: map[ownership.Key]*ownership.Row{k: row}, Minted: []*ownership.Mint{{Key: k, Epoch: e}}})
			}
		}},
		"lost update": {"overwrites", func(w *World, a, b *Proc) {
			in := a.activate(hit{key: k, epoch: 1})
			w.check.of(k).version++
			w.check.write(in)
		}},
		"stale stream": {"passes on bytes", func(w *World, a, b *Proc) {
			in := a.activate(hit{key: k, epoch: 1})
			in.lapsed = true
			b.activate(hit{key: k, epoch: 2})
			w.check.passes(&flow{n: w.nodes[0], p: a}, in, w.check.ownerBut(in))
		}},
	} {
		t.Run(name, func(t *testing.T) {
			w := NewWorld(Setup{Seed: 1, Still: true, Nodes: 1, Buckets: 1, Lease: 15 * time.Second})
			defer w.Close()
			c.do(w, w.Spawn("w1", "http://w1", Today), w.Spawn("w2", "http://w2", Today))
			w.check.look()
			if got := strings.Join(w.check.violations, "; "); !strings.Contains(got, c.say) {
				t.Errorf("the checker says %q", got)
			}
		})
	}
}
