package memstore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"pinboard"
	"pinboard/internal/ownership"
)

// now is the store's clock in these tests, in microseconds.
const now = 1_000_000

func newStore() *Store {
	return New(Options{Buckets: 1, Server: "run", Clock: func() ownership.Micros { return now }, Now: func() time.Time { return time.Unix(100, 0) }})
}

func (s *Store) write(t *testing.T, rule func(tx *ownership.Tx)) {
	t.Helper()
	if err := s.Update(context.Background(), 0, ownership.Select{}, func(tx *ownership.Tx) error { rule(tx); return nil }); err != nil {
		t.Fatal(err)
	}
}

func key(id string) ownership.Key {
	return ownership.Key{Env: ownership.World, Namespace: "/n", ID: id}
}

// TestCommitsAreCounted: those that change something, and no others (G1).
func TestCommitsAreCounted(t *testing.T) {
	s := newStore()
	s.write(t, func(tx *ownership.Tx) { tx.Before(now + 9) })
	if n := s.Commits(0); n != 0 {
		t.Errorf("nothing was changed, %d commits", n)
	}
	s.write(t, func(tx *ownership.Tx) { tx.PutIndex("i", "1") })
	if n := s.Commits(0); n != 1 {
		t.Errorf("%d commits", n)
	}
	failed := errors.New("no")
	if err := s.Update(context.Background(), 0, ownership.Select{}, func(tx *ownership.Tx) error { tx.PutIndex("i", "2"); return failed }); !errors.Is(err, failed) || s.buckets[0].index["i"] != "1" {
		t.Errorf("a rule that fails commits: %v %v", err, s.buckets[0].index)
	}
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	if err := s.Update(ended, 0, ownership.Select{}, func(tx *ownership.Tx) error { tx.PutIndex("i", "2"); return nil }); err == nil || s.buckets[0].index["i"] != "1" {
		t.Errorf("a caller that has given up commits: %v", err)
	}
}

// TestEpochsGrow: above the last one, the clock, what was seen, the floor and
// the leap of a new generation (R1).
func TestEpochsGrow(t *testing.T) {
	for _, c := range []struct {
		name        string
		last, floor pinboard.Epoch
		leap        ownership.Micros
		seen, want  pinboard.Epoch
	}{
		{"the clock's", 0, 0, 0, 0, now},
		{"the next", now + 5, 0, 0, 0, now + 6},
		{"above what was seen", now + 5, 0, 0, now + 9, now + 10},
		{"above the floor", 0, now + 20, 0, 0, now + 21},
		{"a lower floor", now + 5, 7, 0, 0, now + 6},
		{"a leap from the clock", 0, 0, 100, 0, now + 101},
		{"a leap from the last one", now + 5, 0, 100, 0, now + 106},
		{"a leap from the floor", 0, now + 20, 100, 0, now + 121},
	} {
		s := newStore()
		s.buckets[0].last = c.last
		var mint *ownership.Mint
		s.write(t, func(tx *ownership.Tx) {
			tx.Out.Floor, tx.Out.Leap = c.floor, c.leap
			mint = tx.MintRow(key("a"), ownership.Row{Kind: ownership.Placed, Session: "s1"}, c.seen)
			tx.Log(ownership.Entry{Cause: ownership.WasPlaced, Mint: mint})
		})
		b := s.buckets[0]
		if mint.Epoch != c.want || b.rows[key("a")].row.Epoch != c.want || b.ring[0].Epoch != c.want || b.ring[0].Mint != nil {
			t.Errorf("%s: %d, row %d, entry %d, want %d", c.name, mint.Epoch, b.rows[key("a")].row.Epoch, b.ring[0].Epoch, c.want)
		}
	}
	// A row that is dropped behind its mint leaves none, and a leap alone is one.
	s := newStore()
	s.write(t, func(tx *ownership.Tx) {
		tx.MintRow(key("a"), ownership.Row{Kind: ownership.Placed, Session: "s1"}, 0)
		tx.DropRow(key("a"))
	})
	if len(s.buckets[0].rows) != 0 || s.buckets[0].last != now {
		t.Errorf("%+v", s.buckets[0])
	}
	s = newStore()
	s.write(t, func(tx *ownership.Tx) { tx.PutIndex("i", "1") })
	if s.buckets[0].last != 0 {
		t.Errorf("nothing was minted, and the counter is %d", s.buckets[0].last)
	}
}

// TestWhatIsDeleted leaves nothing behind.
func TestWhatIsDeleted(t *testing.T) {
	s := newStore()
	at := ownership.BindKey{Host: "a.test", Namespace: "/n"}
	session := ownership.Session{Worker: &ownership.Worker{Session: "s1"}}
	place := ownership.PlaceCount("s1")
	s.write(t, func(tx *ownership.Tx) {
		tx.PutMeta(ownership.Meta{Gen: "run@1"})
		tx.PutSession(session)
		tx.PutIndex("i", "1")
		tx.PutBinding(at, &ownership.Binding{Env: "red"})
		tx.PutOrders("p1", []ownership.Order{{MsgID: "m"}})
		tx.Add(place, 2)
		tx.Add("other", 1)
	})
	b := s.buckets[0]
	if b.meta.Gen != "run@1" || len(b.sessions) != 1 || b.index["i"] != "1" || b.bindings[at].Env != "red" || len(b.orders["p1"]) != 1 || b.counts[place] != 2 {
		t.Errorf("written: %+v", b)
	}
	s.write(t, func(tx *ownership.Tx) { tx.PutSession(session); tx.Add(place, 1) })
	if b.counts[place] != 3 || b.meta.Gen != "run@1" {
		t.Errorf("a session that was written again: %+v", b.counts)
	}
	s.write(t, func(tx *ownership.Tx) { tx.DropSession("s1") })
	if _, there := b.counts[place]; there || len(b.sessions) != 0 {
		t.Errorf("a dropped session: %v %v", b.sessions, b.counts)
	}
	s.write(t, func(tx *ownership.Tx) {
		tx.PutIndex("i", "")
		tx.PutBinding(at, nil)
		tx.PutOrders("p1", nil)
		tx.Add("other", -1)
	})
	if len(b.index) != 0 || len(b.bindings) != 0 || len(b.orders) != 0 || len(b.counts) != 0 {
		t.Errorf("deleted: %+v", b)
	}
}

// TestRowsKeepTheirPlaces: a walk finds every row once, whatever was deleted.
func TestRowsKeepTheirPlaces(t *testing.T) {
	s := newStore()
	b := s.buckets[0]
	for i := range 4 {
		s.write(t, func(tx *ownership.Tx) { tx.PutRow(key(fmt.Sprint(i)), ownership.Row{Kind: ownership.Held, Until: 1}) })
	}
	s.write(t, func(tx *ownership.Tx) {
		tx.PutRow(key("1"), ownership.Row{Kind: ownership.Held, Until: 2})
		tx.DropRow(key("0"))
		tx.DropRow(key("none"))
	})
	var ids []string
	for i, c := range b.order {
		if c.at != i || b.rows[c.key] != c {
			t.Errorf("place %d: %+v", i, *c)
		}
		ids = append(ids, c.key.ID)
	}
	if !slices.Equal(ids, []string{"3", "1", "2"}) || len(b.rows) != 3 || b.rows[key("1")].row.Until != 2 {
		t.Errorf("%v", ids)
	}
}

// TestTheRingIsShort: the newest entries stay.
func TestTheRingIsShort(t *testing.T) {
	s := newStore()
	for i := range ringSize + 2 {
		s.write(t, func(tx *ownership.Tx) { tx.Log(ownership.Entry{Count: i}) })
	}
	if r := s.buckets[0].ring; len(r) != ringSize || r[0].Count != 2 {
		t.Errorf("%d entries, the oldest %d", len(r), r[0].Count)
	}
}

// TestWhatAHitNeeds: everything as hinted, and a lease that runs.
func TestWhatAHitNeeds(t *testing.T) {
	at := ownership.BindKey{Host: "a.test", Namespace: "/n"}
	for _, c := range []struct {
		name string
		set  func(b *bucket, h *ownership.Hint)
		want bool
	}{
		{"as hinted", func(*bucket, *ownership.Hint) {}, true},
		{"another server", func(b *bucket, _ *ownership.Hint) { b.meta.Gen = "other@1" }, false},
		{"no row", func(b *bucket, h *ownership.Hint) { h.Key.ID = "none" }, false},
		{"another session's", func(_ *bucket, h *ownership.Hint) { h.Session = "s2" }, false},
		{"winding down", func(b *bucket, h *ownership.Hint) { b.rows[h.Key].row.Wind = 1 }, false},
		{"no session", func(b *bucket, _ *ownership.Hint) { clear(b.sessions) }, false},
		{"nothing is forwarded", func(b *bucket, _ *ownership.Hint) { alter(b, func(s *ownership.Session) { s.ReplacedBy = "s2" }) }, false},
		{"lapsed", func(b *bucket, _ *ownership.Hint) { alter(b, func(s *ownership.Session) { s.Until = now }) }, false},
		{"about to lapse", func(b *bucket, _ *ownership.Hint) { alter(b, func(s *ownership.Session) { s.Until = now + 1 }) }, true},
		{"bound", func(b *bucket, h *ownership.Hint) { h.Bind = at }, true},
		{"bound elsewhere", func(b *bucket, h *ownership.Hint) {
			h.Bind = at
			b.bindings[at] = ownership.Binding{Env: "blue"}
		}, false},
		{"claimed, the other env is in force", func(b *bucket, h *ownership.Hint) {
			h.Bind = at
			b.bindings[at] = ownership.Binding{Env: ownership.World, By: now + 1, Was: "blue"}
		}, false},
		{"another hostname's", func(b *bucket, h *ownership.Hint) {
			h.Bind = ownership.BindKey{Host: "b.test", Namespace: "/n"}
			b.bindings[h.Bind] = ownership.Binding{Env: ownership.World}
		}, false},
	} {
		s := newStore()
		b := s.buckets[0]
		s.write(t, func(tx *ownership.Tx) {
			tx.PutMeta(ownership.Meta{Gen: "run@1"})
			tx.PutSession(ownership.Session{Worker: &ownership.Worker{Session: "s1", Hostname: "a.test"},
				Lease: ownership.Lease{Gen: "run@1", Until: now + 3_000_000, At: now - 2_000_000, Drain: true, State: ownership.State{Phase: ownership.Asked, Asked: 5}}})
			tx.PutRow(key("a"), ownership.Row{Kind: ownership.Placed, Session: "s1"})
			tx.PutBinding(at, &ownership.Binding{Env: ownership.World})
		})
		h := ownership.Hint{Key: key("a"), Session: "s1"}
		c.set(b, &h)
		p, ok, err := s.Peek(context.Background(), 0, h)
		if err != nil || ok != c.want || !p.Sent.Equal(time.Unix(100, 0)) {
			t.Errorf("%s: %v %v %+v", c.name, ok, err, p)
		}
		if c.name == "as hinted" && (!p.Until.Equal(time.Unix(103, 0)) || p.Age != 2*time.Second || !p.Draining || !p.Settling) {
			t.Errorf("%+v", p)
		}
	}
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	if _, _, err := newStore().Peek(ended, 0, ownership.Hint{}); err == nil {
		t.Error("a caller that has given up gets an answer")
	}
}

func alter(b *bucket, how func(s *ownership.Session)) {
	s := b.sessions["s1"]
	how(&s)
	b.sessions["s1"] = s
}
