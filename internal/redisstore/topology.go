package redisstore

import (
	"context"
	"fmt"
	"net"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"pinboard/internal/wait"

	"github.com/redis/rueidis"
)

const (
	refreshGap = 50 * time.Millisecond // between two looks at the topology
	leaveGrace = 5 * time.Second       // a server that left finishes what was sent to it
)

// A topology knows which server holds which bucket: a single one, the primary
// that sentinels name, or the owners of a cluster's slots. It routes by itself
// because a cluster client follows ASK, which no script may (G7).
type topology struct {
	t         *target // which servers; never how to sign in
	src       *source
	tags      []string
	sentinels []*node

	view atomic.Pointer[routing]

	mu     sync.Mutex
	nodes  map[string]*node
	left   map[*node]bool // servers that left, until their grace is over
	busy   chan struct{}  // non-nil while somebody looks
	err    error          // of the last look
	dirty  atomic.Bool
	closed bool
	hits   func(*node) *hitLine

	replicated atomic.Bool // a single server had a replica once
}

// A routing is one look at the topology: who holds each bucket.
type routing struct{ buckets []*node }

func newTopology(src *source, buckets int, hits func(*node) *hitLine) *topology {
	t := *src.now
	p := &topology{t: &t, src: src, nodes: map[string]*node{}, left: map[*node]bool{}, hits: hits, tags: make([]string, buckets)}
	for b := range p.tags {
		p.tags[b] = strconv.Itoa(b)
	}
	if t.master != "" {
		for _, a := range t.addrs {
			p.sentinels = append(p.sentinels, &node{addr: a, src: src, role: toSentinels})
		}
	}
	return p
}

// node is the server of bucket b.
func (p *topology) node(ctx context.Context, b int) (*node, error) {
	if r := p.view.Load(); r != nil && r.buckets[b] != nil {
		return r.buckets[b], nil
	}
	if err := p.refresh(ctx, false); err != nil {
		return nil, err
	}
	if r := p.view.Load(); r != nil && r.buckets[b] != nil {
		return r.buckets[b], nil
	}
	return nil, unavailable("no server holds this bucket")
}

// peek is node without waiting.
func (p *topology) peek(b int) *node {
	if r := p.view.Load(); r != nil {
		return r.buckets[b]
	}
	return nil
}

// all lists the servers that hold buckets.
func (p *topology) all() []*node {
	r := p.view.Load()
	if r == nil {
		return nil
	}
	seen := map[*node]bool{}
	var out []*node
	for _, n := range r.buckets {
		if n != nil && !seen[n] {
			seen[n] = true
			out = append(out, n)
		}
	}
	return out
}

// buckets lists those that n holds.
func (p *topology) buckets(n *node) []int {
	r := p.view.Load()
	if r == nil {
		return nil
	}
	var out []int
	for b, m := range r.buckets {
		if m == n {
			out = append(out, b)
		}
	}
	return out
}

// suspect asks for a look soon: something went wrong at n.
func (p *topology) suspect(*node) {
	if (p.t.cluster || p.t.master != "") && p.dirty.CompareAndSwap(false, true) {
		go func() {
			ctx, cancel := bounded(context.Background(), opTimeout)
			defer cancel()
			p.refresh(ctx, true)
			p.dirty.Store(false)
		}()
	}
}

// refresh looks at the topology once for all who ask meanwhile. pause waits
// first, for those who were sent around in circles.
func (p *topology) refresh(ctx context.Context, pause bool) error {
	if pause && !wait.For(ctx, refreshGap) {
		return unavailable("%v", ctx.Err())
	}
	p.mu.Lock()
	if p.busy == nil {
		p.busy = make(chan struct{})
		go p.look(p.busy)
	}
	busy := p.busy
	p.mu.Unlock()
	select {
	case <-busy:
	case <-ctx.Done():
		return unavailable("%v", ctx.Err())
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.err
}

func (p *topology) look(done chan struct{}) {
	ctx, cancel := bounded(context.Background(), opTimeout)
	defer cancel()
	owners, err := p.owners(ctx)
	p.mu.Lock()
	defer p.mu.Unlock()
	defer close(done)
	p.busy, p.err = nil, err
	if err != nil || p.closed {
		return
	}
	r := &routing{buckets: make([]*node, len(owners))}
	keep := map[string]bool{}
	for b, addr := range owners {
		if addr != "" {
			keep[addr] = true
			r.buckets[b] = p.at(addr)
		}
	}
	p.view.Store(r)
	for addr, n := range p.nodes {
		if !keep[addr] && !p.seed(addr) {
			delete(p.nodes, addr)
			p.left[n] = true
			time.AfterFunc(leaveGrace, func() { p.forget(n) })
		}
	}
}

func (p *topology) forget(n *node) {
	n.close()
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.left, n)
}

func (p *topology) seed(addr string) bool {
	if p.t.master != "" {
		return false
	}
	for _, a := range p.t.addrs {
		if a == addr {
			return true
		}
	}
	return false
}

// at is the node of an address; p.mu is held.
func (p *topology) at(addr string) *node {
	n := p.nodes[addr]
	if n == nil {
		n = &node{addr: addr, src: p.src, db: p.t.db}
		n.hits = p.hits(n)
		p.nodes[addr] = n
	}
	return n
}

// owners lists the address that holds each bucket, "" for none.
func (p *topology) owners(ctx context.Context) ([]string, error) {
	out := make([]string, len(p.tags))
	if p.t.cluster {
		return out, p.slots(ctx, out)
	}
	addr, err := p.t.addrs[0], error(nil)
	if p.t.master != "" {
		addr, err = p.primary(ctx)
	}
	for b := range out {
		out[b] = addr
	}
	return out, err
}

// primary asks the sentinels in turn.
func (p *topology) primary(ctx context.Context) (string, error) {
	var last error
	for _, s := range p.sentinels {
		one, cancel := bounded(ctx, dialTimeout)
		m, err := s.do(one, "SENTINEL", "GET-MASTER-ADDR-BY-NAME", p.t.master)
		cancel()
		if err == nil {
			if a := texts(m); len(a) == 2 && a[0] != "" {
				return net.JoinHostPort(a[0], a[1]), nil
			}
		}
		last = err
	}
	if last == nil || rueidis.IsRedisNil(last) {
		return "", unavailable("no sentinel knows the primary %q", p.t.master)
	}
	return "", fmt.Errorf("%w: no sentinel answers: %w", ErrUnavailable, &atSentinel{last})
}

// atSentinel marks what a sentinel answered, whose users are its own.
type atSentinel struct{ error }

func (e *atSentinel) Unwrap() error { return e.error }

// slots asks the servers in turn, those that hold buckets first.
func (p *topology) slots(ctx context.Context, out []string) error {
	p.mu.Lock()
	ask := p.all()
	for _, a := range p.t.addrs {
		ask = append(ask, p.at(a))
	}
	p.mu.Unlock()
	var last error
	for _, n := range ask {
		one, cancel := bounded(ctx, dialTimeout)
		m, err := n.do(one, "CLUSTER", "SLOTS")
		cancel()
		if err != nil {
			last = err
			continue
		}
		ranges, _ := m.ToArray()
		if p.assign(n, ranges, out) {
			return nil
		}
	}
	return fmt.Errorf("%w: no cluster node answers: %w", ErrUnavailable, last)
}

func (p *topology) assign(from *node, ranges []rueidis.RedisMessage, out []string) bool {
	own, _, _ := net.SplitHostPort(from.addr)
	for _, r := range ranges {
		f, err := r.ToArray()
		if err != nil || len(f) < 3 {
			return false
		}
		lo, err1 := f[0].AsInt64()
		hi, err2 := f[1].AsInt64()
		primary, err3 := f[2].ToArray()
		if err1 != nil || err2 != nil || err3 != nil || len(primary) < 2 {
			return false
		}
		host, port := text(primary[0]), int64(0)
		if port, err = primary[1].AsInt64(); err != nil {
			return false
		}
		if host == "" || host == "?" {
			host = own // the server does not know its own name
		}
		addr := net.JoinHostPort(host, strconv.FormatInt(port, 10))
		for b, tag := range p.tags {
			if s := int64(slot(tag)); lo <= s && s <= hi {
				out[b] = addr
			}
		}
	}
	return len(ranges) > 0
}

// beside is a node for another member of n's shard, not kept.
func (p *topology) beside(n *node, host, port string) *node {
	addr := net.JoinHostPort(host, port)
	return &node{addr: addr, src: n.src}
}

func (p *topology) close() {
	p.mu.Lock()
	p.closed = true
	nodes := p.sentinels
	for _, n := range p.nodes {
		nodes = append(nodes, n)
	}
	for n := range p.left {
		nodes = append(nodes, n)
	}
	p.mu.Unlock()
	for _, n := range nodes {
		n.close()
	}
}

// slot is the cluster slot of a hash tag: CRC16 (XMODEM) modulo 16384, as the
// Redis Cluster specification defines it.
func slot(tag string) uint16 {
	var crc uint16
	for i := 0; i < len(tag); i++ {
		crc ^= uint16(tag[i]) << 8
		for range 8 {
			if crc&0x8000 != 0 {
				crc = crc<<1 ^ 0x1021
			} else {
				crc <<= 1
			}
		}
	}
	return crc % 16384
}
