package explore

import (
	"reflect"
	"slices"
	"testing"

	"pinboard/internal/ownership"
)

// sampled is a world with some of everything, small enough to look at twice.
func sampled() World {
	return World{Name: "sampled", Workers: 2, Budget: 1, Slack: true, Symmetric: true, Faults: []stepKind{LoseAnswer, LateCall, TwiceCall, LateRelease, Pause, Crash,
		Restart, Wipe, Older, StepLittle, StepFar, SlowCommit, FailConnect, NodeDies}}
}

// TestEqualKeysBehaveAlike: two states of one key have successors of the same
// keys, and are both sound or both not.
func TestEqualKeysBehaveAlike(t *testing.T) {
	w := sampled()
	w.ready()
	first := map[Key]*state{}
	compared := 0
	level := []*state{w.first()}
	for len(level) > 0 && compared < 4000 {
		var next []*state
		for _, s := range level {
			s.next(func(_ step, c *state) {
				k := c.key()
				if other := first[k]; other == nil {
					first[k] = c
					next = append(next, c)
				} else if compared++; compared%4 == 0 {
					if a, b := successors(other), successors(c); !slices.Equal(a, b) {
						t.Fatalf("two states of one key have %d and %d classes of successors", len(a), len(b))
					}
				}
			})
		}
		level = next
	}
	t.Logf("%d classes, %d states compared", len(first), compared/4)
	if compared < 400 {
		t.Error("hardly anything was compared")
	}
}

func successors(s *state) (keys []Key) {
	s.next(func(_ step, c *state) { keys = append(keys, c.key()) })
	slices.SortFunc(keys, func(a, b Key) int { return slices.Compare(a[:], b[:]) })
	return slices.Compact(keys)
}

// looked are the fields of stored records that the canonical form has, or
// leaves out because no rule of a world looks at them.
var looked = map[reflect.Type][]string{
	reflect.TypeFor[ownership.Row](): {"Kind", "Session", "Epoch", "Nonce", "Since", "Others", "Until", "Made", "Wind", "Claim", "Taken",
		"-Tag", "-Twin"},
	reflect.TypeFor[ownership.Lease](): {"Gen", "Until", "TTL", "At", "Headroom", "HeardAt", "Beaten", "OwnDrain", "Drain", "DrainAt", "Degraded",
		"FailSince", "ProvedAt", "ReplacedBy", "State", "Ordered", "Acks", "Aborts", "Ejected", "DisplacedBy", "DisplacedAt"},
	reflect.TypeFor[ownership.State]():   {"Phase", "Asked", "Free", "Behind", "-Next"},
	reflect.TypeFor[ownership.Session](): {"Worker", "Lease"},
	reflect.TypeFor[ownership.Meta]():    {"Gen", "Cold", "Longest", "-Since"},
	reflect.TypeFor[ownership.Order]():   {"MsgID", "Key", "Epoch", "Revoke", "Evict", "Delivered", "Acked", "Passed"},
	reflect.TypeFor[ownership.Binding](): {"Env", "Epoch", "Wait", "By", "Was", "WasEpoch"},
}

// TestTheFormKnowsEveryField: a new field of a stored record must find its
// place in the canonical form, or a reason to be left out.
func TestTheFormKnowsEveryField(t *testing.T) {
	for typ, fields := range looked {
		for i := range typ.NumField() {
			name := typ.Field(i).Name
			if !slices.Contains(fields, name) && !slices.Contains(fields, "-"+name) {
				t.Errorf("%v has a field %s that the canonical form does not know", typ, name)
			}
		}
		if typ.NumField() != len(fields) {
			t.Errorf("%v has %d fields, the list %d", typ, typ.NumField(), len(fields))
		}
	}
}

// TestTheFormShowsEveryField: a change of a field that counts changes the key.
func TestTheFormShowsEveryField(t *testing.T) {
	s := placedState(t)
	base := s.key()
	row, session := s.b.Rows()[0], s.b.Source().Roster()[0]
	for i := range reflect.TypeFor[ownership.Row]().NumField() {
		f := reflect.TypeFor[ownership.Row]().Field(i)
		if slices.Contains(looked[reflect.TypeFor[ownership.Row]()], "-"+f.Name) {
			continue
		}
		c, r := s.clone(), row.Row
		if !alter(reflect.ValueOf(&r).Elem().Field(i)) {
			t.Errorf("row field %s: no value to try", f.Name)
			continue
		}
		c.b = c.b.Commit(&ownership.Writes{Rows: map[ownership.Key]*ownership.Row{row.Key: &r}}, c.clock())
		if c.key() == base {
			t.Errorf("the key does not show Row.%s", f.Name)
		}
	}
	for i := range reflect.TypeFor[ownership.Lease]().NumField() {
		f := reflect.TypeFor[ownership.Lease]().Field(i)
		c, x := s.clone(), session
		v := reflect.ValueOf(&x.Lease).Elem().Field(i)
		if f.Name == "State" {
			v = v.FieldByName("Phase")
		}
		if !alter(v) {
			t.Errorf("lease field %s: no value to try", f.Name)
			continue
		}
		c.b = c.b.Commit(&ownership.Writes{Sessions: map[string]*ownership.Session{x.Worker.Session: &x}}, c.clock())
		if c.key() == base {
			t.Errorf("the key does not show Lease.%s", f.Name)
		}
	}
}

// alter gives a field another value that a world can hold.
func alter(v reflect.Value) bool {
	switch v.Kind() {
	case reflect.Bool:
		v.SetBool(!v.Bool())
	case reflect.String:
		v.SetString("h2")
	case reflect.Int64:
		v.SetInt(v.Int() + 2000*int64(tick))
	case reflect.Uint64:
		v.SetUint(v.Uint() + 2000*uint64(tick))
	case reflect.Uint8:
		v.SetUint(v.Uint() ^ 3)
	case reflect.Float64:
		v.SetFloat(v.Float() + 1)
	case reflect.Array:
		v.Index(0).SetUint(77)
	default:
		return false
	}
	return true
}

// placedState is a world in which an id is placed and confirmed.
func placedState(t *testing.T) *state {
	w := (&World{Workers: 2, Budget: 1}).ready()
	s := w.first()
	for range 10 {
		if s.fair(0) {
			return s
		}
	}
	t.Fatal("nothing is ever placed")
	return nil
}

// TestSymmetryHidesNothing: with and without it a search sees the same, and
// every class without it belongs to one with it.
func TestSymmetryHidesNothing(t *testing.T) {
	w := World{Workers: 2, Budget: 1, Faults: []stepKind{LoseAnswer, Crash, Restart, FailConnect}}
	plain := Search(w)
	w.Symmetric = true
	sym := Search(w)
	t.Logf("without %v; with %v", plain, sym)
	if plain.Broken != sym.Broken || plain.Slowest != sym.Slowest || !plain.Whole || !sym.Whole {
		t.Error("the verdicts differ")
	}
	if sym.States > plain.States || 2*sym.States < plain.States {
		t.Errorf("%d classes of %d", sym.States, plain.States)
	}
}
