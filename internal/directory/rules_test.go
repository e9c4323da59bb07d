package directory_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"pinboard"
	"pinboard/internal/directory"
	"pinboard/internal/ownership"
)

// A faulty store fails chosen updates before (not applied) or after (applied,
// the reply lost) they happen.
type faulty struct {
	ownership.Store
	before, after func(bucket int) bool
}

var errAway = errors.New("store away")

func (f *faulty) Update(ctx context.Context, b int, s ownership.Select, rule func(*ownership.Tx) error) error {
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
func isWait(err error) bool       { return errors.As(err, new(ownership.Wait)) }

func (p *proc) beatWith(n int, proof ownership.Proof) error {
	_, err := p.w.nodes[n].Beat(bg, ownership.Beat{Session: p.session, Headroom: 100, Proof: proof})
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
	if err := a.beatWith(0, ownership.ProofRefused); !isWait(err) {
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
	if err := a.beatWith(0, ownership.ProofOK); !isReregister(err) {
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
