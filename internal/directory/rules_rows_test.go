package directory_test

import (
	"fmt"
	"testing"
	"time"

	"pinboard"
	"pinboard/internal/directory"
	"pinboard/internal/ownership"
)

func TestR2OnlyTheCreatorForwardsUnconfirmedAndALostReplyIsStillTheCreators(t *testing.T) {
	f := &faulty{}
	w := newWorld(t, 1, func(o *directory.Options) { f.Store = o.Store; o.Store = f }).warm()
	w.proc("w1").register(0)
	calls := 0
	f.after = func(int) bool { calls++; return calls == 3 } // look-up, roster, place
	p := w.place(0, "a")
	if !p.Fresh {
		t.Fatalf("after a lost reply: %+v (%d calls)", p, calls)
	}
	f.after = nil
	if again := w.place(0, "a"); again.Fresh || again.Epoch != p.Epoch {
		t.Fatalf("another request: %+v", again)
	}
}

func TestR3AFailedConnectReleasesOnlyWhatNobodyConfirmed(t *testing.T) {
	w := newWorld(t, 2).warm()
	w.proc("w1").register(0)
	p := w.place(0, "a")
	w.place(1, "a")
	if v := w.nodes[0].Report(bg, p, directory.Unreachable); v.Again || v.Refusal != pinboard.WorkerUnreachable {
		t.Fatalf("verdict %+v", v)
	}
	if again := w.place(0, "a"); again.Epoch != p.Epoch {
		t.Fatal("a confirmed row was released")
	}
	q := w.place(0, "b")
	w.nodes[0].Report(bg, q, directory.Unreachable)
	if again := w.place(0, "b"); again.Epoch == q.Epoch {
		t.Fatal("an unconfirmed row was kept")
	}
}

func TestR3R4RefusalsReplaceANewPlacementAndFreeNothingElse(t *testing.T) {
	w := newWorld(t, 2).warm()
	w.proc("w1").register(0)
	w.proc("w2").register(0)
	p := w.place(0, "a")
	if v := w.nodes[0].Report(bg, p, directory.Refused); !v.Again {
		t.Fatalf("new placement: %+v", v)
	}
	q, err := w.nodes[0].Resolve(bg, directory.Request{Address: pinboard.Address{Namespace: "/threads", ID: "a"}, Avoid: p.Worker.Session})
	if err != nil || q.Worker.Session == p.Worker.Session || q.Epoch <= p.Epoch {
		t.Fatalf("placed once more: %+v %v", q, err)
	}
	w.place(1, "a")
	if v := w.nodes[0].Report(bg, q, directory.Refused); v.Again || v.Refusal != pinboard.WorkerRefused {
		t.Fatalf("confirmed meanwhile: %+v", v)
	}
	if again := w.place(0, "a"); again.Epoch != q.Epoch {
		t.Fatal("a confirmed row was released")
	}
}

func TestR5AnIDReleasedWithoutAnEpochRestsForALease(t *testing.T) {
	w := newWorld(t, 1).warm()
	a := w.proc("w1").register(0)
	w.place(0, "a")
	if a.release(0, "a", 0) != 1 {
		t.Fatal("not released")
	}
	w.refused(0, "a", pinboard.WindingDown)
	w.after(lease - time.Millisecond)
	a.register(0).mustBeat(0)
	w.refused(0, "a", pinboard.WindingDown)
	w.after(time.Millisecond)
	w.place(0, "a")
}

func TestR6AfterAFastRestartRestatedIDsComeBackWithAFreshEpoch(t *testing.T) {
	w := newWorld(t, 2).warm()
	a := w.proc("w1").register(0)
	first := w.place(0, "a")
	w.place(1, "a")
	im := w.store.Image()
	w.old = map[string]func() ownership.Micros{"run1": func() ownership.Micros { return w.now.UnixMicro() }}
	w.store.Restart("run2", im)
	w.refused(0, "a", pinboard.ColdStart)
	if _, err := a.beat(0); !isReregister(err) {
		t.Fatalf("beat in a new generation: %v", err)
	}
	a.register(0, "a")
	if len(a.grant.Duplicates) != 0 {
		t.Fatalf("duplicates %v", a.grant.Duplicates)
	}
	// The worker closes before any forward has shown it the fresh epoch.
	if a.release(0, "a", first.Epoch-1) != 0 {
		t.Fatal("released below since")
	}
	if a.release(0, "a", first.Epoch) != 1 {
		t.Fatal("the release at the old epoch leaked the row")
	}
}

func TestR6AHitEndsTheOldEpochsRightToRelease(t *testing.T) {
	w := newWorld(t, 2).warm()
	a := w.proc("w1").register(0)
	first := w.place(0, "a")
	w.place(1, "a")
	w.old = map[string]func() ownership.Micros{"run1": func() ownership.Micros { return w.now.UnixMicro() }}
	w.store.Restart("run2", w.store.Image())
	a.register(0, "a")
	again := w.place(0, "a")
	if again.Epoch <= first.Epoch || again.Fresh {
		t.Fatalf("got %+v after %+v", again, first)
	}
	if a.release(0, "a", first.Epoch) != 0 {
		t.Fatal("released at an epoch the worker has left")
	}
}

func TestR6WithoutTheOldClockTheLeaseCountsAsLapsed(t *testing.T) {
	w := newWorld(t, 1).warm()
	a := w.proc("w1").register(0)
	w.place(0, "a")
	w.store.Restart("run2", w.store.Image())
	a.register(0, "a")
	if len(a.grant.Duplicates) != 1 {
		t.Fatalf("duplicates %v", a.grant.Duplicates)
	}
	w.refused(0, "a", pinboard.WindingDown)
}

func TestR7AClosingRowThatOutstaysFourLeasesIsAskedAbout(t *testing.T) {
	w := newWorld(t, 1).warm()
	a := w.proc("w1").register(0, "a")
	if len(a.grant.Duplicates) != 1 {
		t.Fatalf("duplicates %v", a.grant.Duplicates)
	}
	for range 9 {
		w.after(lease / 2)
		w.resolve(0, "a")
		if _, err := a.beat(0); isReregister(err) {
			a.register(0).mustBeat(0)
			w.place(0, "a")
			return
		}
	}
	t.Fatal("no restate order in four leases and a half")
}

func TestR9TooManyPlacementsOrderARestatement(t *testing.T) {
	w := newWorld(t, 1, func(o *directory.Options) { o.PlaceLimit = 50 }).warm()
	a := w.proc("w1").register(0)
	for i := range 51 {
		w.place(0, fmt.Sprint("id", i))
	}
	if _, err := a.beat(0); !isReregister(err) {
		t.Fatalf("beat after 51 placements: %v", err)
	}
	a.register(0).mustBeat(0)
	w.after(lease)
	a.register(0)
	for range 40 {
		if err := w.nodes[0].Keep(bg); err != nil {
			t.Fatal(err)
		}
	}
	o, err := w.nodes[0].Overview(bg, "", 10)
	if err != nil || len(o.Placed) != 1 || o.Placed[0].Placed != 0 {
		t.Fatalf("overview %+v %v", o, err)
	}
}

func TestAnOldDialectIsNeverMadeToAbortEverything(t *testing.T) {
	w := newWorld(t, 1, func(o *directory.Options) { o.PlaceLimit = 5 }).warm()
	a := w.proc("w1").register(0)
	w.place(0, "x")
	if a.release(0, "x", 0) != 1 {
		t.Fatal("not released")
	}
	for i := range 20 {
		w.place(0, fmt.Sprint("id", i))
	}
	if err := a.beatWith(0, ownership.ProofOK); err != nil {
		t.Fatalf("beat: %v", err)
	}
}
