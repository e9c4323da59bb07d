package sim

import (
	"reflect"
	"slices"

	"pinboard/internal/ownership"
)

// reads is a rule's view of a bucket, and what it saw there.
type reads struct {
	at       *ownership.Tx
	meta     ownership.Meta
	rows     map[ownership.Key]*ownership.Row
	sessions map[string]*ownership.Session
	index    map[string]string
	bindings map[ownership.BindKey]*ownership.Binding
	orders   map[string][]ownership.Order
	roster   []ownership.Session
	all      bool
}

func newReads(at *ownership.Tx) *reads {
	return &reads{at: at, meta: at.Meta, rows: map[ownership.Key]*ownership.Row{}, sessions: map[string]*ownership.Session{}, index: map[string]string{},
		bindings: map[ownership.BindKey]*ownership.Binding{}, orders: map[string][]ownership.Order{}}
}

func val[T any](p *T) (v T, ok bool) {
	if p == nil {
		return v, false
	}
	return *p, true
}

func (r *reads) Row(k ownership.Key) (ownership.Row, bool) {
	r.rows[k] = r.at.Row(k)
	return val(r.rows[k])
}

func (r *reads) Session(id string) (ownership.Session, bool) {
	r.sessions[id] = r.at.Session(id)
	s, ok := val(r.sessions[id])
	s.Behind = slices.Clone(s.Behind)
	return s, ok
}

func (r *reads) Index(name string) string {
	r.index[name] = r.at.Index(name)
	return r.index[name]
}

func (r *reads) Binding(k ownership.BindKey) (ownership.Binding, bool) {
	r.bindings[k] = r.at.Binding(k)
	return val(r.bindings[k])
}

func (r *reads) Orders(process string) []ownership.Order {
	r.orders[process] = r.at.Orders(process)
	return slices.Clone(r.orders[process])
}

func (r *reads) Count(name string) int64 { return r.at.Count(name) }

func (r *reads) Roster() []ownership.Session {
	r.all, r.roster = true, r.at.Roster()
	return slices.Clone(r.roster)
}

// unchanged reports that the bucket still shows what the rule saw.
func (r *reads) unchanged(at *ownership.Tx) bool {
	if at.Meta != r.meta {
		return false
	}
	for k, was := range r.rows {
		if !reflect.DeepEqual(at.Row(k), was) {
			return false
		}
	}
	for id, was := range r.sessions {
		if !reflect.DeepEqual(at.Session(id), was) {
			return false
		}
	}
	for name, was := range r.index {
		if at.Index(name) != was {
			return false
		}
	}
	for k, was := range r.bindings {
		if !reflect.DeepEqual(at.Binding(k), was) {
			return false
		}
	}
	for p, was := range r.orders {
		if !reflect.DeepEqual(at.Orders(p), was) {
			return false
		}
	}
	return !r.all || reflect.DeepEqual(at.Roster(), r.roster)
}
