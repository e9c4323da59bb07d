package directory_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"pinboard"
	"pinboard/internal/directory"
	"pinboard/internal/ownership"
)

// host returns a process of a deployment in hostname mode.
func (w *world) host(name, host, env string, epoch int64, namespaces ...string) *proc {
	p := w.proc(name, namespaces...)
	p.reg.Worker.Hostname, p.reg.Worker.Env, p.reg.Worker.BindEpoch = host, env, epoch
	return p
}

func hostnames(o *directory.Options) { o.Hostnames = true }

func (w *world) at(host, ns, id string) (directory.Placement, error) {
	return w.nodes[0].Resolve(bg, directory.Request{Host: host, Address: pinboard.Address{Namespace: ns, ID: id}})
}

func (w *world) placeAt(host, id string) directory.Placement {
	w.t.Helper()
	p, err := w.at(host, "/threads", id)
	if err != nil {
		w.t.Fatalf("%s %s: %v", host, id, err)
	}
	return p
}

func (w *world) refusedAt(host, id string, want *pinboard.Refusal) {
	w.t.Helper()
	if p, err := w.at(host, "/threads", id); !errors.Is(err, want) {
		w.t.Fatalf("%s %s: %+v %v, want %v", host, id, p, err, want)
	}
}

// pass lets time go by while the processes beat.
func (w *world) pass(d time.Duration, ps ...*proc) {
	for ; d > 0; d -= time.Second {
		w.after(min(d, time.Second))
		for _, p := range ps {
			if _, err := p.beat(0); isReregister(err) {
				w.t.Fatalf("%s lost its session", p.reg.Worker.ClientID)
			}
		}
	}
}

func TestHostnameModeNeedsAHostname(t *testing.T) {
	w := newWorld(t, 1, hostnames)
	if err := w.proc("w1").tryRegister(0); !errors.As(err, new(directory.Invalid)) {
		t.Fatalf("got %v", err)
	}
}

func TestTwoEnvsAreTwoInstancesAndTwoHostnamesOfOneEnvShareIDs(t *testing.T) {
	w := newWorld(t, 1, hostnames).warm()
	w.host("w1", "a.test", "red", 0).register(0)
	w.host("w2", "b.test", "blue", 0).register(0)
	a, b := w.placeAt("a.test", "x"), w.placeAt("b.test", "x")
	if a.Worker.ClientID != "w1" || b.Worker.ClientID != "w2" {
		t.Fatalf("%+v %+v", a, b)
	}
	w.host("w3", "c.test", "red", 0).register(0)
	w.refusedAt("c.test", "x", pinboard.TakeoverInProgress)
	w.refusedAt("nowhere.test", "x", pinboard.UnknownNamespace)
}

func TestATakeoverMovesAnIDOnceAndDoesNotTossItBack(t *testing.T) {
	w := newWorld(t, 1, hostnames).warm()
	blue := w.host("w1", "blue.test", "prod", 0).register(0)
	first := w.placeAt("blue.test", "x")
	green := w.host("w2", "green.test", "prod", 0).register(0)

	w.refusedAt("green.test", "x", pinboard.TakeoverInProgress)
	g := blue.mustBeat(0)
	if len(g.Messages) != 1 || *g.Messages[0].Deadline != lease {
		t.Fatalf("the old owner's message: %+v", g.Messages)
	}
	w.placeAt("blue.test", "x") // served until the deadline
	w.pass(lease, blue, green)
	w.refusedAt("blue.test", "x", pinboard.WindingDown)
	w.refusedAt("green.test", "x", pinboard.TakeoverInProgress)
	if blue.release(0, "x", first.Epoch) != 1 {
		t.Fatal("not released")
	}
	w.refusedAt("blue.test", "x", pinboard.TakeoverInProgress) // only the claimant may place it
	moved := w.placeAt("green.test", "x")
	if moved.Worker.ClientID != "w2" || moved.Epoch <= first.Epoch {
		t.Fatalf("got %+v", moved)
	}
	w.refusedAt("blue.test", "x", pinboard.TakeoverInProgress) // for two leases nothing is taken back
	w.pass(lease, blue, green)
	w.refusedAt("blue.test", "x", pinboard.TakeoverInProgress)
	if g := green.mustBeat(0); len(g.Messages) != 0 {
		t.Fatalf("wound down at once: %+v", g.Messages)
	}
	w.placeAt("green.test", "x")
	w.pass(lease, blue, green)
	w.refusedAt("blue.test", "x", pinboard.TakeoverInProgress)
	if g := green.mustBeat(0); len(g.Messages) != 1 {
		t.Fatalf("not wound down: %+v", g.Messages)
	}
}

// H3: a hostname without a worker that could have the id takes nothing over.
func TestAHostnameWithoutLiveWorkersTakesNothingOver(t *testing.T) {
	w := newWorld(t, 1, hostnames).warm()
	blue := w.host("w1", "blue.test", "prod", 0).register(0)
	w.placeAt("blue.test", "x")
	green := w.host("w2", "green.test", "prod", 0).register(0)
	for range 3 {
		w.pass(lease/2, blue)
	}
	for range 5 {
		w.refusedAt("green.test", "x", pinboard.NoLiveBackends) // w2 has lapsed
		w.placeAt("blue.test", "x")
	}
	if g := blue.mustBeat(0); len(g.Messages) != 0 {
		t.Fatalf("wound down for nobody: %+v", g.Messages)
	}
	green.register(0).mustBeat(0)
	w.refusedAt("green.test", "x", pinboard.TakeoverInProgress)
}

// H3: an operator's long wind-down does not hold a takeover up.
func TestATakeoverWaitsForTheEarlierEnd(t *testing.T) {
	w := newWorld(t, 1, hostnames).warm()
	blue := w.host("w1", "blue.test", "prod", 0).register(0)
	w.placeAt("blue.test", "x")
	w.host("w2", "green.test", "prod", 0).register(0).mustBeat(0)
	long := 1000 * time.Second
	if ok, err := w.nodes[0].WindDown(bg, directory.WindDown{Host: "blue.test", Namespace: "/threads", ID: "x", Deadline: &long}); !ok || err != nil {
		t.Fatal(ok, err)
	}
	w.refusedAt("green.test", "x", pinboard.TakeoverInProgress)
	g := blue.mustBeat(0)
	if len(g.Messages) != 1 || *g.Messages[0].Deadline > lease {
		t.Fatalf("messages %+v", g.Messages)
	}
}

func TestAClaimThatNobodyUsesEndsAfterALease(t *testing.T) {
	w := newWorld(t, 1, hostnames).warm()
	blue := w.host("w1", "blue.test", "prod", 0).register(0)
	first := w.placeAt("blue.test", "x")
	green := w.host("w2", "green.test", "prod", 0).register(0)
	w.refusedAt("green.test", "x", pinboard.TakeoverInProgress)
	blue.release(0, "x", first.Epoch)
	w.refusedAt("blue.test", "x", pinboard.TakeoverInProgress)
	w.pass(lease, blue, green)
	w.placeAt("blue.test", "x")
}

func TestDenyHoldsAndSaysNothingOfUnplacedIDs(t *testing.T) {
	w := newWorld(t, 1, hostnames).warm()
	blue := w.host("w1", "blue.test", "prod", 0)
	blue.reg.Worker.Takeover = "deny"
	blue.register(0)
	w.placeAt("blue.test", "x")
	green := w.host("w2", "green.test", "prod", 0)
	green.reg.Worker.Takeover = "deny"
	green.register(0)
	w.refusedAt("green.test", "x", pinboard.HeldElsewhere)
	w.placeAt("green.test", "y")
	if g := blue.mustBeat(0); len(g.Messages) != 0 {
		t.Fatalf("messages %+v", g.Messages)
	}
}

func TestDisplacementSupersedesWaitsAndRefusesLowerEpochs(t *testing.T) {
	w := newWorld(t, 1, hostnames).warm()
	blue := w.host("w1", "app.test", "blue", 1).register(0)
	blue.mustBeat(0)
	w.placeAt("app.test", "x")
	same := w.host("w2", "app.test", "green", 1)
	if err := same.tryRegister(0); !errors.As(err, new(ownership.Conflict)) {
		t.Fatalf("equal epoch, another env: %v", err)
	}
	w.placeAt("app.test", "x")
	green := w.host("w3", "app.test", "green", 2).register(0)
	if p := w.placeAt("app.test", "x"); p.Worker.ClientID != "w1" {
		t.Fatalf("displaced before green has shown itself: %+v", p)
	}
	green.mustBeat(0)
	w.refusedAt("app.test", "x", pinboard.BindingDisplaced)
	var over ownership.Superseded
	if _, err := blue.beat(0); !errors.As(err, &over) || over.Env != "green" || over.Epoch != 2 {
		t.Fatalf("the displaced worker's beat: %v", err)
	}
	lower := w.host("w4", "app.test", "blue", 1)
	if err := lower.tryRegister(0); !errors.As(err, new(ownership.Conflict)) {
		t.Fatalf("lower epoch: %v", err)
	}
	w.pass(lease-time.Second, green)
	w.refusedAt("app.test", "x", pinboard.BindingDisplaced)
	w.pass(time.Second, green)
	if p := w.placeAt("app.test", "x"); p.Worker.ClientID != "w3" {
		t.Fatalf("got %+v", p)
	}
}

func TestAWorkerDisplacedInOneNamespaceOfTwoKeepsTheOther(t *testing.T) {
	w := newWorld(t, 1, hostnames).warm()
	blue := w.host("w1", "app.test", "blue", 1, "/threads", "/files").register(0)
	w.placeAt("app.test", "x")
	green := w.host("w2", "app.test", "green", 2).register(0)
	green.mustBeat(0)
	w.pass(lease, blue, green)
	if p := w.placeAt("app.test", "x"); p.Worker.ClientID != "w2" {
		t.Fatalf("got %+v", p)
	}
	if p, err := w.at("app.test", "/files", "y"); err != nil || p.Worker.ClientID != "w1" {
		t.Fatalf("got %+v %v", p, err)
	}
}

func TestRacingDeploymentsSettleOnTheHighestEpochOnce(t *testing.T) {
	w := newWorld(t, 1, hostnames).warm()
	for _, e := range []int64{3, 1, 5, 2, 4, 5} {
		w.host(fmt.Sprint("w", e), "app.test", fmt.Sprint("env", e), e).tryRegister(0)
	}
	w.after(lease)
	for e := range int64(6) {
		w.host(fmt.Sprint("w", e), "app.test", fmt.Sprint("env", e), e).tryRegister(0)
	}
	last := w.host("w5", "app.test", "env5", 5)
	last.register(0).mustBeat(0)
	w.pass(lease, last)
	if p := w.placeAt("app.test", "x"); p.Worker.ClientID != "w5" {
		t.Fatalf("got %+v", p)
	}
}

func TestABindingCanBeDeleted(t *testing.T) {
	w := newWorld(t, 1, hostnames).warm()
	mistake := w.host("w1", "app.test", "mistake", 1<<60).register(0)
	mistake.mustBeat(0)
	right := w.host("w2", "app.test", "right", 1)
	if err := right.tryRegister(0); !errors.As(err, new(ownership.Conflict)) {
		t.Fatalf("got %v", err)
	}
	if ok, err := w.nodes[0].DeleteBinding(bg, "app.test", "/threads"); !ok || err != nil {
		t.Fatal(ok, err)
	}
	w.refusedAt("app.test", "x", pinboard.BindingDisplaced)
	if _, err := mistake.beat(0); !isReregister(err) {
		t.Fatalf("the old env's worker is told %v", err)
	}
	right.register(0).mustBeat(0)
	w.refusedAt("app.test", "x", pinboard.BindingDisplaced) // the old env's workers may still serve
	if ok, err := w.nodes[0].DeleteBinding(bg, "app.test", "/files"); ok || err != nil {
		t.Fatal(ok, err)
	}
	w.pass(lease, right)
	if p := w.placeAt("app.test", "x"); p.Worker.ClientID != "w2" {
		t.Fatalf("got %+v", p)
	}
}

// H1: two envs that register at one epoch have one winner over all buckets; the
// other one waits until the winner has beaten, and is then refused for good.
func TestOneWinnerOverAllBuckets(t *testing.T) {
	w := newWorld(t, 2, hostnames).warm()
	blue, green := w.host("w1", "app.test", "blue", 3), w.host("w2", "app.test", "green", 3)
	blue.register(0)
	if err := green.tryRegister(1); !isWait(err) {
		t.Fatalf("the later one: %v", err)
	}
	blue.mustBeat(0)
	if err := green.tryRegister(1); !errors.As(err, new(ownership.Conflict)) {
		t.Fatalf("behind the winner's beat: %v", err)
	}
	for _, id := range []string{"a", "b", "c", "d", "e", "f"} { // in every bucket
		if p := w.placeAt("app.test", id); p.Worker.ClientID != "w1" {
			t.Fatalf("got %+v", p)
		}
	}
}

// H1: a registration that reached some buckets and died displaces nobody, and
// is completed by a retry.
func TestADeadRegistrationDisplacesNobody(t *testing.T) {
	for dead := range 4 {
		f := &faulty{}
		w := newWorld(t, 1, hostnames, func(o *directory.Options) { f.Store = o.Store; o.Store = f }).warm()
		blue := w.host("w1", "app.test", "blue", 1).register(0)
		blue.mustBeat(0)
		w.placeAt("app.test", "x")
		green := w.host("w2", "app.test", "green", 2)
		f.before = func(b int) bool { return b == dead }
		if green.tryRegister(0) == nil {
			t.Fatal("a registration that missed a bucket was accepted")
		}
		f.before = nil
		for range 8 {
			w.pass(lease/2, blue)
			if p := w.placeAt("app.test", "x"); p.Worker.ClientID != "w1" {
				t.Fatalf("bucket %d: got %+v", dead, p)
			}
		}
		green.register(0).mustBeat(0)
		if _, err := blue.beat(0); !errors.As(err, new(ownership.Superseded)) {
			t.Fatalf("bucket %d: blue is told %v", dead, err)
		}
		w.pass(lease, green)
		if p := w.placeAt("app.test", "x"); p.Worker.ClientID != "w2" {
			t.Fatalf("bucket %d: got %+v", dead, p)
		}
	}
}

// H2: who must restate itself and has lost every binding is told for good; who
// has the same env is let in at any epoch; a newcomer is refused.
func TestWhoCanNeverComeBackIsTold(t *testing.T) {
	w := newWorld(t, 1, hostnames).warm()
	blue := w.host("w1", "app.test", "blue", 1).register(0)
	blue.mustBeat(0)
	green := w.host("w2", "app.test", "green", 2).register(0)
	green.mustBeat(0)
	var over ownership.Superseded
	blue.register(0)
	w.refusedAt("app.test", "x", pinboard.BindingDisplaced) // it gets no id
	if _, err := blue.beat(0); !errors.As(err, &over) || over.Env != "green" || over.Epoch != 2 {
		t.Fatalf("the beat behind blue's restatement: %v", err)
	}
	w.pass(lease, green)
	if p := w.placeAt("app.test", "x"); p.Worker.ClientID != "w2" {
		t.Fatalf("got %+v", p)
	}
	if err := w.host("w3", "app.test", "green", 1).tryRegister(0); err != nil {
		t.Fatalf("green at a lower epoch: %v", err)
	}
	if err := w.host("w4", "app.test", "blue", 1).tryRegister(0); !errors.As(err, new(ownership.Conflict)) {
		t.Fatalf("a new worker of blue: %v", err)
	}
}

// H1: an empty env unbinds nothing.
func TestAnEmptyEnvIsRefused(t *testing.T) {
	w := newWorld(t, 1, hostnames).warm()
	p := w.host("w1", "app.test", "blue", 1)
	p.reg.Worker.Envs = map[string]string{"/threads": ""}
	if err := p.tryRegister(0); !errors.As(err, new(directory.Invalid)) {
		t.Fatalf("got %v", err)
	}
}

// H4: the takeover of a deleted binding's env is that of whoever binds next.
func TestAPolicyGoesWithItsBinding(t *testing.T) {
	w := newWorld(t, 1, hostnames).warm()
	old := w.host("w1", "a.test", "prod", 999)
	old.reg.Worker.Takeover = "deny"
	old.register(0).mustBeat(0)
	if ok, err := w.nodes[0].DeleteBinding(bg, "a.test", "/threads"); !ok || err != nil {
		t.Fatal(ok, err)
	}
	a := w.host("w2", "a.test", "prod", 2).register(0)
	a.mustBeat(0)
	b := w.host("w3", "b.test", "prod", 2).register(0)
	b.mustBeat(0)
	w.pass(lease, a, b)
	w.placeAt("a.test", "x")
	w.refusedAt("b.test", "x", pinboard.TakeoverInProgress)
}

// H1, R7: whatever env an id was held under is protected until its instance is
// closed, also when the process has changed its env.
func TestAProcessThatChangesItsEnv(t *testing.T) {
	w := newWorld(t, 1, hostnames).warm()
	p := w.host("w1", "a.test", "blue", 1).register(0)
	p.mustBeat(0)
	x := w.placeAt("a.test", "x")
	b := w.host("w2", "b.test", "blue", 1).register(0)
	b.mustBeat(0)
	p.reg.Worker.Env, p.reg.Worker.BindEpoch = "green", 2
	p.reg.Instances = map[string][]string{"/threads": {"x"}}
	p.register(0)
	p.mustBeat(0)
	w.refusedAt("b.test", "x", pinboard.WindingDown)
	if n, err := w.nodes[0].Release(bg, p.reg.Worker.Owner, []directory.Release{{Session: p.session, Namespace: "/threads", ID: "x", Epoch: x.Epoch, HasEpoch: true}}); n != 1 || err != nil {
		t.Fatal(n, err)
	}
	w.placeAt("b.test", "x")
}

// R6, H3: a hit at an owner that closes, after a restart of the store, leaves
// the release of the close its right.
func TestAHitWhileItClosesKeepsTheOldEpochsRight(t *testing.T) {
	w := newWorld(t, 1).warm()
	p := w.proc("w1").register(0)
	first := w.place(0, "x")
	deadline := time.Duration(0)
	if ok, err := w.nodes[0].WindDown(bg, directory.WindDown{Namespace: "/threads", ID: "x", Deadline: &deadline}); !ok || err != nil {
		t.Fatal(ok, err)
	}
	w.store.Restart("run2", w.store.Image())
	w.old = map[string]func() ownership.Micros{"run1": func() ownership.Micros { return w.now.UnixMicro() }}
	if _, err := p.beat(0); !isReregister(err) {
		t.Fatal(err)
	}
	p.reg.Instances = map[string][]string{"/threads": {"x"}}
	p.register(0)
	w.place(0, "x")
	if p.release(0, "x", first.Epoch) != 1 {
		t.Fatal("the release of the close was refused")
	}
}

// H3: a takeover under way says when the old owner's time is over, a row that
// rests from the one before says until when.
func TestATakeoverSaysWhenItEnds(t *testing.T) {
	w := newWorld(t, 1, hostnames).warm()
	blue := w.host("w1", "blue.test", "prod", 0).register(0)
	first := w.placeAt("blue.test", "x")
	green := w.host("w2", "green.test", "prod", 0).register(0)
	wait := func(host string) time.Duration {
		t.Helper()
		var later directory.Later
		if _, err := w.at(host, "/threads", "x"); !errors.As(err, &later) || later.Refusal != pinboard.TakeoverInProgress {
			t.Fatalf("%s is told %v", host, err)
		}
		return later.After
	}
	if got := wait("green.test"); got != lease {
		t.Errorf("a takeover that began just now: %v", got)
	}
	w.pass(lease/3, blue, green)
	if got := wait("green.test"); got != lease-lease/3 {
		t.Errorf("a third of a lease later: %v", got)
	}
	blue.release(0, "x", first.Epoch)
	w.placeAt("green.test", "x")
	w.pass(lease/3, blue, green)
	if got := wait("blue.test"); got != 2*lease-lease/3 {
		t.Errorf("at rest: %v", got)
	}
}
