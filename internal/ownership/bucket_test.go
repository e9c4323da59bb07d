package ownership

import (
	"maps"
	"slices"
	"testing"
)

// A memory is one bucket without a store: rules are run on it at times that a
// test names to the microsecond.
type memory struct {
	t        *testing.T
	rules    Rules
	meta     Meta
	doubt    Cause
	last     Tx // the last run
	rows     map[Key]Row
	sessions map[string]Session
	index    map[string]string
	bindings map[BindKey]Binding
	orders   map[string][]Order
	counts   map[string]int64
}

const (
	lease = 15 * second
	slack = second
	start = 1000 * second // the bucket's generation is as old and warm
)

// newMemory is a warm bucket of a generation that began at time 0.
func newMemory(t *testing.T) *memory {
	return &memory{t: t, rules: Rules{Lease: lease, Slack: slack, Lag: 0},
		meta: Meta{Gen: "s@0", Cold: lease + slack, Longest: lease + slack},
		rows: map[Key]Row{}, sessions: map[string]Session{}, index: map[string]string{}, bindings: map[BindKey]Binding{},
		orders: map[string][]Order{}, counts: map[string]int64{}}
}

func (m *memory) Row(k Key) (Row, bool)             { r, ok := m.rows[k]; return r, ok }
func (m *memory) Session(id string) (Session, bool) { s, ok := m.sessions[id]; return s, ok }
func (m *memory) Index(name string) string          { return m.index[name] }
func (m *memory) Binding(k BindKey) (Binding, bool) { b, ok := m.bindings[k]; return b, ok }
func (m *memory) Orders(process string) []Order     { return m.orders[process] }
func (m *memory) Count(name string) int64           { return m.counts[name] }
func (m *memory) Roster() []Session                 { return slices.Collect(maps.Values(m.sessions)) }

// at runs a rule at a time and keeps what it wrote.
func (m *memory) at(now Micros, rule func(tx *Tx)) *Tx {
	m.t.Helper()
	tx := NewTx(m)
	tx.Now, tx.Server, tx.Meta, tx.Doubt = now, "s", m.meta, m.doubt
	rule(tx)
	if err := Audit(tx); err != nil {
		m.t.Error(err)
	}
	m.meta, m.doubt = tx.Meta, ""
	for k, r := range tx.Out.Rows {
		put(m.rows, k, r)
	}
	for id, s := range tx.Out.Sessions {
		put(m.sessions, id, s)
	}
	for k, b := range tx.Out.Bindings {
		put(m.bindings, k, b)
	}
	maps.Copy(m.index, tx.Out.Index)
	maps.Copy(m.orders, tx.Out.Orders)
	for name, d := range tx.Out.Counts {
		m.counts[name] += d
	}
	return tx
}

func put[K comparable, V any](m map[K]V, k K, v *V) {
	if v == nil {
		delete(m, k)
	} else {
		m[k] = *v
	}
}

// session puts a serving session of a process into the bucket; its lease ends
// at until.
func (m *memory) session(id, process string, until Micros) *Session {
	s := Session{Worker: &Worker{Session: id, Process: process, ClientID: process, Secret: "secret of " + process, URL: "http://" + process,
		Namespaces: []string{"/n"}, Hostname: World, Env: World},
		Lease: Lease{Gen: m.meta.Gen, Until: until, TTL: lease, Beaten: true}}
	m.sessions[id] = s
	m.index[ByProcess(process)], m.index[ByClient(process)], m.index[ByURL(s.Worker.URL)], m.index["n:/n"] = id, id, id, "1"
	return &s
}

// change alters a session as it is stored.
func (m *memory) change(id string, how func(s *Session)) {
	s := m.sessions[id]
	w := *s.Worker
	s.Worker = &w
	how(&s)
	m.sessions[id] = s
}

func key(id string) Key { return Key{Env: World, Namespace: "/n", ID: id} }

func (m *memory) lookup(now Micros, id string) (f Found, code string) {
	m.at(now, func(tx *Tx) {
		found, r := m.rules.Lookup(tx, Query{Host: World, NS: "/n", ID: id})
		if f = found; r != nil {
			code = r.Code
		}
	})
	return f, code
}
