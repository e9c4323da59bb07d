//go:build linux

package faults

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"pinboard/internal/redistest"
)

const (
	token     = "faults-token"
	namespace = "/t"
	nIDs      = 12
	buckets   = 4
)

// The real client's proportions, made small: a lease of 15 s with beats each
// 3 s, a buffer of 5 s and calls that wait for 5 s at most.
var (
	lease = func() time.Duration {
		if d, err := time.ParseDuration(os.Getenv(leaseVariable)); err == nil {
			return d
		}
		return 2 * time.Second
	}()
	beat     = lease / 6
	buffer   = lease / 3
	patience = lease / 3
	// recovery is when a fleet must serve everything again after a fault: one
	// lease cold and a restatement, or six behind a closing row, and time for a
	// busy machine. The table at the end says how long it took.
	recovery = 8 * lease
	deadline = 20 * lease // of everything else
)

const leaseVariable = "PINBOARD_FAULTS_LEASE" // another length

var (
	nightly = os.Getenv("PINBOARD_NIGHTLY") != ""
	seed    = func() uint64 {
		n, err := strconv.ParseUint(os.Getenv("PINBOARD_FAULTS_SEED"), 10, 64)
		if err != nil {
			return 1
		}
		return n
	}()
)

// A fleet is three nodes over one store and three workers, under load.
type fleet struct {
	t       *testing.T
	chance  *rand.Rand
	redis   *redistest.Server  // the one server, unless the store is something else
	links   []*redistest.Relay // of each node to it
	nodes   []*node
	workers []*fleetWorker
	load    *load
	journal string
	binary  string // of the nodes
	born    int
	lag     time.Duration // of the store's replicas
	worst   time.Duration // recovery
	steady  int64         // since when every id was served
	slow    time.Duration // what a close takes in workers other than the first
	spare   string        // address of one node more, which is not there yet; none if empty
}

// A fleetWorker is a worker process with its links.
type fleetWorker struct {
	*process
	up   *link // to the nodes
	down *link // from the nodes
}

// setting is what differs between fleets.
type setting struct {
	binary string        // of the nodes
	lag    time.Duration // of its replicas, which a cold start waits for
	url    string        // of the store; none: a server of this fleet, each node behind a relay
	config []string      // of that server
	slow   time.Duration // what a close takes in workers other than the first
	tame   bool          // clients end no instance
	spare  bool          // workers and clients know the address of one node more
}

// startFleet is a fleet that serves every id.
func startFleet(t *testing.T, s setting) *fleet {
	t.Helper()
	f := &fleet{t: t, lag: s.lag, slow: s.slow, chance: rand.New(rand.NewPCG(seed, 0)), journal: filepath.Join(t.TempDir(), "journal")}
	if s.binary == "" {
		s.binary = build(t)
	}
	f.binary = s.binary
	if s.url == "" {
		f.redis = redistest.Start(t, s.config...)
	}
	var addrs, ids []string
	for i := range 3 {
		url := s.url
		if url == "" {
			relay := redistest.NewRelay(t, f.redis.Addr)
			f.links = append(f.links, relay)
			url = relay.URL()
		}
		f.nodes = append(f.nodes, startNode(t, fmt.Sprint("node", i), s.binary, url))
		addrs = append(addrs, f.nodes[i].addr)
	}
	if s.spare {
		f.spare = freeAddr(t)
		addrs = append(addrs, f.spare)
	}
	for i := range 3 {
		f.await("node", func() bool { return f.nodes[i].ready() })
		f.workers = append(f.workers, f.worker(i))
	}
	for i := range nIDs {
		ids = append(ids, fmt.Sprint("id", i))
	}
	f.load = startLoad(ids, addrs, seed, !s.tame)
	t.Cleanup(func() { f.load.end() })
	f.await("the first service", func() bool { return len(f.load.served(0)) == 0 })
	f.steady = monotonic()
	return f
}

// worker starts a worker process for place i of the fleet.
func (f *fleet) worker(i int) *fleetWorker {
	f.born++
	var addrs []string
	for _, n := range f.nodes {
		addrs = append(addrs, n.addr)
	}
	if f.spare != "" {
		addrs = append(addrs, f.spare)
	}
	slow := f.slow
	if i == 0 {
		slow = 0
	}
	listen := freeAddr(f.t)
	w := &fleetWorker{up: newLink(f.t, addrs...), down: newLink(f.t, listen)}
	o, err := json.Marshal(orders{
		Name: fmt.Sprint("w", f.born), Journal: f.journal, Listen: listen, Slow: slow,
		Pinboard: "http://" + w.up.addr, Advertise: "http://" + w.down.addr,
	})
	if err != nil {
		f.t.Fatal(err)
	}
	w.process = run(f.t, fmt.Sprint("worker", f.born), func() *exec.Cmd {
		cmd := exec.Command(os.Args[0])
		cmd.Env = []string{workerVariable + "=" + string(o), leaseVariable + "=" + lease.String()}
		return cmd
	})
	return w
}

// instances counts those that a worker has.
func (f *fleet) instances(w *fleetWorker) (n int) {
	for _, a := range readOwners(readJournal(f.t, f.journal)).instances {
		if _, pid, _ := strings.Cut(a.process, "/"); pid == w.pid() && a.end == never {
			n++
		}
	}
	return n
}

// holder is the worker that has the most instances.
func (f *fleet) holder() *fleetWorker {
	return slices.MaxFunc(f.workers, func(a, b *fleetWorker) int { return f.instances(a) - f.instances(b) })
}

// generations names those of every bucket, as the one server has them.
func (f *fleet) generations() (all []string) {
	for b := range f.nodes[0].buckets {
		history, _ := f.redis.Do("GET", fmt.Sprint("pb{", b, "}%g")).(string)
		all = append(all, history[min(8, len(history)):]) // behind the count of commits
	}
	return all
}

// anew runs a fault that must begin a new generation of every bucket.
func (f *fleet) anew(fault func()) {
	f.t.Helper()
	old := f.generations()
	fault()
	f.await("a new generation of every bucket", func() bool {
		return !slices.ContainsFunc(f.generations(), func(g string) bool { return g == "" || slices.Contains(old, g) })
	})
}

// replace kills a worker; a new one takes its place.
func (f *fleet) replace(i int) {
	f.workers[i].kill()
	f.workers[i].down.end()
	f.workers[i] = f.worker(i)
}

func (f *fleet) await(what string, ok func() bool) {
	f.t.Helper()
	for end := time.Now().Add(deadline); !ok(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			f.t.Fatalf("never: %s", what)
		}
	}
}

// between is a random time.
func (f *fleet) between(low, high time.Duration) time.Duration {
	return low + time.Duration(f.chance.Int64N(int64(high-low)))
}

// healed waits until every id is served by a request sent from now on.
func (f *fleet) healed() {
	f.t.Helper()
	begun, then := time.Now(), monotonic()
	for len(f.load.served(then)) > 0 {
		if time.Since(begun) > deadline {
			f.t.Fatalf("not served again within %v: %v; answers %s", deadline, f.load.served(then), f.load.account(then))
		}
		time.Sleep(10 * time.Millisecond)
	}
	took := time.Since(begun)
	if took > 3*lease {
		f.t.Logf("served again after %v; answers meanwhile %s", took, f.load.account(then))
	}
	if took > recovery+f.lag {
		f.t.Errorf("served again only after %v", took)
	}
	f.worst = max(f.worst, took)
}

// verdict ends the load and judges what happened.
func (f *fleet) verdict() (found []string) {
	requests := f.load.end()
	for _, w := range f.workers {
		w.kill()
	}
	lines := readJournal(f.t, f.journal)
	o := readOwners(lines)
	ops, faults := history(requests, lines)
	f.t.Logf("%d requests, %d activations, %d operations; answers %s", len(requests), len(o.instances), len(ops), f.load.account(f.steady))
	return append(append(faults, o.violations()...), linearizable(ops)...)
}

// judge fails the test for whatever the checkers found, with what the journal
// has of the ids.
func (f *fleet) judge() {
	for _, text := range f.verdict() {
		f.t.Error(text)
		id, _, _ := strings.Cut(text, ":")
		for _, l := range readJournal(f.t, f.journal) {
			if _, gave := l.Released[id]; l.ID == id && l.Event != "enter" || gave || l.Event == "answer" && l.Kind == "register" {
				f.t.Logf("%10.4f %s %+v", seconds(l.At), l.Process, l)
			}
		}
	}
}

// trial runs one fault against a fleet, once or, at night, for a minute.
func trial(t *testing.T, name string, s setting, fault func(f *fleet)) {
	f := startFleet(t, s)
	for begun := time.Now(); ; {
		fault(f)
		f.healed()
		if !nightly || time.Since(begun) > time.Minute {
			break
		}
	}
	f.judge()
	if !t.Failed() {
		recovered(name, f.worst)
	}
}
