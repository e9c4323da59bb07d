package ownership

import (
	"errors"
	"testing"
)

var at = BindKey{Host: "a.test", Namespace: "/n"}

// hostnames is a warm bucket in hostname mode.
func hostnames(t *testing.T) *memory {
	m := newMemory(t)
	m.rules.Hostnames = true
	return m
}

// shown is a session of a.test that shows env.
func (m *memory) shown(id, process, env string, until Micros) {
	m.session(id, process, until)
	m.change(id, func(s *Session) { s.Worker.Hostname, s.Worker.Env = "a.test", env })
}

func (m *memory) seek(now Micros, q Query) (f Found, code string) {
	m.at(now, func(tx *Tx) {
		found, r := m.rules.Lookup(tx, q)
		if f = found; r != nil {
			code = r.Code
		}
	})
	return f, code
}

// TestWhatABindingShows: known while it is bound, no new ids before its wait is
// over, and waits that another clock wrote do not count (H1).
func TestWhatABindingShows(t *testing.T) {
	longest := lease + slack
	for _, c := range []struct {
		name string
		b    *Binding
		now  Micros
		code string
	}{
		{"none", nil, start, "unknown_namespace"},
		{"bound", &Binding{Env: "red"}, start, ""},
		{"it waits", &Binding{Env: "red", Wait: start + 1}, start, "binding_displaced"},
		{"it has waited", &Binding{Env: "red", Wait: start}, start, ""},
		{"it waits as long as anything may", &Binding{Env: "red", Wait: start + 2*longest + slack}, start, "binding_displaced"},
		{"it waits by another clock", &Binding{Env: "red", Wait: start + 2*longest + slack + 1}, start, ""},
		{"deleted", &Binding{Wait: start + 1}, start, "binding_displaced"},
		{"deleted long ago", &Binding{Wait: start}, start, "unknown_namespace"},
	} {
		m := hostnames(t)
		if c.b != nil {
			m.bindings[at] = *c.b
		}
		f, code := m.seek(c.now, Query{Host: "a.test", NS: "/n", ID: "a"})
		if code != c.code || f.Vacant != (code == "") {
			t.Errorf("%s: %q, vacant %v", c.name, code, f.Vacant)
		}
	}
}

// TestWhatIsKnown: refusals come in one order, and a node's memory of a
// namespace counts only while the bucket is cold.
func TestWhatIsKnown(t *testing.T) {
	for _, c := range []struct {
		name                string
		served, known, cold bool
		id, code            string
	}{
		{"served", true, false, false, "a", ""},
		{"never heard of", false, false, false, "a", "unknown_namespace"},
		{"known to the node", false, true, false, "a", "unknown_namespace"},
		{"known to the node, cold", false, true, true, "a", "cold_start"},
		{"never heard of, cold", false, false, true, "a", "cold_start"},
		{"never heard of, cold, no id", false, false, true, "", "unknown_namespace"},
		{"no id", true, false, true, "", "invalid_id"},
		{"known to the node, cold, no id", false, true, true, "", "invalid_id"},
	} {
		m := newMemory(t)
		if c.served {
			m.index["n:/n"] = "1"
		}
		if c.cold {
			m.meta.Cold = start + 1
		}
		// Rows without a namespace or an id are never looked at.
		m.session("s1", "p1", start+lease)
		if !c.served {
			delete(m.index, "n:/n")
			m.rows[key(c.id)] = placed("s1", 1)
		}
		if c.id == "" {
			m.rows[key("")] = placed("s1", 1)
		}
		if _, code := m.seek(start, Query{Host: World, NS: "/n", ID: c.id, Known: c.known}); code != c.code {
			t.Errorf("%s: %q, want %q", c.name, code, c.code)
		}
	}
}

// TestWhoServesARow: the ladder behind a placed row whose owner's lease runs.
func TestWhoServesARow(t *testing.T) {
	for _, c := range []struct {
		name string
		set  func(s *Session)
		code string
	}{
		{"the owner", func(*Session) {}, ""},
		{"replaced", func(s *Session) { s.ReplacedBy = "s2" }, "owner_replaced"},
		{"superseded", func(s *Session) { s.DisplacedBy = "blue" }, "owner_replaced"},
		{"replaced and succeeded", func(s *Session) { s.ReplacedBy = "s2"; s.succeed("s3") }, "owner_replaced"},
		{"succeeded", func(s *Session) { s.succeed("s3") }, "worker_not_ready"},
		{"refusing", func(s *Session) { s.Degraded = ProofsRefused }, "worker_not_ready"},
		{"degraded otherwise", func(s *Session) { s.Degraded = ProofsMissing | ConnectsFailed }, ""},
	} {
		m := newMemory(t)
		m.session("s1", "p1", start+lease)
		m.change("s1", c.set)
		m.rows[key("a")] = placed("s1", 7)
		if _, code := m.lookup(start, "a"); code != c.code {
			t.Errorf("%s: %q, want %q", c.name, code, c.code)
		}
	}
}

// TestWhatAHitConfirms: an unconfirmed row by anybody but its creator; the
// epoch that a moved row's worker knows, unless its instance closes (R2, R6).
func TestWhatAHitConfirms(t *testing.T) {
	mine, other := Nonce{1}, Nonce{2}
	for _, c := range []struct {
		name string
		row  Row
		by   Nonce
		want Row
	}{
		{"somebody else's look", Row{Nonce: mine}, other, Row{}},
		{"its creator's look", Row{Nonce: mine, Since: 5}, mine, Row{Nonce: mine, Since: 5}},
		{"a look without a nonce", Row{Nonce: mine, Since: 5}, Nonce{}, Row{}},
		{"moved", Row{Since: 5}, Nonce{}, Row{}},
		{"moved and winding down", Row{Since: 5, Wind: start + 9}, Nonce{}, Row{Since: 5, Wind: start + 9}},
		{"moved, winding down, unconfirmed", Row{Nonce: mine, Since: 5, Wind: start + 9}, Nonce{}, Row{Since: 5, Wind: start + 9}},
		{"confirmed", Row{}, Nonce{}, Row{}},
	} {
		m := newMemory(t)
		m.session("s1", "p1", start+lease)
		set := func(r Row) Row { r.Kind, r.Session, r.Epoch = Placed, "s1", 7; return r }
		m.rows[key("a")] = set(c.row)
		tx := m.at(start, func(tx *Tx) { m.rules.Lookup(tx, Query{Host: World, NS: "/n", ID: "a", Nonce: c.by}) })
		if got := m.rows[key("a")]; got != set(c.want) || (len(tx.Out.Rows) > 0) != (c.row != c.want) {
			t.Errorf("%s: %+v, %d rows written", c.name, got, len(tx.Out.Rows))
		}
	}
}

// TestATakeover: what a hostname gets for a row of another one of its env (H3).
func TestATakeover(t *testing.T) {
	longest := lease + slack
	for _, c := range []struct {
		name   string
		row    Row
		policy string
		heir   string
		code   string
		wind   Micros
		claim  string
	}{
		{"it begins", Row{}, "", "s2", "takeover_in_progress", start + longest, "a.test"},
		{"the env denies it", Row{}, "1 deny", "s2", "held_elsewhere", 0, ""},
		{"the env allows it", Row{}, "1 wind_down", "s2", "takeover_in_progress", start + longest, "a.test"},
		{"nobody could have the id", Row{}, "", "", "no_live_backends", 0, ""},
		{"it goes on", Row{Claim: "a.test", Wind: start + 9}, "", "", "takeover_in_progress", start + 9, "a.test"},
		{"another one's goes on", Row{Claim: "c.test", Wind: start + longest}, "", "s2", "takeover_in_progress", start + longest, "c.test"},
		{"an operator's longer wind-down", Row{Wind: start + longest + 1}, "", "s2", "takeover_in_progress", start + longest, "a.test"},
		{"an operator's shorter wind-down", Row{Wind: start + longest}, "", "s2", "takeover_in_progress", start + longest, "a.test"},
		{"a claim whose wind-down was made longer", Row{Claim: "a.test", Wind: start + longest + 1}, "", "", "takeover_in_progress", start + longest, "a.test"},
		{"just taken", Row{Taken: start}, "", "s2", "takeover_in_progress", 0, ""},
		{"taken a while ago", Row{Taken: start - takeoverRest*longest + 1}, "", "s2", "takeover_in_progress", 0, ""},
		{"taken long ago", Row{Taken: start - takeoverRest*longest}, "", "s2", "takeover_in_progress", start + longest, "a.test"},
		{"taken by another clock", Row{Taken: start + 1}, "", "s2", "takeover_in_progress", start + longest, "a.test"},
		{"taken, and claimed again", Row{Taken: start, Claim: "a.test"}, "", "s2", "takeover_in_progress", start + longest, "a.test"},
	} {
		m := hostnames(t)
		m.shown("s1", "p1", "red", start+9*lease)
		m.change("s1", func(s *Session) { s.Worker.Hostname = "b.test" })
		m.shown("s2", "p2", "red", start+9*lease)
		m.bindings[at] = Binding{Env: "red"}
		if c.policy != "" {
			m.index["t:red"] = c.policy
		}
		k := Key{Env: "red", Namespace: "/n", ID: "a"}
		c.row.Kind, c.row.Session, c.row.Epoch = Placed, "s1", 7
		m.rows[k] = c.row
		f, code := m.seek(start, Query{Host: "a.test", NS: "/n", ID: "a", Heir: c.heir})
		row := m.rows[k]
		if code != c.code || row.Wind != c.wind || row.Claim != c.claim || f.Heirless != (code == "no_live_backends") {
			t.Errorf("%s: %q, heirless %v, %+v", c.name, code, f.Heirless, row)
		}
		if ordered := len(m.orders["p1"]) > 0; ordered != (row.Wind != c.row.Wind) {
			t.Errorf("%s: ordered %v", c.name, ordered)
		}
	}
}

// TestAnEnvsPolicy is that of its highest epoch; of equal ones the latest.
func TestAnEnvsPolicy(t *testing.T) {
	for epoch, deny := range map[int64]bool{4: true, 5: false, 6: false} {
		m := hostnames(t)
		m.index["t:red"] = "5 deny"
		m.at(start, func(tx *Tx) {
			putEnvPolicy(tx, "red", "wind_down", epoch)
			if envPolicy(tx, "red") != deny {
				t.Errorf("at %d: %s", epoch, tx.Index("t:red"))
			}
		})
	}
	hostnames(t).at(start, func(tx *Tx) {
		if putEnvPolicy(tx, "blue", "deny", 0); !envPolicy(tx, "blue") {
			t.Error("the first one does not count")
		}
	})
}

// TestWhoIsLetIntoAHostname: refused, told to wait, or superseded (H2).
func TestWhoIsLetIntoAHostname(t *testing.T) {
	for _, c := range []struct {
		name string
		b    Binding
		set  func(m *memory, e *Enrol)
		want string
	}{
		{"its own", Binding{Env: "red", Epoch: 5}, nil, ""},
		{"held by another env", Binding{Env: "blue", Epoch: 6}, nil, "conflict"},
		{"held, and it comes back", Binding{Env: "blue", Epoch: 6}, func(m *memory, e *Enrol) { e.Worker.Past = true }, ""},                     // and told by its first beat
		{"held, and it restates ids", Binding{Env: "blue", Epoch: 6}, func(m *memory, e *Enrol) { e.Claims = []Key{key("a")} }, ""},             // and told by its first beat
		{"held, and it names its last session", Binding{Env: "blue", Epoch: 6}, func(m *memory, e *Enrol) { e.Prev = "s1" }, ""},                // and told by its first beat
		{"held, and its process is known", Binding{Env: "blue", Epoch: 6}, func(m *memory, e *Enrol) { m.index[ByProcess("p2")] = "gone" }, ""}, // and told by its first beat
		{"held, and it comes back for another namespace", Binding{Env: "blue", Epoch: 6}, func(m *memory, e *Enrol) {
			e.Worker.Past, e.Worker.Namespaces = true, []string{"/n", "/m"}
		}, ""},
		{"held, and another namespace is free", Binding{Env: "blue", Epoch: 6}, func(m *memory, e *Enrol) { e.Worker.Namespaces = []string{"/n", "/m"} }, "conflict"},
		{"claimed by another env", Binding{Env: "blue", Epoch: 6, By: start + 1, Was: "green"}, nil, "wait"},
		{"a claim that nobody has lived up to", Binding{Env: "blue", Epoch: 6, By: start, Was: "red", WasEpoch: 1}, nil, ""},
	} {
		m := hostnames(t)
		m.bindings[at] = c.b
		e := enrol("s2", "p2")
		e.Worker.Hostname, e.Worker.Env, e.Worker.BindEpoch = "a.test", "red", 5
		if c.set != nil {
			c.set(m, e)
		}
		m.at(start, func(tx *Tx) {
			err, got := m.rules.Admit(tx, e), ""
			switch {
			case errors.As(err, new(Wait)):
				got = "wait"
			case errors.As(err, new(Conflict)):
				got = "conflict"
			case err != nil:
				got = err.Error()
			}
			if got != c.want {
				t.Errorf("%s: %v", c.name, err)
			}
		})
	}
}

// TestABeatProvesABinding: then a displaced one takes no new ids, at first
// without an end in sight, and for one lease once every bucket has it (H1).
func TestABeatProvesABinding(t *testing.T) {
	longest := lease + slack
	for _, c := range []struct {
		name      string
		b         Binding
		want      Binding
		displaced bool
	}{
		{"nobody was there", Binding{Env: "red", Epoch: 5, By: start + 1, Wait: 3}, Binding{Env: "red", Epoch: 5, Wait: 3}, false},
		{"it displaces", Binding{Env: "red", Epoch: 5, By: start + 1, Was: "blue"}, Binding{Env: "red", Epoch: 5, Wait: start + 2*longest}, true},
		{"too late", Binding{Env: "red", Epoch: 5, By: start, Was: "blue"}, Binding{Env: "red", Epoch: 5, By: start, Was: "blue"}, false},
		{"another env's claim", Binding{Env: "blue", Epoch: 5, By: start + 1}, Binding{Env: "blue", Epoch: 5, By: start + 1}, false},
		{"proved before", Binding{Env: "red", Epoch: 5, Wait: 3}, Binding{Env: "red", Epoch: 5, Wait: 3}, false},
		{"deleted", Binding{Wait: 3}, Binding{Wait: 3}, false},
	} {
		m := hostnames(t)
		m.shown("s1", "p1", "red", start+lease)
		m.bindings[at] = c.b
		m.at(start, func(tx *Tx) {
			if got := m.rules.proveBindings(tx, m.sessions["s1"].Worker); got != c.displaced {
				t.Errorf("%s: displaced %v", c.name, got)
			}
		})
		if got := m.bindings[at]; got != c.want {
			t.Errorf("%s: %+v", c.name, got)
		}
	}
	for _, c := range []struct{ b, want Binding }{
		{Binding{Env: "red", Wait: start + 1}, Binding{Env: "red", Wait: start + longest}},
		{Binding{Env: "red", Wait: start}, Binding{Env: "red", Wait: start}},
		{Binding{Env: "red", By: start + 1, Wait: start + 1}, Binding{Env: "red", By: start + 1, Wait: start + 1}},
		{Binding{Env: "blue", Wait: start + 1}, Binding{Env: "blue", Wait: start + 1}},
	} {
		m := hostnames(t)
		m.shown("s1", "p1", "red", start+lease)
		m.bindings[at] = c.b
		m.at(start, func(tx *Tx) { m.rules.BeginWait(tx, m.sessions["s1"].Worker) })
		if got := m.bindings[at]; got != c.want {
			t.Errorf("begin to wait: %+v, want %+v", got, c.want)
		}
	}
}

// TestWhoIsSuperseded: who has no binding left, by the env that took the last.
func TestWhoIsSuperseded(t *testing.T) {
	other := BindKey{Host: "a.test", Namespace: "/m"}
	for _, c := range []struct {
		name string
		n, m Binding
		want string
	}{
		{"both are its own", Binding{Env: "red"}, Binding{Env: "red"}, ""},
		{"one is left", Binding{Env: "blue"}, Binding{Env: "red"}, ""},
		{"the other is left", Binding{Env: "red"}, Binding{Env: "blue"}, ""},
		{"none is left", Binding{Env: "blue"}, Binding{Env: "green"}, "green"},
		{"one was deleted", Binding{Env: "blue"}, Binding{}, "blue"},
		{"all were deleted", Binding{}, Binding{}, ""},
		{"still in force", Binding{Env: "blue", By: start + 1, Was: "red"}, Binding{Env: "green"}, ""},
		{"in force again", Binding{Env: "blue", By: start, Was: "red"}, Binding{Env: "green"}, ""},
	} {
		m := hostnames(t)
		m.shown("s1", "p1", "red", start+lease)
		m.change("s1", func(s *Session) { s.Worker.Namespaces = []string{"/n", "/m"} })
		m.bindings[at], m.bindings[other] = c.n, c.m
		m.at(start, func(tx *Tx) {
			env, _, yes := m.rules.superseded(tx, m.sessions["s1"].Worker)
			if env != c.want || yes != (c.want != "") {
				t.Errorf("%s: %q %v", c.name, env, yes)
			}
			deleted := c.n.Env == "" || c.m.Env == ""
			if got := m.rules.unbound(tx, m.sessions["s1"].Worker); got != deleted {
				t.Errorf("%s: unbound %v", c.name, got)
			}
		})
	}
}

// TestADeletedBinding: it is gone, what is bound next waits, and the policy of
// its epoch is anybody's to change (H4).
func TestADeletedBinding(t *testing.T) {
	m := hostnames(t)
	m.bindings[at] = Binding{Env: "red", Epoch: 5, By: 1, Was: "blue"}
	m.index["t:red"], m.index["t:blue"] = "5 deny", "4 wind_down"
	remove := func() (did bool) {
		m.at(start, func(tx *Tx) { did = m.rules.DeleteBinding(tx, at) })
		return did
	}
	if !remove() || m.bindings[at] != (Binding{Wait: start + m.meta.Longest}) {
		t.Errorf("%+v", m.bindings[at])
	}
	if m.index["t:red"] != "-1 deny" || m.index["t:blue"] != "-1 wind_down" || m.index["t:"] != "" {
		t.Errorf("%v", m.index)
	}
	if remove() {
		t.Error("deleted twice")
	}
}

// TestAnIDUnderTwoEnvs: what a process held under another env of an earlier
// session is protected there, too, until its instance is closed (H1, R7).
func TestAnIDUnderTwoEnvs(t *testing.T) {
	old := Key{Env: "blue", Namespace: "/n", ID: "a"}
	for _, c := range []struct {
		name string
		row  *Row
		set  func(m *memory)
		want bool // a closing row there
	}{
		{"its own row", &Row{Kind: Placed, Session: "s1", Epoch: 7}, nil, true},
		{"nobody's row", &Row{Kind: Placed, Session: "gone", Epoch: 7}, nil, true},
		{"a closing row of others", &Row{Kind: Closing, Session: "s0"}, nil, true},
		{"somebody else's", &Row{Kind: Placed, Session: "s0", Epoch: 7}, nil, false},
		{"held", &Row{Kind: Held, Until: start + 9}, nil, false},
		{"no row", nil, nil, false},
		{"outside hostname mode", &Row{Kind: Placed, Session: "s1", Epoch: 7}, func(m *memory) { m.rules.Hostnames = false }, false},
		{"the session of before is forgotten", &Row{Kind: Placed, Session: "gone", Epoch: 7}, func(m *memory) { delete(m.sessions, "s1") }, false},
	} {
		m := hostnames(t)
		m.shown("s0", "p0", "blue", start+lease)
		m.shown("s1", "p1", "blue", start+lease)
		if c.row != nil {
			m.rows[old] = *c.row
		}
		e := enrol("s2", "p1")
		e.Worker.Hostname, e.Worker.Env = "a.test", "red"
		e.Claims = []Key{{Env: "red", Namespace: "/n", ID: "a"}}
		s := &Session{Worker: e.Worker, Lease: Lease{Gen: m.meta.Gen, Until: start + lease, State: State{Behind: []string{"s1"}}}}
		if c.set != nil {
			c.set(m)
		}
		m.at(start, func(tx *Tx) {
			m.rules.close(tx, e.Claims[0], nil, s, e)
			m.rules.elsewhere(tx, s, e)
		})
		row, here := m.rows[old], m.rows[e.Claims[0]]
		if got := row.Kind == Closing && row.Session == "s2"; got != c.want || (here.Twin == "blue") != c.want {
			t.Errorf("%s: %+v, here %+v", c.name, row, here)
		}
	}
}
