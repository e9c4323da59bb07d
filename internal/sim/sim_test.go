package sim

import (
	"flag"
	"os"
	"runtime"
	"strings"
	"sync"
	"testing"
)

var (
	seeds = flag.Int("sim.seeds", 200, "seeds to run (also SIM_SEEDS)")
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
