package ownership

import (
	"testing"
	"time"
)

// TestWhatMakesAGeneration: another server, or a doubt, begins one; a longer
// lease extends the cold start of this one (G1, G2, G4, G5, R1).
func TestWhatMakesAGeneration(t *testing.T) {
	longest := lease + slack
	for _, c := range []struct {
		name       string
		set        func(m *memory)
		asked      Micros // the longest lease that the caller knows
		gen        bool
		cold, long Micros
	}{
		{"nothing new", nil, 0, false, longest, longest},
		{"as long as the longest", nil, longest, false, longest, longest},
		{"a longer lease", nil, longest + 1, false, longest + 1 + 7, longest + 1},
		{"a longer lease of the node", func(m *memory) { m.rules.Longest = func() Micros { return longest + 5 } }, longest + 1, false, longest + 5 + 7, longest + 5},
		{"a longer lease, long after", func(m *memory) { m.meta.Cold = start }, longest + 1, false, start, longest + 1},
		{"a longer lease, no cold starts", func(m *memory) { m.rules.NoCold = true }, longest + 1, false, longest, longest + 1},
		{"another server", func(m *memory) { m.meta.Gen = "other@0" }, 0, true, start + longest + 7, longest},
		{"another server, with a longer lease", func(m *memory) { m.meta.Gen, m.meta.Longest = "other@0", longest+3 }, 0, true, start + longest + 3 + 7, longest + 3},
		{"another server, no cold starts", func(m *memory) { m.meta.Gen, m.rules.NoCold = "other@0", true }, 0, true, 0, longest},
		{"a doubt", func(m *memory) { m.doubt = ClockStepped }, 0, true, start + longest + 7, longest},
		{"a doubt in the microsecond of the last one", func(m *memory) { m.doubt, m.meta.Gen = ClockStepped, genName("s", start) }, 0, true, start + longest + 7, longest},
	} {
		m := newMemory(t)
		m.rules.Lag = 7
		if c.set != nil {
			c.set(m)
		}
		before := m.meta.Gen
		tx := m.at(start, func(tx *Tx) {
			m.rules.Begin(tx, c.asked)
			if first := tx.Meta; c.gen { // once for each run of a rule
				if m.rules.Begin(tx, c.asked); tx.Meta != first || len(tx.Out.Entries) != 1 {
					t.Errorf("%s: begun twice", c.name)
				}
			}
		})
		if (m.meta.Gen != before) != c.gen || m.meta.Cold != c.cold || m.meta.Longest != c.long || c.gen && m.meta.Since != start {
			t.Errorf("%s: %+v", c.name, m.meta)
		}
		if c.gen && (ServerOf(m.meta.Gen) != "s" || tx.Out.Floor == 0 || Micros(tx.Out.Floor) != start+c.long || tx.Out.Leap != lostMints) {
			t.Errorf("%s: floor %d, leap %d", c.name, tx.Out.Floor, tx.Out.Leap)
		}
	}
}

// TestWhatASessionCanStillOwn: its fate, and when its rows are free.
func TestWhatASessionCanStillOwn(t *testing.T) {
	for _, c := range []struct {
		name string
		cold Micros
		set  func(s *Session)
		want fate
		free Micros
	}{
		{"serving", 0, func(*Session) {}, running, start + 9},
		{"lapsed", 0, func(s *Session) { s.Until = start }, dead, start},
		{"let go", 0, func(s *Session) { s.letGo("s2", 5) }, dead, 5},
		{"ended", 0, func(s *Session) { s.end(5) }, dead, 5},
		{"of an earlier generation, cold", start + 1, func(s *Session) { s.Gen = "s@old" }, unknown, start + 1},
		{"of an earlier generation, warm", start, func(s *Session) { s.Gen = "s@old" }, dead, start},
		{"of an earlier generation, with a sooner end", start, func(s *Session) { s.Gen, s.Until = "s@old", 5 }, dead, 5},
		{"of an earlier generation, ended", start + 1, func(s *Session) { s.Gen = "s@old"; s.end(5) }, dead, 5},
	} {
		m := newMemory(t)
		m.meta.Cold = c.cold
		m.session("s1", "p1", start+9)
		m.change("s1", c.set)
		m.at(start, func(tx *Tx) {
			s := tx.Session("s1")
			if got, free := m.rules.fate(tx, s), m.rules.freeAt(tx, s); got != c.want || free != c.free {
				t.Errorf("%s: %d, free from %d", c.name, got, free)
			}
			if m.rules.fate(tx, nil) != dead || m.rules.freeAt(tx, nil) != 0 {
				t.Error("nobody owns something")
			}
		})
	}
}

// TestEveryReasonCounts: each reason against every question that is asked of
// the one ladder.
func TestEveryReasonCounts(t *testing.T) {
	for _, c := range []struct {
		name                            string
		set                             func(s *Session)
		owns, forwards, live, hot, sick bool
		state                           string
	}{
		{"nothing", func(*Session) {}, true, true, true, false, false, "live"},
		{"ended", func(s *Session) { s.end(5) }, false, false, false, false, false, "ended"},
		{"let go", func(s *Session) { s.letGo("s2", 5) }, false, false, false, false, false, "succeeded"},
		{"succeeded", func(s *Session) { s.succeed("s2") }, true, false, false, false, false, "succeeded"},
		{"superseded", func(s *Session) { s.DisplacedBy = "blue" }, true, false, false, false, false, "superseded"},
		{"old", func(s *Session) { s.Gen = "s@old" }, false, false, false, false, false, "lapsed"},
		{"lapsed", func(s *Session) { s.Until = start }, false, false, false, false, false, "lapsed"},
		{"ejected", func(s *Session) { s.Ejected = true }, true, true, false, false, false, "ejected"},
		{"replaced", func(s *Session) { s.ReplacedBy = "s2" }, true, false, false, false, false, "replaced"},
		{"asked", func(s *Session) { s.ask(5) }, true, true, true, false, false, "restating"},
		{"new", func(s *Session) { s.Worker.Past, s.Beaten = true, false }, true, true, true, false, false, "live"},
		{"refusing", func(s *Session) { s.Degraded = ProofsRefused }, true, false, true, false, true, "live"},
		{"unproven", func(s *Session) { s.Degraded = ProofsMissing }, true, true, true, false, true, "live"},
		{"unreached", func(s *Session) { s.Degraded = ConnectsFailed }, true, true, true, false, true, "live"},
		{"leaving", func(s *Session) { s.OwnDrain = true }, true, true, true, true, false, "live"},
		{"drained", func(s *Session) { s.Drain = true }, true, true, true, true, false, "live"},
	} {
		m := newMemory(t)
		m.session("s1", "p1", start+lease)
		m.change("s1", c.set)
		s := m.sessions["s1"]
		f := m.rules.Fitness(&s, m.meta.Gen, start)
		if f.Owns() != c.owns || f.Forwards() != c.forwards || f.Live() != c.live || f.Drains() != c.hot || f.Degraded() != c.sick || f.State() != c.state {
			t.Errorf("%s: %b: owns %v, forwards %v, live %v, drains %v, degraded %v, %s", c.name, f, f.Owns(), f.Forwards(), f.Live(), f.Drains(), f.Degraded(), f.State())
		}
		if f.Places() != (c.name == "nothing") {
			t.Errorf("%s: gets new ids: %v", c.name, f.Places())
		}
		if c.name != "lapsed" && s.Forwardable(m.meta.Gen) != c.forwards {
			t.Errorf("%s: a hit says %v", c.name, !c.forwards)
		}
	}
	m := newMemory(t)
	m.session("s1", "p1", start+lease)
	m.change("s1", func(s *Session) { s.Worker.Past = true })
	if s := m.sessions["s1"]; !m.rules.Fitness(&s, m.meta.Gen, start).Places() {
		t.Error("a process with a past gets nothing although it has beaten")
	}
}

// TestWhereASessionMayPlace: for its own hostname, env and namespaces.
func TestWhereASessionMayPlace(t *testing.T) {
	m := newMemory(t)
	m.session("s1", "p1", start+lease)
	m.at(start, func(tx *Tx) {
		for _, c := range []struct {
			host, env, ns string
			want          bool
		}{{World, World, "/n", true}, {"a.test", World, "/n", false}, {World, "red", "/n", false}, {World, World, "/m", false}} {
			if got := m.rules.placeable(tx, tx.Session("s1"), c.host, c.env, c.ns); got != c.want {
				t.Errorf("%+v: %v", c, got)
			}
		}
		if m.rules.placeable(tx, nil, World, World, "/n") {
			t.Error("nobody gets an id")
		}
	})
}

// TestPhasesOnlyGoOn: what moves a session, and what finds it moved already.
func TestPhasesOnlyGoOn(t *testing.T) {
	var s State
	if !s.due() || s.due() || s.Phase != Due {
		t.Errorf("due: %+v", s)
	}
	if !s.ask(5) || s.ask(6) || s.Phase != Asked || s.Asked != 5 || s.due() {
		t.Errorf("asked: %+v", s)
	}
	s.Behind = []string{"s0"}
	if got := s.succeed("s2"); len(got) != 1 || len(s.Behind) != 0 || s.Phase != Succeeded || s.Next != "s2" {
		t.Errorf("succeeded: %+v", s)
	}
	late := State{Phase: Succeeded, Next: "s2"}
	if !late.ask(7) || late.Phase != Succeeded || late.Asked != 7 {
		t.Errorf("asked late: %+v", late)
	}
	s.letGo("s3", 8)
	if s.succeed("s4"); s.Phase != LetGo || s.Next != "s3" {
		t.Errorf("let go, and succeeded: %+v", s)
	}
	var ended State
	ended.end(9)
	if ended.ask(10) || ended.Asked != 0 {
		t.Errorf("ended, and asked: %+v", ended)
	}
}

// TestSmallRules: what operators and answers do to a session.
func TestSmallRules(t *testing.T) {
	m := newMemory(t)
	m.session("s1", "p1", start+lease)
	in := 20 * time.Second
	none := time.Duration(0)
	run := func(rule func(tx *Tx) bool) (ok bool) {
		m.at(start, func(tx *Tx) { ok = rule(tx) })
		return ok
	}
	s := func() *Session { s := m.sessions["s1"]; return &s }
	drain := func(on bool, d *time.Duration) bool {
		return run(func(tx *Tx) bool { return m.rules.SetDrain(tx, "s1", on, d) })
	}
	if !drain(true, &in) || !s().Drain || s().DrainAt != start+20*second {
		t.Errorf("drained: %+v", s().Lease)
	}
	if drain(true, &none); s().DrainAt != start+1 {
		t.Errorf("drained at once: %+v", s().Lease)
	}
	if drain(true, nil); !s().Drain || s().DrainAt != 0 {
		t.Errorf("drained without a deadline: %+v", s().Lease)
	}
	if drain(false, &in); s().Drain || s().DrainAt != 0 {
		t.Errorf("drained no more: %+v", s().Lease)
	}
	degrade := func(set, clear Degrade) {
		run(func(tx *Tx) bool { m.rules.SetDegraded(tx, "s1", set, clear); return true })
	}
	m.change("s1", func(s *Session) { s.FailSince = 5 })
	if degrade(ConnectsFailed|ProofsMissing, 0); s().Degraded != ConnectsFailed|ProofsMissing {
		t.Errorf("degraded: %v", s().Degraded)
	}
	if degrade(0, ConnectsFailed); s().Degraded != ProofsMissing || s().FailSince != 5 {
		t.Errorf("one cause is gone: %v since %d", s().Degraded, s().FailSince)
	}
	if degrade(0, ProofsMissing); s().Degraded != 0 || s().FailSince != 0 {
		t.Errorf("all are gone: %v since %d", s().Degraded, s().FailSince)
	}
	if m.at(start, func(tx *Tx) { m.rules.SetDegraded(tx, "s1", 0, ProofsMissing) }).Out.Sessions != nil {
		t.Error("nothing changed, and it was written")
	}
	if run(func(tx *Tx) bool { m.rules.Want(tx, "s1"); return true }); s().Phase != Due {
		t.Errorf("wanted: %+v", s().State)
	}
	for _, caused := range []bool{false, true} {
		m.change("s1", func(s *Session) { s.State, s.Ordered = State{}, 3 })
		run(func(tx *Tx) bool { m.rules.MarkRestating(tx, "s1", caused); return true })
		if s().Phase != Asked || s().Asked != start || (s().Ordered == start) != caused {
			t.Errorf("ordered, caused %v: %+v", caused, s().Lease)
		}
	}
	if !run(func(tx *Tx) bool { return m.rules.Deregister(tx, "s1") }) || s().Phase != Ended || s().Free != start {
		t.Errorf("deregistered: %+v", s().State)
	}
	if tx := m.at(start, func(tx *Tx) { m.rules.MarkRestating(tx, "s1", true) }); tx.Out.Sessions != nil || len(tx.Out.Entries) != 0 {
		t.Error("ordered although it has ended")
	}
	if drain(true, nil) || s().Drain {
		t.Error("drained although it has ended")
	}
	eject := func() bool { return run(func(tx *Tx) bool { return m.rules.Eject(tx, "s1") }) }
	if eject() || s().Ejected {
		t.Error("ejected although it has ended")
	}
	m.session("s1", "p1", start+1)
	if !eject() || !s().Ejected {
		t.Error("not ejected")
	}
	m.change("s1", func(s *Session) { s.succeed("s2") })
	if !run(func(tx *Tx) bool { return m.rules.Deregister(tx, "s1") }) || s().Phase != Succeeded {
		t.Errorf("an older session ends its process: %+v", s().State)
	}
	delete(m.sessions, "s1")
	for name, rule := range map[string]func(tx *Tx) bool{
		"deregistered": func(tx *Tx) bool { return m.rules.Deregister(tx, "s1") },
		"ejected":      func(tx *Tx) bool { return m.rules.Eject(tx, "s1") },
		"drained":      func(tx *Tx) bool { return m.rules.SetDrain(tx, "s1", true, nil) },
		"degraded":     func(tx *Tx) bool { m.rules.SetDegraded(tx, "s1", ProofsMissing, 0); return false },
		"wanted":       func(tx *Tx) bool { m.rules.Want(tx, "s1"); return false },
		"ordered":      func(tx *Tx) bool { m.rules.MarkRestating(tx, "s1", true); return false },
	} {
		if run(rule) || len(m.sessions) != 0 {
			t.Errorf("nobody was %s", name)
		}
	}
}

// TestALapseIsFinal only for a session of this generation that may still be
// renewed (L3, G4).
func TestALapseIsFinal(t *testing.T) {
	for name, c := range map[string]struct {
		set  func(s *Session)
		want bool
	}{
		"lapsed":                   {func(*Session) {}, true},
		"of an earlier generation": {func(s *Session) { s.Gen = "s@old" }, false},
		"let go":                   {func(s *Session) { s.letGo("s2", 5) }, false},
		"asked before":             {func(s *Session) { s.ask(5) }, false},
	} {
		m := newMemory(t)
		m.session("s1", "p1", start)
		m.change("s1", c.set)
		tx := m.at(start, func(tx *Tx) { m.rules.lapse(tx, "s1"); m.rules.lapse(tx, "gone") })
		if got := len(tx.Out.Sessions) > 0; got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// TestPlacing: a free id goes to the session that may have it, the owner of
// before loses its lease for good, and a takeover that ends is remembered.
func TestPlacing(t *testing.T) {
	for _, c := range []struct {
		name  string
		row   *Row
		until Micros
		to    string
		ok    bool
		taken bool
	}{
		{"nobody's", nil, start, "s2", true, false},
		{"a lapsed owner's", &Row{Kind: Placed, Session: "s1", Epoch: 7}, start, "s2", true, false},
		{"a running owner's", &Row{Kind: Placed, Session: "s1", Epoch: 7}, start + 1, "s2", true, false},
		{"the claimed one's", &Row{Kind: Held, Epoch: 7, Until: start, Claim: World}, start, "s2", true, true},
		{"claimed by another one long ago", &Row{Kind: Held, Epoch: 7, Until: 5, Claim: "b.test"}, start, "s2", true, false},
		{"to nobody", nil, start, "gone", false, false},
		{"of two dead closers", &Row{Kind: Closing, Session: "gone", Others: "s1"}, start, "s2", true, false},
	} {
		m := newMemory(t)
		m.session("s1", "p1", c.until)
		m.session("s2", "p2", start+9*lease)
		if c.row != nil {
			m.rows[key("a")] = *c.row
		}
		var mint *Mint
		tx := m.at(start, func(tx *Tx) {
			f, got, ok, refusal := m.rules.Place(tx, Query{Host: World, NS: "/n", ID: "a", Nonce: Nonce{1}}, c.to, 5)
			if mint = got; ok != c.ok || refusal != nil || ok && f.Session.Worker.Session == "" {
				t.Errorf("%s: %v %v %+v", c.name, ok, refusal, f)
			}
		})
		placed := c.ok && c.until <= start
		if (mint != nil) != placed || placed && (mint.Seen != 5 || m.counts[PlaceCount("s2")] != 1) {
			t.Errorf("%s: %+v, counted %d", c.name, mint, m.counts[PlaceCount("s2")])
		}
		if row := m.rows[key("a")]; placed && (row.Session != "s2" || row.Nonce != Nonce{1} || row.Taken == start != c.taken) {
			t.Errorf("%s: %+v", c.name, row)
		}
		lost := placed && c.row != nil && c.row.Session != ""
		if (m.sessions["s1"].Asked != 0) != lost {
			t.Errorf("%s: its lapse is final: %v", c.name, !lost)
		}
		if placed && (tx.Out.Entries[0].Cause == Moved) != lost {
			t.Errorf("%s: %s", c.name, tx.Out.Entries[0].Cause)
		}
	}
}

// TestRechecks: what a stream's node is told of the row behind it (F2).
func TestRechecks(t *testing.T) {
	for _, c := range []struct {
		name           string
		row            *Row
		set            func(s *Session)
		gone, measured bool
	}{
		{"the owner's", &Row{Kind: Placed, Session: "s1", Epoch: 7}, func(*Session) {}, false, true},
		{"closing", &Row{Kind: Closing, Session: "s1"}, func(*Session) {}, false, true},
		{"no row", nil, func(*Session) {}, true, false},
		{"held", &Row{Kind: Held, Until: start}, func(*Session) {}, true, false},
		{"nobody's", &Row{Kind: Placed, Session: "gone", Epoch: 7}, func(*Session) {}, true, false},
		{"somebody else's", &Row{Kind: Placed, Session: "s1", Epoch: 7}, func(s *Session) { s.Worker.Process = "p9" }, true, false},
		{"left out of a restatement", &Row{Kind: Placed, Session: "s1", Epoch: 7}, func(s *Session) { s.letGo("s2", 5) }, true, false},
		{"deregistered", &Row{Kind: Placed, Session: "s1", Epoch: 7}, func(s *Session) { s.end(5) }, true, false},
		{"of an earlier generation", &Row{Kind: Placed, Session: "s1", Epoch: 7}, func(s *Session) { s.Gen = "s@old" }, false, false},
	} {
		m := newMemory(t)
		m.session("s1", "p1", start+3*second)
		m.change("s1", c.set)
		if c.row != nil {
			m.rows[key("a")] = *c.row
		}
		m.at(start, func(tx *Tx) {
			tx.Sent = time.Unix(100, 0)
			got := m.rules.Recheck(tx, key("a"), "p1")
			if got.Gone != c.gone || got.Measured != c.measured || c.measured && !got.Deadline.Equal(time.Unix(103, 0)) {
				t.Errorf("%s: %+v", c.name, got)
			}
		})
	}
}
