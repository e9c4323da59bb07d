package sim

import (
	"time"

	"pinboard/internal/directory"
	"pinboard/internal/ownership"
)

// message applies one control message (docs/protocol.md, "heartbeat").
func (p *Proc) message(m ownership.Message) {
	in := p.instances[p.key(m.NS, m.ID)]
	switch {
	case in == nil:
	case m.Deadline == nil:
		in.deadline = 0
		p.w.note("%s: %s may stay", p.Name, m.ID)
	case in.closing:
		p.close(in, true)
	default:
		in.deadline = p.w.Now + *m.Deadline
		p.w.note("%s: %s is to go within %v", p.Name, m.ID, m.Deadline.Round(time.Millisecond))
		if in.busy == in.streams {
			p.close(in, true)
			return
		}
		at := in.deadline
		p.w.Go(&p.Host, func() {
			p.w.Sleep(at - p.w.Now)
			if in.deadline == at {
				p.close(in, true)
			}
		})
	}
}

// drainEcho follows the operator's drain.
func (p *Proc) drainEcho(g directory.Grant) {
	at := time.Duration(0)
	if g.Draining && g.DrainLeft != nil {
		at = p.w.Now + *g.DrainLeft
	}
	moved := (at-p.srvAt).Abs() > time.Second || (at == 0) != (p.srvAt == 0)
	if g.Draining == p.srvDrain && !moved {
		return
	}
	p.srvDrain, p.srvAt = g.Draining, at
	p.w.note("%s: the operator's drain is %v", p.Name, g.Draining)
	p.drained()
}

// drained evicts what is idle and arms the deadline.
func (p *Proc) drained() {
	at := p.ownAt
	if p.srvAt != 0 && (at == 0 || p.srvAt < at) {
		at = p.srvAt
	}
	p.lease.Cap(at)
	if p.draining || p.srvDrain {
		for _, in := range p.held() {
			if in.busy == in.streams {
				p.close(in, true)
			}
		}
	}
	if at != 0 {
		p.w.Go(&p.Host, func() {
			p.w.Sleep(at - p.w.Now)
			if p.ownAt == at || p.srvAt == at {
				p.abortAll()
			}
		})
	}
}

func (p *Proc) abortAll() {
	for _, in := range p.held() {
		p.close(in, true)
	}
}

// Leave ends the process as SIGTERM does: the listener first, then every
// instance, then the session.
func (p *Proc) Leave() {
	if p.sdk != nil {
		p.sdk.leave()
		return
	}
	p.leaving, p.draining, p.ownAt = true, true, p.w.Now+p.Drain
	p.w.note("%s: leaves", p.Name)
	if p.w.listen[p.url] == p {
		delete(p.w.listen, p.url)
	}
	p.wake()
	p.drained()
	p.w.Go(&p.Host, func() {
		for len(p.instances) > 0 && p.w.Now < p.ownAt+5*time.Second {
			p.w.Sleep(200 * time.Millisecond)
		}
		if s := p.session; s != "" {
			p.retry(s, func(n *Node) error { return n.deregister(s) })
		}
		p.w.At(0, p.Crash)
	})
}

// Crash ends the process at once.
func (p *Proc) Crash() {
	if p.dead {
		return
	}
	p.w.note("%s: is gone", p.Name)
	p.Kill()
	if p.w.listen[p.url] == p {
		delete(p.w.listen, p.url)
	}
	for _, in := range p.held() {
		p.w.check.ended(in)
	}
	p.instances = map[ownership.Key]*Instance{}
}
