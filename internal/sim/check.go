package sim

import (
	"fmt"
	"slices"
	"time"

	"pinboard"
	"pinboard/internal/directory"
	"pinboard/internal/ownership"
)

// A checker holds what happened against docs/rules.md, "Words", after every
// step, and stops the run at the first contradiction.
type checker struct {
	w          *World
	violations []string
	holders    map[ownership.Key][]*Instance // live or still closing
	shared     []ownership.Key               // keys with several holders
	bucket     map[int]pinboard.Epoch        // highest minted
	minted     map[ownership.Key][]placed    // in order
	data       map[ownership.Key]*stored
	epochs     map[ownership.Key]map[pinboard.Epoch]int // for readable names
	sessions   map[string]string                        // process by session
	served     map[string]time.Duration                 // last success per id
}

// placed is one placement that the store ever committed.
type placed struct {
	epoch   pinboard.Epoch
	process string
}

// stored is the durable data of an id: it refuses whoever is older than the
// last that acquired it.
type stored struct {
	epoch   pinboard.Epoch
	version int
}

func newChecker(w *World) *checker {
	return &checker{w: w, holders: map[ownership.Key][]*Instance{}, bucket: map[int]pinboard.Epoch{},
		minted: map[ownership.Key][]placed{}, data: map[ownership.Key]*stored{},
		epochs: map[ownership.Key]map[pinboard.Epoch]int{}, sessions: map[string]string{}, served: map[string]time.Duration{}}
}

func (c *checker) fail(format string, args ...any) {
	v := fmt.Sprintf(format, args...)
	c.violations = append(c.violations, v)
	c.w.note("VIOLATION: %s", v)
}

// committed sees every transaction that the store took.
func (c *checker) committed(s *Server, b int, out *ownership.Writes) {
	for id, s := range out.Sessions {
		if s != nil {
			c.sessions[id] = s.Worker.Process
		}
	}
	for _, m := range out.Minted {
		r := out.Rows[m.Key]
		if r == nil || r.Kind != ownership.Placed {
			continue // no worker ever sees the epoch of a closing row
		}
		if s == c.w.server { // the last writes of a primary cut off from its replicas are another history
			if m.Epoch <= c.bucket[b] {
				c.fail("epoch of %s in bucket %d does not grow: %d after %d", m.Key.ID, b, m.Epoch, c.bucket[b])
			}
			c.bucket[b] = m.Epoch
		}
		c.minted[m.Key] = append(c.minted[m.Key], placed{m.Epoch, c.processOf(r.Session)})
		c.name(m.Key, m.Epoch)
	}
}

// processOf is the process that a session was granted to.
func (c *checker) processOf(session string) string { return c.sessions[session] }

// clientOf is the worker behind a session.
func (c *checker) clientOf(session string) string {
	for _, p := range c.w.procs {
		if directory.ProcessOf(p.client, p.secret) == c.sessions[session] {
			return p.Name
		}
	}
	return "nobody"
}

// name is a short name for an epoch: e1 is the first that an id ever had.
func (c *checker) name(k ownership.Key, e pinboard.Epoch) string {
	m := c.epochs[k]
	if m == nil {
		m = map[pinboard.Epoch]int{}
		c.epochs[k] = m
	}
	if m[e] == 0 {
		m[e] = len(m) + 1
	}
	return fmt.Sprint("e", m[e])
}

// starts: an activation begins, the instance is live from now on.
func (c *checker) starts(in *Instance) {
	c.holders[in.key] = append(c.holders[in.key], in)
	if len(c.holders[in.key]) == 2 {
		c.shared = append(c.shared, in.key)
	}
}

// ended: a close has ended or the process is gone.
func (c *checker) ended(in *Instance) {
	list := slices.DeleteFunc(c.holders[in.key], func(x *Instance) bool { return x == in })
	c.holders[in.key] = list
	if len(list) == 1 {
		c.shared = slices.DeleteFunc(c.shared, func(k ownership.Key) bool { return k == in.key })
	}
}

// look checks that no id has two live owners.
func (c *checker) look() {
	if len(c.violations) > 0 {
		return
	}
	for _, k := range c.shared {
		var live []*Instance
		for _, in := range c.holders[k] {
			if in.holds() {
				live = append(live, in)
			}
		}
		if len(live) > 1 {
			c.fail("%s has two live owners: %s @%s and %s @%s", k.ID, live[0].p.Name, c.name(k, live[0].epoch), live[1].p.Name, c.name(k, live[1].epoch))
			return
		}
	}
}

// holds reports live as docs/rules.md, "Words", defines it.
func (in *Instance) holds() bool { return in.live && !in.lapsed && !in.p.lease.over(in.p.w.Now) }

// adopts is rule R: nobody else can have owned the id since.
func (c *checker) adopts(in *Instance, epoch pinboard.Epoch) {
	mine := directory.ProcessOf(in.p.client, in.p.secret)
	for _, p := range c.minted[in.key] {
		if p.epoch > in.epoch && p.epoch <= epoch && p.process != mine {
			c.fail("rule R: %s adopts %s @%s over @%s, which another process could have owned @%s", in.p.Name, in.key.ID, c.name(in.key, epoch), c.name(in.key, in.epoch), c.name(in.key, p.epoch))
		}
	}
	d := c.of(in.key)
	d.epoch = max(d.epoch, epoch)
}

func (c *checker) of(k ownership.Key) *stored {
	if c.data[k] == nil {
		c.data[k] = &stored{}
	}
	return c.data[k]
}

// acquire is an activation's first look at the stored data.
func (c *checker) acquire(in *Instance) {
	d := c.of(in.key)
	d.epoch = max(d.epoch, in.epoch)
	in.version = d.version
}

// write stores something; false when the store fences the writer off. Memory
// that does not know the last version must never be let through.
func (c *checker) write(in *Instance) (persisted bool) {
	d := c.of(in.key)
	if in.epoch < d.epoch {
		return false
	}
	if in.version != d.version {
		c.fail("%s overwrites data of %s that it never read", in.p.Name, in.key.ID)
	}
	d.version++
	in.version = d.version
	return true
}

// resolved: a node believes an owner, never for longer than the store.
func (c *checker) resolved(n *Node, p *directory.Placement) {
	if p.Epoch == 0 || p.Epoch > pinboard.MaxEpoch {
		c.fail("%s resolves %s at epoch %d", n.Name, p.Key.ID, p.Epoch)
	}
}

// ownerBut is a live instance of the same id in another process, or nil.
func (c *checker) ownerBut(in *Instance) *Instance {
	for _, other := range c.holders[in.key] {
		if other.p != in.p && other.holds() {
			return other
		}
	}
	return nil
}

// passes: bytes of a stream reach a client; nobody else may have owned the id
// when they were made (F2). A node whose host slept finds out when it looks at
// the row again (docs/guarantees.md, assumption 9).
func (c *checker) passes(f *flow, in, owner *Instance) {
	if f.n.woke != 0 && c.w.Now-f.n.woke < f.n.lease/3+2*time.Second {
		return
	}
	if owner != nil {
		c.fail("%s passes on bytes of %s from %s, which %s owns", f.n.Name, in.key.ID, in.p.Name, owner.p.Name)
	}
}
