//go:build linux

package faults

import (
	"slices"
	"testing"
	"time"
)

// Workers die without a word; others take their place.
func TestWorkersAreKilled(t *testing.T) {
	t.Parallel()
	trial(t, "kill -9 of workers", setting{}, func(f *fleet) {
		for range 2 {
			f.replace(f.chance.IntN(len(f.workers)))
			time.Sleep(f.between(lease/4, lease))
		}
	})
}

// Workers stand still, for less than a lease and for more.
func TestWorkersAreFrozen(t *testing.T) {
	t.Parallel()
	trial(t, "SIGSTOP of workers", setting{}, func(f *fleet) {
		for _, d := range []time.Duration{lease / 2, lease * 3 / 2} {
			f.workers[f.chance.IntN(len(f.workers))].freeze(d)
			time.Sleep(f.between(0, lease/2))
		}
	})
}

func TestNodesAreKilled(t *testing.T) {
	t.Parallel()
	trial(t, "kill -9 of nodes", setting{}, func(f *fleet) {
		for range 3 {
			n := f.nodes[f.chance.IntN(len(f.nodes))]
			n.kill()
			time.Sleep(f.between(0, lease/4))
			n.again()
			time.Sleep(f.between(0, lease/2))
		}
		for _, n := range f.nodes {
			f.await("the node", n.ready)
		}
	})
}

// Nodes stand still with requests, beats and releases in their sockets, and go
// on as if nothing had happened.
func TestNodesAreFrozen(t *testing.T) {
	t.Parallel()
	trial(t, "SIGSTOP of nodes", setting{}, func(f *fleet) {
		before := f.generations()
		for _, d := range []time.Duration{lease / 2, lease * 3 / 2, 3 * lease} {
			f.nodes[f.chance.IntN(len(f.nodes))].freeze(d)
			time.Sleep(f.between(0, lease/2))
		}
		time.Sleep(lease) // each node looks once a second
		if now := f.generations(); !slices.Equal(now, before) {
			f.t.Errorf("generations %v after %v: a node that stood still doubted its store", now, before)
		}
	})
}
