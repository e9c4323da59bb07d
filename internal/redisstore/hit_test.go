package redisstore_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"pinboard/internal/ownership"
	"pinboard/internal/redisstore"
	"pinboard/internal/redistest"
)

var hintOld = ownership.Hint{Key: key("old"), Session: sessionA}

// furnished is a store with one of everything in bucket 0, behind a relay.
func furnished(t testing.TB) (*redisstore.Store, *redistest.Relay, *redistest.Server) {
	srv := redistest.Start(t)
	relay := redistest.NewRelay(t, srv.Addr)
	s := open(t, relay.URL())
	update(t, s, furnish)
	return s, relay, srv
}

// What a rule would not serve at once is no hit.
func TestHitOnlyWhatIsPlain(t *testing.T) {
	for _, c := range []struct {
		name string
		with func(*ownership.Session, *ownership.Row)
		hit  bool
	}{
		{"plain", func(*ownership.Session, *ownership.Row) {}, true},
		{"labelled", func(_ *ownership.Session, r *ownership.Row) { r.Tag = "t"; r.Taken = 5 }, true},
		{"draining", func(s *ownership.Session, _ *ownership.Row) { s.Drain = true }, true},
		{"proof missing", func(s *ownership.Session, _ *ownership.Row) { s.Degraded = ownership.ProofsMissing }, true},
		{"unconfirmed", func(_ *ownership.Session, r *ownership.Row) { r.Nonce[0] = 1 }, false},
		{"since", func(_ *ownership.Session, r *ownership.Row) { r.Since = 1 }, false},
		{"winding down", func(_ *ownership.Session, r *ownership.Row) { r.Wind = 1 }, false},
		{"claimed", func(_ *ownership.Session, r *ownership.Row) { r.Claim = "h" }, false},
		{"closing", func(_ *ownership.Session, r *ownership.Row) { r.Kind = ownership.Closing }, false},
		{"another owner", func(_ *ownership.Session, r *ownership.Row) { r.Session = sessionB }, false},
		{"another generation", func(s *ownership.Session, _ *ownership.Row) { s.Gen = "g" }, false},
		{"proofs refused", func(s *ownership.Session, _ *ownership.Row) { s.Degraded = ownership.ProofsRefused }, false},
		{"replaced", func(s *ownership.Session, _ *ownership.Row) { s.ReplacedBy = sessionB }, false},
		{"succeeded", func(s *ownership.Session, _ *ownership.Row) { s.Phase, s.Next = ownership.Succeeded, sessionB }, false},
		{"let go", func(s *ownership.Session, _ *ownership.Row) { s.Phase, s.Next = ownership.LetGo, sessionB }, false},
		{"superseded", func(s *ownership.Session, _ *ownership.Row) { s.DisplacedBy = "e" }, false},
		{"ended", func(s *ownership.Session, _ *ownership.Row) { s.Phase = ownership.Ended }, false},
		{"lapsed", func(s *ownership.Session, _ *ownership.Row) { s.Until = s.At }, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := open(t, redistest.Start(t).URL())
			update(t, s, furnish)
			peek(t, s, hintOld)
			update(t, s, func(tx *ownership.Tx) error {
				x, r := tx.Session(sessionA), tx.Row(key("old"))
				c.with(x, r)
				tx.PutSession(*x)
				tx.PutRow(key("old"), *r)
				return nil
			})
			p, ok, err := s.Peek(context.Background(), 0, hintOld)
			if err != nil || ok != c.hit || ok && (p.Draining != (c.name == "draining") || p.Row.Tag != "" != (c.name == "labelled")) {
				t.Fatalf("hit %v %+v %v", ok, p, err)
			}
		})
	}
}

// Hostname mode: the binding is read at the same instant (H1), and a worker
// serves only its own hostname.
func TestHitUnderAHostname(t *testing.T) {
	s := open(t, redistest.Start(t).URL())
	k := ownership.Key{Env: "blue/1", Namespace: "/threads", ID: "a"}
	b := ownership.BindKey{Host: "a.example:80|x", Namespace: "/threads"}
	update(t, s, func(tx *ownership.Tx) error {
		w := worker(sessionA)
		w.Hostname = b.Host
		began(tx)
		tx.PutSession(ownership.Session{Worker: w, Lease: ownership.Lease{Gen: tx.Meta.Gen, Until: tx.Now + 60e6, At: tx.Now}})
		place(tx, k, sessionA)
		tx.PutBinding(b, &ownership.Binding{Env: "blue/1", Epoch: 1})
		tx.PutBinding(ownership.BindKey{Host: "other", Namespace: "/threads"}, &ownership.Binding{Env: "blue/1"})
		return nil
	})
	h := ownership.Hint{Key: k, Session: sessionA, Bind: b}
	peek(t, s, h)
	h.Bind.Host = "other"
	if _, ok, err := s.Peek(context.Background(), 0, h); ok || err != nil {
		t.Fatalf("served another hostname's worker: %v", err)
	}
	h.Bind = b
	update(t, s, func(tx *ownership.Tx) error {
		tx.PutBinding(b, &ownership.Binding{Env: "green", Epoch: 2})
		return nil
	})
	if _, ok, err := s.Peek(context.Background(), 0, h); ok || err != nil {
		t.Fatalf("served through a binding that moved: %v", err)
	}
}

// F2: the deadline of a hit is never later than the store's, and a hit never
// outlives the lease.
func TestHitDeadlineIsNeverLate(t *testing.T) {
	s := open(t, redistest.Start(t).URL())
	var until ownership.Micros
	update(t, s, func(tx *ownership.Tx) error {
		lease(tx, sessionA, 300*time.Millisecond)
		until = tx.Now + 300_000
		place(tx, key("old"), sessionA)
		return nil
	})
	var last time.Time // this machine's clock is the server's
	for {
		p, ok, err := s.Peek(context.Background(), 0, hintOld)
		if err != nil {
			t.Fatal(err)
		}
		if !ok {
			break
		}
		last = time.Now()
		if late := p.Until.Sub(time.UnixMicro(until)); late > time.Millisecond || late < -20*time.Millisecond {
			t.Fatalf("deadline off by %v", late)
		}
		if p.Age < 0 || p.Age > 400*time.Millisecond {
			t.Fatalf("age %v", p.Age)
		}
	}
	if last.After(time.UnixMicro(until + 2000)) {
		t.Fatalf("a hit %v after the lapse", last.Sub(time.UnixMicro(until)))
	}
}

// G1: after the server was replaced, with its content, no hit before the
// session was granted there.
func TestNoHitOnAnotherServer(t *testing.T) {
	srv := redistest.Start(t)
	s := open(t, srv.URL())
	update(t, s, furnish)
	peek(t, s, hintOld)
	srv.Do("SAVE")
	srv.Restart()
	for range 50 {
		if _, ok, _ := s.Peek(context.Background(), 0, hintOld); ok {
			t.Fatal("a lease of another generation was a hit")
		}
		time.Sleep(2 * time.Millisecond)
	}
	for s.Update(context.Background(), 0, ownership.Select{}, nothing) != nil {
	}
	update(t, s, furnish)
	peek(t, s, hintOld)
}

// R10: the twins of every fault. A hit is never served from a reply that is
// not its own, and the connection does not survive one that is missing.
func TestHitFaults(t *testing.T) {
	for _, f := range []struct {
		name  string
		fault redistest.Fault
		err   bool // an error rather than a plain miss
	}{
		{"cut before", redistest.CutBefore(), true},
		{"cut after", redistest.CutAfter(), true},
		{"cut inside", redistest.CutInside(), true},
		{"never answered", redistest.Hold(), true},
		{"reply swallowed", redistest.Swallow(), true},
		{"loading", redistest.Inject("-LOADING dataset\r\n"), true},
		{"busy", redistest.Inject("-BUSY script\r\n"), true},
		{"no auth", redistest.Inject("-NOAUTH x\r\n"), true},
		{"moved", redistest.Inject("-MOVED 1 127.0.0.1:1\r\n"), false},
		{"ask", redistest.Inject("-ASK 1 127.0.0.1:1\r\n"), false},
		{"try again", redistest.Inject("-TRYAGAIN x\r\n"), false},
		{"nothing there", redistest.Inject("*3\r\n$-1\r\n$-1\r\n$-1\r\n"), false},
		{"nil", redistest.Inject("*-1\r\n"), true},
		{"another type", redistest.Inject("+OK\r\n"), true},
		{"another size", redistest.Inject("*1\r\n$-1\r\n"), true},
		{"garbage", redistest.Inject("*3\r\n:1\r\n:2\r\n:3\r\n"), true},
		{"garbage row", redistest.Inject("*3\r\n$3\r\nabc\r\n$-1\r\n$-1\r\n"), false},
	} {
		t.Run(f.name, func(t *testing.T) {
			t.Parallel()
			s, relay, _ := furnished(t)
			peek(t, s, hintOld)
			relay.Once("MGET", 1, f.fault)
			begun := time.Now()
			_, ok, err := s.Peek(context.Background(), 0, hintOld)
			if ok || (err != nil) != f.err {
				t.Fatalf("hit %v, %v", ok, err)
			}
			if err != nil && !errors.Is(err, redisstore.ErrUnavailable) {
				t.Fatal(err)
			}
			if took := time.Since(begun); took > patience {
				t.Fatalf("took %v", took)
			}
			peek(t, s, hintOld) // and service is back
		})
	}
}

// A lost reply must not shift the next one onto somebody else's id.
func TestSwallowedReplyShiftsNothing(t *testing.T) {
	s, relay, _ := furnished(t)
	update(t, s, func(tx *ownership.Tx) error { place(tx, key("other"), sessionA); return nil })
	want := map[string]ownership.Peek{"old": peek(t, s, hintOld), "other": peek(t, s, ownership.Hint{Key: key("other"), Session: sessionA})}
	relay.Once("MGET", 1, redistest.Swallow())
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
	defer cancel()
	if _, ok, err := s.Peek(ctx, 0, hintOld); ok || err == nil {
		t.Fatalf("%v %v", ok, err)
	}
	var wg sync.WaitGroup
	for range 8 {
		for id, w := range want {
			wg.Go(func() {
				for range 20 {
					p, ok, _ := s.Peek(context.Background(), 0, ownership.Hint{Key: key(id), Session: sessionA})
					if ok && p.Row.Epoch != w.Row.Epoch {
						t.Errorf("%s answered with the row of another id", id)
					}
				}
			})
		}
	}
	wg.Wait()
}

// Callers that hang up leave replies behind; everybody else gets their own.
func TestHitsOfImpatientCallers(t *testing.T) {
	s := open(t, redistest.Start(t).URL())
	const n = 64
	want := make([]*ownership.Mint, n)
	update(t, s, func(tx *ownership.Tx) error {
		lease(tx, sessionA, time.Minute)
		for i := range want {
			want[i] = place(tx, key(fmt.Sprint("k", i)), sessionA)
		}
		return nil
	})
	peek(t, s, ownership.Hint{Key: key("k0"), Session: sessionA})
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			for j := range 200 {
				ctx, cancel := context.WithCancel(context.Background())
				if j%3 == 0 {
					cancel()
				}
				p, ok, _ := s.Peek(ctx, 0, ownership.Hint{Key: key(fmt.Sprint("k", i)), Session: sessionA})
				cancel()
				if ok && p.Row.Epoch != want[i].Epoch {
					t.Errorf("k%d answered with another row", i)
				}
				if !ok && j%3 != 0 {
					t.Errorf("k%d missed", i)
				}
			}
		})
	}
	wg.Wait()
}

// A hit allocates nothing (docs/performance.md, T8).
func TestHitAllocatesNothing(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector makes pools forget")
	}
	s := open(t, redistest.Start(t).URL())
	update(t, s, furnish)
	peek(t, s, hintOld)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	if n := testing.AllocsPerRun(2000, func() { s.Peek(ctx, 0, hintOld) }); n > 0.1 {
		t.Fatalf("%v allocations per hit", n)
	}
}

func BenchmarkPeek(b *testing.B) {
	s := open(b, redistest.Start(b).URL())
	update(b, s, furnish)
	peek(b, s, hintOld)
	for _, n := range []int{1, 64} {
		b.Run(fmt.Sprint("callers ", n), func(b *testing.B) {
			b.ReportAllocs()
			b.SetParallelism(max(1, n/2))
			work := func() {
				if _, ok, err := s.Peek(context.Background(), 0, hintOld); !ok || err != nil {
					b.Error("miss", err)
				}
			}
			if n == 1 {
				for b.Loop() {
					work()
				}
				return
			}
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					work()
				}
			})
		})
	}
}

func BenchmarkUpdate(b *testing.B) {
	s := open(b, redistest.Start(b).URL())
	update(b, s, furnish)
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		k := key(fmt.Sprint("k", i%1000))
		s.Update(context.Background(), 0, ownership.Select{Rows: []ownership.Key{k}, Sessions: []string{sessionA}}, func(tx *ownership.Tx) error {
			if tx.Session(sessionA) == nil {
				return errors.New("gone")
			}
			place(tx, k, sessionA)
			return nil
		})
	}
}

// G1, G2: a server that comes back after another one took over finds its old
// leases still there. They are of an ended generation and serve nothing.
func TestNoHitInAGenerationThatBeganAnew(t *testing.T) {
	s := open(t, redistest.Start(t).URL())
	update(t, s, furnish)
	peek(t, s, hintOld)
	update(t, s, func(tx *ownership.Tx) error {
		m := tx.Meta
		m.Gen = tx.Server + "@2"
		tx.PutMeta(m)
		return nil
	})
	if _, ok, err := s.Peek(context.Background(), 0, hintOld); ok || err != nil {
		t.Fatalf("hit %v, %v", ok, err)
	}
}
