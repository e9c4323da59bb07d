//go:build linux

package faults

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/anishathalye/porcupine"

	"pinboard"
)

// The history of one id is that of a register that holds its owner: a process
// at an epoch. Every request that got inside a worker read it; releases and
// registrations change it; a lease that ends by the worker's own clock, or a
// call whose outcome nobody knows, makes it loose: from then on the register
// may change hands at any moment.
type register struct {
	owner string
	epoch pinboard.Epoch // the highest ever
	since pinboard.Epoch // the first at which the present owner has it without a break
	free  bool           // nobody's: the next owner has a higher epoch
	loose bool
}

type verb string

const (
	served    verb = "served"    // a request is inside the owner, at its epoch
	released  verb = "released"  // Pinboard took a release
	reclaimed verb = "reclaimed" // a registration listed the id and got it
	refused   verb = "refused"   // ... listed it and was told to quit it
	omitted   verb = "omitted"   // ... did not list it; or the process deregistered
	loosened  verb = "loosened"  // the owner's right has ended or may end
)

type action struct {
	verb    verb
	id      string
	process string
	epoch   pinboard.Epoch
}

func (a action) String() string { return fmt.Sprintf("%s %s %s@%d", a.id, a.verb, a.process, a.epoch) }

// step is the register's rule book.
func step(s register, a action) (bool, register) {
	mine := !s.free && s.owner == a.process
	switch a.verb {
	case served:
		switch {
		case mine && s.epoch == a.epoch:
			return true, s
		case a.epoch > s.epoch && (s.free || s.loose || mine):
			next := register{owner: a.process, epoch: a.epoch, since: a.epoch}
			if mine {
				next.since = s.since
			}
			return true, next
		}
		return false, s
	case reclaimed:
		s.loose = false
		return mine, s
	case released:
		switch {
		case mine && s.epoch == a.epoch:
			s.free = true
		case mine && s.since <= a.epoch && a.epoch < s.epoch:
			s.loose = true // frees a row that was reclaimed at a fresh epoch, and no other
		}
	case refused, omitted:
		s.free = s.free || mine
	case loosened:
		s.loose = s.loose || mine
	}
	return true, s
}

var ownership = porcupine.Model{
	Init: func() any { return register{free: true} },
	Step: func(state, input, _ any) (bool, any) {
		ok, next := step(state.(register), input.(action))
		return ok, next
	},
	Partition: func(history []porcupine.Operation) [][]porcupine.Operation {
		byID := map[string][]porcupine.Operation{}
		for _, o := range history {
			id := o.Input.(action).id
			byID[id] = append(byID[id], o)
		}
		var parts [][]porcupine.Operation
		for _, p := range byID {
			parts = append(parts, p)
		}
		return parts
	},
	DescribeOperation: func(input, _ any) string { return input.(action).String() },
}

// A request is what a client did and saw.
type request struct {
	op     int64
	id     string
	node   string // address
	call   int64
	end    int64
	status int    // 0: no answer
	code   string // of an error of Pinboard's own
	body   string // of a 200: process and epoch
}

// reach is how long before an activation its resolve can have been: a resolve
// older than five seconds is not sent (F1), and a forward that is
// not acknowledged five seconds later is cut.
const reach = int64(10 * time.Second)

// history turns what clients and workers wrote down into operations.
func history(requests []request, lines []line) (ops []porcupine.Operation, faults []string) {
	h := &historian{calls: map[int64]int64{}, inside: map[int64]line{}, ids: map[string][]string{}, known: map[string]bool{}}
	for _, r := range requests {
		h.calls[r.op] = r.call
	}
	for _, l := range lines {
		if l.ID != "" && !slices.Contains(h.ids[l.Process], l.ID) {
			h.ids[l.Process] = append(h.ids[l.Process], l.ID)
		}
		if l.Event == "enter" {
			h.enter(l)
		}
	}
	for _, l := range lines {
		if l.Event == "start" && !h.known[fmt.Sprint(l.ID, l.Process, l.Epoch)] {
			h.add(served, l.ID, l.Process, l.Epoch, l.At-reach, l.At)
		}
	}
	h.told(lines)
	h.lapses(lines)
	for _, r := range requests {
		if in, ok := h.inside[r.op]; r.status == 200 && (!ok || r.body != fmt.Sprint(in.Process, " ", in.Epoch)) {
			h.faults = append(h.faults, fmt.Sprintf("%s: request %d got an answer nobody gave: %q", r.id, r.op, r.body))
		}
	}
	return h.ops, h.faults
}

type historian struct {
	calls  map[int64]int64     // when each request was sent
	inside map[int64]line      // where each request got in
	ids    map[string][]string // those a process ever had
	known  map[string]bool     // placements that a request saw
	ops    []porcupine.Operation
	faults []string
}

func (h *historian) add(v verb, id, process string, epoch pinboard.Epoch, call, end int64) {
	h.ops = append(h.ops, porcupine.Operation{Input: action{v, id, process, epoch}, Call: call, Return: end})
}

// enter: the node resolved the id between the client's call and now.
func (h *historian) enter(l line) {
	if before, twice := h.inside[l.Op]; twice {
		h.faults = append(h.faults, fmt.Sprintf("%s: request %d was delivered twice: to %s and %s", l.ID, l.Op, before.Process, l.Process))
		return
	}
	h.inside[l.Op] = l
	h.known[fmt.Sprint(l.ID, l.Process, l.Epoch)] = true
	h.add(served, l.ID, l.Process, l.Epoch, h.calls[l.Op], l.At)
}

// told pairs calls of workers with their answers.
func (h *historian) told(lines []line) {
	answers := map[string]line{}
	for _, l := range lines {
		if l.Event == "answer" {
			answers[fmt.Sprint(l.Process, " ", l.Call)] = l
		}
	}
	for _, l := range lines {
		if l.Event != "call" {
			continue
		}
		a := answers[fmt.Sprint(l.Process, " ", l.Call)]
		switch {
		case l.Kind == "release":
			for id, epoch := range l.Released {
				if a.OK {
					h.add(released, id, l.Process, epoch, l.At, a.At)
				} else {
					h.add(loosened, id, l.Process, 0, l.At, l.At)
				}
			}
		case l.Kind == "register" || l.Kind == "deregister":
			h.registered(l, a)
		}
	}
}

func (h *historian) registered(l, a line) {
	for _, id := range h.ids[l.Process] {
		switch {
		case !a.OK:
			h.add(loosened, id, l.Process, 0, l.At, l.At)
		case slices.Contains(a.Duplicates, id):
			h.add(refused, id, l.Process, 0, l.At, a.At)
		case slices.Contains(l.Listed, id):
			h.add(reclaimed, id, l.Process, 0, l.At, a.At)
		default:
			h.add(omitted, id, l.Process, 0, l.At, a.At)
		}
	}
}

func (h *historian) lapses(lines []line) {
	o := readOwners(lines)
	for process, windows := range o.windows {
		for _, w := range windows {
			for _, id := range h.ids[process] {
				h.add(loosened, id, process, 0, w.end, w.end)
			}
		}
	}
}

// linearizable judges a history; the text names ids whose part has no order.
func linearizable(ops []porcupine.Operation) (found []string) {
	for _, part := range ownership.Partition(ops) {
		id := part[0].Input.(action).id
		switch result, info := porcupine.CheckOperationsVerbose(ownership, part, time.Minute); result {
		case porcupine.Unknown:
			found = append(found, id+": no verdict within a minute")
		case porcupine.Illegal:
			found = append(found, fmt.Sprintf("%s: not linearizable\n%s", id, stuck(part, info.PartialLinearizationsOperations()[0])))
		}
	}
	slices.Sort(found)
	return found
}

// stuck shows where the longest order that was found ends, and what could not
// follow it.
func stuck(part []porcupine.Operation, orders [][]porcupine.Operation) string {
	longest := slices.MaxFunc(orders, func(a, b []porcupine.Operation) int { return len(a) - len(b) })
	used := map[porcupine.Operation]int{}
	for _, o := range longest {
		used[plain(o)]++
	}
	var left []porcupine.Operation
	for _, o := range part {
		if used[plain(o)]--; used[plain(o)] < 0 {
			left = append(left, o)
		}
	}
	slices.SortFunc(left, func(a, b porcupine.Operation) int { return cmp.Compare(a.Return, b.Return) })
	const shown = 12
	return "an order ends with\n" + told(longest[max(0, len(longest)-shown):]) + "and then none of these fits\n" + told(left[:min(shown, len(left))])
}

func plain(o porcupine.Operation) porcupine.Operation {
	return porcupine.Operation{Input: o.Input, Call: o.Call, Return: o.Return}
}

func told(part []porcupine.Operation) string {
	var b strings.Builder
	for _, o := range part {
		fmt.Fprintf(&b, "  %10.4f - %10.4f  %s\n", seconds(o.Call), seconds(o.Return), o.Input)
	}
	return b.String()
}
