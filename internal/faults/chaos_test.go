//go:build linux

package faults

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"pinboard/internal/redistest"
)

// Everything at once, in any order and mixture: a minute for each of some
// seeds, at night. Another run of them: PINBOARD_FAULTS_SEED.
func TestEverythingAtOnce(t *testing.T) {
	if !nightly {
		t.Skip("at night")
	}
	for n := range uint64(8) {
		t.Run(fmt.Sprint("seed ", seed+n), func(t *testing.T) {
			t.Parallel()
			f := startFleet(t, setting{binary: build(t, steppable), config: []string{"appendonly yes"}})
			f.chance = rand.New(rand.NewPCG(seed+n, 1))
			f.chaos(time.Minute)
			f.healed()
			f.judge()
			if !t.Failed() {
				recovered("everything at once", f.worst)
			}
		})
	}
}

// chaos lets faults begin one after the other; each lasts for a while of its
// own, so they overlap.
func (f *fleet) chaos(d time.Duration) {
	var under sync.WaitGroup
	defer under.Wait()
	lasting := func(begin, end func()) {
		d := []time.Duration{lease / 8, lease * 3 / 4, lease * 3 / 2}[f.chance.IntN(3)]
		begin()
		under.Go(func() { time.Sleep(d); end() })
	}
	faults := []func(){
		func() { f.replace(f.chance.IntN(3)) },
		func() { w := f.workers[f.chance.IntN(3)]; under.Go(func() { w.freeze(lease * 5 / 4) }) },
		func() { n := f.nodes[f.chance.IntN(3)]; under.Go(func() { n.freeze(lease * 5 / 4) }) },
		func() { n := f.nodes[f.chance.IntN(3)]; n.kill(); n.again() },
		func() { w := f.workers[f.chance.IntN(3)]; lasting(w.up.hang, w.up.heal) },
		func() { w := f.workers[f.chance.IntN(3)]; lasting(w.up.part, w.up.heal) },
		func() { w := f.workers[f.chance.IntN(3)]; lasting(func() { w.up.shake(lease / 8) }, w.up.heal) },
		func() { w := f.workers[f.chance.IntN(3)]; lasting(w.down.hang, w.down.heal) },
		func() { w := f.workers[f.chance.IntN(3)]; lasting(func() { w.down.shake(lease / 8) }, w.down.heal) },
		func() { r := f.links[f.chance.IntN(3)]; lasting(func() { r.Stall(true) }, func() { r.Stall(false) }) },
		func() { r := f.links[f.chance.IntN(3)]; lasting(func() { r.Refuse(true) }, func() { r.Refuse(false) }) },
		func() { r := f.links[f.chance.IntN(3)]; lasting(func() { r.Rule(sometimes) }, func() { r.Rule(nil) }) },
		func() { lasting(f.redis.Pause, f.redis.Resume) },
		func() { f.redis.Try("FLUSHALL") },
		func() { f.redis.Try("SAVE") },
		func() { f.redis.Try("DEBUG", "RELOAD", "NOSAVE") }, // of the latest SAVE, if there was one
		func() { f.turn(f.between(-10*time.Second, 10*time.Second), f.chance.IntN(100_000)) },
	}
	for begun := time.Now(); time.Since(begun) < d; {
		faults[f.chance.IntN(len(faults))]()
		time.Sleep(f.between(lease/8, lease))
	}
}

// sometimes loses, delays or shifts one command or reply in twenty.
func sometimes([]string) redistest.Fault {
	kinds := []func() redistest.Fault{
		redistest.CutBefore, redistest.CutAfter, redistest.CutInside, redistest.Swallow, redistest.Hold,
		func() redistest.Fault { return redistest.Inject("-LOADING Redis is loading the dataset in memory\r\n") },
		func() redistest.Fault { return redistest.Inject("$-1\r\n") },
		func() redistest.Fault { return redistest.DelayCommand(lease / 8) },
		func() redistest.Fault { return redistest.DelayReply(lease / 8) },
	}
	if rand.IntN(20) > 0 {
		return redistest.Pass()
	}
	return kinds[rand.IntN(len(kinds))]()
}
