package redisstore_test

import (
	"context"
	"errors"
	"strconv"
	"testing"
	"time"

	"pinboard/internal/ownership"
	"pinboard/internal/redisstore"
	"pinboard/internal/redistest"
)

var bind = ownership.BindKey{Host: "h", Namespace: "/threads"}

// Each guard of commit.lua has a line here: what the rule looked at changes
// between the read and the commit, so the rule must run again and see it.
func TestWhatWasReadMustNotHaveChanged(t *testing.T) {
	for _, c := range []struct {
		name string
		look func(tx *ownership.Tx)
		by   func(tx *ownership.Tx)
	}{
		{"a row is there", func(tx *ownership.Tx) { tx.Row(key("new")) },
			func(tx *ownership.Tx) { place(tx, key("new"), sessionA) }},
		{"a row is gone", func(tx *ownership.Tx) { tx.Row(key("old")) },
			func(tx *ownership.Tx) { tx.DropRow(key("old")) }},
		{"a row is another", func(tx *ownership.Tx) { tx.Row(key("old")) },
			func(tx *ownership.Tx) { place(tx, key("old"), sessionB) }},
		{"the session of a row changes", func(tx *ownership.Tx) { tx.Session(tx.Row(key("old")).Session) },
			func(tx *ownership.Tx) { lease(tx, sessionA, time.Hour) }},
		{"a session is there", func(tx *ownership.Tx) { tx.Session(sessionB) },
			func(tx *ownership.Tx) { lease(tx, sessionB, time.Hour) }},
		{"a session is gone", func(tx *ownership.Tx) { tx.Session(sessionA) },
			func(tx *ownership.Tx) { tx.DropSession(sessionA) }},
		{"the session of an index entry changes", func(tx *ownership.Tx) { tx.Session(tx.Index("i")) },
			func(tx *ownership.Tx) { lease(tx, sessionA, time.Hour) }},
		{"an index entry changes", func(tx *ownership.Tx) { tx.Index("i") },
			func(tx *ownership.Tx) { tx.PutIndex("i", sessionB) }},
		{"an index entry is there", func(tx *ownership.Tx) { tx.Index("j") },
			func(tx *ownership.Tx) { tx.PutIndex("j", sessionB) }},
		{"a binding changes", func(tx *ownership.Tx) { tx.Binding(bind) },
			func(tx *ownership.Tx) { tx.PutBinding(bind, &ownership.Binding{Env: "green"}) }},
		{"a binding is gone", func(tx *ownership.Tx) { tx.Binding(bind) },
			func(tx *ownership.Tx) { tx.PutBinding(bind, nil) }},
		{"orders change", func(tx *ownership.Tx) { tx.Orders("p") },
			func(tx *ownership.Tx) { tx.PutOrders("p", nil) }},
		{"the bucket changes", func(*ownership.Tx) {},
			func(tx *ownership.Tx) { m := tx.Meta; m.Cold++; tx.PutMeta(m) }},
		{"the roster grows", func(tx *ownership.Tx) { tx.Roster() },
			func(tx *ownership.Tx) { lease(tx, sessionB, time.Hour) }},
		{"the roster changes", func(tx *ownership.Tx) { tx.Roster() },
			func(tx *ownership.Tx) { lease(tx, sessionA, time.Hour) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := open(t, redistest.Start(t).URL())
			update(t, s, furnish)
			if runs := runsWhile(t, s, c.look, func() { update(t, s, func(tx *ownership.Tx) error { c.by(tx); return nil }) }); runs != 2 {
				t.Fatalf("the rule's last view came after %d runs, want 2", runs)
			}
		})
	}
}

// furnish gives bucket 0 one of everything.
func furnish(tx *ownership.Tx) error {
	lease(tx, sessionA, time.Minute)
	place(tx, key("old"), sessionA)
	tx.PutIndex("i", sessionA)
	tx.PutBinding(bind, &ownership.Binding{Env: "blue"})
	tx.PutOrders("p", []ownership.Order{{MsgID: "m"}})
	tx.PutMeta(ownership.Meta{Gen: tx.Server + "@1", Longest: 15e6})
	return nil
}

// runsWhile counts how often a committing rule saw its final view: between the
// first complete view and its commit, change happens once.
func runsWhile(t *testing.T, s *redisstore.Store, look func(*ownership.Tx), change func()) int {
	t.Helper()
	complete := 0
	update(t, s, func(tx *ownership.Tx) error {
		tx.Row(key("written"))
		look(tx)
		if complete++; complete == 1 {
			change()
		}
		tx.PutRow(key("written"), ownership.Row{Kind: ownership.Held})
		return nil
	})
	return complete
}

// Counts commute: placements on one worker must not collide with each other.
func TestCountsAndOtherRowsDoNotCollide(t *testing.T) {
	s := open(t, redistest.Start(t).URL())
	update(t, s, furnish)
	look := func(tx *ownership.Tx) { tx.Count("n"); tx.Session(sessionA); tx.Row(key("mine")) }
	if runs := runsWhile(t, s, look, func() {
		update(t, s, func(tx *ownership.Tx) error {
			tx.Add("n", 1)
			place(tx, key("other"), sessionA)
			return nil
		})
	}); runs != 1 {
		t.Fatalf("%d runs, want 1", runs)
	}
}

// G1: a commit reaches only the server that was read, even when another one
// holds the same content.
func TestCommitOnlyAtTheServerThatWasRead(t *testing.T) {
	srv := redistest.Start(t)
	s := open(t, srv.URL())
	update(t, s, furnish)
	srv.Do("SAVE")
	var seen []string
	err := s.Update(context.Background(), 0, rows("x"), func(tx *ownership.Tx) error {
		if seen = append(seen, tx.Server); len(seen) == 1 {
			srv.Restart()
			for s.Update(context.Background(), 0, ownership.Select{}, nothing) != nil {
			}
		}
		place(tx, key("x"), sessionA)
		return nil
	})
	if err != nil || len(seen) != 2 || seen[0] == seen[1] {
		t.Fatalf("committed after seeing %v (%v)", seen, err)
	}
}

func nothing(*ownership.Tx) error { return nil }

func rows(ids ...string) (s ownership.Select) {
	for _, id := range ids {
		s.Rows = append(s.Rows, key(id))
	}
	return s
}

// offset opens a store whose server's clock can be stepped.
func offset(t *testing.T, change ...func(*redisstore.Options)) (*redisstore.Store, *redistest.Server, func(time.Duration)) {
	srv := redistest.Start(t)
	change = append(change, func(o *redisstore.Options) { o.SetClock(redisstore.OffsetClock) })
	s := open(t, srv.URL(), change...)
	return s, srv, func(d time.Duration) { srv.Do("SET", "offset", strconv.FormatInt(d.Microseconds(), 10)) }
}

// G4: within one transaction the clock neither goes back nor runs away.
func TestCommitOnlyAtABelievableTime(t *testing.T) {
	for _, c := range []struct {
		name string
		step time.Duration
		runs int
	}{
		{"back by half a second", -500 * time.Millisecond, 2},
		{"ahead by half a second", 500 * time.Millisecond, 1},
		{"ahead by more than a second", 1200 * time.Millisecond, 2},
		{"ahead by a minute", time.Minute, 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			s, _, step := offset(t)
			update(t, s, furnish)
			step(0)
			if runs := runsWhile(t, s, func(*ownership.Tx) {}, func() { step(c.step) }); runs != c.runs {
				t.Fatalf("%d runs, want %d", runs, c.runs)
			}
		})
	}
}

// R5: a rule's not-after and the caller's deadline hold by the store's clock.
func TestCommitNotAfter(t *testing.T) {
	s, srv, step := offset(t)
	update(t, s, furnish)
	limit, runs := int64(0), 0
	err := s.Update(context.Background(), 0, rows("old"), func(tx *ownership.Tx) error {
		if runs++; runs == 1 {
			limit = tx.Now + 100_000
			defer step(200 * time.Millisecond) // after the read, before the commit
		}
		if tx.Before(limit) {
			tx.DropRow(key("old"))
		}
		return nil
	})
	if err != nil || runs != 2 || srv.Do("EXISTS", s.TagKey(0, key("old").String())) != int64(1) {
		t.Fatalf("dropped after its time, %d runs (%v)", runs, err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 300*time.Millisecond)
	defer cancel()
	runs = 0
	err = s.Update(ctx, 0, rows("old"), func(tx *ownership.Tx) error {
		if runs++; runs == 1 {
			step(900 * time.Millisecond) // less than what is unbelievable, more than the caller waits
		}
		if runs < 3 {
			tx.DropRow(key("old"))
		}
		return nil
	})
	if runs < 2 {
		t.Fatalf("committed after the caller's deadline (%v)", err)
	}
}

func TestCallerHungUp(t *testing.T) {
	srv := redistest.Start(t)
	s := open(t, srv.URL())
	ctx, cancel := context.WithCancel(context.Background())
	err := s.Update(ctx, 0, rows("x"), func(tx *ownership.Tx) error {
		cancel()
		tx.PutRow(key("x"), ownership.Row{Kind: ownership.Held})
		return nil
	})
	if !errors.Is(err, redisstore.ErrUnavailable) || srv.Do("EXISTS", s.TagKey(0, key("x").String())) != int64(0) {
		t.Fatalf("executed for nobody: %v", err)
	}
}

// G4: a clock that stepped between two readings is told to every rule on a
// bucket of the server, until it has begun another generation there.
func TestSteppedClockMakesCold(t *testing.T) {
	for _, d := range []time.Duration{30 * time.Second, -30 * time.Second} {
		t.Run(d.String(), func(t *testing.T) {
			steps := make(chan string, 10)
			s, srv, step := offset(t, func(o *redisstore.Options) { o.OnStep = func(server string) { steps <- server } })
			for b := range buckets {
				if err := s.Update(context.Background(), b, ownership.Select{}, furnish); err != nil {
					t.Fatal(err)
				}
			}
			step(d)
			for b := range buckets {
				rules := ownership.Rules{Lease: 15e6}
				for i, want := range []ownership.Cause{ownership.ClockStepped, ""} {
					err := s.Update(context.Background(), b, ownership.Select{}, func(tx *ownership.Tx) error {
						if tx.Doubt != want {
							t.Errorf("bucket %d, rule %d: doubt %q", b, i+1, tx.Doubt)
						}
						rules.Begin(tx, 0)
						if left := tx.Meta.Cold - tx.Now; left < 14e6 || left > 15e6 {
							t.Errorf("bucket %d, rule %d: cold for %d us", b, i+1, left)
						}
						return nil
					})
					if err != nil {
						t.Fatal(err)
					}
				}
			}
			if len(steps) != 1 || <-steps != srv.Info("server", "run_id") {
				t.Error("step not reported once")
			}
		})
	}
}

// A stalled server is not a stepped clock: its replies come late but their
// times fit.
func TestStalledServerIsNoStep(t *testing.T) {
	srv := redistest.Start(t)
	s := open(t, srv.URL(), func(o *redisstore.Options) { o.OnStep = func(string) { t.Error("step reported") } })
	update(t, s, furnish)
	srv.Pause()
	ctx, cancel := context.WithTimeout(context.Background(), 200*time.Millisecond)
	defer cancel()
	if err := s.Update(ctx, 0, ownership.Select{}, furnish); err == nil {
		t.Error("a paused server answered")
	}
	time.Sleep(1100 * time.Millisecond)
	srv.Resume()
	update(t, s, nothing)
}

// R10, G4: a commit that reaches the server late does nothing there.
func TestLateCommitDoesNothing(t *testing.T) {
	srv := redistest.Start(t)
	relay := redistest.NewRelay(t, srv.Addr)
	s := open(t, relay.URL())
	update(t, s, furnish)
	ctx, cancel := context.WithTimeout(context.Background(), 300*time.Millisecond)
	defer cancel()
	err := s.Update(ctx, 0, rows("x"), func(tx *ownership.Tx) error {
		relay.Once("EVALSHA", 1, redistest.DelayCommand(500*time.Millisecond))
		tx.PutRow(key("x"), ownership.Row{Kind: ownership.Held})
		return nil
	})
	if err == nil {
		t.Fatal("no error")
	}
	time.Sleep(600 * time.Millisecond)
	if srv.Do("EXISTS", s.TagKey(0, key("x").String())) != int64(0) {
		t.Fatal("executed after its caller had given up")
	}
}
