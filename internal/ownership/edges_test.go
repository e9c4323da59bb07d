package ownership

import (
	"testing"

	"pinboard"
)

// Times in the rules are exact: a rule holds until the microsecond before its
// time and not at it. Each test names both.

func placed(session string, epoch pinboard.Epoch) Row {
	return Row{Kind: Placed, Session: session, Epoch: epoch}
}

// TestALeaseEndsAtItsMicrosecond: for lookups, renewals and placements (L3),
// and no commit that rests on a running lease happens behind its end (R5).
func TestALeaseEndsAtItsMicrosecond(t *testing.T) {
	for _, c := range []struct {
		now      Micros
		standing Standing
		code     string
		vacant   bool
	}{{start - 1, Renewed, "", false}, {start, Lost, "", true}} {
		m := newMemory(t)
		m.session("s1", "p1", start)
		m.rows[key("a")] = placed("s1", 1)
		f, code := m.lookup(c.now, "a")
		if code != c.code || f.Vacant != c.vacant {
			t.Errorf("%d: %q, vacant %v", c.now-start, code, f.Vacant)
		}
		tx := m.at(c.now, func(tx *Tx) {
			if r := m.rules.Renew(tx, Pulse{Beat: Beat{Session: "s1"}}); r.Standing != c.standing {
				t.Errorf("%d: standing %d, want %d", c.now-start, r.Standing, c.standing)
			}
		})
		if running := c.now < start; running != (tx.Out.NotAfter == start) {
			t.Errorf("%d: to be committed before %d", c.now-start, tx.Out.NotAfter)
		}
	}
}

// TestTooLittleLease: a new id needs the slack and a third of the lease, five
// seconds at the most.
func TestTooLittleLease(t *testing.T) {
	for _, c := range []struct{ ttl, margin Micros }{{9 * second, 3 * second}, {60 * second, 5 * second}} {
		m := newMemory(t)
		m.session("s1", "p1", start)
		m.change("s1", func(s *Session) { s.TTL = c.ttl })
		last := start - slack - c.margin
		for now, want := range map[Micros]bool{last - 1: true, last: false} {
			tx := m.at(now, func(tx *Tx) {
				if got := m.rules.placeable(tx, tx.Session("s1"), World, World, "/n"); got != want {
					t.Errorf("lease %d: %d us before the margin: %v", c.ttl, last-now, got)
				}
			})
			if want && tx.Out.NotAfter != last {
				t.Errorf("to be committed before %d, want %d", tx.Out.NotAfter, last)
			}
			s := m.sessions["s1"]
			if got := m.rules.Fitness(&s, m.meta.Gen, now).Places(); got != want {
				t.Errorf("lease %d: fit %d us before the margin: %v", c.ttl, last-now, got)
			}
		}
		s := m.sessions["s1"]
		for now, want := range map[Micros]bool{start - 1: true, start: false} {
			if got := m.rules.Fitness(&s, m.meta.Gen, now).Owns(); got != want {
				t.Errorf("owns %d us before the end: %v", start-now, got)
			}
		}
	}
}

// TestWhenAnIDIsFree: a cold bucket, a held row and a claim end at their times.
func TestWhenAnIDIsFree(t *testing.T) {
	longest := lease + slack
	for _, c := range []struct {
		name   string
		cold   Micros
		row    *Row
		host   string
		end    Micros
		before string
	}{
		{"cold", start, nil, World, start, "cold_start"},
		{"held", 0, &Row{Kind: Held, Until: start}, World, start, "winding_down"},
		{"claimed by another hostname", 0, &Row{Kind: Held, Until: start, Claim: "b.test"}, World, start + longest, "takeover_in_progress"},
		{"claimed by this one", 0, &Row{Kind: Held, Until: start, Claim: World}, World, start, "winding_down"},
		{"held by the clock of an earlier generation", start, &Row{Kind: Held, Until: start + longest + slack + 1}, World, start, "cold_start"},
	} {
		m := newMemory(t)
		m.meta.Cold = c.cold
		m.session("s1", "p1", start+lease)
		if c.row != nil {
			m.rows[key("a")] = *c.row
		}
		if f, code := m.lookup(c.end-1, "a"); f.Vacant || code != c.before && c.name[:4] != "held" {
			t.Errorf("%s: before: %q, vacant %v", c.name, code, f.Vacant)
		}
		if f, code := m.lookup(c.end, "a"); !f.Vacant {
			t.Errorf("%s: then: %q", c.name, code)
		}
	}
}

// TestAHeldRowOfAnotherClock: no wait is longer than the longest lease and the
// slack; what is further ahead was written by another clock (G4).
func TestAHeldRowOfAnotherClock(t *testing.T) {
	m := newMemory(t)
	edge := start + m.meta.Longest + slack
	for until, want := range map[Micros]Micros{edge: edge, edge + 1: m.meta.Cold} {
		m.at(start, func(tx *Tx) {
			if got := m.rules.heldUntil(tx, &Row{Kind: Held, Until: until}); got != want {
				t.Errorf("%d us further: held until %d, want %d", until-edge, got, want)
			}
		})
	}
}

// TestWhatIsCollected: rows that mean nothing to anybody any more, from the
// microsecond on from which they do (R8).
func TestWhatIsCollected(t *testing.T) {
	longest := lease + slack
	for _, c := range []struct {
		name string
		set  func(m *memory) Row
		from Micros
	}{
		{"a lapsed owner's, for its own process", func(m *memory) Row { return placed("s1", 1) }, start + graceLeases*longest},
		{"nobody's", func(m *memory) Row { return placed("gone", 1) }, 0},
		{"held", func(m *memory) Row { return Row{Kind: Held, Until: start} }, start},
		{"held with a claim", func(m *memory) Row { return Row{Kind: Held, Until: start, Claim: "b.test"} }, start + longest},
		{"deregistered", func(m *memory) Row {
			m.change("s1", func(s *Session) { s.end(start - 9) })
			return placed("s1", 1)
		}, start - 9},
		{"of an earlier generation", func(m *memory) Row {
			m.change("s1", func(s *Session) { s.Gen = "s@old" })
			m.meta.Since = start
			return placed("s1", 1)
		}, start + (graceLeases+1)*longest},
	} {
		m := newMemory(t)
		m.session("s1", "p1", start)
		m.rows[key("a")] = c.set(m)
		collect := func(now Micros) (n int) {
			m.at(now, func(tx *Tx) { n = m.rules.Collect(tx, []Key{key("a"), key("none")}) })
			return n
		}
		if c.from > 0 && collect(c.from-1) != 0 {
			t.Errorf("%s: collected too early", c.name)
		}
		if collect(max(c.from, start-100)) != 1 || len(m.rows) != 0 {
			t.Errorf("%s: not collected", c.name)
		}
	}
}

// TestWhatIsForgotten: session records, ten leases after the last time that
// anything may refer to them, with what points at them and nothing else.
func TestWhatIsForgotten(t *testing.T) {
	longest := lease + slack
	for _, c := range []struct {
		name string
		set  func(m *memory)
		from Micros
	}{
		{"lapsed", func(*memory) {}, start + graceLeases*longest},
		{"let go", func(m *memory) { m.change("s1", func(s *Session) { s.letGo("s2", start+7) }) }, start + 7 + graceLeases*longest},
		{"of an earlier generation", func(m *memory) {
			m.change("s1", func(s *Session) { s.Gen = "s@old" })
			m.meta.Since = start + 5
		}, start + 5 + longest + graceLeases*longest},
	} {
		m := newMemory(t)
		m.session("s1", "p1", start)
		c.set(m)
		m.orders["p1"] = []Order{{MsgID: "0.m"}}
		forget := func(now Micros) (n int) {
			m.at(now, func(tx *Tx) { n = m.rules.Forget(tx, 9) })
			return n
		}
		if forget(c.from-1) != 0 {
			t.Errorf("%s: forgotten too early", c.name)
		}
		if forget(c.from) != 1 || len(m.sessions) != 0 || m.index[ByProcess("p1")] != "" || len(m.orders["p1"]) != 0 {
			t.Errorf("%s: not forgotten, or not all of it: %v %v", c.name, m.index, m.orders)
		}
	}
}

// TestForgettingStopsAndSparesSuccessors: at most n, and index entries and
// orders of a newer session of the process stay.
func TestForgettingStopsAndSparesSuccessors(t *testing.T) {
	m := newMemory(t)
	m.session("s1", "p1", start)
	m.session("s2", "p2", start)
	m.session("s3", "p1", start+100*lease)
	m.orders["p1"] = []Order{{MsgID: "0.m"}}
	late := start + graceLeases*(lease+slack)
	m.at(late, func(tx *Tx) {
		if n := m.rules.Forget(tx, 1); n != 1 {
			t.Errorf("%d forgotten, one was asked for", n)
		}
	})
	m.at(late, func(tx *Tx) { m.rules.Forget(tx, 9) })
	if len(m.sessions) != 1 || m.index[ByProcess("p1")] != "s3" || m.index[ByURL("http://p1")] != "s3" || len(m.orders["p1"]) != 1 {
		t.Errorf("%v %v %v", m.sessions, m.index, m.orders)
	}
}

// TestClosingRowsAskWhoTakesTooLong: after four leases, not before (R7).
func TestClosingRowsAskWhoTakesTooLong(t *testing.T) {
	longest := lease + slack
	for now, want := range map[Micros]Phase{start + orderLeases*longest - 1: Serving, start + orderLeases*longest: Due} {
		m := newMemory(t)
		m.session("s1", "p1", start+100*lease)
		m.rows[key("a")] = Row{Kind: Closing, Session: "s1", Made: start}
		if _, code := m.lookup(now, "a"); code == "" {
			t.Errorf("%d: %q", now, code)
		}
		if got := m.sessions["s1"].Phase; got != want {
			t.Errorf("%d us after four leases: phase %d", now-start-orderLeases*longest, got)
		}
	}
}

// TestRestateOrdersKeepTheirDistance: four leases between two that clients
// could cause; a time ahead of the clock was another clock's (L9).
func TestRestateOrdersKeepTheirDistance(t *testing.T) {
	var p Rules
	for _, c := range []struct {
		l    Lease
		want bool
	}{
		{Lease{TTL: lease}, true},
		{Lease{TTL: lease, Aborts: true}, false},
		{Lease{TTL: lease, Ordered: start}, false},
		{Lease{TTL: lease, Ordered: start + 1}, true},
		{Lease{TTL: lease, Ordered: start - orderLeases*lease + 1}, false},
		{Lease{TTL: lease, Ordered: start - orderLeases*lease}, true},
	} {
		if got := p.MayOrder(&c.l, start); got != c.want {
			t.Errorf("%+v: %v", c.l, got)
		}
	}
}

// TestThreeLeasesWithoutAProof: then a worker is not renewed any more.
func TestThreeLeasesWithoutAProof(t *testing.T) {
	for now, want := range map[Micros]Standing{start + 3*lease - 1: Renewed, start + 3*lease: Unrenewed} {
		m := newMemory(t)
		m.session("s1", "p1", start+100*lease)
		m.change("s1", func(s *Session) { s.FailSince, s.Degraded = start, ProofsMissing })
		m.at(now, func(tx *Tx) {
			if r := m.rules.Renew(tx, Pulse{Beat: Beat{Session: "s1", Proof: ProofMissing}}); r.Standing != want {
				t.Errorf("%d us after three leases: %d", now-start-3*lease, r.Standing)
			}
		})
	}
}
