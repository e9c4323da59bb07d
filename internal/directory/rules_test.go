package directory_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"pinboard"
	"pinboard/internal/directory"
)

// A faulty store fails chosen updates before (not applied) or after (applied,
// the reply lost) they happen.
type faulty struct {
	directory.Store
	before, after func(bucket int) bool
}

var errAway = errors.New("store away")

func (f *faulty) Update(ctx context.Context, b int, s directory.Select, rule func(*directory.Tx) error) error {
	if f.before != nil && f.before(b) {
		return errAway
	}
	err := f.Store.Update(ctx, b, s, rule)
	if err == nil && f.after != nil && f.after(b) {
		return errAway
	}
	return err
}

func isReregister(err error) bool { return errors.As(err, new(directory.Reregister)) }
func isWait(err error) bool       { return errors.As(err, new(directory.Wait)) }

func (p *proc) beatWith(n int, proof directory.Proof) error {
	_, err := p.w.nodes[n].Beat(bg, directory.Beat{Session: p.session, Owner: p.reg.Worker.Owner, Headroom: 100, Proof: proof})
	return err
}

func TestL2ABeatIsGrantedOnlyWhenEveryBucketTookIt(t *testing.T) {
	f := &faulty{}
	w := newWorld(t, 1, func(o *directory.Options) { f.Store = o.Store; o.Store = f }).warm()
	a := w.proc("w1").register(0)
	for b := range 4 {
		f.before = func(i int) bool { return i == b }
		if _, err := a.beat(0); !errors.Is(err, pinboard.StoreUnavailable) {
			t.Fatalf("bucket %d away: %v", b, err)
		}
	}
}

func TestL3ALeaseThatLapsedInOneBucketIsNotRenewedThere(t *testing.T) {
	f := &faulty{}
	w := newWorld(t, 1, func(o *directory.Options) { f.Store = o.Store; o.Store = f }).warm()
	a := w.proc("w1").register(0)
	f.before = func(i int) bool { return i == 2 }
	for range 3 {
		w.after(lease / 2)
		a.beat(0) // renews the others
	}
	f.before = nil
	if _, err := a.beat(0); !isReregister(err) {
		t.Fatalf("after a lapse in one bucket: %v", err)
	}
	a.register(0).mustBeat(0)
}

func TestL5AProcessWithAPastGetsNothingNewBeforeItsFirstBeat(t *testing.T) {
	w := newWorld(t, 1).warm()
	a := w.proc("w1").register(0)
	w.place(0, "new")
	a.register(0, "new")
	w.refused(0, "newer", pinboard.NoLiveBackends)
	a.mustBeat(0)
	w.place(0, "newer")
}

func TestL6ASucceededSessionIsToldToRegisterAndItsUnrestatedRowsAreFree(t *testing.T) {
	w := newWorld(t, 1).warm()
	a := w.proc("w1").register(0)
	a.mustBeat(0) // has acks: R5's wait does not apply
	first := w.place(0, "a")
	old := *a
	a.register(0)
	if _, err := old.beat(0); !isReregister(err) {
		t.Fatalf("the older session's beat: %v", err)
	}
	a.mustBeat(0)
	if again := w.place(0, "a"); again.Epoch <= first.Epoch || again.Worker.Session != a.session {
		t.Fatalf("got %+v", again)
	}
}

func TestL7AnAddressChangesHandsOnceProved(t *testing.T) {
	w := newWorld(t, 1).warm()
	a := w.proc("w1").register(0)
	w.place(0, "a")
	b := w.proc("w2")
	b.reg.Worker.URL = a.reg.Worker.URL
	if err := b.tryRegister(0); !isWait(err) {
		t.Fatalf("registration at a URL proved just now: %v", err)
	}
	w.after(lease/2 + time.Second)
	b.register(0)
	w.refused(0, "a", pinboard.OwnerReplaced)
	if err := a.beatWith(0, directory.ProofRefused); !isWait(err) {
		t.Fatalf("the older session's beat: %v", err)
	}
	w.after(lease / 2)
	if p := w.place(0, "a"); p.Worker.ClientID != "w2" {
		t.Fatalf("after the older lease: %+v", p)
	}
	// The newer process goes; the older one proves the address again.
	if err := w.nodes[0].Deregister(bg, b.reg.Worker.Owner, b.session); err != nil {
		t.Fatal(err)
	}
	if err := a.beatWith(0, directory.ProofOK); !isReregister(err) {
		t.Fatalf("the older session proves its URL again: %v", err)
	}
	a.register(0, "a").mustBeat(0)
}

func TestL7AProvenSessionReplacesAnUnprovenOneAtOnceAndNotTheOtherWayRound(t *testing.T) {
	w := newWorld(t, 1).warm()
	a := w.proc("w1")
	a.reg.Worker.Proven = false
	a.register(0)
	b := w.proc("w2")
	b.reg.Worker.URL = a.reg.Worker.URL
	b.register(0)
	c := w.proc("w3")
	c.reg.Worker.URL, c.reg.Worker.Proven = a.reg.Worker.URL, false
	w.after(lease - time.Second)
	if err := c.tryRegister(0); !isWait(err) {
		t.Fatalf("an unproven process at a proven URL: %v", err)
	}
}

func TestL8PrevSessionIDOfAnotherProcessClaimsNothing(t *testing.T) {
	w := newWorld(t, 1).warm()
	a := w.proc("w1").register(0)
	w.place(0, "a")
	b := w.proc("w2")
	b.session = a.session
	b.register(0, "a")
	if len(b.grant.Duplicates) != 1 {
		t.Fatalf("duplicates %v", b.grant.Duplicates)
	}
	if p := w.place(0, "a"); p.Worker.Session != a.session {
		t.Fatalf("got %+v", p)
	}
}

func TestAKnownClientWithAnotherSecretWaits(t *testing.T) {
	w := newWorld(t, 1).warm()
	w.proc("w1").register(0)
	b := w.proc("w1")
	b.reg.Worker.Secret = "another"
	if err := b.tryRegister(0); !isWait(err) {
		t.Fatalf("got %v", err)
	}
	w.after(lease)
	b.register(0)
}

func TestL9AClientCausesARestateOrderAtMostOnceInFourLeases(t *testing.T) {
	w := newWorld(t, 2).warm()
	a := w.proc("w1").register(0)
	p := w.place(0, "a")
	w.place(1, "a") // confirmed
	refuse := func() { w.nodes[0].Report(bg, p, directory.Refused) }
	refuse()
	if _, err := a.beat(0); !isReregister(err) {
		t.Fatalf("beat after a refusal of a confirmed row: %v", err)
	}
	a.register(0, "a").mustBeat(0)
	p = w.place(0, "a")
	for left := 4 * lease; left > 0; left -= lease / 3 {
		refuse()
		if _, err := a.beat(0); err != nil {
			t.Fatalf("%v before the next order: %v", left, err)
		}
		w.after(lease / 3)
	}
	refuse()
	if _, err := a.beat(0); !isReregister(err) {
		t.Fatalf("four leases later: %v", err)
	}
}

func TestL9ARestateOrderThatNotEveryBucketRecordedIsNotGiven(t *testing.T) {
	f := &faulty{}
	w := newWorld(t, 1, func(o *directory.Options) { f.Store = o.Store; o.Store = f }).warm()
	a := w.proc("w1").register(0)
	w.after(lease)
	calls := 0
	f.before = func(i int) bool { calls++; return calls == 6 } // the second round, one bucket
	if _, err := a.beat(0); !errors.Is(err, pinboard.StoreUnavailable) {
		t.Fatalf("got %v", err)
	}
}

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
	w.old = map[string]func() directory.Micros{"run1": func() directory.Micros { return w.now.UnixMicro() }}
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
	w.old = map[string]func() directory.Micros{"run1": func() directory.Micros { return w.now.UnixMicro() }}
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
	if err := a.beatWith(0, directory.ProofOK); err != nil {
		t.Fatalf("beat: %v", err)
	}
}

func TestF2StreamsAreCutWhenTheRowIsGoneOrAnothersAndNotByARestatement(t *testing.T) {
	w := newWorld(t, 1).warm()
	a := w.proc("w1").register(0)
	p := w.place(0, "a")
	watch := &directory.Watch{Key: p.Key, Process: p.Worker.Process, Deadline: p.Deadline}
	check := func(cut bool, deadline time.Duration) {
		t.Helper()
		if err := w.nodes[0].Recheck(bg, []*directory.Watch{watch}); err != nil {
			t.Fatal(err)
		}
		if watch.Cut != cut || !cut && watch.Deadline.Sub(w.now) != deadline {
			t.Fatalf("cut %v, deadline in %v; want %v, %v", watch.Cut, watch.Deadline.Sub(w.now), cut, deadline)
		}
	}
	w.after(lease / 3)
	check(false, lease*2/3)
	a.mustBeat(0)
	check(false, lease)
	a.register(0, "a")
	w.after(time.Second)
	check(false, lease-time.Second)
	a.release(0, "a", p.Epoch)
	check(true, 0)
	watch.Cut = false
	w.proc("w2").register(0)
	w.after(lease - time.Second)
	w.proc("w2").register(0)
	w.refused(0, "a", pinboard.NoLiveBackends) // w2 has a past and has not beaten
	w.proc("w3").register(0)
	if got := w.place(0, "a"); got.Worker.ClientID != "w3" {
		t.Fatalf("got %+v", got)
	}
	check(true, 0)
}

func TestF4AWindDownEndsByTheWorkersReleaseAndNotByAckOrDeadline(t *testing.T) {
	w := newWorld(t, 2).warm()
	a := w.proc("w1").register(0)
	p := w.place(0, "a")
	order := time.Duration(0)
	if ok, err := w.nodes[0].WindDown(bg, directory.WindDown{Namespace: "/threads", ID: "a", Deadline: &order}); !ok || err != nil {
		t.Fatal(ok, err)
	}
	beat := func(acks ...string) []directory.Message {
		t.Helper()
		g, err := w.nodes[1].Beat(bg, directory.Beat{Session: a.session, Owner: a.reg.Worker.Owner, Headroom: 100, Proof: directory.ProofOK, Acks: acks, HasAcks: len(acks) > 0})
		if err != nil {
			t.Fatal(err)
		}
		return g.Messages
	}
	w.after(lease / 3)
	ms := beat()
	if len(ms) != 1 || *ms[0].Deadline != lease*2/3 || ms[0].ID != "a" || ms[0].NS != "/threads" {
		t.Fatalf("floored once to one lease and aged since: %+v", ms)
	}
	if again := beat(); len(again) != 1 || again[0].MsgID != ms[0].MsgID {
		t.Fatalf("redelivered: %+v", again)
	}
	if left := beat(ms[0].MsgID); len(left) != 0 {
		t.Fatalf("after the ack: %+v", left)
	}
	w.place(0, "a") // until the deadline requests are forwarded
	w.after(lease * 2 / 3)
	w.refused(0, "a", pinboard.WindingDown)
	evict := beat()
	if len(evict) != 1 || *evict[0].Deadline != 0 || evict[0].MsgID == ms[0].MsgID {
		t.Fatalf("eviction: %+v", evict)
	}
	beat(evict[0].MsgID)
	w.refused(0, "a", pinboard.WindingDown)
	if a.release(0, "a", p.Epoch) != 1 {
		t.Fatal("not released")
	}
	w.place(0, "a")
	if left := beat(); len(left) != 0 {
		t.Fatalf("orders outlive the row: %+v", left)
	}
}

func TestF4ARevokeVoidsTheEviction(t *testing.T) {
	w := newWorld(t, 1).warm()
	a := w.proc("w1").register(0)
	w.place(0, "a")
	d := time.Minute
	w.nodes[0].WindDown(bg, directory.WindDown{Namespace: "/threads", ID: "a", Deadline: &d})
	w.nodes[0].WindDown(bg, directory.WindDown{Namespace: "/threads", ID: "a"})
	g := a.mustBeat(0)
	if len(g.Messages) != 1 || g.Messages[0].Deadline != nil {
		t.Fatalf("messages %+v", g.Messages)
	}
	for range 6 {
		w.after(lease / 2)
		a.mustBeat(0)
	}
	w.place(0, "a")
}

func TestF4AMutedWorkerGetsAnOrderTwiceAndARestateOrderAfterFourLeases(t *testing.T) {
	w := newWorld(t, 1).warm()
	a := w.proc("w1").register(0)
	w.place(0, "a")
	d := time.Duration(0)
	w.nodes[0].WindDown(bg, directory.WindDown{Namespace: "/threads", ID: "a", Deadline: &d})
	got := map[string]int{}
	for range 40 {
		g, err := w.nodes[0].Beat(bg, directory.Beat{Session: a.session, Owner: a.reg.Worker.Owner, Headroom: 1, Proof: directory.ProofOK})
		if isReregister(err) {
			a.register(0) // not listed
			w.after(lease)
			a.register(0).beatWith(0, directory.ProofOK)
			w.after(lease) // it never acked: R5
			a.register(0).beatWith(0, directory.ProofOK)
			w.place(0, "a")
			if len(got) != 2 {
				t.Fatalf("orders %v, want the wind-down and the eviction", got)
			}
			for id, n := range got {
				if n != 2 {
					t.Fatalf("order %s delivered %d times", id, n)
				}
			}
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range g.Messages {
			got[m.MsgID]++
		}
		w.after(lease / 5)
	}
	t.Fatal("no restate order")
}

func TestOpenOrdersFollowTheProcessToItsNewSession(t *testing.T) {
	w := newWorld(t, 1).warm()
	a := w.proc("w1").register(0)
	w.place(0, "a")
	d := time.Minute
	w.nodes[0].WindDown(bg, directory.WindDown{Namespace: "/threads", ID: "a", Deadline: &d})
	before := a.mustBeat(0).Messages
	w.after(time.Second)
	a.register(0, "a")
	after := a.mustBeat(0).Messages
	if len(before) != 1 || len(after) != 1 || after[0].MsgID == before[0].MsgID || *after[0].Deadline != d-time.Second {
		t.Fatalf("before %+v after %+v", before, after)
	}
}

func TestDegradedCausesAreClearedOnlyByTheirOwnSuccess(t *testing.T) {
	w := newWorld(t, 1).warm()
	a := w.proc("w1").register(0)
	w.place(0, "a")
	if err := a.beatWith(0, directory.ProofMissing); err != nil {
		t.Fatal(err)
	}
	w.place(0, "a") // keeps its ids and forwards
	w.refused(0, "new", pinboard.NoLiveBackends)
	if err := a.beatWith(0, directory.ProofRefused); err != nil {
		t.Fatal(err)
	}
	w.refused(0, "a", pinboard.WorkerNotReady)
	if err := a.beatWith(0, directory.ProofOK); err != nil {
		t.Fatal(err)
	}
	w.place(0, "a")
	w.place(0, "new")
}

func TestAfterThreeLeasesOfFailedProofsTheLeaseRunsOut(t *testing.T) {
	w := newWorld(t, 1).warm()
	a := w.proc("w1").register(0)
	for range 6 {
		if err := a.beatWith(0, directory.ProofMissing); err != nil {
			t.Fatal(err)
		}
		w.after(lease / 2)
	}
	if err := a.beatWith(0, directory.ProofMissing); !isWait(err) {
		t.Fatalf("after three leases: %v", err)
	}
}

func TestBadAttestationOfASettledSessionStopsForwardsUntilASuccess(t *testing.T) {
	w := newWorld(t, 1).warm()
	a := w.proc("w1").register(0)
	p := w.place(0, "a")
	if v := w.nodes[0].Report(bg, p, directory.BadAttestation); !p.Settling || !v.Again {
		t.Fatalf("young session: %+v %+v", p, v)
	}
	w.after(6 * time.Second)
	p = w.place(0, "a")
	if v := w.nodes[0].Report(bg, p, directory.BadAttestation); p.Settling || v.Again || v.Refusal != pinboard.WorkerNotReady {
		t.Fatalf("settled session: %+v", v)
	}
	w.refused(0, "a", pinboard.WorkerNotReady)
	if err := a.beatWith(0, directory.ProofNone); err != nil {
		t.Fatal(err)
	}
	w.refused(0, "a", pinboard.WorkerNotReady) // a proven worker has to prove itself again
	for range 2 {                              // however often it happens
		a.mustBeat(0)
		p = w.place(0, "a")
		w.after(time.Second)
		w.nodes[0].Report(bg, p, directory.BadAttestation)
		w.refused(0, "a", pinboard.WorkerNotReady)
	}
}

// A worker that registered without a challenge has nothing to prove itself
// with: after each of its beats one forward shows whether it accepts them.
func TestBadAttestationOfAnUnprovenSessionIsTriedAgainAtEachBeat(t *testing.T) {
	w := newWorld(t, 1).warm()
	a := w.proc("w1")
	a.reg.Worker.Proven = false
	a.register(0)
	w.after(6 * time.Second)
	for range 3 {
		p := w.place(0, "a")
		w.nodes[0].Report(bg, p, directory.BadAttestation)
		w.refused(0, "a", pinboard.WorkerNotReady)
		w.after(time.Second)
		if err := a.beatWith(0, directory.ProofNone); err != nil {
			t.Fatal(err)
		}
	}
	w.nodes[0].Report(bg, w.place(0, "a"), directory.Served)
	w.place(0, "a")
}

func TestADrainBelongsToTheProcess(t *testing.T) {
	w := newWorld(t, 2).warm()
	a := w.proc("w1").register(0)
	w.place(0, "a")
	d := time.Minute
	if n, err := w.nodes[0].Drain(bg, directory.Selector{ClientID: "w1"}, &d); n != 1 || err != nil {
		t.Fatal(n, err)
	}
	w.refused(1, "new", pinboard.NoLiveBackends)
	w.after(time.Second)
	a.register(1, "a")
	if !a.grant.Draining || *a.grant.DrainLeft != d-time.Second {
		t.Fatalf("grant %+v", a.grant)
	}
	if n, _ := w.nodes[1].Undrain(bg, directory.Selector{Session: a.session}); n != 1 {
		t.Fatal("not found")
	}
	if g := a.mustBeat(0); g.Draining {
		t.Fatal("still draining")
	}
	w.place(0, "new")
}

func TestAnEjectedSessionRunsOutAndItsProcessWaits(t *testing.T) {
	w := newWorld(t, 1).warm()
	a := w.proc("w1").register(0)
	w.place(0, "a")
	if n, err := w.nodes[0].Eject(bg, directory.Selector{Session: a.session}); n != 1 || err != nil {
		t.Fatal(n, err)
	}
	if _, err := a.beat(0); !isWait(err) {
		t.Fatalf("beat: %v", err)
	}
	w.place(0, "a")
	if err := a.tryRegister(0, "a"); !isWait(err) {
		t.Fatalf("register: %v", err)
	}
	w.after(lease)
	a.register(0, "a")
}

func TestAnotherTokenCannotTouchASession(t *testing.T) {
	w := newWorld(t, 1).warm()
	a := w.proc("w1").register(0)
	p := w.place(0, "a")
	n, err := w.nodes[0].Release(bg, "other/token", []directory.Release{{Session: a.session, Namespace: "/threads", ID: "a", Epoch: p.Epoch, HasEpoch: true}})
	if n != 0 || err != nil {
		t.Fatal(n, err)
	}
	if err := w.nodes[0].Deregister(bg, "other/token", a.session); err != nil {
		t.Fatal(err)
	}
	if ok, _ := w.nodes[0].Tag(bg, "other/token", directory.Tag{Session: a.session, Namespace: "/threads", ID: "a", Tag: "x"}); ok {
		t.Fatal("tagged")
	}
	if again := w.place(0, "a"); again.Epoch != p.Epoch {
		t.Fatal("the row changed")
	}
}

func TestACallerIsProvedBySessionSecretAndRow(t *testing.T) {
	w := newWorld(t, 1).warm()
	a := w.proc("w1").register(0)
	w.place(0, "a")
	b := w.proc("w2").register(0)
	claim := directory.CallerClaim{Namespace: "/threads", ID: "a", Session: a.session, Secret: a.reg.Worker.Secret}
	call := func(c directory.CallerClaim) error {
		s, err := w.nodes[0].Caller(bg, c)
		if err == nil && s != a.session {
			t.Fatalf("caller %s", s)
		}
		return err
	}
	for name, c := range map[string]struct {
		change func(*directory.CallerClaim)
		want   error
	}{
		"right":           {func(*directory.CallerClaim) {}, nil},
		"wrong secret":    {func(c *directory.CallerClaim) { c.Secret = "x" }, pinboard.InvalidSessionSecret},
		"unknown session": {func(c *directory.CallerClaim) { c.Session = "x" }, pinboard.InvalidSessionSecret},
		"another's row": {func(c *directory.CallerClaim) { c.Session, c.Secret = b.session, b.reg.Worker.Secret },
			pinboard.CallerMismatch},
		"no row": {func(c *directory.CallerClaim) { c.ID = "nobody" }, pinboard.CallerMismatch},
	} {
		claim := claim
		c.change(&claim)
		if err := call(claim); !errors.Is(err, c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	old := claim
	a.register(0, "a")
	if err := call(old); !errors.Is(err, pinboard.InvalidSessionSecret) {
		t.Errorf("a succeeded session: %v", err)
	}
}

func TestFailedConnectsDegradeAndAConnectAtABeatClears(t *testing.T) {
	works := false
	w := newWorld(t, 1, func(o *directory.Options) {
		o.Go = func(f func()) { f() }
		o.Connect = func(context.Context, *directory.Worker) error {
			if works {
				return nil
			}
			return errAway
		}
	}).warm()
	a := w.proc("w1").register(0)
	p := w.place(0, "a")
	w.place(0, "a")
	p.Fresh = false
	fail := func(n int) {
		for range n {
			w.nodes[0].Report(bg, p, directory.Unreachable)
		}
	}
	fail(5)
	w.place(0, "b") // nothing else was ever reached: this node may be the one cut off
	b := w.proc("w2").register(0)
	q := w.placeOn(b, "other")
	w.nodes[0].Report(bg, q, directory.Served)
	fail(1)
	w.place(0, "a") // keeps its ids
	for i := range 20 {
		if got := w.place(0, fmt.Sprint("new", i)); got.Worker.ClientID != "w2" {
			t.Fatalf("a degraded worker got %s", got.Key)
		}
	}
	a.mustBeat(0)
	w.after(2 * time.Second)
	if got := w.place(0, "still"); got.Worker.ClientID != "w2" {
		t.Fatal("cleared by a beat whose connect failed")
	}
	works = true
	a.mustBeat(0)
	w.after(2 * time.Second)
	w.placeOn(a, "again")
}

// placeOn places ids until one lands on p.
func (w *world) placeOn(p *proc, name string) directory.Placement {
	w.t.Helper()
	for i := range 50 {
		if got := w.place(0, fmt.Sprint(name, i)); got.Worker.Session == p.session {
			return got
		}
	}
	w.t.Fatalf("%s gets no ids", p.reg.Worker.ClientID)
	return directory.Placement{}
}

func TestEventsTellEveryChangeOfOwnerWithItsEpoch(t *testing.T) {
	w := newWorld(t, 2).warm()
	a := w.proc("w1").register(0)
	first := w.place(0, "a")
	w.after(lease)
	b := w.proc("w2").register(1)
	second := w.place(1, "a")
	b.release(0, "a", second.Epoch)
	all, _, err := w.nodes[0].Events(bg, "", 1000)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, e := range all {
		if e.Key == first.Key.String() {
			got = append(got, fmt.Sprintf("%s %s %d by %s", e.Cause, e.Session, e.Epoch, e.Node))
		}
	}
	want := []string{
		fmt.Sprintf("released %s %d by n0", b.session, second.Epoch),
		fmt.Sprintf("moved %s %d by n1", b.session, second.Epoch),
		fmt.Sprintf("placed %s %d by n0", a.session, first.Epoch),
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Fatalf("got %q, want %q", got, want)
	}
	var paged int
	var rest []directory.Entry
	for after, more := "", true; more; paged++ {
		page, next, err := w.nodes[1].Events(bg, after, 1)
		if err != nil {
			t.Fatal(err)
		}
		rest = append(rest, page...)
		after, more = next, next != ""
	}
	if paged < 3 || len(rest) != len(all) {
		t.Fatalf("%d pages with %d events, want %d", paged, len(rest), len(all))
	}
}
