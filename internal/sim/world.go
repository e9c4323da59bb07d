package sim

import (
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"time"

	"pinboard/internal/ownership"
)

// start is when every simulation begins by the nodes' clocks.
var start = time.Unix(1_800_000_000, 0)

// A Setup is what a simulation begins with.
type Setup struct {
	Seed       uint64
	Nodes      int
	Buckets    int
	Lease      time.Duration
	Mixed      bool          // nodes grant different leases, Lease the longest
	Slack      time.Duration // of leases in the store (G4)
	Lag        time.Duration // added to cold starts (G3)
	Hostnames  bool
	PlaceLimit int64
	Chunk      int  // rows restated in one commit; 0: the default
	Still      bool // a story: every message takes a millisecond, nothing is random
}

// A World is one cluster: nodes, worker processes, the store, the network,
// and the checker that watches them.
type World struct {
	*Loop
	Setup
	nodes   []*Node
	procs   []*Proc // every process ever started
	listen  map[string]*Proc
	server  *Server // what a new connection reaches
	servers int
	net     *network
	check   *checker
	trace   trace
	streams map[string]*rand.Rand
	healing bool
	closes  time.Duration // the longest close under way when everything healed
	stepped time.Duration // when the clock of the store last did
	level   time.Duration // what steps and slews of the store's clock have come to
	slewing bool          // the clock of the store is being slewed
	saved   []*snapshot   // older images of the store
	other   int           // buckets that the next node to come up has; 0: as all
	boots   int           // nodes that came up so far
	texts   uint64        // counts session ids and secrets
}

// NewWorld returns a running cluster without workers.
func NewWorld(s Setup) *World {
	w := &World{Loop: newLoop(), Setup: s, listen: map[string]*Proc{}, streams: map[string]*rand.Rand{}}
	w.trace.sum = fnv.New64a()
	w.net = &network{w: w, cut: map[[2]string]int{}}
	w.check = newChecker(w)
	w.server = w.newServer(nil, 0)
	for i := range s.Nodes {
		w.nodes = append(w.nodes, nil)
		w.boot(i)
	}
	return w
}

// rand is the stream of random numbers for one purpose, so that a change in
// one place shifts nothing elsewhere.
func (w *World) rand(purpose string) *rand.Rand {
	r := w.streams[purpose]
	if r == nil {
		h := fnv.New64a()
		h.Write([]byte(purpose))
		r = rand.New(rand.NewPCG(w.Seed, h.Sum64()))
		w.streams[purpose] = r
	}
	return r
}

// between draws a duration.
func (w *World) between(purpose string, lo, hi time.Duration) time.Duration {
	if w.Still || hi <= lo {
		return lo
	}
	return lo + time.Duration(w.rand(purpose).Int64N(int64(hi-lo)))
}

func (w *World) chance(purpose string, p float64) bool {
	return p > 0 && w.rand(purpose).Float64() < p
}

// time is the monotonic clock of all machines that do not sleep.
func (w *World) time() time.Time { return start.Add(w.Now) }

// Run lets d pass; the checker looks after every step.
func (w *World) Run(d time.Duration) {
	for until := w.Now + d; w.Step(until); {
		w.check.look()
		if len(w.check.violations) > 0 {
			return
		}
	}
	w.check.look()
}

// A trace is everything that happened, as a sum and, if kept, as text.
type trace struct {
	sum interface {
		Write([]byte) (int, error)
		Sum64() uint64
	}
	keep  bool
	lines []string
	tell  func(line string) // stories print as they go
}

// note records something that happened.
func (w *World) note(format string, args ...any) {
	line := fmt.Sprintf("%9.3f ", w.Now.Seconds()) + fmt.Sprintf(format, args...)
	w.trace.sum.Write([]byte(line))
	if w.trace.keep {
		w.trace.lines = append(w.trace.lines, line)
	}
	if w.trace.tell != nil {
		w.trace.tell(line)
	}
}

// secret is a text that no other party knows.
func (w *World) secret(n int) []byte {
	b := make([]byte, n)
	w.texts++
	for i := range b {
		if b[i] = byte(w.texts >> (8 * i)); i >= 8 {
			b[i] = byte(n)
		}
	}
	return b
}

// owner is the token that all workers use.
const owner = "default/token"

// key is the row that a request of host for ns/id means to a worker.
func (p *Proc) key(ns, id string) ownership.Key {
	return ownership.Key{Env: p.envOf(ns), Namespace: ns, ID: id}
}
