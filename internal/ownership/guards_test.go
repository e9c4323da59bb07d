package ownership

import (
	"errors"
	"slices"
	"testing"
	"time"
)

// Each test here keeps a guard that the others do not need
// (internal/mutants found them).

// TestEveryRuleBegins: whoever looks at a bucket in doubt begins its new
// generation first (G1, G4).
func TestEveryRuleBegins(t *testing.T) {
	m := hostnames(t)
	m.shown("s1", "p1", "red", start+lease)
	m.bindings[at] = Binding{Env: "red"}
	k, w, p := key("a"), m.sessions["s1"].Worker, &m.rules
	for name, rule := range map[string]func(tx *Tx){
		"caller":     func(tx *Tx) { p.Caller(tx, Query{}, "s1", "", func(a, b string) bool { return false }) },
		"collect":    func(tx *Tx) { p.Collect(tx, nil) },
		"forget":     func(tx *Tx) { p.Forget(tx, 9) },
		"lookup":     func(tx *Tx) { p.Lookup(tx, Query{}) },
		"wind down":  func(tx *Tx) { p.WindDown(tx, k, nil, "m", "") },
		"recheck":    func(tx *Tx) { p.Recheck(tx, k, "p1") },
		"fresh":      func(tx *Tx) { p.ReleaseFresh(tx, k, 7, Nonce{1}) },
		"release":    func(tx *Tx) { p.Release(tx, k, "s1", 7, true) },
		"label":      func(tx *Tx) { p.Label(tx, k, "s1", 7, "x") },
		"deregister": func(tx *Tx) { p.Deregister(tx, "none") },
		"mark":       func(tx *Tx) { p.MarkRestating(tx, "none", true) },
		"want":       func(tx *Tx) { p.Want(tx, "none") },
		"degrade":    func(tx *Tx) { p.SetDegraded(tx, "none", 0, 0) },
		"drain":      func(tx *Tx) { p.SetDrain(tx, "none", true, nil) },
		"eject":      func(tx *Tx) { p.Eject(tx, "none") },
		"wait":       func(tx *Tx) { p.BeginWait(tx, w) },
		"unbind":     func(tx *Tx) { p.DeleteBinding(tx, BindKey{}) },
		"renew":      func(tx *Tx) { p.Renew(tx, Pulse{}) },
		"admit":      func(tx *Tx) { _ = p.Admit(tx, enrol("s2", "p2")) },
	} {
		m.meta, m.doubt = Meta{Gen: "s@0", Longest: lease + slack}, HistoryLost
		if m.at(start, rule); m.meta.Gen == "s@0" {
			t.Errorf("%s begins nothing", name)
		}
	}
}

func TestClosersThatMayNotBeDone(t *testing.T) {
	m := newMemory(t)
	m.meta.Cold = start + 1
	m.session("s1", "p1", start-9)
	m.change("s1", func(s *Session) { s.Gen = "s@old" })
	s := m.session("s9", "p9", start+lease)
	m.rows[key("a")] = Row{Kind: Closing, Session: "s1"}
	m.at(start, func(tx *Tx) { m.rules.close(tx, key("a"), tx.Row(key("a")), s, &Enrol{}) })
	if !slices.Equal(closersOf(m), []string{"s9", "s1"}) {
		t.Errorf("one of an earlier generation: %v", closersOf(m))
	}
	m.rows[key("a")] = Row{Kind: Closing, Session: "gone", Others: "s9"}
	m.counts[PlaceCount("gone")] = 1
	release := func(hasEpoch bool) {
		m.at(start, func(tx *Tx) {
			if !m.rules.Release(tx, key("a"), "s9", 0, hasEpoch) {
				t.Error("refused")
			}
		})
	}
	if release(false); !slices.Equal(closersOf(m), []string{"gone"}) || m.rows[key("a")].Until != start+m.meta.Longest {
		t.Errorf("quit without an epoch, one of several: %+v", m.rows[key("a")])
	}
	m.rows[key("a")] = Row{Kind: Closing, Session: "s9", Until: start}
	m.counts[PlaceCount("s9")] = 1
	if release(true); len(m.rows) != 0 || m.counts[PlaceCount("s9")] != 1 {
		t.Errorf("a wait that is over, or no placement of its: %v %v", m.rows, m.counts)
	}
	m.at(start, func(tx *Tx) {
		if m.rules.Release(tx, key("none"), "s9", 0, true) || m.rules.Label(tx, key("none"), "s9", 0, "x") {
			t.Error("there is no row")
		}
	})
	m.rows[key("a")] = Row{Kind: Closing, Session: "s9", Twin: "old"}
	if release(true); len(m.rows) != 0 {
		t.Errorf("the other one is gone already: %v", m.rows)
	}
}

func TestANamespaceGoesWithItsLastSession(t *testing.T) {
	m := newMemory(t)
	m.session("s1", "p1", start)
	m.session("s2", "p2", start+lease)
	late := start + graceLeases*(lease+slack)
	forget := func(now Micros) { m.at(now, func(tx *Tx) { m.rules.Forget(tx, 9) }) }
	if forget(late); len(m.sessions) != 1 || m.index["n:/n"] == "" {
		t.Errorf("one serves it still: %v", m.index)
	}
	if forget(late + lease); len(m.sessions) != 0 || m.index["n:/n"] != "" {
		t.Errorf("nobody serves it: %v", m.index)
	}
}

// TestBucketsAreForEver: rows lie where earlier releases have put them.
func TestBucketsAreForEver(t *testing.T) {
	if got := key("a").Bucket(1 << 20); got != 929207 {
		t.Errorf("bucket %d", got)
	}
	if got := key("an-id-that-is-longer-than-one-block-of-the-hash").Bucket(1 << 20); got != 283352 {
		t.Errorf("bucket %d of a long id", got)
	}
}

func TestAColdDisplacedBinding(t *testing.T) {
	m := hostnames(t)
	m.meta.Cold = start + 1
	m.bindings[at] = Binding{Env: "red", Wait: start + 1}
	if _, code := m.seek(start, Query{Host: "a.test", NS: "/n", ID: "a"}); code != "cold_start" {
		t.Error(code)
	}
}

func TestWhatAHitServes(t *testing.T) {
	for _, c := range []struct {
		r    Row
		want bool
	}{
		{Row{Kind: Placed}, true}, {Row{Kind: Closing}, false}, {Row{Kind: Placed, Nonce: Nonce{1}}, false},
		{Row{Kind: Placed, Since: 1}, false}, {Row{Kind: Placed, Wind: 1}, false}, {Row{Kind: Placed, Claim: "b.test"}, false},
	} {
		if got := c.r.Plain(); got != c.want {
			t.Errorf("%+v: %v", c.r, got)
		}
	}
}

func TestChunksOfOneRegistration(t *testing.T) {
	m := newMemory(t)
	e := enrol("s1", "p1")
	e.Prev = "s0"
	m.session("s0", "p1", start+lease)
	m.change("s0", func(s *Session) { s.Aborts, s.Behind = true, []string{"gone"} })
	e.Last = false
	for _, now := range []Micros{start, start + 5*second} {
		m.at(now, func(tx *Tx) {
			tx.Sent = time.Unix(100, 0)
			e.Heard = tx.Sent.Add(-7 * time.Second)
			if now == start {
				e.Heard = time.Time{}
			}
			out, err := m.rules.Register(tx, e)
			if err != nil || len(out.Duplicates) > 0 || len(tx.Out.Entries) != 1 {
				t.Errorf("a chunk heard before the first was registered: %v, %d entries", err, len(tx.Out.Entries))
			}
		})
		e.Last = true
	}
	if s := m.sessions["s1"]; s.ProvedAt != 0 || s.Aborts || m.sessions["s0"].Phase != LetGo {
		t.Errorf("%+v", s.Lease)
	}
	e = enrol("s2", "p1", "a")
	tx := m.at(start+9*second, func(tx *Tx) {
		if out, err := m.rules.Register(tx, e); err != nil || len(out.Duplicates) != 1 {
			t.Errorf("%+v %v", out, err)
		}
	})
	if len(tx.Out.Entries) != 2 || tx.Out.Entries[1].Count != 1 || len(tx.Out.Bindings) != 0 {
		t.Errorf("duplicates are not logged, or a binding outside hostname mode: %+v", tx.Out)
	}
}

func TestWhoseRowComesBack(t *testing.T) {
	m := newMemory(t)
	m.session("s1", "p1", start+lease)
	m.session("s0", "p0", start+lease)
	m.change("s0", func(s *Session) { s.letGo("s9", start-9) })
	m.rows[key("a")] = Row{Kind: Closing, Session: "s1"}
	m.rows[key("b")] = placed("s0", 7)
	out, err := m.register(start, enrol("s2", "p1", "a", "b"))
	if err != nil || out.Moved != 0 || m.rows[key("a")].Kind != Closing || m.rows[key("b")].Kind != Closing {
		t.Errorf("%v %+v %+v", err, out, m.rows)
	}
	// No deadline of a drain appears where there was none.
	m = newMemory(t)
	m.session("s1", "p1", start+lease)
	m.change("s1", func(s *Session) { s.Gen, s.Drain = "s@old", true })
	e := enrol("s2", "p1")
	e.OldNow = func(string) (Micros, bool) { return start - second, true }
	if out, err = m.register(start, e); err != nil || !out.Drain || out.DrainAt != 0 {
		t.Errorf("%v %+v", err, out)
	}
	// The reason is the worker's own, so that its operator knows what to do.
	m = newMemory(t)
	m.session("s1", "p1", start)
	m.there(start+lease, false)
	m.change("s0", func(s *Session) { s.Worker.Owner = "else" })
	if _, err := m.register(start, enrol("s2", "p1")); err == nil || err.Error() != "advertise URL is in use by a worker of another token" {
		t.Error(err)
	}
}

func TestTwinsAreTwo(t *testing.T) {
	red, blue := Key{Env: "red", Namespace: "/n", ID: "a"}, Key{Env: "blue", Namespace: "/n", ID: "a"}
	for _, c := range []struct {
		name, env string // of the earlier session
		here      Row
		twin      string
	}{
		{"the same env", "red", Row{Kind: Closing, Session: "s2"}, ""},
		{"another env", "blue", Row{Kind: Closing, Session: "s2"}, "blue"},
		{"another env, kept here", "blue", Row{Kind: Placed, Session: "s2"}, ""},
	} {
		m := hostnames(t)
		m.shown("s1", "p1", c.env, start+lease)
		e := enrol("s2", "p1")
		e.Worker.Hostname, e.Worker.Env, e.Claims = "a.test", "red", []Key{red}
		s := &Session{Worker: e.Worker, Lease: Lease{Gen: m.meta.Gen, Until: start + lease, State: State{Behind: []string{"s1"}}}}
		m.rows[blue] = Row{Kind: Placed, Session: "s1", Epoch: 7}
		m.rows[red] = c.here
		tx := m.at(start, func(tx *Tx) { m.rules.elsewhere(tx, s, e) })
		if got := m.rows[red].Twin; got != c.twin || c.env == "red" && len(tx.Out.Rows) > 0 {
			t.Errorf("%s: %q, %d rows written", c.name, got, len(tx.Out.Rows))
		}
	}
}

func TestBeatsInHostnameMode(t *testing.T) {
	claim := Binding{Env: "red", Epoch: 5, By: start + 9, Was: "blue"}
	for _, c := range []struct {
		name   string
		set    func(s *Session)
		proves bool
	}{
		{"running", func(*Session) {}, true},
		{"lapsed", func(s *Session) { s.Until = start }, false},
		{"replaced", func(s *Session) { s.ReplacedBy = "s2" }, false},
		{"ended", func(s *Session) { s.end(5) }, false},
		{"asked", func(s *Session) { s.ask(5) }, false},
	} {
		m := hostnames(t)
		m.shown("s1", "p1", "red", start+lease)
		m.change("s1", c.set)
		m.bindings[at] = claim
		m.at(start, func(tx *Tx) { m.rules.Renew(tx, Pulse{Beat: Beat{Session: "s1"}}) })
		if got := m.bindings[at] != claim; got != c.proves {
			t.Errorf("%s: proved its binding: %v", c.name, got)
		}
	}
	m := hostnames(t)
	m.shown("s1", "p1", "red", start+lease)
	m.at(start, func(tx *Tx) {
		if m.rules.proveBindings(tx, m.sessions["s1"].Worker) {
			t.Error("there is no binding")
		}
		m.rules.BeginWait(tx, m.sessions["s1"].Worker)
	})
	m.bindings[at] = Binding{Env: "blue"}
	m.change("s1", func(s *Session) { s.end(5) })
	m.at(start, func(tx *Tx) {
		if r := m.rules.Renew(tx, Pulse{Beat: Beat{Session: "s1"}}); r.Standing != Over {
			t.Errorf("ended, then superseded: %d", r.Standing)
		}
	})
	// Who has claimed a binding is not superseded by the one in force.
	m.shown("s1", "p1", "red", start+lease)
	m.bindings[at] = claim
	m.at(start, func(tx *Tx) {
		if _, _, yes := m.rules.superseded(tx, m.sessions["s1"].Worker); yes {
			t.Error("superseded by who it is about to displace")
		}
	})
}

func TestBeatsThatChangeOneThing(t *testing.T) {
	same := Lease{Until: 1, Beaten: true, Acks: true, Degraded: 1, FailSince: 1, ProvedAt: 1, DisplacedBy: "x", State: State{Phase: Due}}
	for i, change := range []func(l *Lease){
		func(l *Lease) { l.Until++ }, func(l *Lease) { l.Beaten = false }, func(l *Lease) { l.Acks = false }, func(l *Lease) { l.Degraded++ },
		func(l *Lease) { l.FailSince++ }, func(l *Lease) { l.ProvedAt++ }, func(l *Lease) { l.DisplacedBy = "y" }, func(l *Lease) { l.Phase++ },
	} {
		other := same
		if change(&other); sameLease(&same, &other) {
			t.Errorf("change %d is lost", i)
		}
	}
	m := newMemory(t)
	m.session("s1", "p1", start+lease)
	m.change("s1", func(s *Session) { s.Acks = true })
	m.at(start, func(tx *Tx) { m.rules.Renew(tx, Pulse{Beat: Beat{Session: "s1"}}) })
	if !m.sessions["s1"].Acks {
		t.Error("a beat without acks: the process has forgotten its dialect")
	}
	m.change("s1", func(s *Session) { s.due(); s.Ejected = true })
	m.at(start, func(tx *Tx) {
		if r := m.rules.Renew(tx, Pulse{Beat: Beat{Session: "s1"}}); r.Standing != Unrenewed {
			t.Errorf("due and ejected: %d", r.Standing)
		}
	})
}

func TestTheLongestLeaseCounts(t *testing.T) {
	m := newMemory(t)
	m.rules.Lease, m.rules.Longest = 2*lease, func() Micros { return 1 }
	m.at(start, func(tx *Tx) { m.rules.Begin(tx, 0) })
	if m.meta.Longest != 2*lease+slack {
		t.Errorf("the node's own: %d", m.meta.Longest)
	}
	m.at(start, func(tx *Tx) { m.rules.Begin(tx, 9*lease) })
	if m.meta.Longest != 9*lease {
		t.Errorf("what the caller knows: %d", m.meta.Longest)
	}
}

func TestWaitsForAnotherEnv(t *testing.T) {
	for by, want := range map[Micros]time.Duration{start + 2*second: 2 * time.Second, start + lease: 5 * time.Second} {
		m := hostnames(t)
		m.bindings[at] = Binding{Env: "blue", Epoch: 6, By: by, Was: "green"}
		e := enrol("s2", "p2")
		e.Worker.Hostname, e.Worker.Env, e.Worker.BindEpoch = "a.test", "red", 5
		var w Wait
		m.at(start, func(tx *Tx) {
			if !errors.As(m.rules.Admit(tx, e), &w) || w.After != want {
				t.Errorf("%+v", w)
			}
		})
	}
}

func TestWhatIsHeldIsNotClaimed(t *testing.T) {
	held := Binding{Env: "blue", Epoch: 6}
	m := hostnames(t)
	m.bindings[at] = held
	e := enrol("s2", "p2")
	e.Worker.Hostname, e.Worker.Env, e.Worker.BindEpoch, e.Worker.Past, e.Worker.Namespaces = "a.test", "red", 5, true, []string{"/n", "/m"}
	if _, err := m.register(start, e); err != nil {
		t.Fatal(err)
	}
	if m.bindings[at] != held || m.bindings[BindKey{"a.test", "/m"}].Env != "red" {
		t.Errorf("%+v", m.bindings)
	}
}

func TestOneClaimAtATime(t *testing.T) {
	m := hostnames(t)
	m.shown("s1", "p1", "red", start+9*lease)
	m.change("s1", func(s *Session) { s.Worker.Hostname = "b.test" })
	m.bindings[at] = Binding{Env: "red"}
	k := Key{Env: "red", Namespace: "/n", ID: "a"}
	m.rows[k] = Row{Kind: Placed, Session: "s1", Epoch: 7, Claim: "c.test", Wind: start + 2*m.meta.Longest}
	m.seek(start, Query{Host: "a.test", NS: "/n", ID: "a"})
	if m.rows[k].Claim != "c.test" {
		t.Errorf("%+v", m.rows[k])
	}
	m.at(start, func(tx *Tx) { m.rules.DeleteBinding(tx, at) })
	if _, there := m.index["t:red"]; there {
		t.Errorf("a policy that nobody set: %v", m.index)
	}
}

func TestEnvsOfNamespaces(t *testing.T) {
	w := Worker{Env: "red", Envs: map[string]string{"/n": "blue"}}
	if w.EnvOf("/n") != "blue" || w.EnvOf("/m") != "red" {
		t.Errorf("%s %s", w.EnvOf("/n"), w.EnvOf("/m"))
	}
}

func TestWritesAddUp(t *testing.T) {
	m := newMemory(t)
	tx := m.at(start, func(tx *Tx) {
		tx.PutSession(*m.session("s1", "p1", start))
		tx.DropSession("s2")
		tx.PutBinding(at, &Binding{Env: "red"})
		tx.PutBinding(BindKey{"b.test", "/n"}, nil)
		tx.PutOrders("p1", []Order{{MsgID: "0.m"}})
		tx.PutOrders("p2", nil)
		if tx.Binding(BindKey{"c.test", "/n"}) != nil {
			t.Error("a binding that is not there")
		}
	})
	if len(tx.Out.Sessions) != 2 || len(tx.Out.Bindings) != 2 || len(tx.Out.Orders) != 2 {
		t.Errorf("%+v", tx.Out)
	}
	m.index[WatchIndex] = stamp(4, start-watchStale-1, "s@0")
	m.at(start, func(tx *Tx) {
		if got := ExtendWatch(tx, start-watchStale-1); got.Number != 4 || got.Until != start {
			t.Errorf("stale, and seen from its end on: %+v", got)
		}
	})
}
