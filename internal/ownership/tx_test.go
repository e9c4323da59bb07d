package ownership

import (
	"fmt"
	"testing"
)

// TestKeysReadBack: an env's own slashes and percent signs do not blur a key.
func TestKeysReadBack(t *testing.T) {
	for _, k := range []Key{{World, "/n", "a"}, {"a/b%2Fc", "/n/m", "id"}, {"", "/n", "a"}} {
		if got, ok := ParseKey(k.String()); !ok || got != k {
			t.Errorf("%q reads back as %+v %v", k.String(), got, ok)
		}
	}
	for _, s := range []string{"", "env", "/a", "env/a", "env/n/", "env/n/a b"} {
		if got, ok := ParseKey(s); ok {
			t.Errorf("%q is a key: %+v", s, got)
		}
	}
}

// TestOneIDOneBucket whatever the env, and ids spread.
func TestOneIDOneBucket(t *testing.T) {
	seen := map[int]bool{}
	for _, id := range []string{"a", "b", "c", "d", "e", "f", "g", "h"} {
		k := key(id)
		n := k.Bucket(64)
		if k.Env = "other"; k.Bucket(64) != n {
			t.Errorf("%s: the env counts", id)
		}
		seen[n] = true
	}
	if len(seen) < 5 {
		t.Errorf("eight ids in %d buckets", len(seen))
	}
}

// TestATxReadsItsOwnWrites, and hands out copies.
func TestATxReadsItsOwnWrites(t *testing.T) {
	m := newMemory(t)
	m.session("s1", "p1", start+lease)
	m.rows[key("a")] = placed("s1", 7)
	m.bindings[at] = Binding{Env: "red"}
	m.orders["p1"] = []Order{{MsgID: "0.m"}}
	m.at(start, func(tx *Tx) {
		r := tx.Row(key("a"))
		r.Tag = "changed"
		if tx.Row(key("a")).Tag != "" {
			t.Error("a read row is the stored one")
		}
		tx.PutRow(key("a"), *r)
		tx.Row(key("a")).Tag = "again"
		if tx.Row(key("a")).Tag != "changed" {
			t.Error("a written row was changed behind it")
		}
		s := tx.Session("s1")
		s.Drain = true
		tx.PutSession(*s)
		tx.Session("s1").Headroom = 9
		if got := tx.Session("s1"); !got.Drain || got.Headroom != 0 {
			t.Errorf("a written session: %+v", got)
		}
		tx.PutIndex("i", "1")
		tx.PutBinding(at, &Binding{Env: "blue"})
		o := tx.Orders("p1")
		o[0].MsgID = "0.x"
		if tx.Orders("p1")[0].MsgID != "0.m" {
			t.Error("read orders are the stored ones")
		}
		tx.PutOrders("p1", o)
		tx.Orders("p1")[0].MsgID = "0.y"
		if tx.Index("i") != "1" || tx.Binding(at).Env != "blue" || tx.Orders("p1")[0].MsgID != "0.x" {
			t.Error("it does not read what it wrote")
		}
		if tx.PutBinding(at, nil); tx.Binding(at) != nil {
			t.Error("a binding it deleted is there")
		}
		if tx.DropRow(key("a")); tx.Row(key("a")) != nil {
			t.Error("a row it dropped is there")
		}
		if tx.DropSession("s1"); tx.Session("s1") != nil || tx.Session("") != nil {
			t.Error("a session it dropped is there")
		}
	})
	// What is as it should be is not written.
	if tx := m.at(start, func(tx *Tx) { tx.PutIndex("i", "1") }); !tx.Out.Empty() {
		t.Errorf("%+v", tx.Out)
	}
}

// TestRowsAreCounted once each, by env and namespace.
func TestRowsAreCounted(t *testing.T) {
	m := newMemory(t)
	m.session("s1", "p1", start+lease)
	count := func() int64 { return m.counts[RowCount(World, "/n")] }
	for _, step := range []struct {
		name string
		rule func(tx *Tx)
		want int64
	}{
		{"written", func(tx *Tx) { tx.PutRow(key("a"), placed("s1", 7)) }, 1},
		{"written again", func(tx *Tx) { tx.PutRow(key("a"), placed("s1", 8)) }, 1},
		{"two at once", func(tx *Tx) {
			tx.PutRow(key("b"), placed("s1", 7))
			tx.PutRow(key("b"), placed("s1", 8))
			tx.MintRow(key("c"), placed("s1", 0), 5)
		}, 3},
		{"dropped", func(tx *Tx) { tx.DropRow(key("b")); tx.DropRow(key("b")) }, 2},
		{"dropped although it is not there", func(tx *Tx) { tx.DropRow(key("z")) }, 2},
		{"written and dropped", func(tx *Tx) { tx.PutRow(key("y"), placed("s1", 7)); tx.DropRow(key("y")) }, 2},
	} {
		if m.at(start, step.rule); count() != step.want {
			t.Errorf("%s: %d rows counted, want %d", step.name, count(), step.want)
		}
	}
}

// TestAnEmptyCommit is one that would change nothing at all.
func TestAnEmptyCommit(t *testing.T) {
	if w := (Writes{NotAfter: 5}); !w.Empty() {
		t.Error("a time alone is something to commit")
	}
	for name, write := range map[string]func(tx *Tx){
		"meta":    func(tx *Tx) { tx.PutMeta(Meta{}) },
		"floor":   func(tx *Tx) { tx.Out.Floor = 1 },
		"leap":    func(tx *Tx) { tx.Out.Leap = 1 },
		"row":     func(tx *Tx) { tx.Out.Rows = map[Key]*Row{key("a"): nil} },
		"session": func(tx *Tx) { tx.DropSession("s") },
		"index":   func(tx *Tx) { tx.PutIndex("i", "1") },
		"binding": func(tx *Tx) { tx.PutBinding(at, nil) },
		"orders":  func(tx *Tx) { tx.PutOrders("p", nil) },
		"count":   func(tx *Tx) { tx.Add("c", 1) },
		"entry":   func(tx *Tx) { tx.Log(Entry{}) },
	} {
		tx := NewTx(newMemory(t))
		if !tx.Out.Empty() {
			t.Error("a new one is not empty")
		}
		if write(tx); tx.Out.Empty() {
			t.Errorf("%s: nothing to commit", name)
		}
	}
}

// TestBeforeKeepsTheEarliestTime: a commit happens before all of them.
func TestBeforeKeepsTheEarliestTime(t *testing.T) {
	newMemory(t).at(start, func(tx *Tx) {
		for _, c := range []struct {
			t        Micros
			want     bool
			notAfter Micros
		}{{start, false, 0}, {start - 1, false, 0}, {start + 9, true, start + 9}, {start + 20, true, start + 9}, {start + 5, true, start + 5}, {start + 1, true, start + 1}} {
			if got := tx.Before(c.t); got != c.want || tx.Out.NotAfter != c.notAfter {
				t.Errorf("before %d: %v, not after %d", c.t-start, got, tx.Out.NotAfter-start)
			}
		}
		tx.Log(Entry{Cause: Released})
		if tx.Out.Entries[0].At != start {
			t.Error("an entry without its time")
		}
	})
}

// TestTheWatchRecord: extended every half second by who has seen it without a
// break, begun anew behind a gap, a step or a generation (G4).
func TestTheWatchRecord(t *testing.T) {
	for _, c := range []struct {
		name   string
		before string
		since  Micros
		want   Watch
		wrote  bool
	}{
		{"the first", "", start - 9, Watch{1, start, "s@0"}, true},
		{"not a record", "1 2", start - 9, Watch{1, start, "s@0"}, true},
		{"extended", stamp(4, start-watchStep, "s@0"), start - 9*second, Watch{4, start, "s@0"}, true},
		{"extended just now", stamp(4, start-watchStep+1, "s@0"), start - 9*second, Watch{4, start - watchStep + 1, "s@0"}, false},
		{"seen from its end on", stamp(4, start-second, "s@0"), start - second, Watch{4, start, "s@0"}, true},
		{"not seen from its end on", stamp(4, start-second, "s@0"), start - second + 1, Watch{4, start - second, "s@0"}, false},
		{"stale, and not seen", stamp(4, start-watchStale-1, "s@0"), start - second, Watch{5, start, "s@0"}, true},
		{"not stale yet", stamp(4, start-watchStale, "s@0"), start - second, Watch{4, start - watchStale, "s@0"}, false},
		{"stale, and seen", stamp(4, start-watchStale-1, "s@0"), start - 9*second, Watch{4, start, "s@0"}, true},
		{"of another generation", stamp(4, start-second, "s@old"), start - 9*second, Watch{5, start, "s@0"}, true},
		{"from ahead", stamp(4, start+watchStale+1, "s@0"), start - 9*second, Watch{5, start, "s@0"}, true},
		{"from not so far ahead", stamp(4, start+watchStale, "s@0"), start - 9*second, Watch{4, start + watchStale, "s@0"}, false},
	} {
		m := newMemory(t)
		if c.before != "" {
			m.index[WatchIndex] = c.before
		}
		tx := m.at(start, func(tx *Tx) {
			if got := ExtendWatch(tx, c.since); got != c.want {
				t.Errorf("%s: %+v", c.name, got)
			}
		})
		if wrote := len(tx.Out.Index) > 0; wrote != c.wrote {
			t.Errorf("%s: written %v", c.name, wrote)
		}
		if c.wrote {
			m.at(start, func(tx *Tx) {
				if got := ReadWatch(tx); got != c.want {
					t.Errorf("%s: reads back as %+v", c.name, got)
				}
			})
		}
	}
}

func stamp(n int64, until Micros, gen string) string { return fmt.Sprintf("%d %d %s", n, until, gen) }
