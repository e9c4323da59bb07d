package explore

import (
	"slices"

	"pinboard"
	"pinboard/internal/ownership"
)

// The worker's rules are those of internal/sim (worker.go, instance.go,
// lease.go), which is compared with the real client; TestTheSimulationAgrees
// compares the two.

func (p *proc) healthy(now Micros) bool { return !p.granted || now < p.deadline-buffer }
func (p *proc) expired(now Micros) bool { return p.granted && now >= p.deadline }
func (p *proc) ended(now Micros) bool   { return p.granted && now >= p.promised }

// holds reports live as docs/rules.md, "Words", defines it.
func (p *proc) holds(id int, now Micros) bool {
	in := &p.inst[id]
	return !p.dead && in.on && in.live && !in.lapsed && !p.ended(now)
}

func (p *proc) renew(now, sent Micros) {
	if p.ended(now) {
		for i := range p.inst {
			p.inst[i].lapsed = p.inst[i].lapsed || p.inst[i].closing
		}
	}
	p.granted, p.deadline, p.promised = true, sent+lease, sent+lease
	if p.leaving {
		p.deadline = min(p.deadline, p.leaveAt+2*lease)
	}
}

// close begins the end of an instance.
func (p *proc) close(id int, now Micros, releasing bool) {
	in := &p.inst[id]
	switch {
	case !in.on:
	case in.closing:
		in.releasing = in.releasing || releasing
	default:
		in.closing, in.releasing, in.since = true, releasing, now
	}
}

// closed ends it: from here on nobody is live, and its release waits.
func (p *proc) closed(id int, now Micros) {
	in := &p.inst[id]
	in.live = false
	if in.releasing {
		m := &p.fence[id]
		if !m.on {
			*m = mark{on: true, epoch: in.epoch, used: now}
		}
		if m.epoch == in.epoch {
			m.released, m.used = true, now
		}
		p.queue = append(p.queue, queued{id, in.epoch})
	}
	if in.since = now; !in.releasing || p.session == "" {
		*in = instance{}
	}
}

// overdue drops closed instances whose release takes too long: the client waits
// no longer, and goes on with the release beside.
func (p *proc) overdue(now Micros) {
	for id := range p.inst {
		if in := &p.inst[id]; in.on && !in.live && now-in.since >= patience {
			*in = instance{}
		}
	}
}

// flushed: the release call is over, whatever became of it.
func (p *proc) flushed(items []queued) {
	p.queue = slices.DeleteFunc(p.queue, func(q queued) bool { return slices.Contains(items, q) })
	for _, q := range items {
		if in := &p.inst[q.id]; in.on && !in.live && in.epoch == q.epoch {
			*in = instance{}
		}
	}
}

func (m *mark) admit(epoch pinboard.Epoch, now Micros) bool {
	if m.on && now-m.used > forget {
		*m = mark{}
	}
	switch {
	case !m.on || epoch > m.epoch:
		*m = mark{on: true, epoch: epoch, used: now}
		return true
	case epoch < m.epoch, m.released:
		return false
	}
	m.used = now
	return true
}

// What a worker makes of a forward.
type outcome int

const (
	served outcome = iota
	stranger
	unhealthy
	refused // any other no: nothing follows from it
)

// handle is the worker's side of a forward.
func (s *state) handle(slot int, f *forward) outcome {
	p := &s.procs[slot]
	switch {
	case f.session != p.session || p.session == "":
		return stranger
	case p.expired(s.now), !p.fence[f.id].admit(f.epoch, s.now):
		return refused
	}
	in := &p.inst[f.id]
	switch {
	case !in.on && !p.healthy(s.now):
		return unhealthy
	case !in.on && (p.leaving || p.drains):
		return refused
	case !in.on:
		*in = instance{on: true, live: true, epoch: f.epoch}
		return served
	case in.closing:
		return refused
	}
	if f.epoch > in.epoch {
		s.adopts(slot, f.id, in.epoch, f.epoch)
		in.epoch = f.epoch
	}
	if p.leaving || p.drains {
		p.close(f.id, s.now, true)
	}
	return served
}

// adopts holds an adoption to docs/rules.md, "Words": nobody else can have owned
// the id between the two epochs.
func (s *state) adopts(slot, id int, from, to pinboard.Epoch) {
	mine := s.processOf(slot)
	for _, p := range s.log[id] {
		if p.epoch > from && p.epoch <= to && p.process != mine {
			s.fail("an older copy of an id that another process could have owned is adopted")
		}
	}
}

// accept takes a session: duplicates are quit before the lease is renewed.
func (s *state) accept(slot int, a *answer, sent Micros) {
	p := &s.procs[slot]
	p.session, p.prev, p.acks = a.session, "", nil
	for _, id := range a.duplicates {
		p.close(id, s.now, true)
	}
	p.renew(s.now, sent)
	s.echo(slot, a.drain)
}

// echo follows the operator's drain.
func (s *state) echo(slot int, drain bool) {
	p := &s.procs[slot]
	if p.drains = drain; drain {
		for id := range p.inst {
			p.close(id, s.now, true)
		}
	}
}

// take is what the worker does with an answer.
func (s *state) take(c *call, a *answer) {
	p := &s.procs[c.slot]
	if p.dead || p.life != c.life {
		return
	}
	switch a.kind {
	case granted:
		s.accept(c.slot, a, c.sent)
	case renewed:
		p.renew(s.now, c.sent)
		s.echo(c.slot, a.drain)
		p.acks = slices.DeleteFunc(p.acks, func(id string) bool { return slices.Contains(c.acks, id) })
		for _, m := range a.messages {
			s.message(p, m)
		}
	case reregister:
		if p.session != "" {
			p.prev, p.session = p.session, ""
		}
		p.due = true // at once
	case ousted:
		p.over, p.due = true, false
		for id := range p.inst {
			p.close(id, s.now, true)
		}
	}
}

func (s *state) message(p *proc, m ownership.Message) {
	if m.Deadline != nil {
		p.close(int(m.ID[0]-'a'), s.now, true)
	}
	if !slices.Contains(p.acks, m.MsgID) {
		p.acks = append(p.acks, m.MsgID)
	}
}

// twoOwners checks that no id has two live owners.
func (s *state) twoOwners() {
	for id := range s.w.IDs {
		n := 0
		for i := range s.procs {
			if s.procs[i].holds(id, s.now) {
				n++
			}
		}
		if n > 1 {
			s.fail("two live owners")
		}
	}
}
