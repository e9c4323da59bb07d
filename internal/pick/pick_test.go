package pick

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"testing/quick"
)

func fleet(n int) []Candidate {
	cs := make([]Candidate, n)
	for i := range cs {
		cs[i] = Candidate{Session: fmt.Sprint("s", i), Process: fmt.Sprint("p", i), Headroom: 100}
	}
	return cs
}

func seeded(n uint64) *rand.Rand { return rand.New(rand.NewPCG(n, 7)) }

// dumb is a second, deliberately plain reading of what Choose promises.
func dumb(cs []Candidate, q Request, r *rand.Rand) map[int]bool {
	ok := map[int]bool{}
	if len(cs) == 0 {
		return map[int]bool{-1: true}
	}
	for i, c := range cs {
		if q.Caller != "" && c.Session == q.Caller {
			return map[int]bool{i: true}
		}
	}
	total := 0.0
	for _, c := range cs {
		total += c.Headroom
	}
	if q.Affinity != "" {
		i := Preferred(cs, q.Affinity)
		switch d := cs[i].Headroom - total/float64(len(cs))/q.Balance; {
		case len(cs) == 1 || d > 1e-9:
			return map[int]bool{i: true}
		case d > -1e-9:
			ok[i] = true // on the edge rounding may decide
		}
	}
	for i := range cs {
		for j := range cs {
			if i != j && cs[i].Headroom >= cs[j].Headroom {
				ok[i] = true // some pair exists in which i wins or ties
			}
		}
	}
	if len(cs) == 1 {
		ok[0] = true
	}
	return ok
}

func TestChooseAgreesWithAPlainReading(t *testing.T) {
	f := func(heads []uint8, caller, key uint8, seed uint64) bool {
		if len(heads) > 12 {
			heads = heads[:12]
		}
		cs := fleet(len(heads))
		for i := range cs {
			cs[i].Headroom = float64(heads[i] % 8)
		}
		q := Request{Balance: 1.25}
		if caller%3 == 0 {
			q.Caller = fmt.Sprint("s", caller%16)
		}
		if key%3 != 0 {
			q.Affinity = fmt.Sprint(key)
		}
		got := Choose(cs, q, seeded(seed))
		return dumb(cs, q, nil)[got] && got == Choose(cs, q, seeded(seed))
	}
	if err := quick.Check(f, &quick.Config{MaxCount: 5000, Rand: nil}); err != nil {
		t.Fatal(err)
	}
}

func TestPreferenceMovesForOneNthWhenAWorkerLeaves(t *testing.T) {
	const n, clients = 8, 20000
	cs := fleet(n)
	moved, held := 0, 0
	for c := range clients {
		key := fmt.Sprint("client", c)
		before := cs[Preferred(cs, key)].Process
		after := cs[:n-1][Preferred(cs[:n-1], key)].Process
		if before == cs[n-1].Process {
			held++
		}
		if before != after {
			moved++
			if before != cs[n-1].Process {
				t.Fatalf("%s moved from %s, which stayed", key, before)
			}
		}
	}
	if moved != held || math.Abs(float64(moved)/clients-1.0/n) > 0.01 {
		t.Fatalf("%d of %d clients moved, %d were held by the leaver; want about 1/%d", moved, clients, held, n)
	}
}

func TestPreferenceIgnoresListPosition(t *testing.T) {
	cs := fleet(6)
	want := cs[Preferred(cs, "k")].Process
	seeded(1).Shuffle(len(cs), func(i, j int) { cs[i], cs[j] = cs[j], cs[i] })
	if got := cs[Preferred(cs, "k")].Process; got != want {
		t.Fatalf("preferred %s, after a shuffle %s", want, got)
	}
}

func TestTiesAreRandomAndCandidatesDistinct(t *testing.T) {
	const n, rounds = 8, 40000
	cs, r := fleet(n), seeded(3)
	got := make([]int, n)
	for range rounds {
		got[Choose(cs, Request{Balance: 1.25}, r)]++
	}
	for i, k := range got {
		if math.Abs(float64(k)/rounds-1.0/n) > 0.01 {
			t.Fatalf("worker %d took %d of %d, want about 1/%d", i, k, rounds, n)
		}
	}
	// With two candidates the worse one is never chosen: the pair is distinct.
	two := fleet(2)
	two[0].Headroom = 1
	for range 1000 {
		if Choose(two, Request{Balance: 1.25}, r) != 1 {
			t.Fatal("the pair was not distinct")
		}
	}
}

func TestATallWorkerTakesAtMostTwoNths(t *testing.T) {
	const n, rounds = 8, 40000
	cs, r := fleet(n), seeded(4)
	cs[2].Headroom = 1000
	took := 0
	for range rounds {
		if Choose(cs, Request{Balance: 1.25}, r) == 2 {
			took++
		}
	}
	if share := float64(took) / rounds; math.Abs(share-2.0/n) > 0.01 {
		t.Fatalf("the tall worker took %.3f, want about %.3f", share, 2.0/n)
	}
}

func TestPreferenceHoldsWhileHeadroomIsNearTheMean(t *testing.T) {
	for _, c := range []struct {
		headroom float64
		held     bool
	}{{100, true}, {79, true}, {70, false}, {0, false}} {
		cs := fleet(4)
		i := Preferred(cs, "k")
		cs[i].Headroom = c.headroom
		all := true
		r := seeded(9)
		for range 200 {
			all = all && Choose(cs, Request{Affinity: "k", Balance: 1.25}, r) == i
		}
		if all != c.held {
			t.Errorf("headroom %v: preference held %v, want %v", c.headroom, all, c.held)
		}
	}
}

func TestTheCallersOwnWorkerComesFirst(t *testing.T) {
	cs := fleet(5)
	cs[3].Headroom = -5
	if got := Choose(cs, Request{Caller: "s3", Affinity: "k", Balance: 1.25}, seeded(1)); got != 3 {
		t.Fatalf("got %d", got)
	}
}
