package ownership

import (
	"testing"
	"time"

	"pinboard"
)

// TestWhoMayRelease: the owner's process at the row's epoch, or at one that its
// worker still knows; the very session without an epoch, and then nobody gets
// the id for one lease (R5, R6).
func TestWhoMayRelease(t *testing.T) {
	longest := lease + slack
	for _, c := range []struct {
		name     string
		row      Row
		session  string
		epoch    pinboard.Epoch
		hasEpoch bool
		freed    bool
		until    Micros // 0: no row is left
	}{
		{"at its epoch", placed("s1", 7), "s1", 7, true, true, 0},
		{"by a newer session of the process", placed("s1", 7), "s2", 7, true, true, 0},
		{"at a lower epoch", placed("s1", 7), "s1", 6, true, false, 0},
		{"at a higher one", placed("s1", 7), "s1", 8, true, false, 0},
		{"by somebody else", placed("s1", 7), "s9", 7, true, false, 0},
		{"by nobody", placed("s1", 7), "gone", 7, true, false, 0},
		{"nobody's", placed("gone", 7), "s1", 7, true, false, 0},
		{"a held row", Row{Kind: Held, Until: start + 9}, "s1", 0, true, false, 0},
		{"moved: at the first epoch it knows", moved(5, 7), "s1", 5, true, true, 0},
		{"moved: between", moved(5, 7), "s1", 6, true, true, 0},
		{"moved: below", moved(5, 7), "s1", 4, true, false, 0},
		{"moved: above", moved(5, 7), "s1", 8, true, false, 0},
		{"without an epoch", placed("s1", 7), "s1", 0, false, true, start + longest},
		{"without an epoch, by a newer session", placed("s1", 7), "s2", 0, false, false, 0},
		{"claimed", Row{Kind: Placed, Session: "s1", Epoch: 7, Claim: "b.test"}, "s1", 7, true, true, start},
	} {
		m := newMemory(t)
		m.session("s1", "p1", start+lease)
		m.session("s2", "p1", start+lease)
		m.session("s9", "p9", start+lease)
		m.rows[key("a")] = c.row
		m.counts[PlaceCount("s1")] = 1
		var freed bool
		m.at(start, func(tx *Tx) { freed = m.rules.Release(tx, key("a"), c.session, c.epoch, c.hasEpoch) })
		row, left := m.rows[key("a")]
		switch {
		case freed != c.freed:
			t.Errorf("%s: %v", c.name, freed)
		case !freed && row != c.row:
			t.Errorf("%s: refused, and %+v", c.name, row)
		case freed && (left != (c.until != 0) || left && (row.Kind != Held || row.Until != c.until || row.Claim != c.row.Claim || row.Epoch != 7)):
			t.Errorf("%s: %+v", c.name, row)
		case freed != (m.counts[PlaceCount("s1")] == 0):
			t.Errorf("%s: counted %d", c.name, m.counts[PlaceCount("s1")])
		}
	}
}

func moved(since, epoch pinboard.Epoch) Row {
	return Row{Kind: Placed, Session: "s1", Epoch: epoch, Since: since}
}

// TestWhoReleasesWithoutAnEpoch tells its dialect: it aborts when told to
// register again; one that confirms messages does not.
func TestWhoReleasesWithoutAnEpoch(t *testing.T) {
	for acks, want := range map[bool]bool{false: true, true: false} {
		m := newMemory(t)
		m.session("s1", "p1", start+lease)
		m.change("s1", func(s *Session) { s.Acks = acks })
		m.rows[key("a")] = placed("s1", 7)
		m.at(start, func(tx *Tx) { m.rules.Release(tx, key("a"), "s1", 0, false) })
		if got := m.sessions["s1"].Aborts; got != want {
			t.Errorf("acks %v: aborts %v", acks, got)
		}
	}
}

// TestTwoRowsOfOneInstance: an id closing under two envs is released at once
// under both.
func TestTwoRowsOfOneInstance(t *testing.T) {
	for kind, left := range map[Kind]bool{Closing: false, Placed: true} {
		m := newMemory(t)
		m.session("s1", "p1", start+lease)
		other := Key{Env: "old", Namespace: "/n", ID: "a"}
		m.rows[key("a")] = Row{Kind: Closing, Session: "s1", Twin: "old"}
		m.rows[other] = Row{Kind: kind, Session: "s1"}
		m.at(start, func(tx *Tx) {
			if !m.rules.Release(tx, key("a"), "s1", 0, true) {
				t.Error("refused")
			}
		})
		if _, there := m.rows[key("a")]; there {
			t.Error("its own row is left")
		}
		if _, there := m.rows[other]; there != left {
			t.Errorf("the other one, %c: left %v", kind, there)
		}
	}
}

// TestOnlyAFreshPlacementIsTakenBack: placed, unconfirmed, at this epoch and by
// this request (R3).
func TestOnlyAFreshPlacementIsTakenBack(t *testing.T) {
	mine, other := Nonce{1}, Nonce{2}
	for _, c := range []struct {
		name  string
		row   *Row
		epoch pinboard.Epoch
		nonce Nonce
		want  bool
	}{
		{"fresh", &Row{Kind: Placed, Session: "s1", Epoch: 7, Nonce: mine}, 7, mine, true},
		{"no row", nil, 7, mine, false},
		{"held", &Row{Kind: Held, Epoch: 7, Until: start + 9}, 7, mine, false},
		{"at another epoch", &Row{Kind: Placed, Session: "s1", Epoch: 8, Nonce: mine}, 7, mine, false},
		{"by another request", &Row{Kind: Placed, Session: "s1", Epoch: 7, Nonce: other}, 7, mine, false},
		{"confirmed", &Row{Kind: Placed, Session: "s1", Epoch: 7}, 7, Nonce{}, false},
	} {
		m := newMemory(t)
		m.session("s1", "p1", start+lease)
		if c.row != nil {
			m.rows[key("a")] = *c.row
		}
		m.at(start, func(tx *Tx) {
			if got := m.rules.ReleaseFresh(tx, key("a"), c.epoch, c.nonce); got != c.want {
				t.Errorf("%s: %v", c.name, got)
			}
		})
		if _, there := m.rows[key("a")]; there != (c.row != nil && !c.want) {
			t.Errorf("%s: a row: %v", c.name, there)
		}
	}
}

// TestWhoMayLabel: a session of the owning process, while the owner's lease
// runs, at the row's epoch or at any.
func TestWhoMayLabel(t *testing.T) {
	for _, c := range []struct {
		name    string
		row     Row
		session string
		epoch   pinboard.Epoch
		now     Micros
		want    bool
	}{
		{"the owner", placed("s1", 7), "s1", 7, start, true},
		{"at any epoch", placed("s1", 7), "s2", 0, start, true},
		{"at another epoch", placed("s1", 7), "s1", 6, start, false},
		{"somebody else", placed("s1", 7), "s9", 0, start, false},
		{"nobody", placed("s1", 7), "gone", 0, start, false},
		{"nobody's row", placed("gone", 7), "s1", 0, start, false},
		{"a closing row", Row{Kind: Closing, Session: "s1"}, "s1", 0, start, false},
		{"a lapsed owner", placed("s1", 7), "s2", 0, start + lease, false},
	} {
		m := newMemory(t)
		m.session("s1", "p1", start+lease)
		m.session("s2", "p1", start+9*lease)
		m.session("s9", "p9", start+9*lease)
		m.rows[key("a")] = c.row
		m.at(c.now, func(tx *Tx) {
			if got := m.rules.Label(tx, key("a"), c.session, c.epoch, "x"); got != c.want {
				t.Errorf("%s: %v", c.name, got)
			}
		})
		if got := m.rows[key("a")].Tag == "x"; got != c.want {
			t.Errorf("%s: labelled %v", c.name, got)
		}
	}
	newMemory(t).at(start, func(tx *Tx) {
		if (&Rules{Lease: lease}).Label(tx, key("none"), "s1", 0, "x") {
			t.Error("there is no row")
		}
	})
}

// TestWhatABeatIsAnswered: the ladder of answers, its order and what is renewed.
func TestWhatABeatIsAnswered(t *testing.T) {
	lapsed := func(m *memory) { m.change("s1", func(s *Session) { s.Until = start }) }
	for _, c := range []struct {
		name  string
		set   []func(s *Session)
		all   func(m *memory)
		proof Proof
		want  Standing
	}{
		{name: "a running one", want: Renewed},
		{name: "unknown", all: func(m *memory) { clear(m.sessions) }, want: Lost},
		{name: "lapsed", all: lapsed, want: Lost},
		{name: "due", set: []func(*Session){func(s *Session) { s.due() }}, want: RestateDue},
		{name: "due, too soon after the last", set: []func(*Session){func(s *Session) { s.due(); s.Ordered = start - 1 }}, want: Renewed},
		{name: "asked", set: []func(*Session){func(s *Session) { s.ask(start - 1) }}, want: Lost},
		{name: "ended", set: []func(*Session){func(s *Session) { s.end(start - 1) }}, want: Over},
		{name: "ended, of an earlier generation", set: []func(*Session){func(s *Session) { s.end(start - 1); s.Gen = "s@old" }}, want: Over},
		{name: "succeeded", set: []func(*Session){func(s *Session) { s.succeed("s2") }}, want: Lost},
		{name: "let go", set: []func(*Session){func(s *Session) { s.letGo("s2", start-1) }}, want: Lost},
		{name: "of an earlier generation, replaced", set: []func(*Session){func(s *Session) { s.Gen, s.ReplacedBy = "s@old", "s2" }}, want: Lost},
		{name: "ejected", set: []func(*Session){func(s *Session) { s.Ejected = true }}, want: Unrenewed},
		{name: "ejected and lapsed", set: []func(*Session){func(s *Session) { s.Ejected = true }}, all: lapsed, want: Lost},
		{name: "replaced", set: []func(*Session){func(s *Session) { s.ReplacedBy = "s2" }}, proof: ProofOK, want: Unrenewed},
		{name: "replaced, and lapsed", set: []func(*Session){func(s *Session) { s.ReplacedBy = "s2" }}, all: lapsed, proof: ProofOK, want: Unrenewed},
		{name: "replaced by one that is gone", set: []func(*Session){func(s *Session) { s.ReplacedBy = "gone" }}, proof: ProofOK, want: Unrenewed},
		{name: "replaced by one that is gone, and lapsed", set: []func(*Session){func(s *Session) { s.ReplacedBy = "gone" }}, all: lapsed, proof: ProofOK, want: Lost},
		{name: "replaced by one that is gone, lapsed, not proved", set: []func(*Session){func(s *Session) { s.ReplacedBy = "gone" }}, all: lapsed, want: Unrenewed},
	} {
		m := newMemory(t)
		m.session("s2", "p2", start+9*lease)
		m.session("s1", "p1", start+1)
		for _, set := range c.set {
			m.change("s1", set)
		}
		if c.all != nil {
			c.all(m)
		}
		before := m.sessions["s1"].Until
		m.at(start, func(tx *Tx) {
			if r := m.rules.Renew(tx, Pulse{Beat: Beat{Session: "s1", Proof: c.proof}}); r.Standing != c.want {
				t.Errorf("%s: %d, want %d (%s)", c.name, r.Standing, c.want, r.Reason)
			}
		})
		want := before
		if c.want <= RestateDue {
			want = start + lease + slack
		}
		if got := m.sessions["s1"].Until; got != want {
			t.Errorf("%s: renewed by %d us, want %d", c.name, got-before, want-before)
		}
	}
}

// TestARenewalNeverLowersADeadline, and reports that were overtaken do not
// count (L1, L6).
func TestARenewalNeverLowersADeadline(t *testing.T) {
	m := newMemory(t)
	m.session("s1", "p1", start+9*lease)
	beat := func(ago time.Duration, headroom float64) {
		m.at(start, func(tx *Tx) {
			tx.Sent = time.Unix(100, 0)
			m.rules.Renew(tx, Pulse{Beat: Beat{Session: "s1", Headroom: headroom, HasAcks: true, Heard: tx.Sent.Add(-ago)}})
		})
	}
	beat(time.Second, 0.5)
	s := m.sessions["s1"]
	if s.Until != start+9*lease || !s.Acks || s.Headroom != 0.5 {
		t.Errorf("%+v", s.Lease)
	}
	m.change("s1", func(s *Session) { s.Beaten = false })
	beat(2*time.Second, 0.7)
	if got := m.sessions["s1"].Headroom; got != 0.5 {
		t.Errorf("an older report counts: %v", got)
	}
	m.change("s1", func(s *Session) { s.Beaten = false })
	beat(time.Second, 0.6)
	if got := m.sessions["s1"].Headroom; got != 0.6 {
		t.Errorf("one of the same time does not: %v", got)
	}
}

// TestWhatProofsSetAndClear: each cause by its own success; the run of failures
// begins with the first (docs/rules.md, "Degraded").
func TestWhatProofsSetAndClear(t *testing.T) {
	all := ProofsMissing | ProofsRefused | ConnectsFailed
	for _, c := range []struct {
		proof  Proof
		proven bool
		from   Degrade
		since  Micros
		want   Degrade
		then   Micros
	}{
		{ProofOK, true, all, 7, ConnectsFailed, 0},
		{ProofMissing, true, 0, 0, ProofsMissing, start},
		{ProofMissing, true, 0, 7, ProofsMissing, 7},
		{ProofRefused, true, 0, 0, ProofsRefused, start},
		{ProofNone, true, all, 7, all, 7},
		{ProofNone, false, all, 7, ProofsMissing | ConnectsFailed, 7},
	} {
		m := newMemory(t)
		m.session("s1", "p1", start+lease)
		m.change("s1", func(s *Session) { s.Worker.Proven, s.Degraded, s.FailSince = c.proven, c.from, c.since })
		m.at(start, func(tx *Tx) {
			s := tx.Session("s1")
			m.rules.proved(tx, s, c.proof)
			if s.Degraded != c.want || s.FailSince != c.then || (c.proof == ProofOK) != (s.ProvedAt == start) {
				t.Errorf("%+v: %v since %d", c, s.Degraded, s.FailSince)
			}
		})
	}
}
