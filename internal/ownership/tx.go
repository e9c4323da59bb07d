package ownership

import (
	"time"

	"pinboard"
)

// A Source is a store's side of a Tx. Lookups of things not fetched yet never
// return: the store unwinds the rule, fetches, and runs it again.
type Source interface {
	Row(Key) (Row, bool)
	Session(id string) (Session, bool)
	Index(name string) string // "" absent
	Binding(BindKey) (Binding, bool)
	Orders(process string) []Order
	Count(name string) int64
	Roster() []Session
}

// A Tx is one run of a rule: what it reads comes from one instant, what it
// writes is committed together or not at all.
type Tx struct {
	Now    Micros    // the store's clock
	Sent   time.Time // node's clock just before the read that this view comes from
	Server string    // generation of the server that answered
	Bucket int
	Meta   Meta  // as stored, then as PutMeta left it
	Doubt  Cause // what the store's guard holds against this generation: the next Begin begins another one; "" nothing

	Out Writes // what the rule has written so far
	src Source
}

// NewTx begins a run; for stores.
func NewTx(src Source) *Tx {
	return &Tx{src: src}
}

// Writes is what a rule changed. Maps are nil until used; a nil pointer in one
// deletes.
type Writes struct {
	Meta     *Meta
	Floor    pinboard.Epoch // raise the epoch counter to at least this
	Leap     Micros         // then raise it this far above itself and above the store's clock (R1)
	Rows     map[Key]*Row
	Minted   []*Mint // rows whose epoch is minted at commit, in this order
	Sessions map[string]*Session
	Index    map[string]string // "" deletes
	Bindings map[BindKey]*Binding
	Orders   map[string][]Order // empty deletes
	Counts   map[string]int64   // deltas; they commute and are never compared
	NotAfter Micros             // commit only before this time; 0 none
	Entries  []Entry
}

// A Mint is a row that gets a new epoch at commit: above every epoch the
// bucket ever minted, the store's clock in microseconds, and Seen (R1).
type Mint struct {
	Key   Key
	Seen  pinboard.Epoch
	Epoch pinboard.Epoch // set by the store at commit
}

// Empty reports that there is nothing to commit.
func (w *Writes) Empty() bool {
	return w.Meta == nil && w.Floor == 0 && w.Leap == 0 && len(w.Rows) == 0 && len(w.Sessions) == 0 && len(w.Index) == 0 &&
		len(w.Bindings) == 0 && len(w.Orders) == 0 && len(w.Counts) == 0 && len(w.Entries) == 0
}

// Row returns the row of k, or nil. The result is a copy.
func (tx *Tx) Row(k Key) *Row {
	if r, ok := tx.Out.Rows[k]; ok {
		if r == nil {
			return nil
		}
		c := *r
		return &c
	}
	if r, ok := tx.src.Row(k); ok {
		return &r
	}
	return nil
}

// PutRow writes r; an existing epoch is the caller's to keep.
func (tx *Tx) PutRow(k Key, r Row) {
	tx.count(k, 1)
	if tx.Out.Rows == nil {
		tx.Out.Rows = map[Key]*Row{}
	}
	tx.Out.Rows[k] = &r
}

// MintRow writes r at an epoch that the commit mints; read it from the Mint
// after Update returned.
func (tx *Tx) MintRow(k Key, r Row, seen pinboard.Epoch) *Mint {
	tx.PutRow(k, r)
	m := &Mint{Key: k, Seen: seen}
	tx.Out.Minted = append(tx.Out.Minted, m)
	return m
}

// DropRow deletes the row of k.
func (tx *Tx) DropRow(k Key) {
	tx.count(k, -1)
	if tx.Out.Rows == nil {
		tx.Out.Rows = map[Key]*Row{}
	}
	tx.Out.Rows[k] = nil
}

// count keeps the number of rows per env and namespace exact.
func (tx *Tx) count(k Key, d int64) {
	if exists := tx.Row(k) != nil; exists == (d < 0) {
		tx.Add(RowCount(k.Env, k.Namespace), d)
	}
}

// RowCount names the counter of rows under a namespace of an env.
func RowCount(env, ns string) string { return "r:" + Key{Env: env, Namespace: ns}.String() }

// PlaceCount names the counter of a session's placements minus releases (R9).
func PlaceCount(session string) string { return "s:" + session }

// Add moves a counter.
func (tx *Tx) Add(name string, d int64) {
	if tx.Out.Counts == nil {
		tx.Out.Counts = map[string]int64{}
	}
	tx.Out.Counts[name] += d
}

// Count reads a counter; a hint, never a guard.
func (tx *Tx) Count(name string) int64 { return tx.src.Count(name) }

// Session returns the session of that id, or nil. The result is a copy;
// PutSession stores it.
func (tx *Tx) Session(id string) *Session {
	if id == "" {
		return nil
	}
	if s, ok := tx.Out.Sessions[id]; ok {
		if s == nil {
			return nil
		}
		c := *s
		return &c
	}
	if s, ok := tx.src.Session(id); ok {
		return &s
	}
	return nil
}

// PutSession writes s.
func (tx *Tx) PutSession(s Session) {
	if tx.Out.Sessions == nil {
		tx.Out.Sessions = map[string]*Session{}
	}
	tx.Out.Sessions[s.Worker.Session] = &s
}

// DropSession forgets a session and its counter.
func (tx *Tx) DropSession(id string) {
	if tx.Out.Sessions == nil {
		tx.Out.Sessions = map[string]*Session{}
	}
	tx.Out.Sessions[id] = nil
}

// Roster returns every session of the bucket.
func (tx *Tx) Roster() []Session { return tx.src.Roster() }

// Index reads an index entry; "" when absent.
func (tx *Tx) Index(name string) string {
	if v, ok := tx.Out.Index[name]; ok {
		return v
	}
	return tx.src.Index(name)
}

// PutIndex writes an index entry; "" deletes it.
func (tx *Tx) PutIndex(name, v string) {
	if tx.Index(name) == v {
		return
	}
	if tx.Out.Index == nil {
		tx.Out.Index = map[string]string{}
	}
	tx.Out.Index[name] = v
}

// Binding reads a binding, or nil.
func (tx *Tx) Binding(k BindKey) *Binding {
	if b, ok := tx.Out.Bindings[k]; ok {
		return b
	}
	if b, ok := tx.src.Binding(k); ok {
		return &b
	}
	return nil
}

// PutBinding writes a binding; nil deletes it.
func (tx *Tx) PutBinding(k BindKey, b *Binding) {
	if tx.Out.Bindings == nil {
		tx.Out.Bindings = map[BindKey]*Binding{}
	}
	tx.Out.Bindings[k] = b
}

// Orders reads the orders of a process, oldest first.
func (tx *Tx) Orders(process string) []Order {
	if o, ok := tx.Out.Orders[process]; ok {
		return append([]Order(nil), o...)
	}
	return append([]Order(nil), tx.src.Orders(process)...)
}

// PutOrders writes them; empty deletes.
func (tx *Tx) PutOrders(process string, o []Order) {
	if tx.Out.Orders == nil {
		tx.Out.Orders = map[string][]Order{}
	}
	tx.Out.Orders[process] = o
}

// PutMeta writes the bucket's own record.
func (tx *Tx) PutMeta(m Meta) {
	tx.Meta = m
	tx.Out.Meta = &m
}

// Before reports Now < t and, if so, lets the commit happen only while that
// stays true. Conditions that time only makes true need no such guard, since
// a commit never happens at an earlier time than Now.
func (tx *Tx) Before(t Micros) bool {
	if tx.Now >= t {
		return false
	}
	if tx.Out.NotAfter == 0 || t < tx.Out.NotAfter {
		tx.Out.NotAfter = t
	}
	return true
}

// Log adds an entry to the ring.
func (tx *Tx) Log(e Entry) {
	e.At = tx.Now
	tx.Out.Entries = append(tx.Out.Entries, e)
}
