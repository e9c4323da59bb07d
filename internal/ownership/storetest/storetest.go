// Package storetest proves an ownership.Store. Every implementation runs Run:
// stories of single promises, and random traces whose every answer is compared
// with an executable specification (spec.go).
package storetest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"pinboard"
	"pinboard/internal/directory"
	"pinboard/internal/ownership"
)

// A Rig is one empty store whose time stands still until Advance moves the
// store's clock and Now together.
type Rig interface {
	Store() ownership.Store
	Now() time.Time
	Advance(time.Duration)
	// NewServer replaces the server behind the store: another generation,
	// with its content or empty. It returns once the store uses it.
	NewServer(kept bool)
}

// Lease is the lease that the suite runs with.
const Lease = 15 * time.Second

// Run runs the suite; open returns a fresh Rig of at least 2 buckets. traces
// bounds the random traces.
func Run(t *testing.T, traces int, open func(t *testing.T) Rig) {
	t.Run("Stories", func(t *testing.T) { stories(t, open) })
	t.Run("Traces", func(t *testing.T) {
		for seed := range uint64(traces) {
			t.Run(fmt.Sprint("seed", seed), func(t *testing.T) { newTrace(t, open(t), seed).run(120) })
		}
	})
	t.Run("Hostnames", func(t *testing.T) {
		served := 0
		for seed := range uint64(traces) {
			t.Run(fmt.Sprint("seed", seed), func(t *testing.T) {
				tr := newHostTrace(t, open(t), seed)
				tr.run(150)
				served += tr.served
			})
		}
		if served < 5*traces {
			t.Errorf("only %d answers with an owner in %d traces", served, traces)
		}
	})
	t.Run("OneWinner", func(t *testing.T) { oneWinner(t, open(t)) })
}

// Node returns a directory on the rig's store with seeded randomness.
func Node(r Rig, seed uint64) *directory.Directory { return node(r, seed, false) }

func node(r Rig, seed uint64, hostnames bool) *directory.Directory {
	rnd := rand.New(rand.NewPCG(seed, 2))
	var mu sync.Mutex // guards rnd: stories resolve from many goroutines
	return directory.New(directory.Options{
		Store: Audited(r.Store(), func(err error) { panic(err) }), Lease: Lease, Hostnames: hostnames, Node: fmt.Sprint("n", seed), Now: r.Now, Rand: rand.NewPCG(seed, 1),
		Secrets: func(n int) []byte {
			mu.Lock()
			defer mu.Unlock()
			b := make([]byte, n)
			for i := range b {
				b[i] = byte(rnd.Uint32())
			}
			return b
		},
		Fan: func(n int, do func(int)) {
			for i := range n {
				do(i)
			}
		},
	})
}

const ns = "/threads"

var bg = context.Background()

func process(name string) directory.Registration {
	return directory.Registration{Headroom: 100, Worker: ownership.Worker{
		ClientID: name, Secret: "secret of " + name, URL: "http://" + name + ":8000", Namespaces: []string{ns}, Owner: "o", Proven: true}}
}

func resolve(d *directory.Directory, id string) (directory.Placement, error) {
	return d.Resolve(bg, directory.Request{Address: pinboard.Address{Namespace: ns, ID: id}})
}

// A trace drives two nodes and the specification through the same events.
type trace struct {
	t     *testing.T
	rig   Rig
	nodes []*directory.Directory
	spec  *spec
	rnd   *rand.Rand
	fresh map[string]directory.Placement // unconfirmed placements of this node
	log   strings.Builder
	top   map[string]pinboard.Epoch // per id: epochs only grow
}

func newTrace(t *testing.T, r Rig, seed uint64) *trace {
	tr := &trace{t: t, rig: r, spec: newSpec(Lease), rnd: rand.New(rand.NewPCG(seed, 3)),
		fresh: map[string]directory.Placement{}, top: map[string]pinboard.Epoch{}}
	for i := range 2 {
		d := Node(r, seed*2+uint64(i)+1)
		tr.must(d.Touch(bg))
		tr.nodes = append(tr.nodes, d)
	}
	return tr
}

func (tr *trace) must(err error) {
	tr.t.Helper()
	if err != nil {
		tr.fail("%v", err)
	}
}

func (tr *trace) fail(format string, args ...any) {
	tr.t.Helper()
	tr.t.Fatalf("%s\n--- trace\n%s", fmt.Sprintf(format, args...), tr.log.String())
}

func (tr *trace) note(format string, args ...any) {
	fmt.Fprintf(&tr.log, "%8s  %s\n", tr.spec.now, fmt.Sprintf(format, args...))
}

func (tr *trace) run(steps int) {
	names, ids := []string{"w1", "w2", "w3"}, []string{"a", "b", "c", "d", "e"}
	for range steps {
		name, id := names[tr.rnd.IntN(len(names))], ids[tr.rnd.IntN(len(ids))]
		p := tr.spec.proc(name)
		switch x := tr.rnd.IntN(100); {
		case x < 22:
			tr.advance([]time.Duration{time.Millisecond, 2143 * time.Millisecond, 2143 * time.Millisecond, Lease / 3, Lease / 2, Lease}[tr.rnd.IntN(6)])
		case x < 32 || p.session == "" || p.ended:
			tr.register(name)
		case x < 52:
			tr.beat(name)
		case x < 78:
			tr.resolve(id)
		case x < 88:
			tr.release(name, id)
		case x < 91:
			tr.takeBack(id)
		case x < 94:
			tr.drain(name, !p.draining)
		case x < 96:
			tr.deregister(name)
		case x < 98:
			tr.keep()
		default:
			tr.newServer(tr.rnd.IntN(2) == 0)
		}
	}
}

func (tr *trace) node() *directory.Directory { return tr.nodes[tr.rnd.IntN(len(tr.nodes))] }

func (tr *trace) advance(d time.Duration) {
	tr.note("advance %v", d)
	tr.rig.Advance(d)
	tr.spec.now += d
}

func (tr *trace) register(name string) {
	p := tr.spec.proc(name)
	reg := process(name)
	reg.PrevSession, reg.Draining = p.session, false
	var holds []string
	for id := range p.holds {
		if tr.spec.now >= p.until+9*Lease {
			delete(p.holds, id) // near the end of the rows' grace (R8) either answer is right
			continue
		}
		holds = append(holds, id)
	}
	if len(holds) > 0 {
		reg.Instances = map[string][]string{ns: holds}
	}
	g, err := tr.node().Register(bg, &reg)
	tr.note("register %s holding %v: %v %v", name, holds, g.Duplicates, err)
	tr.must(err)
	want := tr.spec.register(name, g.Session)
	got := map[string]bool{}
	for _, d := range g.Duplicates {
		got[d.ID] = true
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		tr.fail("duplicates %v, want %v", got, want)
	}
	for id := range want { // quit: closed at once in this trace
		delete(p.holds, id)
	}
	p.draining = g.Draining
	tr.rowsAgree()
}

func (tr *trace) beat(name string) {
	p := tr.spec.procs[name]
	_, err := tr.node().Beat(bg, ownership.Beat{Session: p.session, Headroom: 100, Proof: ownership.ProofOK, HasAcks: true})
	tr.note("beat %s: %v", name, err)
	renewed := tr.spec.beat(name)
	if renewed != (err == nil) || err != nil && !errors.As(err, new(directory.Reregister)) {
		tr.fail("beat: %v, want renewed %v", err, renewed)
	}
}

func (tr *trace) resolve(id string) {
	p, err := resolve(tr.node(), id)
	tr.note("resolve %s: %v %d %v", id, p.Worker, p.Epoch, err)
	owner, epoch, refusal, any := tr.spec.resolve(id)
	switch {
	case refusal != nil:
		if !errors.Is(err, refusal) {
			tr.fail("resolve: %v, want %v", err, refusal)
		}
		return
	case err != nil:
		tr.fail("resolve: %v, want owner %s or one of %v", err, owner, any)
	}
	got := p.Worker.ClientID
	if any != nil {
		if !any[got] || !p.Fresh || p.Epoch <= tr.top[id] {
			tr.fail("placed on %s fresh %v at %d; want one of %v above %d", got, p.Fresh, p.Epoch, any, tr.top[id])
		}
		tr.top[id] = p.Epoch
		tr.spec.placedOn(id, got, p.Epoch)
		tr.fresh[id] = p
		return
	}
	if got != owner || epoch != 0 && p.Epoch != epoch || p.Worker.Session != tr.spec.procs[owner].session {
		tr.fail("owner %s session %s at %d, want %s at %d", got, p.Worker.Session, p.Epoch, owner, epoch)
	}
	tr.spec.rows[id].fresh = false
	tr.spec.procs[owner].holds[id] = p.Epoch // a worker activates whatever reaches it
}

func (tr *trace) release(name, id string) {
	p := tr.spec.procs[name]
	epoch := p.holds[id]
	switch tr.rnd.IntN(4) {
	case 0:
		epoch += pinboard.Epoch(tr.rnd.IntN(3))
	case 1:
		epoch = 0
	}
	either := tr.spec.rows[id] != nil && tr.spent(tr.spec.rows[id]) // may be collected already
	n, err := tr.node().Release(bg, "o", []directory.Release{{Session: p.session, Namespace: ns, ID: id, Epoch: epoch, HasEpoch: epoch != 0}})
	want := tr.spec.release(name, id, epoch)
	tr.note("release %s by %s at %d: %d %v", id, name, epoch, n, err)
	if err != nil || (n == 1) != want && !either {
		tr.fail("released %d %v, want %v", n, err, want)
	}
	if want && n == 0 { // it was collected: there is nothing that could wait
		delete(tr.spec.rows, id)
	}
	delete(p.holds, id)
}

// takeBack reports a failed connect of the last new placement of id.
func (tr *trace) takeBack(id string) {
	p, ok := tr.fresh[id]
	if !ok {
		return
	}
	delete(tr.fresh, id)
	v := tr.nodes[0].Report(bg, p, directory.Unreachable)
	r := tr.spec.rows[id]
	tr.note("unreachable %s at %d: %v", id, p.Epoch, v.Refusal)
	if r != nil && r.state == placed && r.fresh && r.epoch == p.Epoch {
		delete(tr.spec.rows, id)
		delete(tr.spec.procs[r.proc].holds, id)
	}
	tr.rowsAgree()
}

func (tr *trace) drain(name string, on bool) {
	p := tr.spec.procs[name]
	if p.session == "" || p.ended || p.wiped {
		return
	}
	d := tr.node()
	var err error
	if on {
		_, err = d.Drain(bg, directory.Selector{Session: p.session}, nil)
	} else {
		_, err = d.Undrain(bg, directory.Selector{Session: p.session})
	}
	tr.note("drain %s %v: %v", name, on, err)
	tr.must(err)
	p.draining = on
}

func (tr *trace) deregister(name string) {
	p := tr.spec.procs[name]
	tr.note("deregister %s", name)
	tr.must(tr.node().Deregister(bg, "o", p.session))
	tr.spec.deregister(name)
	clear(p.holds)
}

func (tr *trace) keep() {
	tr.note("keep")
	d := tr.node()
	for range 2 * tr.rig.Store().Buckets() {
		tr.must(d.Keep(bg))
	}
}

func (tr *trace) newServer(kept bool) {
	tr.advance(time.Millisecond) // epochs of a generation outrun its clock by what it minted, never by a millisecond
	tr.note("new server, content kept: %v", kept)
	tr.rig.NewServer(kept)
	tr.spec.newServer(kept)
	for _, d := range tr.nodes {
		tr.must(d.Touch(bg))
	}
	clear(tr.fresh)
}

// rowsAgree compares every row with the specification's, by a full walk.
func (tr *trace) rowsAgree() {
	got := map[string]string{}
	for b := range tr.rig.Store().Buckets() {
		for cursor := ""; ; {
			rows, next, err := tr.rig.Store().Walk(bg, b, cursor, 3)
			tr.must(err)
			for _, r := range rows {
				if r.Key.Bucket(tr.rig.Store().Buckets()) != b {
					tr.fail("row %v listed in bucket %d", r.Key, b)
				}
				got[r.Key.ID] = string(rune(r.Row.Kind))
				tr.top[r.Key.ID] = max(tr.top[r.Key.ID], r.Row.Epoch)
			}
			if cursor = next; next == "" {
				break
			}
		}
	}
	for id, r := range tr.spec.rows {
		if want := []string{"P", "C", "H"}[r.state]; got[id] != want && !(got[id] == "" && tr.spent(r)) {
			tr.fail("row %s is %q, want %q", id, got[id], want)
		}
		delete(got, id)
	}
	if len(got) > 0 {
		tr.fail("rows %v should not exist", got)
	}
}

// spent rows may have been collected.
func (tr *trace) spent(r *specRow) bool {
	switch r.state {
	case held:
		return tr.spec.now >= r.until
	case closing:
		return tr.spec.closing(r) == nil
	}
	return r.left >= 0 && tr.spec.now >= r.left || !tr.spec.runs(tr.spec.procs[r.proc])
}
