package explore

import (
	"slices"

	"pinboard/internal/memstore"
	"pinboard/internal/ownership"
)

// Faults are steps that cost one of the faults allowed.
const (
	LoseCall stepKind = firstFault + iota
	LoseAnswer
	LateCall
	TwiceCall
	LoseRelease
	LateRelease
	TwiceRelease
	LoseForward
	FailConnect
	Crash
	Pause
	Leave
	Restart
	Empty
	Wipe
	Older
	SlowCommit
	NodeDies
	StepLittle
	StepFar
	SlowClose
	WindDown
	Revoke
	Drain
	Eject
	Want
	Swap
	lastFault
)

var faultNames = [...]string{"lost call", "lost answer", "late call", "doubled call", "lost release", "late release", "doubled release", "lost forward",
	"failed connect", "crash", "pause", "leave", "restart", "empty", "wipe", "older copy", "slow commit", "node death", "little step", "far step",
	"slow close", "wind-down", "revoke", "drain", "eject", "restate order", "address swap"}

// farStep is a step of the store's clock that guards see.
const farStep = 5 * tick

func (w *World) has(k stepKind) bool { return slices.Contains(w.Faults, k) }

// faults emits every fault that may happen now.
func (s *state) faults(out emit) {
	try := func(k stepKind, a, b, c int, do func(t *state) bool) {
		if !s.w.has(k) {
			return
		}
		t := s.clone()
		t.left--
		if do(t) {
			out(step{k, a, b, c}, t)
		}
	}
	for i := range s.procs {
		s.workerFaults(i, try)
	}
	for i := range s.fwds {
		try(LoseForward, i, 0, 0, func(t *state) bool { t.fwds = slices.Delete(t.fwds, i, i+1); return true })
		try(FailConnect, i, 0, 0, func(t *state) bool { t.arrive(i, true); return true })
	}
	s.storeFaults(try)
	for n := range s.nodes {
		try(NodeDies, n, 0, 0, func(t *state) bool {
			t.nodes[n] = node{long: s.w.rules.Lease + s.w.rules.Slack}
			t.fwds = slices.DeleteFunc(t.fwds, func(f forward) bool { return f.node == n && !s.procs[f.slot].paused })
			t.held = slices.DeleteFunc(t.held, func(c call) bool { return c.node == n && c.view == nil })
			return true
		})
		for id := range s.w.IDs {
			s.orders(n, id, try)
		}
	}
	try(Swap, 0, 0, 0, func(t *state) bool { t.listens = 1 - t.listens; return s.w.Shared })
	if s.w.has(SlowCommit) && len(s.fwds) < s.w.Forwards && len(s.held) < 2 {
		s.slowPlaces(try)
	}
}

type attempt func(k stepKind, a, b, c int, do func(t *state) bool)

// workerFaults are those of one process and its calls.
func (s *state) workerFaults(i int, try attempt) {
	p := &s.procs[i]
	if p.dead {
		return
	}
	try(Crash, i, 0, 0, func(t *state) bool { t.crash(i); return true })
	try(Pause, i, 0, 0, func(t *state) bool { t.procs[i].paused = true; return !p.paused })
	if p.paused {
		return
	}
	try(Leave, i, 0, 0, func(t *state) bool {
		q := &t.procs[i]
		q.leaving, q.leaveAt = true, s.now
		q.deadline = min(q.deadline, s.now+2*lease)
		for id := range q.inst {
			q.close(id, s.now, true)
		}
		return !p.leaving
	})
	for id := range p.inst {
		try(SlowClose, i, id, 0, func(t *state) bool {
			in := &t.procs[i].inst[id]
			in.slow = true
			return p.inst[id].on && p.inst[id].live && !p.inst[id].slow
		})
	}
	for n := range s.nodes {
		s.callFaults(i, n, try)
	}
}

func (s *state) callFaults(i, n int, try attempt) {
	p := &s.procs[i]
	make := func(t *state) (*call, bool) {
		if !s.calling1(p) {
			return nil, false
		}
		return t.calling(i, n), true
	}
	try(LoseCall, i, n, 0, func(t *state) bool { _, ok := make(t); return ok })
	try(LoseAnswer, i, n, 0, func(t *state) bool {
		c, ok := make(t)
		if ok {
			t.do2(c)
		}
		return ok
	})
	try(LateCall, i, n, 0, func(t *state) bool {
		c, ok := make(t)
		if ok && (c.kind != register || t.proves(c)) {
			t.procs[i].waits, t.procs[i].sent = true, s.now
			t.held = append(t.held, *c)
		}
		return ok
	})
	try(TwiceCall, i, n, 0, func(t *state) bool {
		c, ok := make(t)
		if !ok || c.kind == register && !t.proves(c) {
			return false
		}
		again := *c
		again.awaited = false
		a := t.do(c)
		t.take(c, &a)
		t.held = append(t.held, again)
		return true
	})
	try(SlowCommit, i, n, 0, func(t *state) bool {
		c, ok := make(t)
		if !ok || c.kind == register && !t.proves(c) {
			return false
		}
		t.procs[i].waits, t.procs[i].sent = true, s.now
		return t.hold(c)
	})
	for _, k := range []stepKind{LoseRelease, LateRelease, TwiceRelease, SlowCommit} {
		b := n
		if k == SlowCommit {
			b += 10 // its release, not its call
		}
		try(k, i, b, 0, func(t *state) bool { return s.flushing(i) && t.releaseFault(k, i, n) })
	}
	for _, k := range []stepKind{LoseRelease, LateRelease} {
		try(k, i, n+20, 0, func(t *state) bool {
			if !s.leaves(p) || p.session == "" {
				return false
			}
			if k == LateRelease {
				t.held = append(t.held, call{kind: deregister, slot: i, life: p.life, node: n, sent: s.now, heard: s.now, session: p.session})
			}
			t.crash(i)
			return true
		})
	}
}

func (s *state) releaseFault(k stepKind, i, n int) bool {
	c := s.releasing(i, n)
	switch k {
	case LoseRelease:
		s.procs[i].flushed(c.items)
	case LateRelease:
		s.held = append(s.held, *c)
	case TwiceRelease:
		s.do(c)
		s.procs[i].flushed(c.items)
		c.awaited = false
		s.held = append(s.held, *c)
	case SlowCommit:
		if len(c.items) > 1 {
			return false
		}
		return s.hold(c)
	}
	return true
}

// storeFaults are those of the store's servers and their clocks.
func (s *state) storeFaults(try attempt) {
	replace := func(t *state, with memstore.Bucket) { t.b, t.server = with, t.fresh() }
	try(Restart, 0, 0, 0, func(t *state) bool { replace(t, s.b); return true })
	try(Empty, 0, 0, 0, func(t *state) bool { replace(t, memstore.NewBucket()); return true })
	try(Wipe, 0, 0, 0, func(t *state) bool { t.b = memstore.NewBucket(); return true })
	if !s.hasOld {
		try(Older, 0, 0, 0, func(t *state) bool { t.saved, t.hasOld = s.b, true; return true })
	} else if s.w.has(Older) {
		try(Older, 1, 0, 0, func(t *state) bool {
			t.left++ // the copy was paid for
			replace(t, s.saved)
			t.saved, t.hasOld = memstore.Bucket{}, false
			return true
		})
	}
	for _, by := range []Micros{-1, 1} {
		try(StepLittle, int(by), 0, 0, func(t *state) bool { t.offset += by * s.w.rules.Slack; return true })
		try(StepFar, int(by), 0, 0, func(t *state) bool {
			t.offset += by * farStep
			for n := range t.nodes {
				if nd := &t.nodes[n]; nd.gen != "" && ownership.ServerOf(nd.gen) == serverName(t.server) {
					nd.doubt = ownership.ClockStepped
				}
			}
			return true
		})
	}
}

// orders are those of operators, and restate orders that clients cause.
func (s *state) orders(n, id int, try attempt) {
	k := s.w.key(id)
	run := func(kind stepKind, do rule) {
		try(kind, n, id, 0, func(t *state) bool { t.update(n, do); return true })
	}
	run(WindDown, func(tx *ownership.Tx, p *ownership.Rules) { p.WindDown(tx, k, &noTime, "m"+itoa(s.serial), "") })
	run(Revoke, func(tx *ownership.Tx, p *ownership.Rules) { p.WindDown(tx, k, nil, "m"+itoa(s.serial), "") })
	if id > 0 {
		return
	}
	for i := range s.procs {
		session := s.procs[i].session
		if session == "" {
			continue
		}
		mine := func(kind stepKind, b int, do rule) {
			try(kind, n, i, b, func(t *state) bool { t.update(n, do); return true })
		}
		mine(Drain, 1, func(tx *ownership.Tx, p *ownership.Rules) { p.SetDrain(tx, session, true, nil) })
		mine(Drain, 0, func(tx *ownership.Tx, p *ownership.Rules) { p.SetDrain(tx, session, false, nil) })
		mine(Eject, 0, func(tx *ownership.Tx, p *ownership.Rules) { p.Eject(tx, session) })
		mine(Want, 0, func(tx *ownership.Tx, p *ownership.Rules) { p.Want(tx, session) })
	}
}
