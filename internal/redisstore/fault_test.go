package redisstore_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"pinboard/internal/ownership"
	"pinboard/internal/redisstore"
	"pinboard/internal/redistest"
)

// scripted is the n-th script run from now on: 1 the read, 2 the commit.
func scripted(relay *redistest.Relay, n int64, f redistest.Fault) {
	var at atomic.Int64
	relay.Rule(func(w []string) redistest.Fault {
		if w[0] == "EVALSHA" && at.Add(1) == n {
			return f
		}
		return redistest.Pass()
	})
}

// FC-43, R10: whatever goes wrong with the read or the commit is an error and
// in bounded time, never an absent row; what a failed commit did is either all
// there or not at all, and service returns by itself.
func TestFaultsAreNeverAbsence(t *testing.T) {
	t.Parallel()
	for _, f := range []struct {
		name     string
		fault    redistest.Fault
		retried  bool // a failed read is repeated on a new connection
		executed bool // the commit has happened
	}{
		{"cut before", redistest.CutBefore(), true, false},
		{"cut after", redistest.CutAfter(), true, true},
		{"cut inside", redistest.CutInside(), true, true},
		{"never answered", redistest.Hold(), false, false},
		{"reply swallowed", redistest.Swallow(), false, true},
		{"loading", redistest.Inject("-LOADING Redis is loading the dataset in memory\r\n"), false, false},
		{"busy", redistest.Inject("-BUSY Redis is busy running a script\r\n"), false, false},
		{"master down", redistest.Inject("-MASTERDOWN Link with MASTER is down\r\n"), false, false},
		{"no auth", redistest.Inject("-NOAUTH Authentication required.\r\n"), false, false},
		{"no permission", redistest.Inject("-NOPERM this user has no permissions\r\n"), false, false},
		{"out of memory", redistest.Inject("-OOM command not allowed\r\n"), false, false},
		{"read only", redistest.Inject("-READONLY You can't write against a read only replica.\r\n"), false, false},
		{"nil", redistest.Inject("$-1\r\n"), true, false},
		{"null list", redistest.Inject("*-1\r\n"), true, false},
		{"another type", redistest.Inject("+OK\r\n"), true, false},
		{"another call's reply", redistest.Inject("*3\r\n$1\r\nx\r\n$1\r\nx\r\n$1\r\n1\r\n"), true, false},
	} {
		for n, step := range map[int64]string{1: "read", 2: "commit"} {
			t.Run(f.name+" at the "+step, func(t *testing.T) {
				t.Parallel()
				s, relay, _ := furnished(t)
				scripted(relay, n, f.fault)
				begun := time.Now()
				err := s.Update(context.Background(), 0, rows("old", "new"), func(tx *ownership.Tx) error {
					if tx.Row(key("old")) == nil {
						t.Error("a failed read passed for absence")
					}
					place(tx, key("new"), sessionA)
					return nil
				})
				if took := time.Since(begun); took > patience {
					t.Errorf("took %v", took)
				}
				if n == 1 && f.retried != (err == nil) || n == 2 && !errors.Is(err, redisstore.ErrUnavailable) {
					t.Errorf("error %v", err)
				}
				relay.Rule(nil)
				update(t, s, func(tx *ownership.Tx) error {
					if tx.Row(key("old")) == nil {
						t.Error("the placed row is gone")
					}
					if there := tx.Row(key("new")) != nil; n == 2 && there != f.executed {
						t.Errorf("commit executed: %v, want %v", there, f.executed)
					}
					return nil
				})
			})
		}
	}
}

// FC-43: a key of another type is an error, in every place a rule looks.
func TestForeignKeysAreErrors(t *testing.T) {
	for _, c := range []struct {
		name, rest string
		look       func(*ownership.Tx)
	}{
		{"row", "*/threads/x", func(tx *ownership.Tx) { tx.Row(key("x")) }},
		{"binding", "%b:h|/threads", func(tx *ownership.Tx) { tx.Binding(bind) }},
		{"sessions", "%s", func(tx *ownership.Tx) { tx.Session(sessionA) }},
		{"index", "%i", func(tx *ownership.Tx) { tx.Index("i") }},
		{"orders", "%o", func(tx *ownership.Tx) { tx.Orders("p") }},
		{"counts", "%c", func(tx *ownership.Tx) { tx.Count("n") }},
		{"meta", "%m", func(*ownership.Tx) {}},
	} {
		t.Run(c.name, func(t *testing.T) {
			srv := redistest.Start(t)
			s := open(t, srv.URL())
			srv.Do("LPUSH", s.TagKey(0, c.rest), "x")
			err := s.Update(context.Background(), 0, ownership.Select{}, func(tx *ownership.Tx) error { c.look(tx); return nil })
			if !errors.Is(err, redisstore.ErrUnavailable) {
				t.Fatalf("%v", err)
			}
		})
	}
}

// FC-45: away in each way, then back: fast failures, flat memory, nothing
// queued, service by itself.
func TestAwayAndBack(t *testing.T) {
	for _, c := range []struct {
		name     string
		away     func(*redistest.Server, *redistest.Relay)
		back     func(*redistest.Server, *redistest.Relay)
		restarts bool
	}{
		{"refused", func(s *redistest.Server, _ *redistest.Relay) { s.Stop() },
			func(s *redistest.Server, _ *redistest.Relay) { s.Restart() }, true},
		{"stopped", func(s *redistest.Server, _ *redistest.Relay) { s.Pause() },
			func(s *redistest.Server, _ *redistest.Relay) { s.Resume() }, false},
		{"black hole", func(_ *redistest.Server, r *redistest.Relay) { r.Stall(true) },
			func(_ *redistest.Server, r *redistest.Relay) { r.Stall(false) }, false},
		{"cut off", func(_ *redistest.Server, r *redistest.Relay) { r.Refuse(true) },
			func(_ *redistest.Server, r *redistest.Relay) { r.Refuse(false) }, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			s, relay, srv := furnished(t)
			peek(t, s, hintOld)
			c.away(srv, relay)
			before := runtime.NumGoroutine()
			var wg sync.WaitGroup
			for i := range 200 {
				time.Sleep(5 * time.Millisecond)
				wg.Go(func() {
					begun := time.Now()
					err := s.Update(context.Background(), 0, rows(fmt.Sprint("stale", i)), func(tx *ownership.Tx) error {
						tx.PutRow(key(fmt.Sprint("stale", i)), ownership.Row{Kind: ownership.Held})
						return nil
					})
					if took := time.Since(begun); !errors.Is(err, redisstore.ErrUnavailable) || took > patience {
						t.Errorf("%v after %v", err, took)
					}
				})
				wg.Go(func() {
					begun := time.Now()
					_, ok, _ := s.Peek(context.Background(), 0, hintOld)
					if took := time.Since(begun); ok || took > patience {
						t.Errorf("hit %v after %v", ok, took)
					}
				})
			}
			wg.Wait()
			if grown := runtime.NumGoroutine() - before; grown > 150 {
				t.Errorf("%d more goroutines", grown)
			}
			c.back(srv, relay)
			begun := time.Now()
			for s.Update(context.Background(), 0, ownership.Select{}, nothing) != nil {
			}
			if took := time.Since(begun); took > 4*time.Second {
				t.Errorf("back after %v", took)
			}
			if !c.restarts {
				peek(t, s, hintOld)
			}
			if rows, _, err := s.Walk(context.Background(), 0, "", 1000); err != nil || len(rows) > 1 {
				t.Errorf("executed later: %d rows, %v", len(rows), err)
			}
		})
	}
}

// R10: connections on which nothing came for as long as we wait are given up,
// also those that many share: the next command does not hang on them.
func TestSilentConnectionsAreClosed(t *testing.T) {
	t.Parallel()
	s, relay, _ := furnished(t)
	together := func(want error) {
		var wg sync.WaitGroup
		for range 32 {
			wg.Go(func() {
				if err := s.Update(context.Background(), 0, rows("old"), nothing); !errors.Is(err, want) {
					t.Error(err)
				}
			})
		}
		wg.Wait()
	}
	together(nil) // from here on the connections are shared
	relay.Rule(func(w []string) redistest.Fault {
		if w[0] == "EVALSHA" {
			return redistest.Hold()
		}
		return redistest.Pass()
	})
	together(redisstore.ErrUnavailable)
	relay.Rule(nil) // for new connections; those from before stay stuck
	update(t, s, nothing)
}

// FC-45: a slow server is slow, not away.
func TestSlowServer(t *testing.T) {
	s, relay, _ := furnished(t)
	relay.Rule(func([]string) redistest.Fault { return redistest.DelayReply(200 * time.Millisecond) })
	update(t, s, func(tx *ownership.Tx) error { tx.Add("n", 1); return nil })
}

// FC-42: out of memory refuses writes and loses nothing; reads go on.
func TestOutOfMemory(t *testing.T) {
	srv := redistest.Start(t)
	s := open(t, srv.URL())
	update(t, s, furnish)
	srv.Do("CONFIG", "SET", "maxmemory", "1")
	err := s.Update(context.Background(), 0, rows("new"), func(tx *ownership.Tx) error { place(tx, key("new"), sessionA); return nil })
	if !errors.Is(err, redisstore.ErrUnavailable) {
		t.Fatal(err)
	}
	peek(t, s, hintOld)
	srv.Do("CONFIG", "SET", "maxmemory", "0")
	update(t, s, func(tx *ownership.Tx) error {
		if tx.Row(key("old")) == nil || tx.Row(key("new")) != nil {
			t.Error("half done")
		}
		return nil
	})
}

// docs/performance.md, T12, with the key: at most 0.6 of the earlier layout's 264.
func TestRowMemory(t *testing.T) {
	t.Logf("%.1f bytes per row", rowMemory(t, 100_000))
}

func BenchmarkRowMemory(b *testing.B) {
	for range b.N {
		b.ReportMetric(rowMemory(b, 1_000_000), "B/row")
	}
}

func rowMemory(t testing.TB, n int) float64 {
	srv := redistest.Start(t)
	s := open(t, srv.URL(), func(o *redisstore.Options) { o.Buckets = 16 })
	ctx := context.Background()
	if err := all(s, furnish); err != nil {
		t.Fatal(err)
	}
	before := srv.UsedMemory()
	const batch = 1000
	for i := 0; i < n; i += batch {
		err := s.Update(ctx, i/batch%16, ownership.Select{}, func(tx *ownership.Tx) error {
			tx.Out = ownership.Writes{Rows: map[ownership.Key]*ownership.Row{}}
			for j := range batch {
				k := key(fmt.Sprintf("conversation%06d", i+j)) // 18 characters, as in docs/performance.md
				r := &ownership.Row{Kind: ownership.Placed, Session: sessionA}
				if j%2 == 0 {
					r.Nonce[0] = 1
				}
				tx.Out.Rows[k] = r
				tx.Out.Minted = append(tx.Out.Minted, &ownership.Mint{Key: k})
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	per := float64(srv.UsedMemory()-before) / float64(n)
	if per > 0.6*264 {
		t.Errorf("%.1f bytes per row, want at most %.1f", per, 0.6*264)
	}
	return per
}
