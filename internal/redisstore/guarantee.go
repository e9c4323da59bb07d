package redisstore

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// A State names what a store can promise, as docs/guarantees.md lists it.
type State string

// The states of a store.
const (
	Safe      State = "safe"       // a majority of each shard keeps its writes
	OneServer State = "one_server" // no replicas, so no second history: single ownership holds
	Lax       State = "lax"        // a failover can bring a second history
	Unknown   State = "unknown"    // the servers do not tell
	InProcess State = "in_process" // memory:
)

// States are all of them.
var States = []State{Safe, OneServer, Lax, Unknown, InProcess}

// A Guarantee is what the store's servers can promise together (G3).
type Guarantee struct {
	State State
	// Safe: single ownership also holds through partitions of the store
	// itself. Every shard has two or more replicas and each of its members
	// refuses writes that fewer than half of them, rounded up, have seen.
	Safe bool
	// Reason says in one line why not, or that it is so.
	Reason string
	// Lag is added to a cold start: how far a replica may be behind when it
	// is promoted, plus two seconds; 0 without replicas.
	Lag time.Duration
}

// Guarantee is the latest assessment; it is renewed each half minute.
func (s *Store) Guarantee() Guarantee {
	if g := s.state.Load(); g != nil {
		return *g
	}
	return Guarantee{State: Unknown, Reason: "not assessed yet"}
}

// shard is what one server and its replicas say about themselves.
type shard struct {
	replicas int
	absent   int   // replicas that belong to it and are not connected
	silent   bool  // nobody could be asked about absent ones
	min      []int // min-replicas-to-write of each member that could be asked
	lag      time.Duration
	members  int
}

func (s *Store) assess(ctx context.Context) (Guarantee, error) {
	g := Guarantee{State: Safe, Reason: "every shard keeps its writes on a majority"}
	for _, n := range s.topo.all() {
		sh, err := s.shard(ctx, n)
		if err != nil {
			return Guarantee{}, err
		}
		if sh.replicas > 0 {
			g.Lag = max(g.Lag, sh.lagging()+2*time.Second)
		}
		if state, why := sh.assess(); worse[state] > worse[g.State] {
			g.State, g.Reason = state, why
		}
	}
	g.Safe = g.State == Safe
	s.state.Store(&g)
	return g, nil
}

// lagging is how long a primary that lost its replicas may go on writing: what
// its members are configured to, and never less than the server's default
// while one of them sets no limit or cannot be asked.
func (sh *shard) lagging() time.Duration {
	if sh.lag == 0 || sh.members < sh.replicas+1 || slices.Contains(sh.min, 0) {
		return max(sh.lag, 10*time.Second)
	}
	return sh.lag
}

// worse orders the states of one shard: a store is as good as its worst one.
var worse = map[State]int{Safe: 0, OneServer: 1, Unknown: 2, Lax: 3}

func (sh *shard) assess() (State, string) {
	need := (sh.replicas + 1) / 2
	switch {
	case sh.replicas == 0 && sh.absent > 0:
		return Lax, fmt.Sprintf("a server has none of its %d replicas connected, 2 are needed", sh.absent)
	case sh.replicas == 0 && sh.silent:
		return Unknown, "a server has 0 replicas, and whether one could replace it cannot be read"
	case sh.replicas == 0:
		return OneServer, "a server has 0 replicas: single ownership holds, a lost server is a wiped one (to survive its loss 2 are needed)"
	case sh.replicas < 2:
		return Lax, fmt.Sprintf("a server has %d replicas, 2 are needed", sh.replicas)
	}
	for _, m := range sh.min {
		if m < need {
			return Lax, fmt.Sprintf("min-replicas-to-write is %d, %d is needed", m, need)
		}
	}
	if sh.members < sh.replicas+1 {
		return Unknown, "min-replicas-to-write of some server cannot be read (CONFIG GET)"
	}
	return Safe, ""
}

// absent counts the replicas that n should have and has not: they are what a
// failover could promote. A single server is believed while this process has
// seen none.
func (s *Store) absent(ctx context.Context, n *node, sh *shard) {
	known, ok := 0, true
	switch {
	case sh.replicas > 0:
		s.topo.replicated.Store(true)
		return
	case s.topo.t.master != "":
		known, ok = s.topo.watched(ctx)
	case s.topo.t.cluster:
		known, ok = clusterReplicas(ctx, n)
	case s.topo.replicated.Load():
		known = 1
	}
	sh.absent, sh.silent = known, !ok
}

// watched is how many replicas of the primary the sentinels know, also those
// that are down.
func (p *topology) watched(ctx context.Context) (int, bool) {
	for _, sentinel := range p.sentinels {
		one, cancel := bounded(ctx, dialTimeout)
		m, err := sentinel.do(one, "SENTINEL", "REPLICAS", p.t.master)
		cancel()
		if list, bad := m.ToArray(); err == nil && bad == nil {
			return len(list), true
		}
	}
	return 0, false
}

// clusterReplicas is how many replicas of n the cluster knows, also those that
// are down. A line is id, address, flags, the id of its primary and more.
func clusterReplicas(ctx context.Context, n *node) (int, bool) {
	m, err := n.do(ctx, "CLUSTER", "NODES")
	if err != nil {
		return 0, false
	}
	self, primaries := "", []string{}
	for line := range strings.Lines(text(m)) {
		f := strings.Fields(line)
		if len(f) < 4 {
			continue
		}
		if strings.Contains(f[2], "myself") {
			self = f[0]
		}
		primaries = append(primaries, f[3])
	}
	count := 0
	for _, id := range primaries {
		if id == self {
			count++
		}
	}
	return count, self != ""
}

// shard reads what it can of a primary and its replicas; CONFIG may be
// forbidden, which leaves the guarantee unproved but is no error.
func (s *Store) shard(ctx context.Context, n *node) (*shard, error) {
	m, err := n.do(ctx, "INFO", "replication")
	if err != nil {
		return nil, err
	}
	sh := &shard{}
	sh.member(ctx, n)
	info := text(m)
	for i := 0; ; i++ {
		line := infoField(info, "slave"+strconv.Itoa(i))
		if line == "" {
			s.absent(ctx, n, sh)
			return sh, nil
		}
		sh.replicas++
		f := map[string]string{}
		for kv := range strings.SplitSeq(line, ",") {
			k, v, _ := strings.Cut(kv, "=")
			f[k] = v
		}
		r := s.topo.beside(n, f["ip"], f["port"])
		one, cancel := bounded(ctx, dialTimeout)
		sh.member(one, r)
		cancel()
		r.close()
	}
}

func (sh *shard) member(ctx context.Context, n *node) {
	m, err := n.do(ctx, "CONFIG", "GET", "min-replicas-*")
	if err != nil {
		return
	}
	sh.members++
	least, off, kv := 0, false, texts(m)
	for i := 0; i+1 < len(kv); i += 2 {
		v, _ := strconv.Atoi(kv[i+1])
		switch kv[i] {
		case "min-replicas-to-write":
			least = v
		case "min-replicas-max-lag":
			off = v == 0
			sh.lag = max(sh.lag, time.Duration(v)*time.Second)
		}
	}
	if off { // either of the two at 0 means no limit at all
		least = 0
	}
	sh.min = append(sh.min, least)
}
