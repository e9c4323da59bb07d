package directory_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"pinboard"
	"pinboard/internal/directory"
	"pinboard/internal/memstore"
	"pinboard/internal/ownership"
	"pinboard/internal/ownership/storetest"
)

// A world is one store under a clock that only moves when told, and nodes on it.
type world struct {
	t     *testing.T
	now   time.Time
	store *memstore.Store
	nodes []*directory.Directory
	old   map[string]func() ownership.Micros // clocks of earlier servers
}

const lease = 15 * time.Second

var bg = context.Background()

func newWorld(t *testing.T, nodes int, tweak ...func(*directory.Options)) *world {
	w := &world{t: t, now: time.Unix(1_800_000_000, 0)}
	w.store = memstore.New(memstore.Options{Buckets: 4, Server: "run1",
		Now:   func() time.Time { return w.now },
		Clock: func() ownership.Micros { return w.now.UnixMicro() }})
	for i := range nodes {
		seed := uint64(i + 1)
		r := rand.New(rand.NewPCG(seed, 99))
		o := directory.Options{Store: storetest.Audited(w.store, func(err error) { t.Error(err) }), Lease: lease, Node: fmt.Sprint("n", i),
			Now: func() time.Time { return w.now }, Rand: rand.NewPCG(seed, 1),
			Secrets: func(n int) []byte {
				b := make([]byte, n)
				for i := range b {
					b[i] = byte(r.Uint32())
				}
				return b
			},
			Fan: func(n int, do func(int)) {
				for i := range n {
					do(i)
				}
			},
			OldNow: func(gen string) (ownership.Micros, bool) {
				if c := w.old[ownership.ServerOf(gen)]; c != nil {
					return c(), true
				}
				return 0, false
			}}
		for _, f := range tweak {
			f(&o)
		}
		d := directory.New(o)
		if err := d.Touch(bg); err != nil {
			t.Fatal(err)
		}
		w.nodes = append(w.nodes, d)
	}
	return w
}

func (w *world) after(d time.Duration) { w.now = w.now.Add(d) }

// warm waits out the cold start.
func (w *world) warm() *world { w.after(lease); return w }

// A proc is a worker process that beats when told.
type proc struct {
	w       *world
	reg     directory.Registration
	session string
	grant   directory.Grant
}

func (w *world) proc(name string, namespaces ...string) *proc {
	if len(namespaces) == 0 {
		namespaces = []string{"/threads"}
	}
	return &proc{w: w, reg: directory.Registration{Headroom: 100, Worker: ownership.Worker{
		ClientID: name, Secret: "secret-" + name, URL: "http://" + name + ":8000",
		Namespaces: namespaces, Proven: true}}}
}

// register on node n with the ids it holds; it must succeed.
func (p *proc) register(n int, holds ...string) *proc {
	p.w.t.Helper()
	if err := p.tryRegister(n, holds...); err != nil {
		p.w.t.Fatalf("register %s: %v", p.reg.Worker.ClientID, err)
	}
	return p
}

func (p *proc) tryRegister(n int, holds ...string) error {
	reg := p.reg
	reg.PrevSession = p.session
	if len(holds) > 0 {
		reg.Instances = map[string][]string{reg.Worker.Namespaces[0]: holds}
	}
	g, err := p.w.nodes[n].Register(bg, &reg)
	if err == nil {
		p.session, p.grant = g.Session, g
	}
	return err
}

func (p *proc) beat(n int) (directory.Grant, error) {
	return p.w.nodes[n].Beat(bg, ownership.Beat{Session: p.session, Headroom: 100, Proof: ownership.ProofOK, HasAcks: true})
}

func (p *proc) mustBeat(n int) directory.Grant {
	p.w.t.Helper()
	g, err := p.beat(n)
	if err != nil {
		p.w.t.Fatalf("beat %s: %v", p.reg.Worker.ClientID, err)
	}
	return g
}

func (w *world) resolve(n int, id string) (directory.Placement, error) {
	return w.nodes[n].Resolve(bg, directory.Request{Address: pinboard.Address{Namespace: "/threads", ID: id}})
}

func (w *world) place(n int, id string) directory.Placement {
	w.t.Helper()
	p, err := w.resolve(n, id)
	if err != nil {
		w.t.Fatalf("resolve %s: %v", id, err)
	}
	return p
}

func (w *world) refused(n int, id string, want *pinboard.Refusal) {
	w.t.Helper()
	if p, err := w.resolve(n, id); !errors.Is(err, want) {
		w.t.Fatalf("resolve %s: got %+v, %v; want %v", id, p, err, want)
	}
}

func (p *proc) release(n int, id string, epoch pinboard.Epoch) int {
	p.w.t.Helper()
	k, err := p.w.nodes[n].Release(bg, p.reg.Worker.Owner, []directory.Release{{Session: p.session, Namespace: "/threads", ID: id, Epoch: epoch, HasEpoch: epoch != 0}})
	if err != nil {
		p.w.t.Fatal(err)
	}
	return k
}

func TestAnIDHasOneOwnerOnAllNodes(t *testing.T) {
	w := newWorld(t, 3).warm()
	w.proc("w1").register(0)
	w.proc("w2").register(1)
	first := w.place(0, "a")
	if !first.Fresh {
		t.Fatal("the creator's placement is not fresh")
	}
	for n := range 3 {
		again := w.place(n, "a")
		if again.Worker.Session != first.Worker.Session || again.Epoch != first.Epoch || again.Fresh {
			t.Fatalf("node %d: %+v, first %+v", n, again, first)
		}
	}
}

func TestNothingIsPlacedInAColdBucketOrAnUnknownNamespace(t *testing.T) {
	w := newWorld(t, 1)
	w.refused(0, "a", pinboard.ColdStart) // of a namespace that nobody knows: a new store proves nothing
	w.refused(0, "", pinboard.UnknownNamespace)
	p := w.proc("w1").register(0)
	w.refused(0, "a", pinboard.ColdStart)
	w.after(lease - time.Millisecond)
	p.w.refused(0, "a", pinboard.ColdStart)
	w.after(time.Millisecond)
	p.register(0).mustBeat(0)
	w.place(0, "a")
	_, err := w.nodes[0].Resolve(bg, directory.Request{Address: pinboard.Address{Namespace: "/other", ID: "a"}})
	if !errors.Is(err, pinboard.UnknownNamespace) {
		t.Errorf("once warm: %v", err)
	}
}

// A refusal whose end is known says how far away that is.
func TestARefusalKnowsItsEnd(t *testing.T) {
	w := newWorld(t, 1)
	w.proc("w1").register(0)
	w.after(lease / 3)
	var later directory.Later
	_, err := w.nodes[0].Resolve(bg, directory.Request{Address: pinboard.Address{Namespace: "/threads", ID: "a"}})
	if !errors.As(err, &later) || later.Refusal != pinboard.ColdStart || later.After != lease-lease/3 {
		t.Errorf("cold: %v, %v", err, later.After)
	}
}

func TestALateBeatNeverRevives(t *testing.T) {
	w := newWorld(t, 2).warm()
	a := w.proc("w1").register(0)
	w.place(0, "a")
	w.after(lease - time.Millisecond)
	a.mustBeat(1)
	w.after(lease - time.Millisecond)
	a.mustBeat(0)
	w.after(lease)
	if _, err := a.beat(0); !errors.As(err, new(directory.Reregister)) {
		t.Fatalf("a beat after the lease: %v", err)
	}
	w.refused(0, "a", pinboard.NoLiveBackends)
}

func TestALapsedIDMovesWithAHigherEpochAndComesBackAsDuplicate(t *testing.T) {
	w := newWorld(t, 1).warm()
	a := w.proc("w1").register(0)
	first := w.place(0, "a")
	w.after(lease)
	b := w.proc("w2").register(0)
	second := w.place(0, "a")
	if second.Worker.ClientID != "w2" || second.Epoch <= first.Epoch {
		t.Fatalf("got %+v after %+v", second, first)
	}
	a.register(0, "a")
	if len(a.grant.Duplicates) != 1 {
		t.Fatalf("duplicates %v", a.grant.Duplicates)
	}
	if n := a.release(0, "a", first.Epoch); n != 0 {
		t.Fatal("yesterday's owner released today's row")
	}
	if n := b.release(0, "a", second.Epoch); n != 1 {
		t.Fatal("the owner could not release")
	}
}

func TestARestatedIDKeepsItsEpoch(t *testing.T) {
	w := newWorld(t, 2).warm()
	a := w.proc("w1").register(0)
	first := w.place(0, "a")
	a.register(1, "a")
	if len(a.grant.Duplicates) != 0 {
		t.Fatalf("duplicates %v", a.grant.Duplicates)
	}
	if again := w.place(0, "a"); again.Epoch != first.Epoch || again.Worker.Session != a.session {
		t.Fatalf("got %+v, first %+v", again, first)
	}
}

func TestWipedStoreTurnsRestatedIDsIntoClosingRows(t *testing.T) {
	w := newWorld(t, 1).warm()
	a := w.proc("w1").register(0)
	first := w.place(0, "a")
	w.store.Wipe()
	if _, err := a.beat(0); !errors.As(err, new(directory.Reregister)) {
		t.Fatalf("beat after a wipe: %v", err)
	}
	a.register(0, "a")
	if len(a.grant.Duplicates) != 1 {
		t.Fatalf("duplicates %v", a.grant.Duplicates)
	}
	w.after(lease - time.Second)
	a.mustBeat(0)
	w.after(time.Second)
	w.refused(0, "a", pinboard.WindingDown)
	if a.release(0, "a", first.Epoch) != 1 {
		t.Fatal("the release of the quit instance did not end the closing row")
	}
	if again := w.place(0, "a"); again.Epoch <= first.Epoch {
		t.Fatalf("epoch %v after %v", again.Epoch, first.Epoch)
	}
}

// A shifting store answers hits with what was read for another key, once told.
type shifting struct {
	ownership.Store
	as map[string]string // id by id
}

func (s *shifting) Peek(ctx context.Context, b int, h ownership.Hint) (ownership.Peek, bool, error) {
	if id, ok := s.as[h.Key.ID]; ok {
		h.Key.ID = id
	}
	return s.Store.Peek(ctx, h.Key.Bucket(s.Buckets()), h)
}

// R10: an answer that belongs to another id of the same worker is not taken
// for this one's. The worker would raise the instance to an epoch that no row
// has, and refuse the true one from then on.
func TestAShiftedHitIsNoHit(t *testing.T) {
	shifted := &shifting{as: map[string]string{}}
	w := newWorld(t, 1, func(o *directory.Options) {
		shifted.Store = o.Store
		o.Store = shifted
	})
	w.warm().proc("w1").register(0)
	epochs := map[string]pinboard.Epoch{}
	for i := range 8 { // some of them share a bucket
		id := fmt.Sprint(i)
		epochs[id] = w.place(0, id).Epoch
		w.place(0, id) // confirmed: hits from here on
	}
	for i := range 8 {
		shifted.as[fmt.Sprint(i)] = fmt.Sprint((i + 1) % 8)
	}
	for id, want := range epochs {
		if p := w.place(0, id); p.Epoch != want {
			t.Errorf("%s at epoch %d, its row has %d", id, p.Epoch, want)
		}
	}
}
