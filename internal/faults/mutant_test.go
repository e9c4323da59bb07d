//go:build linux

package faults

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

// What the checkers find.
const (
	twoOwners = "two live owners"
	noOrder   = "not linearizable"
)

// mustFail runs a fault against a fleet that is not what it should be until
// the checkers say so: both, unless wants names one.
func mustFail(t *testing.T, s setting, fault func(f *fleet), wants ...string) {
	if len(wants) == 0 {
		wants = []string{twoOwners, noOrder}
	}
	f := startFleet(t, s)
	for range 10 {
		fault(f)
		time.Sleep(lease)
		o := readOwners(readJournal(t, f.journal))
		if strings.Contains(fmt.Sprint(o.violations()), twoOwners) {
			break
		}
	}
	found := f.verdict()
	for _, want := range wants {
		if !slices.ContainsFunc(found, func(text string) bool { return strings.Contains(text, want) }) {
			t.Errorf("not noticed: %s; found %d: %.2000s", want, len(found), strings.Join(found, "\n"))
		}
	}
	if len(found) > 0 {
		t.Logf("noticed, among others: %.300s", found[0])
	}
}

// A store that loses rows without losing itself, as one that evicts does, is
// what Pinboard cannot hold against: the run must say so.
func TestEvictedRowsAreNoticed(t *testing.T) {
	t.Parallel()
	mustFail(t, setting{}, func(f *fleet) {
		for _, key := range f.redis.Do("KEYS", "*"+namespace+"/id*").([]any) {
			f.redis.Do("DEL", key.(string))
		}
	})
}

// silence holds back what a worker tells the nodes, for less than its lease.
func (f *fleet) silence(w *fleetWorker, meanwhile func()) {
	w.up.hang()
	meanwhile()
	time.Sleep(lease * 3 / 4)
	w.up.heal()
}

// deaf nodes ignore what their guard holds against a clock or a history.
var deaf = edit{"internal/ownership/rules.go", "	case tx.Doubt != \"\":\n		p.generation", "	case tx.Doubt == \"never\":\n		p.generation"}

// Nodes that take an id from a worker before its lease has ended.
func TestShortenedLeasesAreNoticed(t *testing.T) {
	t.Parallel()
	early := []edit{
		{"internal/ownership/fitness.go", "	case tx.Before(s.Until):\n		return running\n", "	case tx.Before(s.Until - p.Lease - p.Slack/2):\n		return running\n"},
		{"internal/ownership/fitness.go", "	return s.Until\n}", "	return 0\n}"},
		{"internal/redisstore/commit.lua", "math.floor((tonumber(c) - offset) / 1000) - 1", "math.floor((tonumber(c) - offset) / 1000) - 2501"},
	}
	mustFail(t, setting{binary: build(t, early...)}, func(f *fleet) { f.silence(f.workers[f.chance.IntN(3)], func() {}) })
}

// Nodes that trust a store which has just forgotten everything.
func TestWarmWipedStoresAreNoticed(t *testing.T) {
	t.Parallel()
	warm := edit{"internal/ownership/rules.go", "Cold: tx.Now + longest + p.Lag,", "Cold: tx.Now,"}
	mustFail(t, setting{binary: build(t, warm)}, func(f *fleet) {
		f.silence(f.workers[f.chance.IntN(3)], func() { f.redis.Do("FLUSHALL") })
	})
}
