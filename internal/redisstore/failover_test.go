package redisstore_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"pinboard"
	"pinboard/internal/directory"
	"pinboard/internal/ownership"
	"pinboard/internal/ownership/storetest"
	"pinboard/internal/redisstore"
	"pinboard/internal/redistest"
)

// A replica shows what was, perhaps: it is no store.
func TestReplicaIsNoStore(t *testing.T) {
	a := redistest.Start(t)
	b := redistest.StartReplica(t, a)
	if s, err := tryOpen(b.URL()); err == nil {
		s.Close()
		t.Fatal("a replica was accepted")
	}
	s := open(t, a.URL())
	update(t, s, furnish)
	a.Do("REPLICAOF", "127.0.0.1", "1") // demoted under us, connections open
	err := s.Update(context.Background(), 0, rows("old"), nothing)
	if !errors.Is(err, redisstore.ErrUnavailable) {
		t.Fatalf("a demoted server answered: %v", err)
	}
}

// R6: the clock of the server before is carried on.
func TestOldServersClock(t *testing.T) {
	srv := redistest.Start(t)
	s := open(t, srv.URL())
	update(t, s, furnish)
	update(t, s, nothing)
	old := srv.Info("server", "run_id") + "@1"
	srv.Restart()
	for s.Update(context.Background(), 0, ownership.Select{}, nothing) != nil {
	}
	now, ok := s.OldNow(old)
	if off := time.Duration(now-time.Now().UnixMicro()) * time.Microsecond; !ok || off < 0 || off > 50*time.Millisecond {
		t.Fatalf("off by %v, %v", off, ok)
	}
	if _, ok := s.OldNow("another"); ok {
		t.Fatal("a clock out of nothing")
	}
}

// FC-38, FC-39: the placement written last is lost with its epoch (a server
// comes back from an older copy). Nothing is placed for a lease, and then
// above every epoch that was handed out.
func TestLostLastWrite(t *testing.T) {
	r := openRig(t).(*rig)
	nodes := []*directory.Directory{storetest.Node(r, 1), storetest.Node(r, 2)}
	ctx := context.Background()
	for _, d := range nodes {
		if err := d.Touch(ctx); err != nil {
			t.Fatal(err)
		}
	}
	r.Advance(storetest.Lease)
	register := func(names ...string) {
		t.Helper()
		for _, name := range names {
			_, err := nodes[0].Register(ctx, &directory.Registration{Headroom: 1, Worker: ownership.Worker{
				ClientID: name, Secret: name, URL: "http://" + name, Namespaces: []string{"/threads"}, Owner: "o", Proven: true}})
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	resolve := func(d *directory.Directory) (directory.Placement, error) {
		return d.Resolve(ctx, directory.Request{Address: pinboard.Address{Namespace: "/threads", ID: "a"}})
	}
	register("w1", "w2")
	r.srv.Do("SAVE")
	before, err := resolve(nodes[0])
	if err != nil {
		t.Fatal(err)
	}
	r.srv.Restart() // with the copy of before the placement
	r.set(r.Now())
	r.store.Look()
	for _, d := range nodes {
		if p, err := resolve(d); !errors.Is(err, pinboard.ColdStart) {
			t.Fatalf("placed on %v right after the loss (%v)", p.Worker, err)
		}
	}
	r.Advance(storetest.Lease)
	register("w3", "w4")
	after, err := resolve(nodes[1])
	if err != nil || after.Epoch <= before.Epoch {
		t.Fatalf("epoch %d after %d (%v)", after.Epoch, before.Epoch, err)
	}
}

// R2, R10: the place that timed out after it was executed is found by the next
// look, and nothing is placed twice.
func TestTimeoutAfterPlace(t *testing.T) {
	s, relay, _ := furnished(t)
	scripted(relay, 2, redistest.Swallow())
	err := s.Update(context.Background(), 0, rows("a"), func(tx *ownership.Tx) error {
		r := ownership.Row{Kind: ownership.Placed, Session: sessionA, Nonce: ownership.Nonce{1}}
		tx.MintRow(key("a"), r, 0)
		return nil
	})
	if !errors.Is(err, redisstore.ErrUnavailable) {
		t.Fatal(err)
	}
	relay.Rule(nil)
	update(t, s, func(tx *ownership.Tx) error {
		if r := tx.Row(key("a")); r == nil || r.Nonce != (ownership.Nonce{1}) || r.Epoch == 0 {
			t.Errorf("%+v", r)
		}
		return nil
	})
}

// G7: the largest registration in one step.
func TestEightThousandRows(t *testing.T) {
	s := open(t, redistest.Start(t).URL())
	n := 8000
	if raceEnabled {
		n = 1000 // the client's own work would be most of it
	}
	var sel ownership.Select
	for i := range n {
		sel.Rows = append(sel.Rows, key(fmt.Sprintf("conversation%06d", i)))
	}
	for round := range 2 {
		var first, last *ownership.Mint
		begun := time.Now()
		err := s.Update(context.Background(), 0, sel, func(tx *ownership.Tx) error {
			for i, k := range sel.Rows {
				if r := tx.Row(k); (r != nil) != (round == 1) {
					return fmt.Errorf("row %d: %v", i, r)
				}
				m := place(tx, k, sessionA)
				if last = m; i == 0 {
					first = m
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		if last.Epoch != first.Epoch+pinboard.Epoch(n-1) {
			t.Fatalf("epochs %d to %d", first.Epoch, last.Epoch)
		}
		t.Logf("%v", time.Since(begun))
	}
}
