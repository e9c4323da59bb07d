//go:build linux

package faults

import (
	"slices"
	"testing"
	"time"

	"pinboard/internal/redistest"
)

// each runs what on every link at once, or on one that chance picks.
func (f *fleet) each(links []*link, what func(*link)) {
	if f.chance.IntN(2) == 0 {
		links = []*link{links[f.chance.IntN(len(links))]}
	}
	for _, k := range links {
		what(k)
	}
}

// breakLinks cuts, parts, holds back for less and for more than a lease, and
// reorders. What was held back is delivered when the link heals: beats and
// forwards that are late.
func (f *fleet) breakLinks(links []*link) {
	whole := func(d time.Duration) {
		time.Sleep(d)
		for _, k := range links {
			k.heal()
		}
		time.Sleep(f.between(0, lease/4))
	}
	f.each(links, (*link).cut)
	time.Sleep(f.between(0, lease/4))
	f.each(links, (*link).part)
	whole(lease / 2)
	f.each(links, (*link).hang)
	whole(lease * 3 / 4)
	f.each(links, func(k *link) { k.shake(lease / 8) })
	whole(lease)
	f.each(links, (*link).hang)
	whole(lease * 3 / 2)
}

// Requests to workers are cut, late, stuck and overtake each other.
func TestLinksFromNodesToWorkers(t *testing.T) {
	t.Parallel()
	trial(t, "link node to worker: cut, stall, delay, reorder", setting{}, func(f *fleet) {
		var links []*link
		for _, w := range f.workers {
			links = append(links, w.down)
		}
		f.breakLinks(links)
	})
}

// FC-48: beats, registrations and releases are cut, late, stuck and overtake
// each other; their answers as well.
func TestLinksFromWorkersToNodes(t *testing.T) {
	t.Parallel()
	trial(t, "link worker to node: cut, stall, delay, reorder", setting{}, func(f *fleet) {
		var links []*link
		for _, w := range f.workers {
			links = append(links, w.up)
		}
		f.breakLinks(links)
	})
}

// FC-43, R10: commands and replies are lost on either side of their execution,
// replies are shifted by one, commands overtake each other, errors come out of
// nothing, and the store is out of reach for less and for more than a lease.
func TestLinksFromNodesToTheStore(t *testing.T) {
	t.Parallel()
	trial(t, "link node to Redis: cut, stall, delay, reorder, shift", setting{}, func(f *fleet) {
		for _, r := range f.links {
			r.Rule(sometimes)
		}
		time.Sleep(lease * 3 / 2)
		for _, r := range f.links {
			r.Rule(nil)
		}
		for _, d := range []time.Duration{lease / 2, lease * 3 / 2} {
			cut, stuck := f.links[f.chance.IntN(3)], f.links[f.chance.IntN(3)]
			cut.Refuse(true)
			stuck.Stall(true)
			time.Sleep(d)
			cut.Refuse(false)
			stuck.Stall(false)
			time.Sleep(f.between(0, lease/4))
		}
	})
}

// A store that answers, but late: everything is slow and nothing breaks.
func TestSlowStore(t *testing.T) {
	t.Parallel()
	trial(t, "slow store: up to 50 ms more a command", setting{}, func(f *fleet) {
		for _, r := range f.links {
			r.Rule(func([]string) redistest.Fault {
				return redistest.DelayCommand(time.Duration(monotonic()/1000%50) * time.Millisecond)
			})
		}
		time.Sleep(2 * lease)
		for _, r := range f.links {
			r.Rule(nil)
		}
		if n := len(f.load.served(monotonic() - int64(2*lease))); n == nIDs {
			f.t.Error("nothing was served on a slow store")
		}
	})
}

// The links of this package are sound: a fault that breaks nothing proves
// nothing.
func TestLinkFaults(t *testing.T) {
	t.Parallel()
	r := redistest.Start(t) // answers a line with a line
	k := newLink(t, redistest.FreeAddr(t), r.Addr)
	via := newProbe(k.addr)
	if err := via.ping(); err != nil {
		t.Fatal(err)
	}
	k.cut()
	if err := via.ping(); err == nil {
		t.Error("a cut connection answers")
	}
	if err := newProbe(k.addr).ping(); err != nil {
		t.Errorf("after the cut: %v", err)
	}
	k.part()
	if err := newProbe(k.addr).ping(); err == nil {
		t.Error("a parted link answers")
	}
	k.heal()
	k.hang()
	via = newProbe(k.addr)
	time.AfterFunc(100*time.Millisecond, k.heal)
	begun := time.Now()
	if err := via.ping(); err != nil || time.Since(begun) < 90*time.Millisecond {
		t.Errorf("a hanging link: %v after %v", err, time.Since(begun))
	}
	k.shake(100 * time.Millisecond)
	var took []time.Duration
	for range 10 {
		begun := time.Now()
		if err := via.ping(); err != nil {
			t.Fatal(err)
		}
		took = append(took, time.Since(begun))
	}
	if slices.Max(took) < 20*time.Millisecond {
		t.Errorf("a shaken link: %v", took)
	}
}
