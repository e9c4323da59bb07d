package redisstore

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"pinboard/internal/guard"
	"pinboard/internal/ownership"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// Options of a Store.
type Options struct {
	// URL names the store; docs/operating.md ("Redis") lists forms and options:
	//
	//	redis://[user:password@]host:port[/db]           one server
	//	redis+sentinel://[user:password@]s1:p1,s2:p2[/db]?master=NAME
	//	redis+cluster://[user:password@]h1:p1,h2:p2      some nodes of a cluster
	//
	// A redis:// server that is part of a cluster is used as one.
	URL     string
	URLFile string // instead of URL: the file that holds it, read again for each connection

	Prefix    string // of every key; "pb" by default
	Buckets   int    // fixed for the life of the stored data
	Hostnames bool   // hostname mode; likewise

	AllowEvicting bool // accept a maxmemory-policy that evicts
	RequireSafe   bool // refuse to start below Guarantee.Safe

	OnStep     func(server string)                // the clock of a server, named by its run id, stepped (G4)
	OnDoubt    func(b int, cause ownership.Cause) // bucket b needs a rule soon, to begin another generation (G1, G4)
	OnDisagree func(reason string)                // this node may serve no ids since the store's header differs (G5); "" again
	Warn       func(text string)                  // something in a file cannot be used; what was good before goes on

	clock string             // tests: another clock for the scripts
	now   func() time.Time   // tests: the node's clock
	raw   func() guard.Local // tests: the node's clock that is neither set nor slewed
}

// A ConfigError is a store that this node must not use as it is configured.
// Its text is one line for the operator.
type ConfigError struct{ text string }

func (e *ConfigError) Error() string { return e.text }

func misconfigured(format string, args ...any) error {
	return &ConfigError{fmt.Sprintf(format, args...)}
}

// Format is the version of keys, values and scripts.
const Format = 2

// Open connects, checks that the store may be used and starts to follow its
// clock. An error that is no *ConfigError may go away by itself.
func Open(ctx context.Context, opt Options) (*Store, error) {
	src, err := openSource(&opt)
	if err != nil {
		return nil, misconfigured("%v", err)
	}
	if opt.Prefix == "" {
		opt.Prefix = "pb"
	}
	if strings.ContainsAny(opt.Prefix, "{}%") {
		return nil, misconfigured("key prefix %q contains one of { } %%", opt.Prefix)
	}
	if opt.Buckets < 1 || opt.Buckets > 16384 {
		return nil, misconfigured("bucket count %d is not between 1 and 16384", opt.Buckets)
	}
	if opt.clock == "" {
		opt.clock = realClock
	}
	if opt.now == nil {
		opt.now = time.Now
	}
	if opt.OnDoubt == nil {
		opt.OnDoubt = func(int, ownership.Cause) {}
	}
	if opt.OnDisagree == nil {
		opt.OnDisagree = func(string) {}
	}
	s := &Store{
		opt: opt, keys: newKeyspace(opt.Prefix, opt.Buckets), scripts: newScripts(opt.clock),
		clocks: newClocks(opt.now), workers: newWorkers(), nonce: rand.Text()[:8] + ".",
		done: make(chan struct{}), raw: rawClock(),
		guard: guard.New(guard.Options{Buckets: opt.Buckets, Slack: tolerance, OnStep: opt.OnStep,
			Asleep: func() guard.Local { return sleptFor().Microseconds() }}),
	}
	if opt.raw != nil {
		s.raw = opt.raw
	}
	s.header.verified = make([]atomic.Pointer[string], opt.Buckets)
	s.topo = newTopology(src, opt.Buckets, s.newHitLine)
	if err := s.prepare(ctx); err != nil {
		s.topo.close()
		return nil, s.explain(err)
	}
	loop, stop := context.WithCancel(context.Background())
	s.stop = stop
	go s.follow(loop)
	return s, nil
}

// Close ends all connections.
func (s *Store) Close() {
	s.stop()
	<-s.done
	s.topo.close()
}

func (s *Store) prepare(ctx context.Context) error {
	ctx, cancel := bounded(ctx, 5*time.Second)
	defer cancel()
	if err := s.detectCluster(ctx); err != nil {
		return err
	}
	if err := s.topo.refresh(ctx, false); err != nil {
		return err
	}
	nodes := s.topo.all()
	for _, n := range nodes {
		if err := s.probe(ctx, n); err != nil {
			return err
		}
		n.hits.dial()
	}
	if err := s.assertHeader(ctx); err != nil {
		return err
	}
	g, err := s.assess(ctx)
	if err != nil {
		return err
	}
	if s.opt.RequireSafe && !g.Safe {
		return misconfigured("the store cannot keep single ownership through partitions of its own: %s", g.Reason)
	}
	return nil
}

// detectCluster asks a redis:// server whether it is part of a cluster.
func (s *Store) detectCluster(ctx context.Context) error {
	if s.topo.t.cluster || s.topo.t.master != "" {
		return nil
	}
	if err := s.topo.refresh(ctx, false); err != nil {
		return err
	}
	m, err := s.topo.peek(0).do(ctx, "INFO", "cluster")
	switch {
	case s.lacks(err, "info") != "":
		return nil // probe names it, and what else is missing
	case err != nil:
		return err
	}
	if strings.Contains(text(m), "cluster_enabled:1") {
		s.topo.t.cluster = true
	}
	return nil
}

// probe checks permissions and that the server does not evict.
func (s *Store) probe(ctx context.Context, n *node) error {
	if err := s.permitted(ctx, n); err != nil {
		return err
	}
	if _, err := s.run(ctx, n, s.scripts.clock, nil, []string{""}); err != nil {
		return err
	}
	m, err := n.do(ctx, "INFO", "memory")
	if err != nil {
		return err
	}
	policy := infoField(text(m), "maxmemory_policy")
	if policy != "" && policy != "noeviction" && infoField(text(m), "maxmemory") != "0" && !s.opt.AllowEvicting {
		return misconfigured("the store evicts keys (maxmemory-policy %s): set noeviction, or allow it explicitly", policy)
	}
	return nil
}

func infoField(info, name string) string {
	for line := range strings.SplitSeq(info, "\r\n") {
		if v, ok := strings.CutPrefix(line, name+":"); ok {
			return v
		}
	}
	return ""
}

// follow keeps an eye on the servers: their clocks each second, where they
// are and what they guarantee now and then.
func (s *Store) follow(ctx context.Context) {
	defer close(s.done)
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	var wg sync.WaitGroup
	defer wg.Wait()
	var busy atomic.Bool
	for i := 1; ; i++ {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		s.tick()
		if !busy.CompareAndSwap(false, true) {
			continue
		}
		wg.Add(1)
		go func() {
			defer wg.Done()
			defer busy.Store(false)
			s.look(ctx, i)
		}()
	}
}

func (s *Store) look(ctx context.Context, round int) {
	ctx, cancel := bounded(ctx, opTimeout)
	defer cancel()
	if round%5 == 0 || s.topo.peek(0) == nil {
		s.topo.refresh(ctx, false)
	}
	var wg sync.WaitGroup
	for _, n := range s.topo.all() {
		wg.Go(func() {
			if _, err := s.run(ctx, n, s.scripts.clock, nil, []string{""}); err != nil {
				s.topo.suspect(n)
			}
		})
	}
	wg.Wait()
	s.compareHeader(ctx)
	s.watch(ctx)
	if round%30 == 0 {
		s.assess(ctx)
	}
}

// IsConfig reports whether err will not go away by itself.
func IsConfig(err error) bool {
	var c *ConfigError
	return errors.As(err, &c)
}
