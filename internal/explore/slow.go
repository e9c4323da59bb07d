package explore

import (
	"time"

	"pinboard/internal/ownership"
)

// noTime is a deadline of now, which the rule raises to a lease.
var noTime time.Duration

// A slow commit: the rule has run, and what it wrote is on its way. Nothing
// that it read may change meanwhile (ownership.Store), so the rule is run again
// on the same values, at the time of the read.

// hold reads for the call's rule and leaves its commit on the way.
func (s *state) hold(c *call) bool {
	if c.kind == register && !s.admits(c) {
		return false
	}
	if s.doubtOf(c.node) != "" {
		return false
	}
	c.view = &reads{Source: s.b.Source(), meta: s.b.Meta()}
	c.readAt, c.offset, c.server = s.now, s.offset, s.server
	tx := s.open(c.node, c.view, s.now, s.offset)
	s.ruleOf(c, &slowResult{})(tx, s.rulesOf(c.node))
	if tx.Out.Empty() {
		return false
	}
	s.held = append(s.held, *c)
	return true
}

// A slowResult is what a call's rule said.
type slowResult struct {
	enrolled ownership.Enrolled
	renewal  ownership.Renewal
	found    ownership.Found
	mint     *ownership.Mint
	err      error
	placed   bool
}

func (s *state) ruleOf(c *call, r *slowResult) rule {
	switch c.kind {
	case register:
		return func(tx *ownership.Tx, p *ownership.Rules) { r.enrolled, r.err = p.Register(tx, s.enrol(c, c.worker)) }
	case beat:
		return func(tx *ownership.Tx, p *ownership.Rules) { r.renewal = p.Renew(tx, c.pulse(s, ownership.ProofOK)) }
	case place:
		return func(tx *ownership.Tx, p *ownership.Rules) {
			r.found, r.mint, r.placed, _ = p.Place(tx, s.query(&c.fwd), c.session, s.nodes[c.node].seen)
		}
	}
	return func(tx *ownership.Tx, p *ownership.Rules) {
		for _, q := range c.items {
			p.Release(tx, s.w.key(q.id), c.session, q.epoch, true)
		}
	}
}

// commitSlow is the arrival of the commit: a store takes it only if nothing
// read has changed, at the same server, before its not-after, and at a time
// that its clock can show.
func (s *state) commitSlow(c *call) answer {
	var r slowResult
	readAt, now := c.readAt+c.offset, s.clock()
	if c.server != s.server || !c.view.unchanged(s) {
		return answer{}
	}
	tx := s.open(c.node, s.b.Source(), c.readAt, c.offset)
	tx.Doubt = ""
	s.ruleOf(c, &r)(tx, s.rulesOf(c.node))
	if now < readAt || now > readAt+(s.now-c.readAt)+tick || tx.Out.NotAfter != 0 && now >= tx.Out.NotAfter {
		return answer{}
	}
	s.commit(c.node, tx)
	switch {
	case c.kind == register:
		return s.enrolled(c, &r.enrolled, r.err)
	case c.kind == beat:
		return s.beaten(c, &r.renewal)
	case c.kind == place && r.placed && r.mint != nil && s.now-c.readAt <= age && len(s.fwds) < s.w.Forwards:
		f := c.fwd
		s.aim(&f, &r.found.Session, r.mint.Epoch, r.found.Row.Nonce)
		s.fwds = append(s.fwds, f)
	}
	return answer{}
}

// slowPlaces are placements whose commit is on its way.
func (s *state) slowPlaces(try attempt) {
	for n := range s.nodes {
		for id := range s.w.IDs {
			for i, x := range s.b.Source().Roster() {
				try(SlowCommit, n, id, 100+i, func(t *state) bool {
					f := forward{node: n, id: id, sent: s.now, nonce: t.nonce()}
					if t.doubtOf(n) != "" {
						return false
					}
					c := &call{kind: place, node: n, session: x.Worker.Session, fwd: f, heard: s.now, slot: 0}
					return t.hold(c)
				})
			}
		}
	}
}
