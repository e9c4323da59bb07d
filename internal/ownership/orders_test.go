package ownership

import (
	"fmt"
	"testing"
	"time"
)

// beat is one beat of s1 and the messages that it takes home, "id left".
func (m *memory) beat(now Micros, acks ...string) (out []string) {
	m.t.Helper()
	m.at(now, func(tx *Tx) {
		s := tx.Session("s1")
		for _, o := range m.rules.deliver(tx, s, Pulse{Beat: Beat{Session: "s1", Acks: acks}}) {
			left := "revoked"
			if o.Deadline != nil {
				left = o.Deadline.String()
			}
			out = append(out, o.MsgID+" "+left)
		}
		tx.PutSession(*s)
	})
	return out
}

func (m *memory) expect(what string, got []string, want ...string) {
	m.t.Helper()
	if fmt.Sprint(got) != fmt.Sprint(want) {
		m.t.Errorf("%s: %v, want %v", what, got, want)
	}
}

// winding is a bucket with an id of s1 that was ordered to end in 20 s.
func winding(t *testing.T, acks bool) *memory {
	m := newMemory(t)
	m.session("s1", "p1", start+100*lease)
	m.change("s1", func(s *Session) { s.Acks = acks })
	m.rows[key("a")] = placed("s1", 7)
	m.windDown(start, "m", 20*time.Second)
	return m
}

func (m *memory) windDown(now Micros, msg string, in time.Duration) (ok bool) {
	m.at(now, func(tx *Tx) { ok = m.rules.WindDown(tx, key("a"), &in, msg, "") })
	return ok
}

func (m *memory) revoke(now Micros, msg string) (ok bool) {
	m.at(now, func(tx *Tx) { ok = m.rules.WindDown(tx, key("a"), nil, msg, "") })
	return ok
}

// TestAnOrderOnItsWay: its deadline ages, an ack ends the deliveries, the
// deadline brings an eviction under a new id, and four leases later a restate
// order is due (F4).
func TestAnOrderOnItsWay(t *testing.T) {
	m := winding(t, true)
	m.expect("the first beat", m.beat(start), "0.m 20s")
	m.expect("the next", m.beat(start+second), "0.m 19s")
	m.expect("acked", m.beat(start+2*second, "0.m"))
	m.expect("before the deadline", m.beat(start+20*second-1))
	m.expect("at the deadline", m.beat(start+20*second), "0.m! 0s")
	m.expect("after it", m.beat(start+21*second), "0.m! 0s")
	m.expect("acked again", m.beat(start+22*second, "0.m!"))
	over := start + 20*second + orderLeases*m.meta.Longest
	if m.beat(over - 1); m.sessions["s1"].Phase != Serving {
		t.Error("due before its time")
	}
	if m.beat(over); m.sessions["s1"].Phase != Due {
		t.Error("not due at its time")
	}
	delete(m.rows, key("a"))
	m.beat(over + 1)
	if len(m.orders["p1"]) != 0 {
		t.Errorf("the row has ended, its order has not: %+v", m.orders["p1"])
	}
}

// TestAnOrderToAMuteProcess: twice, and again twice as an eviction.
func TestAnOrderToAMuteProcess(t *testing.T) {
	m := winding(t, false)
	m.expect("1", m.beat(start), "0.m 20s")
	m.expect("2", m.beat(start), "0.m 20s")
	m.expect("3", m.beat(start))
	m.expect("the deadline", m.beat(start+20*second), "0.m! 0s")
	m.expect("again", m.beat(start+20*second), "0.m! 0s")
	m.expect("no more", m.beat(start+20*second))
	m.revoke(start+20*second, "r")
	m.expect("revoked", m.beat(start+20*second), "0.r revoked")
	m.expect("revoked again", m.beat(start+20*second), "0.r revoked")
	m.expect("no more", m.beat(start+20*second))
	if len(m.orders["p1"]) != 0 {
		t.Errorf("a revoke that was said twice stays: %+v", m.orders["p1"])
	}
}

// TestARevoke: the row winds down no more, and the message goes out until it is acked.
func TestARevoke(t *testing.T) {
	m := winding(t, true)
	r := m.rows[key("a")]
	r.Claim = "b.test"
	m.rows[key("a")] = r
	if !m.revoke(start, "r") || m.rows[key("a")].Wind != 0 || m.rows[key("a")].Claim != "" {
		t.Errorf("%+v", m.rows[key("a")])
	}
	for range 3 {
		m.expect("revoked", m.beat(start), "0.r revoked")
	}
	m.expect("acked", m.beat(start, "0.r"))
	if len(m.orders["p1"]) != 0 {
		t.Errorf("acked, and still there: %+v", m.orders["p1"])
	}
	if !m.revoke(start, "r2") || len(m.orders["p1"]) != 0 {
		t.Errorf("nothing winds down, and a revoke is sent: %+v", m.orders["p1"])
	}
}

// TestAPoisonousOrder: what a worker never acks while it acks others is dropped
// after five deliveries, so that it holds nothing up.
func TestAPoisonousOrder(t *testing.T) {
	m := winding(t, true)
	for range orderDeliveries {
		m.expect("alone", m.beat(start), "0.m 20s")
	}
	m.expect("nobody else was acked", m.beat(start), "0.m 20s")
	m.orders["p1"] = append(m.orders["p1"], Order{MsgID: "0.x", Key: key("b"), Delivered: 1})
	m.rows[key("b")] = Row{Kind: Placed, Session: "s1", Epoch: 8, Wind: start + 20*second}
	m.expect("another one is acked by this beat", m.beat(start, "0.x"))
	m.expect("dropped for good", m.beat(start))

	m = winding(t, true)
	m.beat(start)
	m.orders["p1"] = append(m.orders["p1"], Order{MsgID: "0.x", Key: key("b"), Delivered: 1}, Order{MsgID: "0.y", Key: key("c")})
	m.rows[key("b")] = Row{Kind: Placed, Session: "s1", Epoch: 8, Wind: start + 20*second}
	m.rows[key("c")] = Row{Kind: Placed, Session: "s1", Epoch: 8, Wind: start + 20*second}
	m.expect("others acked early", m.beat(start, "0.x", "0.x"), "0.m 20s", "0.y 20s")
	if o := m.orders["p1"]; o[0].Passed != 1 || o[1].Passed != 0 || o[2].Passed != 0 {
		t.Errorf("passed: %+v", o)
	}
	for i := 2; i < orderDeliveries; i++ {
		m.expect("still", m.beat(start), "0.m 20s", "0.y 20s")
	}
	m.expect("then it is dropped, and the one that was delivered once less is not", m.beat(start), "0.y 20s")
}

// TestAMessageCount: no more than a worker takes at once; the others wait.
func TestAMessageCount(t *testing.T) {
	m := newMemory(t)
	m.session("s1", "p1", start+lease)
	m.change("s1", func(s *Session) { s.Acks = true })
	for i := range maxMessages + 1 {
		k := key(fmt.Sprint(i))
		m.rows[k] = Row{Kind: Placed, Session: "s1", Epoch: 8, Wind: start + 20*second}
		m.orders["p1"] = append(m.orders["p1"], Order{MsgID: fmt.Sprint("0.", i), Key: k})
	}
	if got := len(m.beat(start)); got != maxMessages {
		t.Errorf("%d messages", got)
	}
	if o := m.orders["p1"]; len(o) != maxMessages+1 || o[maxMessages].Delivered != 0 {
		t.Errorf("%d orders", len(o))
	}
}

// TestOrdersEndWithTheirRow: with the row, its wind-down, or its owner.
func TestOrdersEndWithTheirRow(t *testing.T) {
	for name, row := range map[string]*Row{
		"no row":        nil,
		"closing":       {Kind: Closing, Session: "s1"},
		"not winding":   {Kind: Placed, Session: "s1", Epoch: 7},
		"somebody else": {Kind: Placed, Session: "s9", Epoch: 8, Wind: start + 9*second},
		"nobody":        {Kind: Placed, Session: "gone", Epoch: 8, Wind: start + 9*second},
	} {
		m := winding(t, true)
		m.session("s9", "p9", start+lease)
		delete(m.rows, key("a"))
		if row != nil {
			m.rows[key("a")] = *row
		}
		m.expect(name, m.beat(start))
		if len(m.orders["p1"]) != 0 {
			t.Errorf("%s: %+v", name, m.orders["p1"])
		}
	}
}

// TestWhatCanWindDown: a placed id whose owner's lease runs, of the process
// that was named; never sooner than a lease from now; a new order replaces the
// last one.
func TestWhatCanWindDown(t *testing.T) {
	in := time.Second
	for _, c := range []struct {
		name    string
		row     *Row
		process string
		now     Micros
		want    bool
	}{
		{"placed", &Row{Kind: Placed, Session: "s1", Epoch: 7}, "", start, true},
		{"of its process", &Row{Kind: Placed, Session: "s1", Epoch: 7}, "p1", start, true},
		{"of another process", &Row{Kind: Placed, Session: "s1", Epoch: 7}, "p9", start, false},
		{"no row", nil, "", start, false},
		{"closing", &Row{Kind: Closing, Session: "s1"}, "", start, false},
		{"lapsed", &Row{Kind: Placed, Session: "s1", Epoch: 7}, "", start + lease, false},
	} {
		m := newMemory(t)
		m.session("s1", "p1", start+lease)
		if c.row != nil {
			m.rows[key("a")] = *c.row
		}
		m.orders["p1"] = []Order{{MsgID: "0.before", Key: key("a")}, {MsgID: "0.other", Key: key("b")}}
		m.at(c.now, func(tx *Tx) {
			if got := m.rules.WindDown(tx, key("a"), &in, "m", c.process); got != c.want {
				t.Errorf("%s: %v", c.name, got)
			}
		})
		if !c.want {
			if len(m.orders["p1"]) != 2 || m.rows[key("a")].Wind != 0 {
				t.Errorf("%s: %+v", c.name, m.orders["p1"])
			}
			continue
		}
		if o := m.orders["p1"]; len(o) != 2 || o[0].MsgID != "0.other" || o[1].MsgID != "0.m" || m.rows[key("a")].Wind != start+m.meta.Longest {
			t.Errorf("%s: %+v %+v", c.name, o, m.rows[key("a")])
		}
	}
}

// TestTheEndOfAWindDown: forwards go on until its deadline and not at it (F4).
func TestTheEndOfAWindDown(t *testing.T) {
	m := winding(t, true)
	if _, code := m.lookup(start+20*second-1, "a"); code != "" {
		t.Error("before:", code)
	}
	if _, code := m.lookup(start+20*second, "a"); code == "" {
		t.Error("forwarded at the deadline")
	}
}
