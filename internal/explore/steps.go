package explore

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"pinboard/internal/ownership"
)

func itoa(n int) string { return strconv.Itoa(n) }

func slotOf(process string) (slot, life int) {
	a, b, _ := strings.Cut(process, ".")
	slot, _ = strconv.Atoi(a[1:])
	life, _ = strconv.Atoi(b)
	return slot - 1, life
}

// A step is one thing that can happen; its numbers say to whom.
type step struct {
	kind    stepKind
	a, b, c int
}

type stepKind int

// Steps without a fault.
const (
	passes  stepKind = iota // a tick
	calls                   // slot a calls node b
	closes                  // slot a's instance b has closed
	flushes                 // slot a sends its releases to node b
	idles                   // slot a's instance b goes by itself
	exits                   // slot a has left
	asks                    // a request at node a for id b by host c; vacant ids go to the candidate n
	arrives                 // forward a
	goesOn                  // held call a
	thaws                   // slot a
	starts                  // slot a, another process
	firstFault
)

type emit func(step, *state)

// next emits every successor.
func (s *state) next(out emit) {
	if s.ready() {
		t := s.clone()
		t.tick()
		out(step{kind: passes}, t)
	}
	for i := range s.procs {
		s.worker(i, out)
	}
	if len(s.fwds) < s.w.Forwards {
		s.requests(out)
	}
	for i := range s.fwds {
		if f := &s.fwds[i]; !s.procs[f.slot].paused {
			t := s.clone()
			t.arrive(i, false)
			out(step{kind: arrives, a: i}, t)
		}
	}
	for i := range s.held {
		t := s.clone()
		t.goOn(i)
		out(step{kind: goesOn, a: i}, t)
	}
	if s.left > 0 {
		s.faults(out)
	}
}

// worker emits what the process of a slot does by itself.
func (s *state) worker(i int, out emit) {
	p := &s.procs[i]
	switch {
	case p.dead:
		t := s.clone()
		t.procs[i] = newProc(s.w, p.life+1)
		out(step{kind: starts, a: i}, t)
		return
	case p.paused:
		t := s.clone()
		t.procs[i].paused = false
		t.procs[i].overdue(s.now)
		out(step{kind: thaws, a: i}, t)
		return
	}
	for n := range s.nodes {
		if s.calling1(p) && !s.plain(p) {
			t := s.clone()
			c := t.calling(i, n)
			a := t.do2(c)
			t.take(c, &a)
			out(step{calls, i, n, 0}, t)
		}
		if s.flushing(i) {
			t := s.clone()
			c := t.releasing(i, n)
			t.do(c)
			t.procs[i].flushed(c.items)
			out(step{flushes, i, n, 0}, t)
		}
	}
	for id := range p.inst {
		switch in := &p.inst[id]; {
		case in.on && in.live && in.closing:
			t := s.clone()
			t.procs[i].closed(id, s.now)
			out(step{closes, i, id, 0}, t)
		case in.on && in.live:
			t := s.clone()
			t.procs[i].close(id, s.now, true)
			out(step{idles, i, id, 0}, t)
		}
	}
	if s.leaves(p) {
		t := s.clone()
		t.exit(i, 0)
		out(step{kind: exits, a: i}, t)
	}
}

// calling1 reports that the worker's loop makes a call in this tick.
func (s *state) calling1(p *proc) bool { return p.due && !p.waits && !p.over && !p.dead && !p.paused }

// plain reports a beat that only renews: when in a tick it comes makes no
// difference, so it comes at the end.
func (s *state) plain(p *proc) bool {
	x, ok := s.b.Source().Session(p.session)
	m := s.b.Meta()
	return ok && x.Gen == m.Gen && ownership.ServerOf(m.Gen) == serverName(s.server) && s.doubtOf(0) == "" && x.Phase == ownership.Serving && x.Beaten &&
		s.clock() < x.Until && x.ReplacedBy == "" && !x.Ejected && x.DisplacedBy == "" && x.Drain == p.drains && x.OwnDrain == p.leaving &&
		len(p.acks) == 0 && len(s.b.Source().Orders(x.Worker.Process)) == 0 && !s.w.Hostnames
}

// do2 is a call with its challenge: a register without one does nothing.
func (s *state) do2(c *call) answer {
	if c.kind == register && !s.proves(c) {
		return answer{}
	}
	return s.do(c)
}

func (s *state) flushing(i int) bool {
	p := &s.procs[i]
	return len(p.queue) > 0 && p.session != "" && !p.dead && !p.paused &&
		!slices.ContainsFunc(s.held, func(c call) bool { return c.kind == release && c.awaited && c.slot == i && c.life == p.life })
}

// leaves reports that a process on its way out is done.
func (s *state) leaves(p *proc) bool {
	return p.leaving && !p.dead && !p.paused && (!slices.ContainsFunc(p.inst, func(in instance) bool { return in.on }) || s.now >= p.leaveAt+2*lease+tick)
}

// exit deregisters and ends the process.
func (s *state) exit(i, n int) *call {
	p := &s.procs[i]
	c := &call{kind: deregister, slot: i, life: p.life, node: n, sent: s.now, heard: s.now, session: p.session}
	if p.session != "" {
		s.do(c)
	}
	s.crash(i)
	return c
}

func (s *state) crash(i int) {
	p := newProc(s.w, s.procs[i].life)
	p.dead, p.due = true, false
	s.procs[i] = p
}

// ready reports that nothing has to happen before time passes.
func (s *state) ready() bool {
	for i := range s.procs {
		p := &s.procs[i]
		if p.dead || p.paused {
			continue
		}
		if s.calling1(p) && !s.plain(p) || s.flushing(i) || s.leaves(p) {
			return false
		}
		for _, in := range p.inst {
			if in.on && in.live && in.closing && !in.slow && s.now-in.since >= tick {
				return false
			}
		}
	}
	return true
}

// tick lets time pass: what has waited too long is given up.
func (s *state) tick() {
	for i := range s.procs {
		if p := &s.procs[i]; s.calling1(p) && s.plain(p) {
			c := s.calling(i, 0)
			a := s.do(c)
			s.take(c, &a)
		}
	}
	for n := range s.nodes {
		s.look(n)
	}
	s.now += tick
	for i := range s.procs {
		p := &s.procs[i]
		p.due = !p.dead
		if !p.paused {
			p.overdue(s.now)
		}
		if p.waits && s.now-p.sent >= patience {
			p.waits = false
		}
	}
	s.fwds = slices.DeleteFunc(s.fwds, func(f forward) bool {
		p := &s.procs[f.slot]
		kept := p.paused && !p.dead && p.life == f.life
		return s.now-f.sent > window && !kept
	})
	kept := s.held[:0:0]
	for _, c := range s.held {
		if c.awaited && c.kind != place && s.now-c.sent >= patience {
			c.awaited = false
			if c.kind == release && !s.procs[c.slot].dead && s.procs[c.slot].life == c.life {
				s.procs[c.slot].flushed(c.items)
			}
		}
		if !s.givenUp(&c) {
			kept = append(kept, c)
		}
	}
	s.held = kept
}

// givenUp reports a call that its node does no more.
func (s *state) givenUp(c *call) bool {
	switch {
	case c.view != nil:
		return s.now-c.readAt > opTime || !c.view.unchanged(s) || c.server != s.server
	case c.kind == release || c.kind == deregister:
		return s.now-c.heard > flight
	}
	return s.now-c.heard > opTime
}

// requests emits what a request for an id at a node can lead to.
func (s *state) requests(out emit) {
	for n := range s.nodes {
		for id := range s.w.IDs {
			for host := range s.w.hosts() {
				s.request(n, id, host, out)
			}
		}
	}
}

func (s *state) request(n, id, host int, out emit) {
	st := step{asks, n, id, host}
	t := s.clone()
	f := forward{node: n, id: id, host: host, sent: s.now}
	var found ownership.Found
	var no error
	t.update(n, func(tx *ownership.Tx, p *ownership.Rules) {
		var refusal, got = error(nil), ownership.Found{}
		q := t.query(&f)
		fd, r := p.Lookup(tx, q)
		for _, heir := range tx.Roster() { // as a node asks again with a worker of the asking hostname (H3)
			if fd.Heirless {
				q.Heir = heir.Worker.Session
				fd, r = p.Lookup(tx, q)
			}
		}
		if got = fd; r != nil {
			refusal = r
		}
		found, no = got, refusal
	})
	switch {
	case no != nil:
		out(st, t)
	case !found.Vacant:
		t.aim(&f, &found.Session, found.Row.Epoch, found.Row.Nonce)
		t.fwds = append(t.fwds, f)
		out(st, t)
	default:
		for i, x := range s.b.Source().Roster() {
			t := s.clone()
			if t.place(f, x.Worker.Session) {
				st.c = host + 10*(i+1)
				out(st, t)
			}
		}
	}
}

// place gives the vacant id to a session and sends the request there.
func (s *state) place(f forward, session string) (ok bool) {
	f.nonce = s.nonce()
	var found ownership.Found
	var m *ownership.Mint
	var no bool
	s.update(f.node, func(tx *ownership.Tx, p *ownership.Rules) {
		fd, mint, placed, r := p.Place(tx, s.query(&f), session, s.nodes[f.node].seen)
		found, m, ok, no = fd, mint, placed, r != nil
	})
	if !ok || no || m == nil {
		return false
	}
	s.aim(&f, &found.Session, m.Epoch, found.Row.Nonce)
	s.fwds = append(s.fwds, f)
	return true
}

// arrive is the end of a forward at its worker, or in a failed connect.
func (s *state) arrive(i int, fails bool) {
	f := s.fwds[i]
	s.fwds = slices.Delete(s.fwds, i, i+1)
	to := f.slot
	if s.w.Shared {
		to = s.listens
	}
	p := &s.procs[to]
	there := !p.dead && !p.leaving && (s.w.Shared || p.life == f.life || true)
	if fails || !there {
		if f.fresh {
			s.takeBack(&f)
		}
		return
	}
	switch s.handle(to, &f) {
	case served:
		if s.onServed != nil {
			s.onServed(f.id)
		}
	case unhealthy:
		if f.fresh && s.takeBack(&f) {
			return
		}
		s.update(f.node, func(tx *ownership.Tx, p *ownership.Rules) {
			p.Begin(tx, 0)
			if row := tx.Row(s.w.key(f.id)); row != nil && row.Session == f.session {
				p.Want(tx, f.session)
			}
		})
	}
}

// takeBack is ReleaseFresh (R3).
func (s *state) takeBack(f *forward) (done bool) {
	s.update(f.node, func(tx *ownership.Tx, p *ownership.Rules) { done = p.ReleaseFresh(tx, s.w.key(f.id), f.epoch, f.nonce) })
	return done
}

// goOn does what a held call still has to do.
func (s *state) goOn(i int) {
	c := s.held[i]
	s.held = slices.Delete(s.held, i, i+1)
	var a answer
	if c.view != nil {
		a = s.commitSlow(&c)
	} else {
		a = s.do(&c)
	}
	p := &s.procs[c.slot]
	if !c.awaited || p.dead || p.life != c.life {
		return
	}
	switch c.kind {
	case register, beat:
		p.waits = false
		s.take(&c, &a)
	case release:
		p.flushed(c.items)
	}
}

func (w *World) hosts() int {
	if w.Hostnames {
		return w.Workers
	}
	return 1
}

var names = []string{"time passes", "calls", "closed", "releases", "idle", "exits", "ask", "arrives", "goes on", "thaws", "starts"}

func (x step) String() string {
	if x.kind < firstFault {
		return fmt.Sprint(names[x.kind], " ", x.a, " ", x.b, " ", x.c)
	}
	return fmt.Sprint(faultNames[x.kind-firstFault], " ", x.a, " ", x.b, " ", x.c)
}
