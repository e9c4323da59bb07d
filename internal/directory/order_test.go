package directory_test

import (
	"fmt"
	"testing"
	"time"

	"pinboard"
	"pinboard/internal/directory"
	"pinboard/internal/ownership"
)

// L6: a first try that was heard before the second one, but reaches the store
// behind its beat, frees nothing and ends nothing.
func TestL6ALateRegistrationChangesNothing(t *testing.T) {
	w := newWorld(t, 2).warm()
	p := w.proc("w1")
	late := p.reg
	late.Heard = w.now
	w.after(6 * time.Second)
	p.register(1).mustBeat(1)
	placed := w.place(1, "a")
	if _, err := w.nodes[0].Register(bg, &late); !isWait(err) {
		t.Fatalf("the first try: %v", err)
	}
	p.mustBeat(1)
	if got := w.place(1, "a"); got.Epoch != placed.Epoch || got.Worker.Session != p.session {
		t.Fatalf("got %+v", got)
	}
	// One that is heard behind it is the newer one.
	next := p.reg
	next.Heard, next.PrevSession, next.Instances = w.now.Add(time.Millisecond), p.session, map[string][]string{"/threads": {"a"}}
	w.after(2 * time.Millisecond)
	if _, err := w.nodes[0].Register(bg, &next); err != nil {
		t.Fatal(err)
	}
}

// L6: a restatement comes in parts. A part of an older registration that
// arrives behind a newer one hands nothing over.
func TestL6ALaterPartOfAnOlderRestatementChangesNothing(t *testing.T) {
	w := newWorld(t, 1).warm()
	p := w.proc("w1").register(0)
	p.mustBeat(0)
	w.place(0, "a")
	w.place(0, "b")
	rules := ownership.Rules{Lease: lease.Microseconds()}
	part := func(session string, last bool, ids ...string) error {
		worker := p.reg.Worker
		worker.Session, worker.Process = session, directory.ProcessOf(worker.ClientID, worker.Secret)
		worker.Hostname, worker.Env = ownership.World, ownership.World
		for b := range w.store.Buckets() {
			e := ownership.Enrol{Worker: &worker, Last: last, OldNow: func(string) (ownership.Micros, bool) { return 0, false }}
			for _, id := range ids {
				if k := (ownership.Key{Env: ownership.World, Namespace: "/threads", ID: id}); k.Bucket(w.store.Buckets()) == b {
					e.Claims = append(e.Claims, k)
				}
			}
			err := w.store.Update(bg, b, ownership.Select{}, func(tx *ownership.Tx) error {
				_, err := rules.Register(tx, &e)
				return err
			})
			if err != nil {
				return err
			}
		}
		return nil
	}
	if err := part("older-session-01", false, "a"); err != nil {
		t.Fatal(err)
	}
	w.after(time.Second)
	if err := part("newer-session-01", true, "a", "b"); err != nil {
		t.Fatal(err)
	}
	if err := part("older-session-01", true, "b"); !isWait(err) {
		t.Fatalf("the second part of the older one: %v", err)
	}
	for _, id := range []string{"a", "b"} {
		k := ownership.Key{Env: ownership.World, Namespace: "/threads", ID: id}
		_ = w.store.Update(bg, k.Bucket(w.store.Buckets()), ownership.Select{}, func(tx *ownership.Tx) error {
			if r := tx.Row(k); r == nil || r.Session != "newer-session-01" {
				t.Errorf("%s: %+v", id, r)
			}
			return nil
		})
	}
}

// L6: a beat that a newer one overtook reports nothing; its lease is renewed.
func TestL6ALateBeatReportsNothing(t *testing.T) {
	w := newWorld(t, 2).warm()
	p := w.proc("w1").register(0)
	late := ownership.Beat{Session: p.session, Heard: w.now, Headroom: 100, Proof: ownership.ProofOK, HasAcks: true}
	w.after(2 * time.Second)
	if _, err := w.nodes[0].Beat(bg, ownership.Beat{Session: p.session, Heard: w.now, Draining: true, Proof: ownership.ProofOK, HasAcks: true}); err != nil {
		t.Fatal(err)
	}
	w.after(time.Second)
	if _, err := w.nodes[1].Beat(bg, late); err != nil {
		t.Fatal(err)
	}
	w.refused(0, "a", pinboard.NoLiveBackends) // it drains
}

// R7: the store has lost the last writes; whoever is told to quit is waited
// for, in every order of restatements, with every process there or gone.
func TestR7EveryOrderOfRestatementsIsWaitedFor(t *testing.T) {
	for _, order := range [][]int{{0, 1}, {1, 0}, {1}, {0, 1, 1}, {1, 0, 1}} {
		t.Run(fmt.Sprint(order), func(t *testing.T) {
			w := newWorld(t, 1).warm()
			ps := []*proc{w.proc("w1").register(0), w.proc("w2").register(0)}
			for _, p := range ps {
				p.mustBeat(0)
			}
			first := w.place(0, "a") // the old copy names this one
			im := w.store.Image()
			old, now := 0, 1
			if first.Worker.ClientID == "w2" {
				old, now = 1, 0
			}
			w.store.Restart("run2", im)
			w.old = map[string]func() ownership.Micros{"run1": func() ownership.Micros { return w.now.UnixMicro() }}
			told := map[int]bool{}
			for _, i := range order {
				p := ps[[]int{old, now}[i]]
				p.reg.Instances = nil
				if i == 1 { // the one that really holds it, by what the store has lost
					p.reg.Instances = map[string][]string{"/threads": {"a"}}
				}
				g, err := w.nodes[0].Register(bg, func() *directory.Registration { r := p.reg; r.PrevSession = p.session; return &r }())
				if err != nil {
					t.Fatal(err)
				}
				p.session = g.Session
				told[i] = told[i] || len(g.Duplicates) > 0
			}
			if !told[1] {
				t.Fatal("its holder was not told to quit")
			}
			for range 8 { // cold, and then as long as it beats and closes
				w.after(lease / 3)
				for _, p := range ps {
					p.beat(0)
				}
				if p, err := w.resolve(0, "a"); err == nil {
					t.Fatalf("given to %s while it closes", p.Worker.ClientID)
				}
			}
			if n := ps[now].release(0, "a", 1<<62); n != 1 {
				t.Fatalf("the release of the close freed %d", n)
			}
			w.place(0, "a")
		})
	}
}
