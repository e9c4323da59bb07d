package explore

import (
	"pinboard"
	"pinboard/internal/ownership"
)

// A callKind says what a call asks of a node.
type callKind int

const (
	register callKind = iota
	beat
	release
	deregister
	place // a node's own: the placement of a new id, on its way to the store
)

// A call is one request to a node and what the node still has to do for it. It
// is in state.held only while a fault keeps it from being done at once.
type call struct {
	kind       callKind
	slot, life int
	node       int
	sent       Micros // by the worker
	heard      Micros // by the node
	awaited    bool   // somebody waits for the answer
	worker     *ownership.Worker
	claims     []ownership.Key
	prev       string
	drains     bool
	session    string
	acks       []string
	items      []queued
	fwd        forward // of a placement

	view   *reads // slow: what the rule read, at readAt
	readAt Micros
	offset Micros
	server int
}

// An answer is what the node says.
type answer struct {
	kind       answerKind
	session    string
	duplicates []int
	drain      bool
	messages   []ownership.Message
}

type answerKind int

const (
	nothing answerKind = iota // a Wait, an error, or no answer at all
	granted
	renewed
	reregister
	ousted
)

// calling makes the call that the worker's loop makes next.
func (s *state) calling(slot, n int) *call {
	p := &s.procs[slot]
	p.due, p.pair = false, p.pair+1
	c := &call{kind: beat, slot: slot, life: p.life, node: n, sent: s.now, heard: s.now, awaited: true, session: p.session, acks: p.acks, drains: p.leaving}
	if p.session != "" {
		return c
	}
	c.kind, c.prev = register, p.prev
	process := s.processOf(slot)
	c.worker = &ownership.Worker{ClientID: client(slot), Process: process, Secret: process, URL: s.w.url(slot), Namespaces: []string{"/t"},
		Hostname: s.w.host(slot), Env: s.w.key(0).Env, Owner: "t", Proven: true, LeaseMs: lease / 1000}
	if s.w.Hostnames {
		c.worker.Takeover, c.worker.BindEpoch = "wind_down", 1
	}
	for id := range p.inst {
		if p.inst[id].on {
			c.claims = append(c.claims, s.w.key(id))
		}
	}
	return c
}

// releasing makes the call with the releases that wait.
func (s *state) releasing(slot, n int) *call {
	p := &s.procs[slot]
	return &call{kind: release, slot: slot, life: p.life, node: n, sent: s.now, heard: s.now, awaited: true, session: p.session, items: append([]queued(nil), p.queue...)}
}

// proves reports that the challenge of the call ends in its process.
func (s *state) proves(c *call) bool { return s.reached(c.slot, c.life) && !s.procs[c.slot].paused }

// reached reports that the worker's address leads to that process.
func (s *state) reached(slot, life int) bool {
	p := &s.procs[slot]
	return !p.dead && !p.leaving && p.life == life && (!s.w.Shared || s.listens == slot)
}

// do is the node's whole work on a call, at one instant.
func (s *state) do(c *call) answer {
	switch c.kind {
	case register:
		return s.doRegister(c)
	case beat:
		return s.doBeat(c)
	case release:
		for _, q := range c.items {
			s.update(c.node, func(tx *ownership.Tx, p *ownership.Rules) {
				p.Release(tx, s.w.key(q.id), c.session, q.epoch, true)
			})
		}
	case deregister:
		s.update(c.node, func(tx *ownership.Tx, p *ownership.Rules) { p.Deregister(tx, c.session) })
	}
	return answer{}
}

func (s *state) enrol(c *call, w *ownership.Worker) *ownership.Enrol {
	return &ownership.Enrol{Worker: w, Headroom: 100, Draining: c.drains, Claims: c.claims, Prev: c.prev, Last: true, Heard: wall(c.heard),
		Longest: s.nodes[c.node].long, Seen: s.nodes[c.node].seen, OldNow: s.oldNow(c.node)}
}

// doRegister is Directory.Register in one bucket.
func (s *state) doRegister(c *call) answer {
	if !s.admits(c) {
		return answer{}
	}
	var out ownership.Enrolled
	var err error
	s.update(c.node, func(tx *ownership.Tx, p *ownership.Rules) { out, err = p.Register(tx, s.enrol(c, c.worker)) })
	return s.enrolled(c, &out, err)
}

func (s *state) enrolled(c *call, out *ownership.Enrolled, err error) answer {
	if err != nil {
		return answer{}
	}
	a := answer{kind: granted, session: c.worker.Session, drain: out.Drain}
	for _, k := range out.Duplicates {
		a.duplicates = append(a.duplicates, s.w.idOf(k))
	}
	return a
}

// admits is the first half of a registration; it names the session.
func (s *state) admits(c *call) bool {
	w := *c.worker
	w.Session = "s" + itoa(s.fresh())
	var err error
	s.update(c.node, func(tx *ownership.Tx, p *ownership.Rules) {
		err = p.Admit(tx, s.enrol(c, &w))
		w.Past = len(c.claims) > 0 || c.prev != "" || tx.Index(ownership.ByProcess(w.Process)) != ""
	})
	c.worker = &w
	return err == nil
}

func (c *call) pulse(s *state, proof ownership.Proof) ownership.Pulse {
	return ownership.Pulse{Longest: s.nodes[c.node].long, Beat: ownership.Beat{Session: c.session, Heard: wall(c.heard), Headroom: 100,
		Draining: c.drains, Acks: c.acks, HasAcks: len(c.acks) > 0, Proof: proof}}
}

// doBeat is Directory.Beat in one bucket.
func (s *state) doBeat(c *call) answer {
	var r ownership.Renewal
	s.update(c.node, func(tx *ownership.Tx, p *ownership.Rules) { r = p.Renew(tx, c.pulse(s, ownership.ProofOK)) })
	if r.Displaced {
		s.update(c.node, func(tx *ownership.Tx, p *ownership.Rules) { p.BeginWait(tx, r.Worker) })
	}
	return s.beaten(c, &r)
}

// beaten turns a standing into the answer (Directory.answer).
func (s *state) beaten(c *call, r *ownership.Renewal) answer {
	switch r.Standing {
	case ownership.Renewed:
		return answer{kind: renewed, drain: r.Lease.Drain, messages: r.Messages}
	case ownership.Ousted:
		return answer{kind: ousted}
	case ownership.Over, ownership.Unrenewed:
		return answer{}
	}
	s.update(c.node, func(tx *ownership.Tx, p *ownership.Rules) {
		p.MarkRestating(tx, c.session, r.Standing == ownership.RestateDue)
	})
	return answer{kind: reregister}
}

// query is a resolution by one request.
func (s *state) query(f *forward) ownership.Query {
	return ownership.Query{Host: s.w.host(f.host), NS: "/t", ID: s.w.key(f.id).ID, Env: s.w.key(f.id).Env, Known: true, MsgID: "m" + itoa(s.fresh()), Nonce: f.nonce}
}

func (s *state) nonce() (n ownership.Nonce) {
	v := s.fresh()
	for i := range n {
		n[i] = byte(v >> (8 * i))
	}
	return n
}

// aim points a forward at the owner that was found.
func (s *state) aim(f *forward, o *ownership.Session, epoch pinboard.Epoch, row ownership.Nonce) {
	f.session, f.process, f.epoch = o.Worker.Session, o.Worker.Process, epoch
	f.fresh = row != ownership.Nonce{} && row == f.nonce
	f.slot, f.life = slotOf(o.Worker.Process)
	s.nodes[f.node].seen = max(s.nodes[f.node].seen, epoch)
}
