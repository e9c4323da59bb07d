package ownership

import (
	"errors"
	"slices"
	"testing"
	"time"
)

// enrol is a registration of a new session of a process, as it comes in whole.
func enrol(session, process string, claims ...string) *Enrol {
	e := &Enrol{Worker: &Worker{Session: session, Process: process, ClientID: process, URL: "http://" + process,
		Namespaces: []string{"/n"}, Hostname: World, Env: World}, Last: true,
		OldNow: func(string) (Micros, bool) { return 0, false }}
	for _, id := range claims {
		e.Claims = append(e.Claims, key(id))
	}
	return e
}

func (m *memory) register(now Micros, e *Enrol) (out Enrolled, err error) {
	m.at(now, func(tx *Tx) { out, err = m.rules.Register(tx, e) })
	return out, err
}

// TestWhoMayRegister: every reason to make a registration wait, with the
// microsecond at which it ends and the time that the worker is told to wait.
func TestWhoMayRegister(t *testing.T) {
	const ends = start + 5*second
	for _, c := range []struct {
		name  string
		set   func(m *memory, e *Enrol)
		until Micros        // it waits until then; 0: it does not wait
		after time.Duration // told one second before
	}{
		{"nobody is there", func(m *memory, e *Enrol) { clear(m.sessions) }, 0, 0},
		{"its own earlier session", func(*memory, *Enrol) {}, 0, 0},
		{"its clientId runs elsewhere", func(m *memory, e *Enrol) {
			m.session("s0", "p0", ends)
			m.index[ByOwnedClient("", "p1")] = "s0"
		}, ends, time.Second},
		{"its clientId runs elsewhere, for another token", func(m *memory, e *Enrol) {
			m.session("s0", "p0", ends)
			m.index[ByOwnedClient("else", "p1")] = "s0"
		}, 0, 0},
		{"its process runs under another token", func(m *memory, e *Enrol) { m.change("s1", func(s *Session) { s.Worker.Owner = "else" }) }, ends, time.Second},
		{"it was ejected", func(m *memory, e *Enrol) { m.change("s1", func(s *Session) { s.Ejected = true }) }, ends, time.Second},
		{"its URL is a proven worker's", func(m *memory, e *Enrol) { m.there(ends, true); e.Worker.Proven = false }, ends, time.Second},
		{"its URL is an unproven worker's of another token", func(m *memory, e *Enrol) {
			m.there(ends, false)
			m.change("s0", func(s *Session) { s.Worker.Owner = "else" })
		}, ends, time.Second},
		{"its URL is an unproven worker's", func(m *memory, e *Enrol) { m.there(ends, false) }, 0, 0},
		{"its URL is an unproven worker's of another token, but it proves it", func(m *memory, e *Enrol) {
			m.there(ends, false)
			m.change("s0", func(s *Session) { s.Worker.Owner = "else" })
			e.Worker.Proven = true
		}, 0, 0},
		{"its URL was proved by another one half a lease ago", func(m *memory, e *Enrol) {
			m.there(ends+lease, true)
			m.change("s0", func(s *Session) { s.ProvedAt = ends - s.TTL/2 })
			e.Worker.Proven = true
		}, ends, time.Second},
		{"it was succeeded", func(m *memory, e *Enrol) {
			m.session("s2", "p1", start)
			m.change("s2", func(s *Session) { s.succeed("s3") })
		}, 1 << 60, time.Second},
	} {
		m := newMemory(t)
		m.session("s1", "p1", ends)
		m.change("s1", func(s *Session) { s.At = start - 9*second })
		e := enrol("s2", "p1")
		c.set(m, e)
		ask := func(now Micros) (wait *Wait) {
			m.at(now, func(tx *Tx) {
				var w Wait
				if errors.As(m.rules.Admit(tx, e), &w) {
					wait = &w
				}
			})
			return wait
		}
		switch {
		case c.until == 0:
			if w := ask(start); w != nil {
				t.Errorf("%s: waits: %v", c.name, w)
			}
		case c.until > start+lease:
			if ask(start) == nil {
				t.Errorf("%s: let in", c.name)
			}
		default:
			if w := ask(c.until - second); w == nil || w.After != c.after {
				t.Errorf("%s: told %+v", c.name, w)
			}
			if ask(c.until-1) == nil || ask(c.until) != nil {
				t.Errorf("%s: it does not end at its time", c.name)
			}
		}
	}
}

// there puts another process at the URL of p1.
func (m *memory) there(until Micros, proven bool) {
	m.session("s0", "p0", until)
	m.change("s0", func(s *Session) { s.Worker.Proven = proven })
	m.index[ByURL("http://p1")] = "s0"
}

// TestHowLongToWait: what is left, a second at least.
func TestHowLongToWait(t *testing.T) {
	if got := left(start, start+3*second); got != 3*time.Second {
		t.Error(got)
	}
	if got := left(start, start-3*second); got != time.Second {
		t.Error(got)
	}
}

// TestRegistrationsInTheOrderInWhichTheyWereHeard: one that was heard before a
// later one was registered comes too late (L6). The node's own time counts, as
// much of it as two clocks agree on.
func TestRegistrationsInTheOrderInWhichTheyWereHeard(t *testing.T) {
	for ago, late := range map[time.Duration]bool{0: false, time.Second: true} {
		m := newMemory(t)
		m.session("s1", "p1", start+lease)
		m.change("s1", func(s *Session) { s.At = start - second + 1000 })
		e := enrol("s2", "p1")
		m.at(start, func(tx *Tx) {
			tx.Sent = time.Unix(100, 0)
			e.Heard = tx.Sent.Add(-ago)
			if heard(tx, e.Heard) != start-Micros(float64(ago.Microseconds())*(1-drift)) {
				t.Errorf("%v ago: heard at %d", ago, heard(tx, e.Heard)-start)
			}
			// A thousandth of the second may be the clocks' own.
			if err := m.rules.Admit(tx, e); err != nil {
				t.Errorf("%v ago: %v", ago, err)
			}
			s := m.sessions["s1"]
			s.At++
			m.sessions["s1"] = s
			if err := m.rules.Admit(tx, e); (err != nil) != late {
				t.Errorf("%v ago, a microsecond later: %v", ago, err)
			}
		})
	}
	m := newMemory(t)
	m.session("s1", "p1", start+lease)
	m.change("s1", func(s *Session) { s.At, s.Gen = start+9, "s@old" })
	if _, err := m.register(start, enrol("s2", "p1")); err != nil {
		t.Errorf("the order of another generation's clock counts: %v", err)
	}
}

// TestWhatASuccessorTakesOver: the lease, the operator's drain, the limit of
// restate orders, the orders, and the sessions that are not restated yet.
func TestWhatASuccessorTakesOver(t *testing.T) {
	m := newMemory(t)
	m.session("s0", "p1", start+lease)
	m.change("s0", func(s *Session) { s.succeed("s1") })
	m.session("s1", "p1", start+lease)
	m.change("s1", func(s *Session) {
		s.Behind, s.Acks, s.Aborts, s.Ordered, s.Drain, s.DrainAt = []string{"s0"}, true, true, 7, true, start+77
	})
	m.orders["p1"] = []Order{{MsgID: "0.m", Delivered: 3, Passed: 2, Acked: true}}
	e := enrol("s2", "p1")
	e.Last, e.Worker.Proven = false, true
	out, err := m.register(start, e)
	s := m.sessions["s2"]
	if err != nil || !out.Drain || out.DrainAt != start+77 || !s.Acks || !s.Aborts || s.Ordered != 7 || s.ProvedAt != start || s.Until != start+lease+slack || s.At != start {
		t.Errorf("%v %+v %+v", err, out, s.Lease)
	}
	if !slices.Equal(s.Behind, []string{"s1", "s0"}) || m.sessions["s1"].Phase != Succeeded || m.sessions["s0"].Phase != Succeeded {
		t.Errorf("behind it: %v", s.Behind)
	}
	if o := m.orders["p1"]; len(o) != 1 || o[0].MsgID != "0.m~" || o[0].Delivered != 0 || o[0].Passed != 0 || o[0].Acked {
		t.Errorf("orders: %+v", o)
	}
	// A later chunk takes nothing over again, never lowers the deadline, and
	// the last one lets go.
	m.change("s2", func(s *Session) { s.Until += 9 * second })
	e.Last = true
	if _, err := m.register(start+1, e); err != nil {
		t.Fatal(err)
	}
	s = m.sessions["s2"]
	if s.Until != start+lease+slack+9*second || s.At != start || len(s.Behind) != 0 || m.orders["p1"][0].MsgID != "0.m~" {
		t.Errorf("after the last chunk: %+v", s.Lease)
	}
	for _, id := range []string{"s0", "s1"} {
		if old := m.sessions[id]; old.Phase != LetGo || old.Next != "s2" || old.Free != start+1 {
			t.Errorf("%s: %+v", id, old.State)
		}
	}
}

// TestLettingGoWithoutAcks: ids that a process without acks leaves out are free
// a lease later, unless they were free already (R5).
func TestLettingGoWithoutAcks(t *testing.T) {
	for until, free := range map[Micros]Micros{start + lease: start + lease + slack, start: start} {
		m := newMemory(t)
		m.session("s1", "p1", until)
		if _, err := m.register(start, enrol("s2", "p1")); err != nil {
			t.Fatal(err)
		}
		if got := m.sessions["s1"]; got.Phase != LetGo || got.Free != free {
			t.Errorf("lease until %d: %+v", until-start, got.State)
		}
	}
}

// TestAnotherProcessIsReplacedAtItsURL: while it runs, and only another one (L7).
func TestAnotherProcessIsReplacedAtItsURL(t *testing.T) {
	for until, want := range map[Micros]string{start + 1: "s2", start: ""} {
		m := newMemory(t)
		m.there(until, false)
		m.session("s1", "p1", start+lease)
		m.index[ByURL("http://p1")] = "s0"
		if _, err := m.register(start, enrol("s2", "p1")); err != nil {
			t.Fatal(err)
		}
		if got := m.sessions["s0"].ReplacedBy; got != want || m.sessions["s1"].ReplacedBy != "" {
			t.Errorf("lease until %d: replaced by %q", until-start, got)
		}
	}
}

// TestWhatIsGivenBack: one restated id against every row that may be there
// (R6, R7). The clock of the generation before is 1000 seconds behind.
func TestWhatIsGivenBack(t *testing.T) {
	const shift = 400 * second
	nonce := Nonce{1}
	for _, c := range []struct {
		name    string
		owner   string // of the row
		gen     string // of the owner's session; "" this one
		until   Micros // of its lease, by its own clock
		end     string // "let go" or "ended"
		lost    bool   // the old clock
		want    byte   // 'K'eeps its row, new 'M'int, 'C'losing row, 'S'omebody else's still
		nothing bool   // no row at all
	}{
		{name: "its own", owner: "s1", until: start + 1, want: 'K'},
		{name: "its own, lapsed", owner: "s1", until: start, want: 'K'},
		{name: "its own, left out before", owner: "s1", until: start + 1, end: "let go", want: 'C'},
		{name: "its own, deregistered", owner: "s1", until: start + 1, end: "ended", want: 'C'},
		{name: "somebody else's", owner: "s0", until: start + 1, want: 'S'},
		{name: "somebody else's, lapsed", owner: "s0", until: start, want: 'C'},
		{name: "forgotten", owner: "gone", want: 'C'},
		{name: "no row", nothing: true, want: 'C'},
		{name: "its own of before", owner: "s1", gen: "s@old", until: start - shift + 1, want: 'M'},
		{name: "its own of before, lapsed", owner: "s1", gen: "s@old", until: start - shift, want: 'C'},
		{name: "its own of before, the old clock is lost", owner: "s1", gen: "s@old", until: start, lost: true, want: 'C'},
		{name: "its own of before, let go", owner: "s1", gen: "s@old", until: start, end: "let go", want: 'C'},
		{name: "somebody else's of before", owner: "s0", gen: "s@old", until: start, want: 'C'},
	} {
		m := newMemory(t)
		m.session("s0", "p0", c.until)
		m.session("s1", "p1", c.until)
		if c.owner != "gone" && !c.nothing {
			m.change(c.owner, func(s *Session) {
				if c.gen != "" {
					s.Gen = c.gen
				}
				switch c.end {
				case "let go":
					s.letGo("s9", start-9)
				case "ended":
					s.end(start - 9)
				}
			})
		}
		if !c.nothing {
			m.rows[key("a")] = Row{Kind: Placed, Session: c.owner, Epoch: 7, Nonce: nonce, Wind: start + 5*second - shift}
		}
		e := enrol("s2", "p1", "a")
		e.OldNow = func(gen string) (Micros, bool) { return start - shift, gen == "s@old" && !c.lost }
		out, err := m.register(start, e)
		if err != nil {
			t.Fatal(c.name, err)
		}
		row, got := m.rows[key("a")], byte('S')
		switch {
		case row.Kind == Closing && slices.Equal(row.closers(), []string{"s2"}):
			got = 'C'
		case row.Session == "s2" && row.Since == 0 && row.Nonce == Nonce{} && row.Wind == start+5*second-shift:
			got = 'K'
		case row.Session == "s2" && row.Since == 7 && row.Nonce == Nonce{} && row.Wind == start+5*second:
			got = 'M'
		}
		if kept := got == 'K' || got == 'M'; got != c.want || kept != (out.Moved == 1) || kept == (len(out.Duplicates) == 1) {
			t.Errorf("%s: %c, want %c: %+v %+v", c.name, got, c.want, row, out)
		}
	}
}

// TestARowThatMovedTwice keeps the first epoch that its worker may know, and
// no wind-down appears where none was.
func TestARowThatMovedTwice(t *testing.T) {
	m := newMemory(t)
	m.session("s1", "p1", start)
	m.change("s1", func(s *Session) { s.Gen, s.Drain, s.DrainAt = "s@old", true, start })
	m.rows[key("a")] = Row{Kind: Placed, Session: "s1", Epoch: 9, Since: 7}
	e := enrol("s2", "p1", "a")
	e.OldNow = func(string) (Micros, bool) { return start - second, true }
	out, err := m.register(start, e)
	if row := m.rows[key("a")]; err != nil || row.Since != 7 || row.Wind != 0 {
		t.Errorf("%v %+v", err, row)
	}
	if !out.Drain || out.DrainAt != start+second {
		t.Errorf("the drain's deadline is of the old clock: %+v", out)
	}
}

// TestWhoseIDAnOperatorMeans: a clientId names who was there first.
func TestWhoseIDAnOperatorMeans(t *testing.T) {
	for _, c := range []struct {
		until Micros
		owner string
		want  string
	}{{start + 1, "else", "s0"}, {start, "else", "s2"}, {start, "", "s2"}} {
		m := newMemory(t)
		m.session("s0", "p0", c.until)
		m.change("s0", func(s *Session) { s.Worker.Owner = c.owner })
		m.index[ByClient("p1")] = "s0"
		if _, err := m.register(start, enrol("s2", "p1")); err != nil {
			t.Fatal(err)
		}
		if got := m.index[ByClient("p1")]; got != c.want {
			t.Errorf("%+v: %s", c, got)
		}
	}
}
