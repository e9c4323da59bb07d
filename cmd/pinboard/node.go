package main

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
	"net"
	"os"
	"strconv"
	"sync/atomic"
	"syscall"
	"time"

	"pinboard"
	"pinboard/internal/attest"
	"pinboard/internal/directory"
	"pinboard/internal/metrics"
	"pinboard/internal/outbound"
	"pinboard/internal/ownership"
	"pinboard/internal/passport"
	"pinboard/internal/proxy"
	"pinboard/internal/redisstore"
	"pinboard/internal/registry"
	"pinboard/internal/server"
	"pinboard/internal/wait"
)

const (
	keepEvery   = 100 * time.Millisecond // one bounded step of housekeeping
	censusEvery = 2 * time.Second        // how old the counts of /readyz and /metrics may be
	leaveTime   = 500 * time.Millisecond // what the end of a node waits to take it off the list of nodes
)

// node is one Pinboard node: its parts, wired.
type node struct {
	cfg     *Config
	tokens  *passport.Source
	log     *slog.Logger
	gate    *gate
	metrics *metrics.Metrics
	proxy   *proxy.Proxy
	server  *server.Server
	workers *outbound.Client
	policy  outbound.Policy
	store   atomic.Pointer[store] // nil until reached
	counts  atomic.Pointer[census]
	probes  atomic.Uint64
	lost    lostWorkers // the census loop's own
	fleet   fleetWatch  // likewise
	crowd   crowdHint
	outage  *outage

	lostLines func() int64 // of the log
}

// census is what the fleet looked like a moment ago.
type census struct {
	states map[string]int
	placed int
	nodes  int
	differ map[string]int // nodes that run otherwise, by setting
}

func newNode(c *Config, tokens *passport.Source, log *slog.Logger, lostLines func() int64, listener net.Listener) (*node, error) {
	n := &node{cfg: c, tokens: tokens, log: log, lostLines: lostLines, policy: outbound.Policy{Allow: c.AdvertiseAllow, Deny: c.AdvertiseDeny}}
	n.counts.Store(&census{})
	n.lost.log, n.fleet.log, n.crowd.log, n.outage = log, log, log, newOutage(log)
	n.metrics = metrics.New(n.snapshot)
	seen := &observer{metrics: n.metrics, log: log}
	n.gate = &gate{resolved: seen.resolved}
	skews := &skews{log: log, now: time.Now, note: func(session string, skew time.Duration) {
		n.gate.inside.Load().directory.Skewed(session, skew) // nothing was forwarded before it was there
	}}
	n.workers = outbound.New(outbound.Config{Policy: n.policy})
	n.gate.outside = n.registry(nil)
	control := &server.Control{Metrics: n.metrics.Handler(), Registry: n.gate}
	minter := attest.NewMinter(time.Now, func(w *ownership.Worker) (string, string) { return w.Session, w.Secret })

	responses := c.ResponseTimeout
	if responses == 0 {
		responses = -1 // the proxy's word for no limit
	}
	var err error
	n.proxy, err = proxy.New(proxy.Config{
		Directory: n.gate, Control: control, Mint: minter.Mint, Minted: n.minted, Prefix: n.gate.Prefix,
		Observe: seen.exchange, Mistrusted: skews.mistrusted, Panic: seen.panicked, RequestIDs: log.Enabled(context.Background(), slog.LevelDebug),
		HostnameAware: c.HostnameAware, Trusted: c.TrustedProxies, Affinity: c.Affinity.Affinity, CORSOrigins: c.CORSOrigins,
		Lease: c.LeaseTTL, Limits: pinboard.LimitsFor(c.LeaseTTL), ConnectTimeout: c.ConnectTimeout, ResponseTimeout: responses, PoolIdle: c.PoolIdle,
		HalfCloseGrace: c.HalfCloseGrace, WorkerMaxConns: c.WorkerMaxConns, InstanceMaxConns: c.InstanceMax,
		DialControl: func(network, address string, conn syscall.RawConn) error {
			return n.policy.Control(context.Background(), network, address, conn)
		},
	})
	if err != nil {
		return nil, err
	}
	n.server = server.New(server.Config{
		Listener: listener, Front: front{n.proxy}, Log: log,
		Boot: n.boot, Probe: n.probe, Blocked: n.blocked, Workers: func() int { return n.counts.Load().states["live"] },
		Loops: []server.Loop{
			{Name: "housekeeping", Every: keepEvery, Run: n.keep},
			{Name: "census", Every: censusEvery, Run: n.count},
		},
		LoopFailed: n.metrics.LoopFailed,
		Notice:     c.ShutdownNotice, Budget: c.ShutdownBudget,
		Version: version(), StoreFormat: redisstore.Format,
	})
	control.Health = n.server.Health
	return n, nil
}

// boot reaches the store, begins the cold start of every bucket and opens the
// gate.
func (n *node) boot(ctx context.Context) error {
	s, err := n.cfg.openStore(ctx, n.log)
	if err != nil {
		return err
	}
	d := directory.New(directory.Options{
		Store: n.watched(s.Store), Lease: n.cfg.LeaseTTL, Slack: s.slack, Lag: s.guarantee().Lag,
		NoCold: n.cfg.ColdStart == "off", Hostnames: n.cfg.HostnameAware, Balance: n.cfg.BalanceFactor, PlaceRate: n.cfg.PlaceRate,
		PlaceLimit: int64(n.cfg.RestateAfter), Node: nodeName(), Version: version(), Format: redisstore.Format, OldNow: s.oldNow, Connect: n.proxy.Connect,
		Crowded: n.crowd.told,
	})
	s.doubts.begin(d.Touch)
	n.store.Store(&s)
	for told := (errorKinds{}); ; {
		err := d.Touch(ctx)
		if err == nil {
			break
		}
		if told.fresh(err) {
			n.log.Warn("not every bucket can be opened, trying on", "error", oneLine(err.Error()))
		}
		if !wait.For(ctx, retryStore) {
			return ctx.Err()
		}
	}
	n.gate.open(&inside{directory: d, registry: n.registry(d)})
	return nil
}

// watched is the store as this node uses it: measured, with its errors and the
// ownership changes of its commits in the log.
func (n *node) watched(s ownership.Store) ownership.Store {
	j := &journal{log: n.log, began: func(cause ownership.Cause) { n.metrics.Began(string(cause)) }}
	return timedStore{s, func(op string, took time.Duration, err error) {
		n.metrics.Stored(op, took, err)
		n.outage.saw(err)
	}, j.committed}
}

// close ends what boot began. The server has stopped.
func (n *node) close() {
	if in := n.gate.inside.Load(); in != nil {
		in.registry.Close()
		ctx, cancel := context.WithTimeout(context.Background(), leaveTime)
		defer cancel()
		_ = in.directory.Leave(ctx) // else the others drop this node later
	}
	if s := n.store.Load(); s != nil {
		s.close()
	}
}

// registry is the control plane on a directory, nil before there is one.
func (n *node) registry(d registry.Directory) *registry.Server {
	return registry.New(registry.Config{
		Directory: d, Workers: n.workers, Tokens: n.tokens, Policy: n.policy,
		RequireProof: n.cfg.RequireProof, HostnameAware: n.cfg.HostnameAware, LegacyPaths: n.cfg.LegacyPaths,
		Node: n.report, Blocked: n.blocked, Proved: n.proved, Log: n.log,
	})
}

// nodeReport is this node's own part of overview and health.
type nodeReport struct {
	Exchanges int    `json:"exchanges"`
	Streams   int    `json:"streams"`
	Tunnels   int    `json:"tunnels"`
	StoreSafe bool   `json:"storeSafe"`
	State     string `json:"storeState"`     // of redisstore.States
	Guarantee string `json:"storeGuarantee"` // which ownership guarantee holds, and why (G3)
	Version   string `json:"version"`
	Format    int    `json:"storeFormat"`
	Affinity  string `json:"affinityHint,omitempty"` // why one worker has most of the new ids
}

func (n *node) report() any {
	open, g := front{n.proxy}.Open(), n.store.Load().guarantee()
	return nodeReport{open.Exchanges, open.Streams, open.Tunnels, g.Safe, string(g.State), g.Reason, version(), redisstore.Format, n.crowd.hint(time.Now())}
}

func (n *node) proved(o outbound.Outcome) {
	n.metrics.Proved(map[outbound.Outcome]string{
		outbound.Proved: "ok", outbound.Unproved: "missing", outbound.Refuted: "refused",
	}[o])
}

// nodeName names this node in events: the machine and a part that is new with
// each start.
func nodeName() string {
	host, err := os.Hostname()
	if err != nil {
		host = "node"
	}
	return host + "-" + rand.Text()[:6]
}

// probe resolves an id that cannot exist, as a request would. Any answer but a
// failed store is a good one. The id wanders over the buckets: a node is
// unavailable when all of the store is, not when one shard is.
func (n *node) probe(ctx context.Context) error {
	in := n.gate.inside.Load()
	_, err := in.directory.Resolve(ctx, directory.Request{Host: "probe.invalid", Address: pinboard.Address{
		Namespace: "/readyz", ID: "probe-" + strconv.FormatUint(n.probes.Add(1), 10),
	}})
	if errors.Is(err, pinboard.StoreUnavailable) || ctx.Err() != nil {
		return errors.New(cmp.Or(n.outage.why(), "the store does not answer in time"))
	}
	return nil
}

// blocked says why this node must serve no id, "" while it may.
func (n *node) blocked() string {
	if s := n.store.Load(); s != nil {
		return s.disagrees()
	}
	return ""
}

func (n *node) keep(ctx context.Context) error { return n.gate.inside.Load().directory.Keep(ctx) }

// count refreshes the census.
func (n *node) count(ctx context.Context) error {
	d := n.gate.inside.Load().directory
	diffs, err := d.Meet(ctx)
	if err != nil {
		return err
	}
	n.fleet.look(diffs)
	states, err := d.WorkerStates(ctx)
	if err != nil {
		return err
	}
	overview, err := d.Overview(ctx, "", 1)
	if err != nil {
		return err
	}
	if err := n.lost.look(ctx, d, states["lapsed"]); err != nil {
		return err
	}
	c := &census{states: states, nodes: len(d.Nodes()), differ: differing(diffs)}
	for _, p := range overview.Placed {
		c.placed += int(p.Placed)
	}
	n.counts.Store(c)
	return nil
}

// snapshot is read at each scrape; no I/O.
func (n *node) snapshot() metrics.Snapshot {
	open, seen := front{n.proxy}.Open(), n.counts.Load()
	var g redisstore.Guarantee
	if s := n.store.Load(); s != nil {
		g = s.guarantee()
	}
	return metrics.Snapshot{
		Connections: map[string]int{"finite": open.Exchanges, "stream": open.Streams, "tunnel": open.Tunnels},
		Workers:     seen.states, Placements: seen.placed, Nodes: seen.nodes, Differing: seen.differ,
		Ready: n.server.Health().Status == server.Ready, Lag: n.server.Lag(), StoreSafe: g.Safe, StoreState: string(g.State),
		StoreDisagrees: n.blocked() != "",
		LogLost:        n.lostLines(), Version: version(), StoreFormat: redisstore.Format,
	}
}

// minted reports whether this fleet minted an attestation that a client sent.
func (n *node) minted(token []byte) bool {
	in := n.gate.inside.Load()
	if in == nil {
		return false
	}
	return attest.Ours(token, func(session string) (string, bool) {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		w, err := in.directory.WorkerOf(ctx, session)
		if w == nil {
			return "", false
		}
		return w.Secret, err == nil || errors.As(err, new(directory.Gone))
	})
}
