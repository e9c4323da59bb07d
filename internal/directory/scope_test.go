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
	for range 9 {
		w.refusedAt("blue.test", "x", pinboard.HeldElsewhere)
		w.placeAt("green.test", "x")
		w.pass(lease, blue, green)
	}
	w.pass(lease, blue, green)
	w.refusedAt("blue.test", "x", pinboard.TakeoverInProgress)
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
	w.placeAt("app.test", "x")
	same := w.host("w2", "app.test", "green", 1)
	if err := same.tryRegister(0); !errors.As(err, new(ownership.Conflict)) {
		t.Fatalf("equal epoch, another env: %v", err)
	}
	w.placeAt("app.test", "x")
	green := w.host("w3", "app.test", "green", 2).register(0)
	w.refusedAt("app.test", "x", pinboard.BindingDisplaced)
	var over directory.Superseded
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
	if p := w.placeAt("app.test", "x"); p.Worker.ClientID != "w5" {
		t.Fatalf("got %+v", p)
	}
}

func TestABindingCanBeDeleted(t *testing.T) {
	w := newWorld(t, 1, hostnames).warm()
	w.host("w1", "app.test", "mistake", 1<<60).register(0)
	right := w.host("w2", "app.test", "right", 1)
	if err := right.tryRegister(0); !errors.As(err, new(ownership.Conflict)) {
		t.Fatalf("got %v", err)
	}
	if ok, err := w.nodes[0].DeleteBinding(bg, "app.test", "/threads"); !ok || err != nil {
		t.Fatal(ok, err)
	}
	w.refusedAt("app.test", "x", pinboard.UnknownNamespace)
	right.register(0)
	w.refusedAt("app.test", "x", pinboard.BindingDisplaced) // the old env's workers may still serve
	if ok, err := w.nodes[0].DeleteBinding(bg, "app.test", "/files"); ok || err != nil {
		t.Fatal(ok, err)
	}
	w.pass(lease, right)
	if p := w.placeAt("app.test", "x"); p.Worker.ClientID != "w2" {
		t.Fatalf("got %+v", p)
	}
}
