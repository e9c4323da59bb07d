package explore

import (
	"reflect"
	"slices"

	"pinboard"
	"pinboard/internal/ownership"
)

// A node is what one node remembers of the store.
type node struct {
	seen    pinboard.Epoch
	long    Micros
	gen     string // generation last seen
	since   Micros
	commits int64
	doubt   ownership.Cause // of gen
	past    []carried       // clocks of generations it saw
}

// A carried clock is that of the server behind a generation.
type carried struct {
	gen    string
	offset Micros
}

func (s *state) clock() Micros { return s.now + s.offset }

// rulesOf are the rules as node n runs them.
func (s *state) rulesOf(n int) *ownership.Rules {
	r := s.w.rules
	long := s.nodes[n].long
	r.Longest = func() Micros { return long }
	return &r
}

// doubtOf is what the node's guard holds against the content (G1, G4;
// TestTheGuardAgrees compares it with internal/guard).
func (s *state) doubtOf(n int) ownership.Cause {
	nd, m := &s.nodes[n], s.b.Meta()
	switch {
	case ownership.ServerOf(m.Gen) != serverName(s.server):
		return ""
	case nd.gen == m.Gen && nd.doubt != "":
		return nd.doubt
	case nd.gen == m.Gen && s.b.Commits() < nd.commits, nd.gen != m.Gen && nd.doubt == "" && m.Since < nd.since && ownership.ServerOf(nd.gen) == serverName(s.server):
		return ownership.HistoryLost
	}
	return ""
}

// learn is what the node knows behind a read or a commit.
func (s *state) learn(n int) {
	nd, m := &s.nodes[n], s.b.Meta()
	if nd.gen != m.Gen {
		nd.doubt = ""
	}
	nd.gen, nd.since, nd.commits, nd.long = m.Gen, m.Since, s.b.Commits(), max(nd.long, m.Longest)
	if ownership.ServerOf(m.Gen) == serverName(s.server) && !slices.ContainsFunc(nd.past, func(c carried) bool { return c.gen == m.Gen }) {
		nd.past = append(slices.Clone(nd.past), carried{m.Gen, s.offset})
	}
}

// oldNow carries the clock behind a generation on (R6).
func (s *state) oldNow(n int) func(string) (Micros, bool) {
	return func(gen string) (Micros, bool) {
		for _, c := range s.nodes[n].past {
			if c.gen == gen {
				return s.now + c.offset, true
			}
		}
		return 0, false
	}
}

// look is what a node does every tick beside everything else.
func (s *state) look(n int) {
	if s.doubtOf(n) != "" {
		s.update(n, func(tx *ownership.Tx, p *ownership.Rules) { p.Begin(tx, 0) })
	}
	s.learn(n)
}

// A rule is one run of the shipped rules.
type rule func(tx *ownership.Tx, p *ownership.Rules)

// update runs a rule and commits it at the same instant.
func (s *state) update(n int, do rule) {
	tx := s.open(n, s.b.Source(), s.now, s.offset)
	do(tx, s.rulesOf(n))
	s.commit(n, tx)
}

func (s *state) open(n int, src ownership.Source, at, offset Micros) *ownership.Tx {
	tx := s.b.Tx(src)
	tx.Now, tx.Sent, tx.Server, tx.Doubt = at+offset, wall(at), serverName(s.server), s.doubtOf(n)
	return tx
}

// commit applies what a rule wrote, and holds it to the model and to R1.
func (s *state) commit(n int, tx *ownership.Tx) {
	if err := ownership.Audit(tx); err != nil {
		s.fail("a rule broke the model: " + err.Error())
	}
	out := &tx.Out
	if !out.Empty() {
		s.b = s.b.Commit(out, s.clock())
		s.minted(n, out)
	}
	s.learn(n)
}

func (s *state) minted(n int, out *ownership.Writes) {
	for _, m := range out.Minted {
		r := out.Rows[m.Key]
		if r == nil || r.Kind != ownership.Placed {
			continue
		}
		id := s.w.idOf(m.Key)
		if m.Epoch <= s.top[id] {
			s.fail("an epoch does not grow")
		}
		s.top[id] = max(s.top[id], m.Epoch)
		if o, ok := s.b.Source().Session(r.Session); ok {
			s.log[id] = append(s.relevant(id), placed{m.Epoch, o.Worker.Process})
		}
		s.nodes[n].seen = max(s.nodes[n].seen, m.Epoch)
	}
}

// reads is a rule's view, with what it saw; a slow commit compares it.
type reads struct {
	ownership.Source
	meta ownership.Meta
	saw  []func(now ownership.Source) bool
}

func (r *reads) Row(k ownership.Key) (ownership.Row, bool) {
	v, ok := r.Source.Row(k)
	r.saw = append(r.saw, func(now ownership.Source) bool { x, y := now.Row(k); return x == v && y == ok })
	return v, ok
}

func (r *reads) Session(id string) (ownership.Session, bool) {
	v, ok := r.Source.Session(id)
	r.saw = append(r.saw, func(now ownership.Source) bool { x, y := now.Session(id); return y == ok && reflect.DeepEqual(x, v) })
	return v, ok
}

func (r *reads) Index(name string) string {
	v := r.Source.Index(name)
	r.saw = append(r.saw, func(now ownership.Source) bool { return now.Index(name) == v })
	return v
}

func (r *reads) Binding(k ownership.BindKey) (ownership.Binding, bool) {
	v, ok := r.Source.Binding(k)
	r.saw = append(r.saw, func(now ownership.Source) bool { x, y := now.Binding(k); return x == v && y == ok })
	return v, ok
}

func (r *reads) Orders(process string) []ownership.Order {
	v := r.Source.Orders(process)
	r.saw = append(r.saw, func(now ownership.Source) bool { return slices.Equal(now.Orders(process), v) })
	return v
}

// unchanged reports that the content still shows what the rule saw.
func (r *reads) unchanged(s *state) bool {
	if s.b.Meta() != r.meta {
		return false
	}
	src := s.b.Source()
	for _, same := range r.saw {
		if !same(src) {
			return false
		}
	}
	return true
}
