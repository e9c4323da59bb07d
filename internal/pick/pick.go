// Package pick chooses a worker for a new id. It is pure: the same candidates,
// request and random numbers give the same answer.
package pick

import (
	"math/rand/v2"

	"github.com/cespare/xxhash/v2"
)

// A Candidate may be given the id.
type Candidate struct {
	Session  string
	Process  string  // identity for affinity: it outlives sessions
	Headroom float64 // last report less what was placed since; any finite number
}

// A Request says what counts.
type Request struct {
	Caller   string  // session of the calling instance: preferred without condition
	Affinity string  // key that prefers one worker by rendezvous; "" for none
	Balance  float64 // the preference holds while headroom >= mean / Balance
}

// Choose returns the index of the chosen candidate, -1 if there are none:
// the caller's own worker; else the one that the affinity key prefers, while
// its headroom is at least mean/Balance; else the better of two distinct
// random ones, ties at random.
func Choose(cs []Candidate, q Request, r *rand.Rand) int {
	switch len(cs) {
	case 0:
		return -1
	case 1:
		return 0
	}
	if q.Caller != "" {
		for i := range cs {
			if cs[i].Session == q.Caller {
				return i
			}
		}
	}
	if q.Affinity != "" {
		if i := Preferred(cs, q.Affinity); cs[i].Headroom >= mean(cs)/q.Balance {
			return i
		}
	}
	i := r.IntN(len(cs))
	j := r.IntN(len(cs) - 1)
	if j >= i {
		j++
	}
	switch {
	case cs[i].Headroom > cs[j].Headroom:
		return i
	case cs[i].Headroom < cs[j].Headroom:
		return j
	}
	return []int{i, j}[r.IntN(2)]
}

// Preferred is the rendezvous winner of a key: when one of n candidates comes
// or goes, about 1/n of the keys move and no others.
func Preferred(cs []Candidate, key string) int {
	best, top := -1, uint64(0)
	var d xxhash.Digest
	for i := range cs {
		d.ResetWithSeed(0)
		d.WriteString(cs[i].Process)
		d.WriteString("\x00")
		d.WriteString(key)
		h := d.Sum64()
		if best < 0 || h > top || h == top && cs[i].Process < cs[best].Process {
			best, top = i, h
		}
	}
	return best
}

func mean(cs []Candidate) float64 {
	var sum float64
	for i := range cs {
		sum += cs[i].Headroom / float64(len(cs))
	}
	return sum
}
