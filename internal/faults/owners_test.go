//go:build linux

package faults

import (
	"fmt"
	"math"
	"slices"

	"pinboard"
)

// A span is a time in which an instance was live: from the start of its
// activation until its close had ended, or until its worker's own lease
// deadline if that came first (docs/guarantees.md). A lease granted after a
// lapse brings back what the worker still holds, except what it was told to
// quit.
type span struct {
	process  string
	start    int64
	end      int64
	instance *activation
}

type activation struct {
	process string
	id      string
	number  int64
	start   int64
	end     int64
	quit    int64 // when a register answer ordered it to close
	epochs  []seen
}

type seen struct {
	epoch pinboard.Epoch
	at    int64
}

// A window is a time without a gap in which a process held a lease.
type window struct{ start, end int64 }

// owners holds every instance and every lease of a journal.
type owners struct {
	windows   map[string][]window
	instances []*activation
}

const never = math.MaxInt64

func readOwners(lines []line) owners {
	o := owners{windows: map[string][]window{}}
	at := map[string]*activation{}   // by process and number
	open := map[string]*activation{} // by process and id
	for _, l := range lines {
		instance := fmt.Sprint(l.Process, " ", l.Activation)
		switch l.Event {
		case "answer":
			if l.Deadline != 0 {
				o.lease(l.Process, l.At, l.Deadline)
			}
			for _, id := range l.Duplicates {
				if a := open[l.Process+" "+id]; a != nil {
					a.quit = min(a.quit, l.At)
				}
			}
		case "start":
			a := &activation{process: l.Process, id: l.ID, number: l.Activation, start: l.At, end: never, quit: never, epochs: []seen{{l.Epoch, l.At}}}
			o.instances = append(o.instances, a)
			at[instance], open[l.Process+" "+l.ID] = a, a
		case "epoch":
			if a := at[instance]; a != nil {
				a.epochs = append(a.epochs, seen{l.Epoch, l.At})
			}
		case "end":
			if a := at[instance]; a != nil {
				a.end = l.At
				delete(open, l.Process+" "+l.ID)
			}
		}
	}
	return o
}

func (o *owners) lease(process string, at, deadline int64) {
	w := o.windows[process]
	switch {
	case len(w) > 0 && at <= w[len(w)-1].end:
		w[len(w)-1].end = max(deadline, at)
	case deadline > at:
		w = append(w, window{at, deadline})
	}
	o.windows[process] = w
}

// violations are the contradictions to single ownership.
func (o *owners) violations() (found []string) {
	byID := map[string][]*activation{}
	for _, a := range o.instances {
		byID[a.id] = append(byID[a.id], a)
	}
	for id, list := range byID {
		slices.SortFunc(list, func(a, b *activation) int { return int(a.start - b.start) })
		for _, text := range slices.Concat(o.shared(list), climb(list), adopted(list)) {
			found = append(found, id+": "+text)
		}
	}
	slices.Sort(found)
	return found
}

// shared finds two live instances of one id.
func (o *owners) shared(list []*activation) (found []string) {
	var spans []span
	for _, a := range list {
		for _, w := range o.windows[a.process] {
			if s := (span{a.process, max(a.start, w.start), min(a.end, w.end), a}); s.start < s.end && w.start < a.quit {
				spans = append(spans, s)
			}
		}
	}
	slices.SortFunc(spans, func(a, b span) int { return int(a.start - b.start) })
	for i := 1; i < len(spans); i++ {
		latest, s := spans[i-1], spans[i]
		if s.start < latest.end && s.instance != latest.instance {
			found = append(found, fmt.Sprintf("two live owners: %s #%d and %s #%d, %.3f s together",
				latest.process, latest.instance.number, s.process, s.instance.number, seconds(min(s.end, latest.end)-s.start)))
		}
		if latest.end > s.end {
			spans[i] = latest
		}
	}
	return found
}

// climb finds an activation that began at an epoch not above all before it.
func climb(list []*activation) (found []string) {
	for i, a := range list {
		for _, earlier := range list[:i] {
			for _, e := range earlier.epochs {
				if e.at <= a.start && a.epochs[0].epoch <= e.epoch {
					found = append(found, fmt.Sprintf("epoch not above: %s #%d began at %d, %s #%d had %d",
						a.process, a.number, a.epochs[0].epoch, earlier.process, earlier.number, e.epoch))
					break
				}
			}
		}
	}
	return found
}

// adopted finds an instance that went on at a higher epoch although another
// process owned the id in between (rule R).
func adopted(list []*activation) (found []string) {
	for _, a := range list {
		low, high := a.epochs[0].epoch, a.epochs[len(a.epochs)-1].epoch
		for _, other := range list {
			for _, e := range other.epochs {
				if other.process != a.process && low < e.epoch && e.epoch < high {
					found = append(found, fmt.Sprintf("old memory adopted: %s #%d went from %d to %d, %s had %d",
						a.process, a.number, low, high, other.process, e.epoch))
				}
			}
		}
	}
	return found
}
