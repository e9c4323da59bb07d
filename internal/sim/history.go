package sim

import (
	"time"

	"pinboard/internal/guard"
	"pinboard/internal/memstore"
)

// A snapshot is the content of a server at some moment, for restores and for
// primaries that come back with older data.
type snapshot struct {
	at     time.Duration
	server *Server
	image  *memstore.Image
	states []guard.State // of its buckets
}

func (w *World) save() *snapshot {
	x := &snapshot{at: w.Now, server: w.server, image: w.server.mem.Image()}
	for b := range w.Buckets {
		x.states = append(x.states, w.server.state(b))
	}
	return x
}

// snapshots keeps older images of the store.
func (w *World) snapshots() {
	w.Go(nil, func() {
		for {
			w.Sleep(5 * time.Second)
			w.saved = append(w.saved, w.save())
		}
	})
}

// older picks a snapshot of the present server, the younger the smaller size.
func (w *World) older(size time.Duration) *snapshot {
	var found *snapshot
	for i := len(w.saved) - 1; i >= 0; i-- {
		if x := w.saved[i]; x.server == w.server && x.at >= w.server.since && w.Now-x.at > time.Second {
			if found = x; w.Now-x.at > size*2 {
				break
			}
		}
	}
	return found
}

// missed reports that every node has seen commits that x has not: what only
// some of them saw the others cannot miss (docs/guarantees.md, assumption 8).
func (w *World) missed(x *snapshot) bool {
	for _, n := range w.nodes {
		for b := range w.Buckets {
			if seen, _ := n.conn.guard.Commits(b); n.dead || seen <= x.states[b].Commits {
				return false
			}
		}
	}
	return true
}

// mayForget reports that a server whose clock is ahead by so much may begin
// without what the present one minted: its epochs grow all the same
// (docs/guarantees.md, assumptions 4 and 5).
func (w *World) mayForget(ahead time.Duration) bool {
	now := w.time().Add(ahead).UnixMicro()
	longest := w.server.state(0).Longest
	for _, minted := range w.check.bucket {
		if now+longest <= Micros(minted) {
			return false
		}
	}
	return true
}

// historyFault makes the store go back in its own history under the same
// identity.
func (w *World) historyFault(f Fault) func() {
	s, x := w.server, w.older(f.Size)
	if x == nil || w.mixed() || !w.watching() || !w.missed(x) || !w.mayForget(s.ahead()) {
		return nil
	}
	switch f.Kind {
	case "rewind":
		s.mem.Restart(s.run, x.image)
		w.note("store: %s is what it was at %v", s.run, x.at)
	case "there and back": // another one took over for a while, and nobody need have touched it
		boots := w.boots
		w.Replace(x.image, s.ahead())
		return func() {
			if t := w.server; t.follows == s && w.boots == boots && w.mayForget(t.ahead()) {
				im := x.image
				if f.A%2 == 0 {
					im = t.mem.Image()
				}
				w.Replace(im, t.ahead())
				w.server.name(s.run)
				w.note("store: it is %s again", s.run)
			}
		}
	}
	return nil
}

// clockFault makes clocks wrong.
func (w *World) clockFault(f Fault, n *Node) func() {
	s := w.server
	switch f.Kind {
	case "step": // to somewhere near
		// A step that no node can compare with what was before is not covered
		// (docs/guarantees.md, assumption 3).
		if w.watching() {
			s.step(w.skew(f) - s.ahead())
			w.stepped = w.Now
		}
	case "large step":
		by := time.Duration(float64(time.Second) * float64(int(1)<<(f.B%12)) * (1 + f.P))
		if f.A%2 == 0 {
			by = -by
		}
		if w.watching() && !w.mixed() {
			s.step(by)
			w.level += by
			w.stepped = w.Now
		}
	case "small steps":
		w.smallSteps(f)
	case "slew":
		if !w.watching() || w.slewing {
			return nil
		}
		w.slewing = true
		s.rate((f.P - 0.2) / 2) // up to a tenth in either direction
		return func() { w.endSlew() }
	case "sleep node":
		n.Sleep()
		return func() { n.Wake(); n.since = w.Now }
	case "sleep host": // of a node and the store
		n.Sleep()
		s.down = true
		return func() { n.Wake(); n.since, s.down, w.server.down = w.Now, false, false }
	}
	return nil
}

// smallSteps are some in a row, each too small to be seen alone.
func (w *World) smallSteps(f Fault) {
	each := time.Duration((f.P*5 - 1) * float64(990*time.Millisecond))
	w.Go(nil, func() {
		for range 2 + f.A%6 {
			if !w.watching() || w.healing {
				return
			}
			w.server.step(each)
			w.level += each
			w.stepped = w.Now
			w.Sleep(f.Size / 2)
		}
	})
}

func (w *World) endSlew() {
	if s := w.server; w.slewing {
		w.level += s.ahead() - s.offset
		s.rate(0)
		w.slewing, w.stepped = false, w.Now
	}
}

// stopFault stops a node or a worker at some point where it can wait, or a
// node's thread between its last look and the write.
func (w *World) stopFault(f Fault, n *Node, p *Proc) func() {
	host, thaw := &n.Host, func() { n.Thaw(); n.since = w.Now }
	switch f.Kind {
	case "stop before write":
		// For longer nothing is promised (docs/guarantees.md, assumption 7).
		n.stall = f.For % (n.lease/3 - time.Second)
		return nil
	case "stop worker somewhere":
		host, thaw = &p.Host, p.Thaw
	case "sleep node somewhere":
		thaw = func() { n.Wake(); n.since = w.Now }
		f.For *= 2
	}
	host.trip = 1 + int(f.Size/time.Millisecond)%400
	host.tripped = func() {
		w.note("%s: stops", host.Name)
		if f.Kind == "sleep node somewhere" {
			n.asleep = w.Now
		}
		w.At(f.For, thaw)
	}
	return func() { host.trip = 0 }
}
