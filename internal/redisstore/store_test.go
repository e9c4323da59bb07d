package redisstore_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"pinboard"
	"pinboard/internal/ownership"
	"pinboard/internal/redisstore"
	"pinboard/internal/redistest"
)

func TestMain(m *testing.M) {
	os.Exit(run(m))
}

func run(m *testing.M) int {
	code := m.Run()
	if err := goleak.Find(goleak.IgnoreTopFunction("time.Sleep")); err != nil && code == 0 {
		fmt.Println(err)
		return 1
	}
	return code
}

const buckets = 4

// patience is what a bounded operation may take: two seconds by promise, and
// one more for a busy machine.
const patience = 3 * time.Second

func open(t testing.TB, url string, change ...func(*redisstore.Options)) *redisstore.Store {
	t.Helper()
	s, err := tryOpen(url, change...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

func tryOpen(url string, change ...func(*redisstore.Options)) (*redisstore.Store, error) {
	opt := redisstore.Options{URL: url, Buckets: buckets}
	for _, c := range change {
		c(&opt)
	}
	return redisstore.Open(context.Background(), opt)
}

func key(id string) ownership.Key {
	return ownership.Key{Env: ownership.World, Namespace: "/threads", ID: id}
}

// update runs rule on bucket 0 and ends the test if that fails.
func update(t testing.TB, s *redisstore.Store, rule func(*ownership.Tx) error) {
	t.Helper()
	if err := s.Update(context.Background(), 0, ownership.Select{}, rule); err != nil {
		t.Fatal(err)
	}
}

const sessionA, sessionB = "AAAAAAAAAAAAAAAA", "abcdefghijkl_-01"

func worker(session string) *ownership.Worker {
	return &ownership.Worker{Session: session, Process: "p-" + session, Secret: "s", URL: "http://w", Namespaces: []string{"/threads"}}
}

// began makes the answering server the bucket's generation.
func began(tx *ownership.Tx) {
	if ownership.ServerOf(tx.Meta.Gen) != tx.Server {
		m := tx.Meta
		m.Gen = tx.Server + "@1"
		tx.PutMeta(m)
	}
}

// lease writes a running session.
func lease(tx *ownership.Tx, session string, d time.Duration) {
	began(tx)
	tx.PutSession(ownership.Session{Worker: worker(session), Lease: ownership.Lease{
		Gen: tx.Meta.Gen, Until: tx.Now + d.Microseconds(), At: tx.Now, Headroom: 0.5,
	}})
}

func place(tx *ownership.Tx, k ownership.Key, session string) *ownership.Mint {
	return tx.MintRow(k, ownership.Row{Kind: ownership.Placed, Session: session}, 0)
}

// Everything a rule can write comes back as it was written.
func TestWritesComeBack(t *testing.T) {
	s := open(t, redistest.Start(t).URL())
	bind := ownership.BindKey{Host: "a|b%c", Namespace: "/threads"}
	var minted *ownership.Mint
	update(t, s, func(tx *ownership.Tx) error {
		m := tx.Meta
		m.Gen, m.Cold, m.Longest = tx.Server+"@1", tx.Now+5, 15e6
		tx.PutMeta(m)
		lease(tx, sessionA, time.Minute)
		lease(tx, "short", time.Minute)
		minted = place(tx, key("a"), sessionA)
		tx.PutRow(key("b"), ownership.Row{Kind: ownership.Closing, Session: "short", Epoch: 7, Made: 3})
		tx.PutRow(key("c"), ownership.Row{Kind: ownership.Held, Epoch: 9, Until: 4, Claim: "host"})
		tx.PutIndex("process", sessionA)
		tx.PutIndex("other", "short")
		tx.PutBinding(bind, &ownership.Binding{Env: "blue", Epoch: 3, Wait: 8})
		tx.PutOrders("proc", []ownership.Order{{MsgID: "m", Key: key("a"), Epoch: 5}})
		tx.Add("count", 3)
		tx.Add(ownership.PlaceCount(sessionA), 2)
		tx.Log(ownership.Entry{Cause: "placed", Key: key("a").String()})
		return nil
	})
	if minted.Epoch == 0 {
		t.Fatal("no epoch minted")
	}
	update(t, s, func(tx *ownership.Tx) error {
		if r := tx.Row(key("a")); r == nil || r.Epoch != minted.Epoch || r.Session != sessionA || !r.Plain() {
			t.Errorf("a: %+v", r)
		}
		if r := tx.Row(key("b")); r == nil || r.Kind != ownership.Closing || r.Session != "short" || r.Made != 3 || r.Epoch != 7 {
			t.Errorf("b: %+v", r)
		}
		if r := tx.Row(key("c")); r == nil || r.Kind != ownership.Held || r.Session != "" || r.Claim != "host" || r.Until != 4 {
			t.Errorf("c: %+v", r)
		}
		if tx.Row(key("d")) != nil || tx.Session("nobody") != nil || tx.Index("none") != "" {
			t.Error("something out of nothing")
		}
		if x := tx.Session(sessionA); x == nil || x.Worker.URL != "http://w" || x.Headroom != 0.5 {
			t.Errorf("session: %+v", x)
		}
		if tx.Index("process") != sessionA || tx.Index("other") != "short" {
			t.Error("index")
		}
		if b := tx.Binding(bind); b == nil || *b != (ownership.Binding{Env: "blue", Epoch: 3, Wait: 8}) {
			t.Errorf("binding: %+v", b)
		}
		if o := tx.Orders("proc"); len(o) != 1 || o[0].MsgID != "m" || o[0].Key != key("a") {
			t.Errorf("orders: %+v", o)
		}
		if tx.Count("count") != 3 || tx.Count(ownership.RowCount(ownership.World, "/threads")) != 3 {
			t.Error("counts")
		}
		if len(tx.Roster()) != 2 {
			t.Error("roster")
		}
		if ownership.ServerOf(tx.Meta.Gen) != tx.Server || tx.Meta.Longest != 15e6 {
			t.Errorf("meta: %+v", tx.Meta)
		}
		return nil
	})
	e, err := s.Entries(context.Background(), 0, 10)
	if err != nil || len(e) != 1 || e[0].Cause != "placed" {
		t.Fatalf("entries: %v %v", e, err)
	}
	update(t, s, func(tx *ownership.Tx) error {
		for _, id := range []string{"a", "b", "c"} {
			tx.DropRow(key(id))
		}
		tx.DropSession(sessionA)
		tx.DropSession("short")
		tx.PutIndex("process", "")
		tx.PutIndex("other", "")
		tx.PutBinding(bind, nil)
		tx.PutOrders("proc", nil)
		tx.Add("count", -3)
		return nil
	})
	update(t, s, func(tx *ownership.Tx) error {
		if n := tx.Count(ownership.PlaceCount(sessionA)); n != 0 {
			t.Errorf("%d placements of a session forgotten", n)
		}
		return nil
	})
	rows, next, err := s.Walk(context.Background(), 0, "", 100)
	if err != nil || len(rows) != 0 || next != "" {
		t.Fatalf("walk: %v %q %v", rows, next, err)
	}
}

// Nothing of a bucket grows without bound.
func TestRingIsCapped(t *testing.T) {
	s := open(t, redistest.Start(t).URL())
	for i := range 3 {
		update(t, s, func(tx *ownership.Tx) error {
			for j := range 300 {
				tx.Log(ownership.Entry{Cause: ownership.Cause(fmt.Sprint(i*300 + j))})
			}
			return nil
		})
	}
	e, err := s.Entries(context.Background(), 0, 10_000)
	if err != nil || len(e) != 512 || e[0].Cause != "899" || e[511].Cause != "388" {
		t.Fatalf("%d entries, %v", len(e), err)
	}
	if e, err := s.Entries(context.Background(), 0, 0); err != nil || len(e) != 0 {
		t.Fatalf("none asked for, %d given, %v", len(e), err)
	}
}

// FC-51, a thundering herd: one id, 500 first requests over three
// nodes, one winner, one epoch.
func TestOneWinner(t *testing.T) {
	srv := redistest.Start(t)
	var stores []*redisstore.Store
	for range 3 {
		stores = append(stores, open(t, srv.URL()))
	}
	var mu sync.Mutex
	got := map[pinboard.Epoch]int{}
	var wg sync.WaitGroup
	for i := range 500 {
		wg.Go(func() {
			var epoch pinboard.Epoch
			var m *ownership.Mint
			err := stores[i%3].Update(context.Background(), 0, ownership.Select{Rows: []ownership.Key{key("x")}}, func(tx *ownership.Tx) error {
				m = nil
				if r := tx.Row(key("x")); r != nil {
					epoch = r.Epoch
					return nil
				}
				m = place(tx, key("x"), sessionA)
				return nil
			})
			if err != nil {
				t.Error(err)
				return
			}
			if m != nil {
				epoch = m.Epoch
			}
			mu.Lock()
			defer mu.Unlock()
			got[epoch]++
		})
	}
	wg.Wait()
	if len(got) != 1 || got[0] != 0 {
		t.Fatalf("epochs: %v", got)
	}
}

func TestPeekHits(t *testing.T) {
	s := open(t, redistest.Start(t).URL())
	ctx := context.Background()
	var m *ownership.Mint
	update(t, s, func(tx *ownership.Tx) error {
		lease(tx, sessionB, time.Minute)
		m = place(tx, key("a"), sessionB)
		return nil
	})
	hint := ownership.Hint{Key: key("a"), Session: sessionB}
	p := peek(t, s, hint)
	if p.Row.Epoch != m.Epoch || p.Row.Session != sessionB {
		t.Fatalf("%+v", p)
	}
	if left := time.Until(p.Until); left > time.Minute || left < 58*time.Second {
		t.Fatalf("left %v", left)
	}
	for _, h := range []ownership.Hint{
		{Key: key("b"), Session: sessionB}, {Key: key("a"), Session: sessionA}, {Key: key("a"), Session: "short"},
		{Key: key("a"), Session: sessionB, Bind: ownership.BindKey{Host: "h", Namespace: "/threads"}},
	} {
		if _, ok, err := s.Peek(ctx, 0, h); ok || err != nil {
			t.Errorf("%v: %v %v", h, ok, err)
		}
	}
}

// peek waits for the hit connection and ends the test on a miss.
func peek(t testing.TB, s *redisstore.Store, h ownership.Hint) ownership.Peek {
	t.Helper()
	for range 200 {
		p, ok, err := s.Peek(context.Background(), 0, h)
		if ok {
			return p
		}
		if err != nil && !errors.Is(err, redisstore.ErrUnavailable) {
			t.Fatal(err)
		}
		time.Sleep(5 * time.Millisecond)
	}
	t.Fatal("no hit")
	return ownership.Peek{}
}
