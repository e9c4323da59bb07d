package redisstore

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// A Guarantee is what the store's servers can promise together (G3).
type Guarantee struct {
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
	return Guarantee{Reason: "not assessed yet"}
}

// shard is what one server and its replicas say about themselves.
type shard struct {
	replicas int
	min      []int // min-replicas-to-write of each member that could be asked
	lag      time.Duration
	members  int
}

func (s *Store) assess(ctx context.Context) (Guarantee, error) {
	g := Guarantee{Safe: true, Reason: "every shard keeps its writes on a majority"}
	for _, n := range s.topo.all() {
		sh, err := s.shard(ctx, n)
		if err != nil {
			return Guarantee{}, err
		}
		if sh.replicas > 0 {
			g.Lag = max(g.Lag, sh.lagging()+2*time.Second)
		}
		if why := sh.weakness(); why != "" && g.Safe {
			g.Safe, g.Reason = false, why
		}
	}
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

func (sh *shard) weakness() string {
	need := (sh.replicas + 1) / 2
	switch {
	case sh.replicas < 2:
		return fmt.Sprintf("a server has %d replicas, 2 are needed", sh.replicas)
	case sh.members < sh.replicas+1:
		return "min-replicas-to-write of some server cannot be read (CONFIG GET)"
	}
	for _, m := range sh.min {
		if m < need {
			return fmt.Sprintf("min-replicas-to-write is %d, %d is needed", m, need)
		}
	}
	return ""
}

// shard reads what it can of a primary and its replicas; CONFIG may be
// forbidden, which leaves the guarantee unproved but is no error.
func (s *Store) shard(ctx context.Context, n *node) (*shard, error) {
	m, err := n.do(ctx, "INFO", "replication")
	if err != nil {
		return nil, refused(err, "info")
	}
	sh := &shard{}
	sh.member(ctx, n)
	info := text(m)
	for i := 0; ; i++ {
		line := infoField(info, "slave"+strconv.Itoa(i))
		if line == "" {
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
