package explore

import (
	"fmt"
	"runtime"
	"sync"
)

// A Result says what a search has seen.
type Result struct {
	States  int    // classes of states
	Steps   int    // successors looked at
	Whole   bool   // nothing is left to look at
	Broken  string // the promise that was broken, "" none
	Trace   []step // to the state in which it was
	Slowest int    // ticks until an id was served again, at most
}

// An edge leads back to where a state was first reached from.
type edge struct {
	from int32
	by   step
}

type todo struct {
	at int32
	s  *state
}

// A child is a successor with its key.
type child struct {
	by  step
	s   *state
	key Key
}

// Search looks at every state of the world, the nearest first.
func Search(w World) Result {
	w.ready()
	seen := map[Key]int32{}
	var edges []edge
	live := newLiveness(&w)
	first := w.first()
	seen[first.key()] = 0
	edges = append(edges, edge{from: -1})
	level := []todo{{0, first}}
	r := Result{}
	for len(level) > 0 {
		var next []todo
		for _, kids := range expand(level, live) {
			r.Steps += len(kids.list)
			if kids.bad != "" {
				r.Broken, r.Trace = kids.bad, trail(edges, kids.at)
				r.States = len(seen)
				return r
			}
			for _, k := range kids.list {
				if _, ok := seen[k.key]; ok {
					continue
				}
				at := int32(len(edges))
				seen[k.key] = at
				edges = append(edges, edge{kids.at, k.by})
				if k.s.bad != "" {
					r.Broken, r.Trace, r.States = k.s.bad, trail(edges, at), len(seen)
					return r
				}
				next = append(next, todo{at, k.s})
			}
		}
		level = next
		if w.Most > 0 && len(seen) > w.Most {
			r.States, r.Slowest = len(seen), live.worst
			return r
		}
	}
	r.States, r.Whole, r.Slowest = len(seen), true, live.worst
	return r
}

type family struct {
	at   int32
	list []child
	bad  string
}

// expand finds the successors of a level, on all processors.
func expand(level []todo, live *liveness) []family {
	out := make([]family, len(level))
	var wg sync.WaitGroup
	const chunk = 64
	next := make(chan int)
	for range runtime.GOMAXPROCS(0) {
		wg.Add(1)
		go func() {
			defer wg.Done()
			for from := range next {
				for i := from; i < min(from+chunk, len(level)); i++ {
					out[i] = expandOne(level[i], live)
					level[i].s = nil
				}
			}
		}()
	}
	for i := 0; i < len(level); i += chunk {
		next <- i
	}
	close(next)
	wg.Wait()
	return out
}

func expandOne(x todo, live *liveness) family {
	f := family{at: x.at, bad: live.check(x.s)}
	x.s.next(func(by step, s *state) {
		s.twoOwners()
		f.list = append(f.list, child{by, s, s.key()})
	})
	return f
}

func trail(edges []edge, at int32) (out []step) {
	for ; edges[at].from >= 0; at = edges[at].from {
		out = append([]step{edges[at].by}, out...)
	}
	return out
}

func (r Result) String() string {
	whole := "whole"
	if !r.Whole {
		whole = "not whole"
	}
	if r.Broken != "" {
		whole = r.Broken
	}
	return fmt.Sprintf("%d states, %d steps, %s, served again within %d ticks", r.States, r.Steps, whole, r.Slowest)
}
