package ownership

import (
	"slices"
	"testing"
)

// TestWhatAClosingRowReplaces: a duplicate's closing row keeps what the row
// before it still means: the owner's lapse is final (L3), a wait goes on, a
// claim stays, and closers of other processes that may not be done are waited
// for (R7).
func TestWhatAClosingRowReplaces(t *testing.T) {
	claim := func(r Row) *Row { r.Claim = "b.test"; return &r }
	for _, c := range []struct {
		name    string
		row     *Row
		set     func(m *memory)
		closers []string
		until   Micros
	}{
		{"nothing", nil, nil, []string{"s9"}, 0},
		{"a lapsed owner's", claim(placed("s1", 7)), func(m *memory) { m.change("s1", func(s *Session) { s.Until = start }) }, []string{"s9"}, 0},
		{"a held one", claim(Row{Kind: Held, Until: start + 5}), nil, []string{"s9"}, start + 5},
		{"a running closer", claim(Row{Kind: Closing, Session: "s1", Until: start + 5}), nil, []string{"s9", "s1"}, start + 5},
		{"a closer of the same process", claim(Row{Kind: Closing, Session: "s8"}), nil, []string{"s9"}, 0},
		{"a forgotten closer", claim(Row{Kind: Closing, Session: "gone"}), nil, []string{"s9"}, 0},
		{"a dead closer", claim(Row{Kind: Closing, Session: "s1"}), func(m *memory) { m.change("s1", func(s *Session) { s.Until = start }) }, []string{"s9"}, 0},
		{"a dead closer whose ids are not free yet", claim(Row{Kind: Closing, Session: "s1"}),
			func(m *memory) { m.change("s1", func(s *Session) { s.letGo("s2", start+1) }) }, []string{"s9", "s1"}, 0},
		{"several", claim(Row{Kind: Closing, Session: "s8", Others: "s1 s2"}), nil, []string{"s9", "s1", "s2"}, 0},
	} {
		m := newMemory(t)
		m.session("s1", "p1", start+lease)
		m.session("s2", "p2", start+lease)
		m.session("s8", "p9", start+lease)
		s := m.session("s9", "p9", start+lease)
		if c.row != nil {
			m.rows[key("a")] = *c.row
		}
		if c.set != nil {
			c.set(m)
		}
		m.at(start, func(tx *Tx) { m.rules.close(tx, key("a"), tx.Row(key("a")), s, &Enrol{}) })
		row := m.rows[key("a")]
		if row.Kind != Closing || !slices.Equal(row.closers(), c.closers) || row.Until != c.until || row.Made != start || (row.Claim != "") != (c.row != nil) {
			t.Errorf("%s: %+v", c.name, row)
		}
		if lost := c.name == "a lapsed owner's"; lost != (m.sessions["s1"].Asked != 0) {
			t.Errorf("%s: its lapse is final: %v", c.name, !lost)
		}
	}
}

// TestHowAClosingRowIsJudged: running while one closer may still flush, unknown
// while that cannot be told, and free behind the last of all waits.
func TestHowAClosingRowIsJudged(t *testing.T) {
	const now, earlier, later = start, start - 100, start - 50
	for _, c := range []struct {
		name string
		row  Row
		set  func(m *memory)
		want fate
		free Micros
	}{
		{"one runs", Row{Session: "s1", Others: "dead"}, nil, running, earlier},
		{"one runs, one is of an earlier generation", Row{Session: "s1", Others: "old"}, nil, running, 0},
		{"the same, named the other way round", Row{Session: "old", Others: "s1"}, nil, running, 0},
		{"one is of an earlier generation", Row{Session: "old", Others: "dead"}, nil, unknown, earlier},
		{"all are dead", Row{Session: "dead", Others: "later"}, nil, dead, later},
		{"all are dead, the other way round", Row{Session: "later", Others: "dead"}, nil, dead, later},
		{"forgotten", Row{Session: "gone"}, nil, dead, 0},
		{"the row's own wait is longer", Row{Session: "dead", Until: later}, nil, dead, later},
	} {
		m := newMemory(t)
		m.meta.Cold = now + 1
		m.session("s1", "p1", now+lease)
		m.session("dead", "p2", earlier)
		m.session("later", "p3", later)
		m.session("old", "p4", now+lease)
		m.change("old", func(s *Session) { s.Gen = "s@old" })
		m.at(now, func(tx *Tx) {
			c.row.Kind, c.row.Made = Closing, now
			if state, free := m.rules.closing(tx, &c.row); state != c.want || free != c.free {
				t.Errorf("%s: %d, free from %d, want %d and %d", c.name, state, free, c.want, c.free)
			}
		})
	}
}

// TestQuittingOneOfSeveral: the row waits for the others, and for the longest
// wait that anybody has asked for; it never waits for who is not named.
func TestQuittingOneOfSeveral(t *testing.T) {
	m := newMemory(t)
	m.session("s1", "p1", start+lease)
	m.session("s2", "p2", start+lease)
	m.session("s3", "p3", start+lease)
	m.rows[key("a")] = Row{Kind: Closing, Session: "s1", Others: "s2", Until: start + 5}
	release := func(session string, hasEpoch bool) (freed bool) {
		m.at(start, func(tx *Tx) { freed = m.rules.Release(tx, key("a"), session, 99, hasEpoch) })
		return freed
	}
	if release("s3", true) || !slices.Equal(closersOf(m), []string{"s1", "s2"}) {
		t.Errorf("a stranger quit: %+v", m.rows[key("a")])
	}
	if !release("s1", true) || !slices.Equal(closersOf(m), []string{"s2"}) || m.rows[key("a")].Until != start+5 {
		t.Errorf("after the first: %+v", m.rows[key("a")])
	}
	if !release("s2", false) || m.rows[key("a")].Kind != Held || m.rows[key("a")].Until != start+m.meta.Longest {
		t.Errorf("after the last, without an epoch: %+v", m.rows[key("a")])
	}
	m.rows[key("a")] = Row{Kind: Closing, Session: "s1", Until: start + 5}
	if !release("s1", true) || m.rows[key("a")].Until != start+5 {
		t.Errorf("its own wait was forgotten: %+v", m.rows[key("a")])
	}
}

func closersOf(m *memory) []string { r := m.rows[key("a")]; return r.closers() }

// TestWhoMayCall: an instance proves itself by its session's secret and by a
// row of its process; a session that was told to restate may still call for a
// lease after its own.
func TestWhoMayCall(t *testing.T) {
	longest := lease + slack
	for _, c := range []struct {
		name string
		set  func(m *memory)
		now  Micros
		want string
	}{
		{"the owner", nil, start, ""},
		{"another secret", func(m *memory) { m.change("s1", func(s *Session) { s.Worker.Secret = "x" }) }, start, "invalid_session_secret"},
		{"no such session", func(m *memory) { delete(m.sessions, "s1") }, start, "invalid_session_secret"},
		{"a lapsed session", func(m *memory) { m.change("s1", func(s *Session) { s.Until = start }) }, start, "invalid_session_secret"},
		{"superseded", func(m *memory) { m.change("s1", func(s *Session) { s.DisplacedBy = "blue" }) }, start, "invalid_session_secret"},
		{"restated: its newer session owns the row", restated(start-9, start), start + longest - 1, ""},
		{"restated, a lease ago", restated(start-9, start), start + longest, "invalid_session_secret"},
		{"restated late", restated(start, start-9), start + longest - 1, ""},
		{"restated late, a lease ago", restated(start, start-9), start + longest, "invalid_session_secret"},
		{"an unknown namespace", func(m *memory) { delete(m.index, "n:/n") }, start, "caller_mismatch"},
		{"no row", func(m *memory) { delete(m.rows, key("a")) }, start, "caller_mismatch"},
		{"a closing row", func(m *memory) { m.rows[key("a")] = Row{Kind: Closing, Session: "s1"} }, start, "caller_mismatch"},
		{"another process's row", func(m *memory) { m.rows[key("a")] = placed("s2", 1) }, start, "caller_mismatch"},
		{"the row of a lapsed session", func(m *memory) {
			m.session("s0", "p1", start)
			m.rows[key("a")] = placed("s0", 1)
		}, start, "caller_mismatch"},
	} {
		m := newMemory(t)
		m.session("s2", "p2", start+9*lease)
		m.session("s1", "p1", start+lease)
		m.rows[key("a")] = placed("s1", 1)
		if c.set != nil {
			c.set(m)
		}
		m.at(c.now, func(tx *Tx) {
			owner, refusal := m.rules.Caller(tx, Query{Host: World, NS: "/n", ID: "a"}, "s1", "secret of p1", func(a, b string) bool { return a == b })
			code := ""
			if refusal != nil {
				code = refusal.Code
			}
			if code != c.want || (code == "") != (owner != "") || owner != "" && owner != m.rows[key("a")].Session {
				t.Errorf("%s: %q, owner %q", c.name, code, owner)
			}
		})
	}
}

// restated: s1 was told to restate at asked, its lease ended at until, and the
// process's newer session s3 owns the row.
func restated(asked, until Micros) func(m *memory) {
	return func(m *memory) {
		m.change("s1", func(s *Session) { s.Phase, s.Asked, s.Until = Asked, asked, until })
		m.session("s3", "p1", start+9*lease)
		m.rows[key("a")] = placed("s3", 1)
	}
}
