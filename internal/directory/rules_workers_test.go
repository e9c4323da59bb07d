package directory_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"pinboard"
	"pinboard/internal/directory"
	"pinboard/internal/ownership"
)

func TestDegradedCausesAreClearedOnlyByTheirOwnSuccess(t *testing.T) {
	w := newWorld(t, 1).warm()
	a := w.proc("w1").register(0)
	w.place(0, "a")
	if err := a.beatWith(0, ownership.ProofMissing); err != nil {
		t.Fatal(err)
	}
	w.place(0, "a") // keeps its ids and forwards
	w.refused(0, "new", pinboard.NoLiveBackends)
	if err := a.beatWith(0, ownership.ProofRefused); err != nil {
		t.Fatal(err)
	}
	w.refused(0, "a", pinboard.WorkerNotReady)
	if err := a.beatWith(0, ownership.ProofOK); err != nil {
		t.Fatal(err)
	}
	w.place(0, "a")
	w.place(0, "new")
}

func TestAfterThreeLeasesOfFailedProofsTheLeaseRunsOut(t *testing.T) {
	w := newWorld(t, 1).warm()
	a := w.proc("w1").register(0)
	for range 6 {
		if err := a.beatWith(0, ownership.ProofMissing); err != nil {
			t.Fatal(err)
		}
		w.after(lease / 2)
	}
	if err := a.beatWith(0, ownership.ProofMissing); !isWait(err) {
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
	if err := a.beatWith(0, ownership.ProofNone); err != nil {
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
		if err := a.beatWith(0, ownership.ProofNone); err != nil {
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
		o.Connect = func(context.Context, *ownership.Worker) error {
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
	var rest []ownership.Entry
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
