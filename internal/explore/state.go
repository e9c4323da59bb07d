package explore

import (
	"slices"
	"strconv"
	"time"

	"pinboard"
	"pinboard/internal/memstore"
	"pinboard/internal/ownership"
)

// Micros is time in microseconds, the store's or the world's own.
type Micros = ownership.Micros

// Times of a small world. A tick is the grain of time: everything within one
// happens at one instant, in any order.
const (
	tick     Micros = 1_000_000
	lease           = 3 * tick  // as told to workers
	buffer          = lease / 3 // no new instance in the last of it
	forget          = 2 * lease // how long a fence remembers
	window          = 2 * tick  // from a resolve's read until the request is at the worker's kernel (F1)
	age             = tick      // ... of which the node may take this
	patience        = 2 * tick  // a worker waits for an answer
	opTime          = 2 * tick  // a node waits for its store
	flight          = 4 * tick  // a release may be on its way
	start           = 1000 * tick
)

// A state is one world at one instant. Successors are changed copies: bucket
// contents never change, everything else is a value.
type state struct {
	w       *World
	now     Micros // true time, the same for all machines
	b       memstore.Bucket
	saved   memstore.Bucket // an older copy
	hasOld  bool
	server  int    // identity of the store's process
	offset  Micros // its clock against true time
	serial  int    // names sessions, servers and nonces
	listens int    // who is reached at the shared address
	procs   []proc
	nodes   []node
	fwds    []forward
	held    []call
	log     [][]placed       // by id: placements that somebody may still contradict
	top     []pinboard.Epoch // by id: highest epoch ever placed
	left    int              // faults that may still happen
	bad     string           // a promise that was broken

	onServed func(id int) // told of each request that an instance took
}

// A placed is one placement that the store committed.
type placed struct {
	epoch   pinboard.Epoch
	process string
}

// A proc is the worker process of one slot, with the client's rules.
type proc struct {
	life     int // how many processes the slot has seen before
	dead     bool
	paused   bool
	leaving  bool // SIGTERM: the listener is closed
	over     bool // superseded
	session  string
	prev     string
	pair     int // calls made: a late call's challenge is over (L6)
	due      bool
	waits    bool // a call of its is held somewhere
	sent     Micros
	granted  bool
	deadline Micros
	promised Micros // without the cap of a drain
	drains   bool   // the operator's drain
	acks     []string
	inst     []instance
	fence    []mark
	queue    []queued // releases that wait for a session
	leaveAt  Micros
}

// An instance is the live object of an id in a process.
type instance struct {
	on, live, closing, releasing bool
	lapsed                       bool // closing when the lease ended
	slow                         bool // its close takes as long as it likes
	epoch                        pinboard.Epoch
	since                        Micros // when the close began
}

// A mark is what the fence knows of an id.
type mark struct {
	on, released bool
	epoch        pinboard.Epoch
	used         Micros
}

// A queued release waits for a session.
type queued struct {
	id    int
	epoch pinboard.Epoch
}

// A forward is a request on its way from a node to the owner.
type forward struct {
	node, id   int
	host       int // whose hostname it names
	slot, life int // whom it is for
	session    string
	process    string
	epoch      pinboard.Epoch
	fresh      bool
	nonce      ownership.Nonce
	sent       Micros
}

func (w *World) first() *state {
	s := &state{w: w, now: start, b: memstore.NewBucket(), left: w.Budget}
	for range w.Workers {
		s.procs = append(s.procs, newProc(w, 0))
	}
	for range w.Nodes {
		s.nodes = append(s.nodes, node{long: w.rules.Lease + w.rules.Slack})
	}
	s.log, s.top = make([][]placed, w.IDs), make([]pinboard.Epoch, w.IDs)
	return s
}

func newProc(w *World, life int) proc {
	return proc{life: life, due: true, inst: make([]instance, w.IDs), fence: make([]mark, w.IDs)}
}

// clone copies what an action may change.
func (s *state) clone() *state {
	c := *s
	c.procs = slices.Clone(s.procs)
	for i := range c.procs {
		p := &c.procs[i]
		p.inst, p.fence, p.queue = slices.Clone(p.inst), slices.Clone(p.fence), slices.Clone(p.queue)
		p.acks = slices.Clone(p.acks)
	}
	c.nodes = slices.Clone(s.nodes)
	c.fwds, c.held = slices.Clone(s.fwds), slices.Clone(s.held)
	c.log, c.top = slices.Clone(s.log), slices.Clone(s.top)
	return &c
}

func (s *state) fail(what string) {
	if s.bad == "" {
		s.bad = what
	}
}

func (s *state) fresh() int { s.serial++; return s.serial }

// Names of what a world holds.
func (s *state) process(slot, life int) string {
	return "w" + strconv.Itoa(slot+1) + "." + strconv.Itoa(life)
}

func (s *state) processOf(slot int) string { return s.process(slot, s.procs[slot].life) }

func client(slot int) string { return "w" + strconv.Itoa(slot+1) }

func (w *World) url(slot int) string {
	if w.Shared {
		return "http://shared"
	}
	return "http://" + client(slot)
}

// host is the hostname that a slot's worker registers and its clients use.
func (w *World) host(slot int) string {
	if !w.Hostnames {
		return ownership.World
	}
	return "h" + strconv.Itoa(slot+1)
}

func (w *World) key(id int) ownership.Key {
	env := ownership.World
	if w.Hostnames {
		env = "env"
	}
	return ownership.Key{Env: env, Namespace: "/t", ID: string(rune('a' + id))}
}

func (w *World) idOf(k ownership.Key) int { return int(k.ID[0] - 'a') }

// wall is a node's clock.
func wall(t Micros) time.Time { return time.Unix(0, 0).Add(time.Duration(t) * time.Microsecond) }

func serverName(n int) string { return "run" + strconv.Itoa(n) }
