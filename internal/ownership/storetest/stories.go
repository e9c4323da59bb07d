package storetest

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"pinboard"
	"pinboard/internal/directory"
	"pinboard/internal/ownership"
)

// stories prove single promises of ownership.Store that traces reach rarely.
func stories(t *testing.T, open func(t *testing.T) Rig) {
	key := ownership.Key{Env: ownership.World, Namespace: ns, ID: "a"}
	update := func(t *testing.T, r Rig, rule func(tx *ownership.Tx) error) {
		t.Helper()
		if err := r.Store().Update(bg, key.Bucket(r.Store().Buckets()), ownership.Select{}, rule); err != nil {
			t.Fatal(err)
		}
	}
	t.Run("WhatIsWrittenIsRead", func(t *testing.T) {
		r := open(t)
		row := ownership.Row{Kind: ownership.Placed, Session: "AAAAAAAAAAAAAAAB", Epoch: 1 << 60, Nonce: ownership.Nonce{1, 0, 255},
			Since: 7, Wind: 1_800_000_000_000_001, Claim: "h|%/é", Taken: 5, Tag: "tag \x00 %"}
		s := ownership.Session{Worker: &ownership.Worker{Session: row.Session, Process: "p", ClientID: "c", Secret: "s", URL: "http://x", Namespaces: []string{ns},
			Hostname: "h", Env: "e", Envs: map[string]string{ns: "f"}, Takeover: "deny", BindEpoch: 3, Owner: "o/k", Proven: true, Past: true, LeaseMs: 15000},
			Lease: ownership.Lease{Gen: "g", Until: 9, TTL: 8, At: 7, Headroom: -0.5, Beaten: true, Degraded: 7, State: ownership.State{Behind: []string{"x"}}, DisplacedBy: "z", DisplacedAt: -1, DrainAt: 4, Drain: true}}
		o := []ownership.Order{{MsgID: "0.m", Key: key, Epoch: 1<<53 + 1, Evict: true, Delivered: 2, Passed: 1}, {MsgID: "n", Key: key, Revoke: true}}
		bk := ownership.BindKey{Host: "a|b%", Namespace: ns}
		update(t, r, func(tx *ownership.Tx) error {
			tx.PutRow(key, row)
			tx.PutSession(s)
			tx.PutOrders("p", o)
			tx.PutBinding(bk, &ownership.Binding{Env: "e", Epoch: 1 << 40, Wait: 3})
			tx.PutIndex("x:y", "z")
			tx.Add("k", 41)
			tx.Add("k", 1)
			return nil
		})
		update(t, r, func(tx *ownership.Tx) error {
			if got := tx.Row(key); got == nil || *got != row {
				t.Errorf("row %+v, want %+v", got, row)
			}
			if got := tx.Session(row.Session); got == nil || fmt.Sprintf("%+v %+v", *got.Worker, got.Lease) != fmt.Sprintf("%+v %+v", *s.Worker, s.Lease) {
				t.Errorf("session %+v, want %+v", got, s)
			}
			if got := tx.Orders("p"); fmt.Sprint(got) != fmt.Sprint(o) {
				t.Errorf("orders %v, want %v", got, o)
			}
			if got := tx.Binding(bk); got == nil || *got != (ownership.Binding{Env: "e", Epoch: 1 << 40, Wait: 3}) {
				t.Errorf("binding %+v", got)
			}
			if tx.Index("x:y") != "z" || tx.Count("k") != 42 || tx.Count(ownership.RowCount(ownership.World, ns)) != 1 || len(tx.Roster()) != 1 {
				t.Errorf("index %q counts %d %d roster %v", tx.Index("x:y"), tx.Count("k"), tx.Count(ownership.RowCount(ownership.World, ns)), tx.Roster())
			}
			return nil
		})
	})
	t.Run("AnErrorCommitsNothing", func(t *testing.T) {
		r, no := open(t), errors.New("no")
		err := r.Store().Update(bg, key.Bucket(r.Store().Buckets()), ownership.Select{}, func(tx *ownership.Tx) error {
			tx.PutRow(key, ownership.Row{Kind: ownership.Held})
			return no
		})
		if err != no {
			t.Fatalf("got %v", err)
		}
		update(t, r, func(tx *ownership.Tx) error {
			if tx.Row(key) != nil {
				t.Error("the row was written")
			}
			return nil
		})
	})
	t.Run("EpochsOnlyGrow", func(t *testing.T) {
		r := open(t)
		var last pinboard.Epoch
		mint := func(seen pinboard.Epoch, k int) {
			t.Helper()
			var ms []*ownership.Mint
			update(t, r, func(tx *ownership.Tx) error {
				ms = nil
				for i := range k {
					ms = append(ms, tx.MintRow(ownership.Key{Env: "*", Namespace: ns, ID: fmt.Sprint("m", i)}, ownership.Row{Kind: ownership.Held}, seen))
				}
				return nil
			})
			for _, m := range ms {
				if m.Epoch <= last || m.Epoch <= seen {
					t.Fatalf("minted %d after %d, seen %d", m.Epoch, last, seen)
				}
				last = m.Epoch
			}
		}
		mint(0, 3)
		update(t, r, func(tx *ownership.Tx) error {
			if last < pinboard.Epoch(tx.Now) {
				t.Errorf("minted %d below the clock %d", last, tx.Now)
			}
			tx.Out.Floor = last + 1000
			return nil
		})
		last += 1000
		mint(0, 1)
		for _, leap := range []ownership.Micros{1000, 1 << 33} {
			update(t, r, func(tx *ownership.Tx) error { tx.Out.Leap = leap; return nil })
			last += pinboard.Epoch(leap)
			mint(0, 1)
		}
		mint(1<<53+1, 2)
		mint(1<<62, 2)
	})
	t.Run("AnEntryNamesItsEpoch", func(t *testing.T) {
		r := open(t)
		var m *ownership.Mint
		update(t, r, func(tx *ownership.Tx) error {
			tx.MintRow(ownership.Key{Env: "*", Namespace: ns, ID: "other"}, ownership.Row{Kind: ownership.Held}, 0)
			m = tx.MintRow(key, ownership.Row{Kind: ownership.Held}, 1<<53)
			tx.Log(ownership.Entry{Cause: "old", Epoch: 1<<60 + 1})
			tx.Log(ownership.Entry{Cause: "new", Mint: m})
			return nil
		})
		got, err := r.Store().Entries(bg, key.Bucket(r.Store().Buckets()), 10)
		if err != nil || len(got) != 2 || got[0].Cause != "new" || got[0].Epoch != m.Epoch || got[1].Epoch != 1<<60+1 {
			t.Fatalf("%+v %v, minted %d", got, err, m.Epoch)
		}
	})
	t.Run("AHitAgreesWithTheRule", func(t *testing.T) { hits(t, open(t)) })
	t.Run("DeadRowsAreCollected", func(t *testing.T) { collected(t, open(t)) })
	t.Run("TheRingIsCapped", func(t *testing.T) {
		r := open(t)
		for range 30 {
			update(t, r, func(tx *ownership.Tx) error {
				for i := range 40 {
					tx.Log(ownership.Entry{Cause: ownership.Cause(fmt.Sprint(i)), Epoch: 1<<53 + 1})
				}
				return nil
			})
		}
		got, err := r.Store().Entries(bg, key.Bucket(r.Store().Buckets()), 10_000)
		if err != nil || len(got) == 0 || len(got) > 600 || got[0].Cause != "39" || got[0].Epoch != 1<<53+1 || got[0].At == 0 {
			t.Fatalf("%d entries, newest %+v, %v", len(got), got[:min(1, len(got))], err)
		}
	})
}

// hits: a hint is served only while row and lease say exactly what it says.
func hits(t *testing.T, r Rig) {
	d := Node(r, 1)
	if err := d.Touch(bg); err != nil {
		t.Fatal(err)
	}
	r.Advance(Lease)
	reg := process("w1")
	g, err := d.Register(bg, &reg)
	if err != nil {
		t.Fatal(err)
	}
	first, err := resolve(d, "a")
	if err != nil {
		t.Fatal(err)
	}
	k := first.Key
	peek := func(session string) (ownership.Peek, bool) {
		t.Helper()
		p, ok, err := r.Store().Peek(bg, k.Bucket(r.Store().Buckets()), ownership.Hint{Key: k, Session: session})
		if err != nil {
			t.Fatal(err)
		}
		return p, ok
	}
	if _, ok := peek(g.Session); ok {
		t.Fatal("an unconfirmed row was a hit")
	}
	if _, err := resolve(Node(r, 2), "a"); err != nil {
		t.Fatal(err)
	}
	p, ok := peek(g.Session)
	if left := p.Until.Sub(r.Now()); !ok || p.Row.Epoch != first.Epoch || left > Lease || left < Lease-2*time.Second {
		t.Fatalf("hit %v %+v, lease left %v", ok, p, left)
	}
	if _, ok := peek("AAAAAAAAAAAAAAAA"); ok {
		t.Fatal("another session was a hit")
	}
	if _, err := d.Drain(bg, directory.Selector{Session: g.Session}, nil); err != nil {
		t.Fatal(err)
	}
	if p, ok := peek(g.Session); !ok || !p.Draining {
		t.Fatalf("draining: hit %v %+v", ok, p)
	}
	r.Advance(Lease - 10*time.Millisecond)
	if _, ok := peek(g.Session); !ok {
		t.Fatal("no hit just before the lapse")
	}
	r.Advance(10 * time.Millisecond)
	if _, ok := peek(g.Session); ok {
		t.Fatal("a hit at the lapse")
	}
}

// collected: once every worker is gone nothing is left but counters of epochs
// and known namespaces (R8).
func collected(t *testing.T, r Rig) {
	d := Node(r, 1)
	if err := d.Touch(bg); err != nil {
		t.Fatal(err)
	}
	r.Advance(Lease)
	for _, name := range []string{"w1", "w2"} {
		reg := process(name)
		if _, err := d.Register(bg, &reg); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 200 {
		if _, err := resolve(d, fmt.Sprint("id", i)); err != nil {
			t.Fatal(err)
		}
	}
	rows := func() (n int) {
		for b := range r.Store().Buckets() {
			for cursor := ""; ; {
				list, next, err := r.Store().Walk(bg, b, cursor, 50)
				if err != nil {
					t.Fatal(err)
				}
				n += len(list)
				if cursor = next; next == "" {
					break
				}
			}
		}
		return n
	}
	keep := func() {
		for range 40 * r.Store().Buckets() {
			if err := d.Keep(bg); err != nil {
				t.Fatal(err)
			}
		}
	}
	r.Advance(Lease)
	keep()
	if n := rows(); n != 200 {
		t.Fatalf("%d rows just after the lapse, want 200: the same process may have them back", n)
	}
	r.Advance(11 * Lease)
	keep()
	if n := rows(); n != 0 {
		t.Fatalf("%d rows left", n)
	}
	ws, _, err := d.Workers(bg, "", 100)
	if err != nil || len(ws) != 0 {
		t.Fatalf("workers left: %v %v", ws, err)
	}
	o, err := d.Overview(bg, "", 100)
	if err != nil || len(o.Placed) != 0 {
		t.Fatalf("overview %+v %v", o, err)
	}
}

// oneWinner: many first requests for one id over three nodes give one worker
// and one epoch.
func oneWinner(t *testing.T, r Rig) {
	var nodes []*directory.Directory
	for i := range 3 {
		d := Node(r, uint64(i+1))
		if err := d.Touch(bg); err != nil {
			t.Fatal(err)
		}
		nodes = append(nodes, d)
	}
	r.Advance(Lease)
	for _, name := range []string{"w1", "w2", "w3"} {
		reg := process(name)
		if _, err := nodes[0].Register(bg, &reg); err != nil {
			t.Fatal(err)
		}
	}
	const n = 500
	got := make([]directory.Placement, n)
	errs := make([]error, n)
	var wg sync.WaitGroup
	for i := range n {
		wg.Add(1)
		go func() {
			defer wg.Done()
			got[i], errs[i] = resolve(nodes[i%3], "one")
		}()
	}
	wg.Wait()
	fresh := 0
	for i := range n {
		if errs[i] != nil {
			t.Fatalf("request %d: %v", i, errs[i])
		}
		if got[i].Worker.Session != got[0].Worker.Session || got[i].Epoch != got[0].Epoch {
			t.Fatalf("request %d got %s at %d, request 0 %s at %d", i, got[i].Worker.ClientID, got[i].Epoch, got[0].Worker.ClientID, got[0].Epoch)
		}
		if got[i].Fresh {
			fresh++
		}
	}
	if fresh != 1 {
		t.Fatalf("%d requests believe they created the row", fresh)
	}
}
