package explore

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"slices"

	"pinboard"
	"pinboard/internal/memstore"
	"pinboard/internal/ownership"
)

// A Key names a class of states that behave alike: 128 bits of a digest over
// the canonical form.
//
// In that form times are relative to their clock and clamped at the furthest
// look-back of any rule. Epochs are ranks, with their distance to the clock
// while it can matter. Sessions, processes, generations, servers and nonces
// are numbered by first appearance, and what nothing leads to is left out.
// Workers count up to a swap where a world treats them alike.
type Key [16]byte

func (s *state) key() Key {
	best := s.form(false)
	if s.w.Symmetric && len(s.procs) == 2 {
		if other := s.form(true); bytes.Compare(other, best) < 0 {
			best = other
		}
	}
	sum := sha256.Sum256(best)
	return Key(sum[:16])
}

// A former writes one canonical form.
type former struct {
	s      *state
	out    []byte
	slots  []int // in the order of the form
	names  map[string]int
	todo   []string // sessions named but not written yet
	epochs []pinboard.Epoch
}

func (s *state) form(swapped bool) []byte {
	f := &former{s: s, out: make([]byte, 0, 512), names: make(map[string]int, 16), epochs: s.epochs()}
	for i := range s.procs {
		f.slots = append(f.slots, i)
	}
	if swapped {
		slices.Reverse(f.slots)
	}
	f.num(int64(s.left), int64(len(s.procs)))
	for _, i := range f.slots {
		f.proc(i)
	}
	if s.w.Shared {
		f.num(int64(f.slot(s.listens)))
	}
	for i := range s.fwds {
		f.forward(&s.fwds[i])
	}
	f.mark('h')
	for i := range s.held {
		f.call(&s.held[i])
	}
	for i := range s.nodes {
		f.node(&s.nodes[i])
	}
	f.bucket(s.b)
	if f.flag(s.hasOld); s.hasOld {
		f.bucket(s.saved)
	}
	f.logs()
	return f.out
}

func (f *former) num(ns ...int64) {
	for _, n := range ns {
		f.out = binary.AppendVarint(f.out, n)
	}
}

func (f *former) mark(b byte) { f.out = append(f.out, b) }

func (f *former) flag(on ...bool) {
	for _, b := range on {
		if b {
			f.mark(1)
		} else {
			f.mark(0)
		}
	}
}

// name numbers a text by first appearance; kind keeps kinds apart.
func (f *former) name(kind, text string) {
	if text == "" {
		f.num(-1)
		return
	}
	n, ok := f.names[kind+text]
	if !ok {
		n = len(f.names)
		f.names[kind+text] = n
	}
	f.num(int64(n))
}

// session names one and sees that it is written.
func (f *former) session(id string) {
	if _, ok := f.names["s"+id]; id != "" && !ok {
		f.todo = append(f.todo, id)
	}
	f.name("s", id)
}

// process names one: the present ones of the slots by their place.
func (f *former) process(p string) {
	if p == "" {
		f.num(-1)
		return
	}
	slot, life := slotOf(p)
	f.num(int64(f.slot(slot)))
	if f.s.procs[slot].life == life && !f.s.procs[slot].dead {
		f.num(0)
		return
	}
	f.name("p", p)
}

func (f *former) slot(i int) int { return slices.Index(f.slots, i) }

// true time: what is over is over.
func (f *former) at(t Micros) { f.num(max((t-f.s.now)/tick, -1)) }

// since is a true time that ages to the bound.
func (f *former) since(t, bound Micros) { f.num(min((f.s.now-t)/tick, bound/tick)) }

// store is a time of the store's clock that rules look back at for so long; 0
// is none. A clock may still step back.
func (f *former) store(t, back Micros) {
	if t == 0 {
		f.num(-1 << 20)
		return
	}
	f.num(max((t-f.s.clock())/tick, -(back+f.s.stepsBack())/tick))
}

// ahead is one that counts while it lies ahead.
func (f *former) ahead(t Micros) {
	back := Micros(0)
	if f.s.w.Hostnames {
		back = lease + tick // a claim lasts so long behind it
	}
	f.store(t, back)
}

// heard is one that is compared with when calls were heard.
func (f *former) heard(t Micros) {
	back := Micros(0)
	for i := range f.s.held {
		back = max(back, f.s.now-f.s.held[i].heard+tick)
	}
	f.store(t, back)
}

// stepsBack is how far the store's clock may still go back.
func (s *state) stepsBack() Micros {
	switch {
	case s.left > 0 && s.w.has(StepFar):
		return Micros(s.left) * farStep
	case s.left > 0 && s.w.has(StepLittle):
		return Micros(s.left) * tick
	}
	return 0
}

// epochs lists every epoch that counts, in order.
func (s *state) epochs() []pinboard.Epoch {
	var all []pinboard.Epoch
	add := func(e ...pinboard.Epoch) { all = append(all, e...) }
	for _, b := range s.contents() {
		add(pinboard.Epoch(b.Last()))
		for _, r := range b.Rows() {
			add(r.Row.Epoch, r.Row.Since)
		}
		for i := range s.procs {
			for _, o := range b.Source().Orders(s.processOf(i)) {
				add(o.Epoch)
			}
		}
	}
	for i := range s.procs {
		p := &s.procs[i]
		for id := range p.inst {
			add(p.inst[id].epoch)
			if m := s.fenceMark(p, id); m != nil {
				add(m.epoch)
			}
		}
		for _, q := range p.queue {
			add(q.epoch)
		}
	}
	for i := range s.fwds {
		add(s.fwds[i].epoch)
	}
	for i := range s.held {
		for _, q := range s.held[i].items {
			add(q.epoch)
		}
	}
	for i := range s.nodes {
		add(s.nodes[i].seen)
	}
	for id := range s.log {
		for _, p := range s.relevant(id) {
			add(p.epoch)
		}
		add(s.top[id])
	}
	slices.Sort(all)
	return slices.Compact(all)
}

func (s *state) contents() []memstore.Bucket {
	if s.hasOld {
		return []memstore.Bucket{s.b, s.saved}
	}
	return []memstore.Bucket{s.b}
}

// fenceMark is a mark that makes a difference to some request that can still
// come: one below its epoch, or at it if that was released.
func (s *state) fenceMark(p *proc, id int) *mark {
	m := &p.fence[id]
	if !m.on || s.now-m.used > forget {
		return nil
	}
	if in := &p.inst[id]; in.on && in.epoch != m.epoch {
		return m
	}
	hits := func(e pinboard.Epoch) bool { return e < m.epoch || e == m.epoch && m.released }
	for i := range s.fwds {
		if f := &s.fwds[i]; f.id == id && hits(f.epoch) {
			return m
		}
	}
	for _, b := range s.contents() {
		if r, ok := b.Source().Row(s.w.key(id)); ok && r.Kind == ownership.Placed && hits(r.Epoch) {
			return m
		}
	}
	return nil
}

// storeMayLose reports that content may still go back behind what nodes saw.
func (s *state) storeMayLose() bool { return s.left > 0 || s.hasOld }

// relevant are the placements of id that an adoption can still run into: behind
// everything that may live on, the first of another process.
func (s *state) relevant(id int) (out []placed) {
	s.behind(id, func(epoch pinboard.Epoch, process string) {
		at := -1
		for i, x := range s.log[id] {
			if x.process != process && x.epoch > epoch && (at < 0 || x.epoch < s.log[id][at].epoch) {
				at = i
			}
		}
		if at >= 0 && !slices.Contains(out, s.log[id][at]) {
			out = append(out, s.log[id][at])
		}
	})
	slices.SortFunc(out, func(a, b placed) int { return cmp.Compare(a.epoch, b.epoch) })
	return out
}

// behind calls f for every epoch and process that has an instance of id or may
// get one.
func (s *state) behind(id int, f func(pinboard.Epoch, string)) {
	for i := range s.procs {
		if in := &s.procs[i].inst[id]; in.on {
			f(in.epoch, s.processOf(i))
		}
	}
	for i := range s.fwds {
		if x := &s.fwds[i]; x.id == id {
			f(x.epoch, x.process)
		}
	}
	for _, b := range s.contents() {
		if r, ok := b.Source().Row(s.w.key(id)); ok && r.Kind == ownership.Placed {
			if o, ok := b.Source().Session(r.Session); ok {
				f(r.Epoch, o.Worker.Process)
			}
		}
	}
}

// epoch is a rank; one near or above the clock also has its distance, in the
// steps in which later ones can be minted.
func (f *former) epoch(e pinboard.Epoch) {
	if e == 0 {
		f.num(-1)
		return
	}
	at, _ := slices.BinarySearch(f.epochs, e)
	f.num(int64(at))
	f.num(max((Micros(e)-f.s.clock()+f.s.stepsBack())/leap, 0))
}

// leap is smaller than any distance that a rule jumps on purpose.
const leap = 100_000

func (f *former) logs() {
	for id := range f.s.log {
		f.mark('l')
		if f.s.storeMayLose() || uint64(f.s.top[id]) > f.s.b.Last() {
			f.epoch(f.s.top[id])
		}
		for _, x := range f.s.relevant(id) {
			f.epoch(x.epoch)
			f.process(x.process)
		}
	}
}
