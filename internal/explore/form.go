package explore

import (
	"slices"
	"strings"

	"pinboard"
	"pinboard/internal/memstore"
	"pinboard/internal/ownership"
)

func (f *former) proc(i int) {
	s, p := f.s, &f.s.procs[i]
	f.mark('p')
	if f.flag(p.dead); p.dead {
		return
	}
	f.flag(p.paused, p.leaving, p.over, p.due, p.waits, p.drains, p.granted)
	f.session(p.session)
	f.flag(p.prev != "") // whose it was is never looked at
	if p.granted {
		f.at(p.deadline)
		f.at(p.promised)
	}
	if p.waits {
		f.since(p.sent, patience)
	}
	if p.leaving {
		f.since(p.leaveAt, 3*lease)
	}
	f.num(int64(len(p.acks)))
	for _, a := range p.acks {
		f.name("m", a)
	}
	for id := range p.inst {
		in := &p.inst[id]
		if f.flag(in.on); in.on {
			f.flag(in.live, in.closing, in.releasing, in.lapsed, in.slow)
			f.epoch(in.epoch)
			if in.closing {
				f.since(in.since, patience)
			}
		}
		m := s.fenceMark(p, id)
		if f.flag(m != nil); m != nil {
			f.flag(m.released)
			f.epoch(m.epoch)
			f.since(m.used, forget+tick)
		}
	}
	f.num(int64(len(p.queue)))
	for _, q := range p.queue {
		f.num(int64(q.id))
		f.epoch(q.epoch)
	}
}

func (f *former) forward(x *forward) {
	f.mark('f')
	f.num(int64(x.node), int64(x.id), int64(x.host))
	f.session(x.session)
	f.process(x.process)
	f.epoch(x.epoch)
	f.flag(x.fresh)
	f.nonce(x.nonce)
	f.since(x.sent, window+tick)
}

func (f *former) nonce(n ownership.Nonce) {
	if n == (ownership.Nonce{}) {
		f.num(-1)
		return
	}
	f.name("n", string(n[:]))
}

func (f *former) call(c *call) {
	f.mark('c')
	f.num(int64(c.kind), int64(c.node))
	if c.kind != place {
		f.process(f.s.process(c.slot, c.life))
	}
	f.since(c.sent, patience+tick)
	f.since(c.heard, flight+tick)
	f.flag(c.awaited, c.drains)
	f.flag(c.prev != "")
	f.session(c.session)
	if c.worker != nil {
		f.worker(c.worker)
		f.session(c.worker.Session)
	}
	for _, k := range c.claims {
		f.num(int64(f.s.w.idOf(k)))
	}
	f.num(int64(len(c.acks)))
	for _, a := range c.acks {
		f.name("m", a)
	}
	for _, q := range c.items {
		f.num(int64(q.id))
		f.epoch(q.epoch)
	}
	if c.kind == place {
		f.forward(&c.fwd)
	}
	if f.flag(c.view != nil); c.view != nil {
		f.flag(c.view.unchanged(f.s), c.server == f.s.server)
		f.num((f.s.now - c.readAt) / tick)
		f.num((f.s.offset - c.offset) / tick)
	}
}

func (f *former) node(n *node) {
	f.mark('n')
	if f.s.storeMayLose() || uint64(n.seen) > f.s.b.Last() {
		f.epoch(n.seen)
	}
	f.num(n.long / tick)
	f.flag(n.doubt != "")
	f.gen(n.gen)
	for _, b := range f.s.contents() {
		m := b.Meta()
		switch {
		case n.gen != m.Gen:
			f.num(sign(n.since - m.Since))
		default:
			f.num(sign(n.commits - b.Commits()))
		}
	}
}

func sign(n int64) int64 { return min(max(n, -1), 1) }

// gen names a generation, whether its server is the present one, and the
// clocks that nodes carry on for it.
func (f *former) gen(g string) {
	if g == "" {
		f.num(-1)
		return
	}
	_, known := f.names["g"+g]
	f.name("g", g)
	if known {
		return
	}
	f.flag(ownership.ServerOf(g) == serverName(f.s.server))
	for i := range f.s.nodes {
		at := slices.IndexFunc(f.s.nodes[i].past, func(c carried) bool { return c.gen == g })
		if f.flag(at >= 0); at >= 0 {
			f.num((f.s.nodes[i].past[at].offset - f.s.offset) / tick)
		}
	}
}

// bucket writes everything that a rule can read there.
func (f *former) bucket(b memstore.Bucket) {
	m, src := b.Meta(), b.Source()
	f.mark('b')
	f.gen(m.Gen)
	f.ahead(m.Cold) // Since counts only when Longest grows, which it never does here
	f.num(m.Longest / tick)
	if b.Last() == 0 {
		f.num(-1)
	} else {
		f.epoch(pinboard.Epoch(b.Last()))
	}
	for _, r := range b.Rows() {
		f.row(r.Key, &r.Row)
	}
	f.mark('i')
	f.flag(src.Index("n:/t") != "")
	if f.s.w.Hostnames {
		f.mark(byte(len(src.Index("t:env"))))
		for h := range f.s.procs {
			bind, ok := src.Binding(ownership.BindKey{Host: f.s.w.host(h), Namespace: "/t"})
			if f.flag(ok); ok {
				f.binding(&bind)
			}
		}
	}
	for _, i := range f.slots {
		f.session(src.Index(ownership.ByClient(client(i))))
		f.session(src.Index(ownership.ByURL(f.s.w.url(i))))
		f.orders(src, f.s.processOf(i))
	}
	for len(f.todo) > 0 {
		id := f.todo[0]
		f.todo = f.todo[1:]
		x, ok := src.Session(id)
		if f.flag(ok); ok {
			f.lease(src, &x)
		}
	}
	if f.s.hasOld { // the other content is written with all sessions of this one
		for n := range f.names {
			if id, ok := strings.CutPrefix(n, "s"); ok {
				f.todo = append(f.todo, id)
			}
		}
		slices.SortFunc(f.todo, func(a, b string) int { return f.names["s"+a] - f.names["s"+b] })
	}
}

func (f *former) row(k ownership.Key, r *ownership.Row) {
	f.mark('r')
	f.num(int64(f.s.w.idOf(k)))
	f.mark(byte(r.Kind))
	f.session(r.Session)
	f.epoch(r.Epoch)
	f.nonce(r.Nonce)
	f.epoch(r.Since)
	for _, o := range strings.Fields(r.Others) {
		f.session(o)
	}
	f.mark(';')
	f.ahead(r.Until)
	f.store(r.Made, 4*(lease+tick))
	f.store(r.Wind, 4*(lease+tick))
	f.host(r.Claim)
	f.store(r.Taken, 10*(lease+tick))
}

func (f *former) host(h string) {
	if len(h) < 2 {
		f.num(-1)
		return
	}
	f.num(int64(f.slot(int(h[1] - '1'))))
}

func (f *former) binding(b *ownership.Binding) {
	f.flag(b.Env != "")
	f.num(b.Epoch)
	f.ahead(b.Wait)
	f.ahead(b.By)
	f.flag(b.Was != "")
	f.num(b.WasEpoch)
}

func (f *former) orders(src ownership.Source, process string) {
	list := src.Orders(process)
	f.num(int64(len(list)))
	for i := range list {
		o := &list[i]
		f.name("m", o.MsgID)
		f.num(int64(f.s.w.idOf(o.Key)))
		f.epoch(o.Epoch)
		f.flag(o.Revoke, o.Evict, o.Acked)
		f.num(int64(o.Delivered), int64(o.Passed))
	}
}

// worker writes what tells one session's worker from another's in a world.
func (f *former) worker(w *ownership.Worker) {
	f.process(w.Process)
	f.flag(w.Past)
}

// lease writes what rules read of a session. Nobody looks at Next, nor at when
// it was asked: Caller alone does, which no world has.
func (f *former) lease(src ownership.Source, x *ownership.Session) {
	f.worker(x.Worker)
	f.session(src.Index(ownership.ByProcess(x.Worker.Process)))
	f.gen(x.Gen)
	f.ahead(x.Until)
	f.num(x.TTL / tick)
	f.heard(x.At)
	f.num(int64(x.Headroom))
	f.heard(x.HeardAt)
	f.flag(x.Beaten, x.OwnDrain, x.Drain, x.Acks, x.Aborts, x.Ejected, x.Asked != 0, x.DisplacedBy != "")
	f.ahead(x.DrainAt)
	f.mark(byte(x.Degraded))
	f.store(x.FailSince, 3*lease)
	f.store(x.ProvedAt, lease)
	f.session(x.ReplacedBy)
	f.mark(byte(x.Phase))
	f.ahead(x.Free)
	f.num(int64(len(x.Behind)))
	for _, b := range x.Behind {
		f.session(b)
	}
	f.store(x.Ordered, 4*lease)
	f.num(x.DisplacedAt)
}
