package directory

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"hash/maphash"
	"math/rand/v2"
	"pinboard/internal/ownership"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"pinboard"
)

// Options configure a Directory. Store and Lease are required.
type Options struct {
	Store      ownership.Store
	Lease      time.Duration // lease granted to workers
	Slack      time.Duration // how much longer the store holds a lease than the worker is told (G4)
	Lag        time.Duration // added to cold starts when the store has replicas (G3)
	NoCold     bool          // development only: no cold start
	Hostnames  bool          // hostname-aware mode
	Balance    float64       // affinity holds while headroom >= mean/Balance; 1.25 if 0
	PlaceLimit int64         // R9; 10,000 if 0
	PlaceRate  float64       // new ids per client and second on this node; 0: no limit
	Node       string        // names this node in events and in the list of nodes
	Version    string        // of this node, and the format of what it stores: told to the other nodes (Meet)
	Format     int
	Hints      int // remembered owners; 100,000 if 0
	EnrolChunk int // rows restated in one commit; 2,000 if 0, which is well below what stalls a server (L4)

	Now     func() time.Time                               // monotonic; time.Now if nil
	Rand    rand.Source                                    // time-seeded if nil; guarded by the Directory
	Secrets func(n int) []byte                             // unpredictable bytes for session ids; crypto/rand if nil
	Fan     func(n int, do func(i int))                    // runs do for 0..n-1 and waits; concurrently if nil
	OldNow  func(gen string) (ownership.Micros, bool)      // what the clock behind an earlier generation shows now (R6); none if nil
	Connect func(context.Context, *ownership.Worker) error // tries one data-plane connect; none if nil
	Go      func(func())                                   // runs something in the background; a goroutine if nil
	Crowded func(Crowd)                                    // told when affinity gives one worker most new ids; must not block
	Within  Within                                         // bounds a call in time; context.WithTimeout if nil
}

// Within derives a context that ends after d.
type Within func(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc)

// A Directory resolves ids to owners and keeps sessions for one node. It holds
// only hints; everything that matters is in the Store. Safe for concurrent use.
type Directory struct {
	o     Options
	rules ownership.Rules
	n     int
	seen  []atomic.Uint64 // highest epoch seen per bucket (R1)
	long  atomic.Int64    // longest lease granted or read (G5), Micros

	mu   sync.Mutex // guards rand
	rand *rand.Rand

	hints   *hints
	limiter *limiter
	known   known
	roster  roster
	health  health
	fleet   fleet
	crowds  crowds
	keeping keeper
}

// New returns a Directory on o.Store.
func New(o Options) *Directory {
	if o.Balance == 0 {
		o.Balance = 1.25
	}
	if o.PlaceLimit == 0 {
		o.PlaceLimit = 10_000
	}
	if o.Hints == 0 {
		o.Hints = 100_000
	}
	if o.EnrolChunk == 0 {
		o.EnrolChunk = 2000
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Rand == nil {
		o.Rand = rand.NewPCG(rand.Uint64(), rand.Uint64())
	}
	if o.Secrets == nil {
		o.Secrets = secretBytes
	}
	if o.Fan == nil {
		o.Fan = fanOut
	}
	if o.OldNow == nil {
		o.OldNow = func(string) (ownership.Micros, bool) { return 0, false }
	}
	if o.Go == nil {
		o.Go = func(f func()) { go f() }
	}
	if o.Crowded == nil {
		o.Crowded = func(Crowd) {}
	}
	if o.Within == nil {
		o.Within = context.WithTimeout
	}
	d := &Directory{o: o, n: o.Store.Buckets(), rand: rand.New(o.Rand), hints: newHints(o.Hints), limiter: newLimiter(o.PlaceRate)}
	d.rules = ownership.Rules{
		Lease: o.Lease.Microseconds(), Slack: o.Slack.Microseconds(), Lag: o.Lag.Microseconds(), NoCold: o.NoCold,
		Hostnames: o.Hostnames, Node: o.Node,
	}
	d.seen = make([]atomic.Uint64, d.n)
	d.long.Store(d.rules.Lease + d.rules.Slack)
	d.rules.Longest = d.long.Load
	d.roster.placed = map[string]int{}
	d.health.fails = map[string]*streak{}
	d.crowds = crowds{seed: maphash.MakeSeed(), runs: map[uint64]*run{}}
	return d
}

// Hostnames reports whether hostname-aware mode is on.
func (d *Directory) Hostnames() bool { return d.o.Hostnames }

// Touch opens every bucket, so that the cold start comes once and not bucket
// by bucket (G2). The node is ready when it has succeeded.
func (d *Directory) Touch(ctx context.Context) error {
	return d.each(func(b int) error {
		return d.o.Store.Update(ctx, b, ownership.Select{}, func(tx *ownership.Tx) error {
			d.rules.Begin(tx, d.long.Load())
			raise(&d.long, tx.Meta.Longest)
			return nil
		})
	})
}

// ColdFor is the longest time until every bucket is warm, 0 when all are.
func (d *Directory) ColdFor(ctx context.Context) (time.Duration, error) {
	waits := make([]time.Duration, d.n)
	err := d.each(func(b int) error {
		return d.o.Store.Update(ctx, b, ownership.Select{}, func(tx *ownership.Tx) error {
			d.rules.Begin(tx, 0)
			waits[b] = max(0, time.Duration(tx.Meta.Cold-tx.Now)*time.Microsecond)
			return nil
		})
	})
	return slices.Max(waits), err
}

// each runs do for every bucket and returns the first error by bucket.
func (d *Directory) each(do func(b int) error) error {
	errs := make([]error, d.n)
	d.o.Fan(d.n, func(i int) { errs[i] = do(i) })
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

func fanOut(n int, do func(i int)) {
	var wg sync.WaitGroup
	for i := range n {
		wg.Add(1)
		go func() { defer wg.Done(); do(i) }()
	}
	wg.Wait()
}

// joined keeps refusals and the answers of api.go and joins StoreUnavailable to
// everything else: an error of the store is never an answer (R10).
func joined(err error) error {
	var refusal *pinboard.Refusal
	switch {
	case err == nil:
		return nil
	case errors.As(err, &refusal), errors.As(err, new(ownership.Wait)), errors.As(err, new(ownership.Conflict)), errors.As(err, new(ownership.Superseded)):
		return err
	}
	return errors.Join(pinboard.StoreUnavailable, err)
}

// ProcessOf is the identity of a process: its clientId and a digest of its secret.
func ProcessOf(clientID, secret string) string {
	h := sha256.Sum256([]byte(clientID + "\x00" + secret))
	return base64.RawURLEncoding.EncodeToString(h[:15])
}

func (d *Directory) sessionID() string {
	return base64.RawURLEncoding.EncodeToString(d.o.Secrets(12))
}

func (d *Directory) msgID() string {
	return base64.RawURLEncoding.EncodeToString(d.o.Secrets(9))
}

func (d *Directory) nonce() (n ownership.Nonce) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for n == (ownership.Nonce{}) {
		u := d.rand.Uint64()
		for i := range n {
			n[i] = byte(u >> (8 * i))
		}
	}
	return n
}

func (d *Directory) sawEpoch(b int, e pinboard.Epoch) {
	for {
		old := d.seen[b].Load()
		if uint64(e) <= old || d.seen[b].CompareAndSwap(old, uint64(e)) {
			return
		}
	}
}

func raise(a *atomic.Int64, v int64) {
	for {
		old := a.Load()
		if v <= old || a.CompareAndSwap(old, v) {
			return
		}
	}
}

// known remembers namespaces, so that a wiped store is no proof of absence and
// namespaces of several segments are found as prefixes.
type known struct {
	all   sync.Map // namespace -> true
	envs  sync.Map // BindKey -> env last seen; grows with bindings only
	mu    sync.Mutex
	multi atomic.Pointer[[]string] // those with several segments, longest first
}

func (k *known) has(ns string) bool {
	_, ok := k.all.Load(ns)
	return ok
}

func (k *known) add(ns string) {
	if k.has(ns) {
		return
	}
	ns = strings.Clone(ns)
	k.all.Store(ns, true)
	if strings.LastIndexByte(ns, '/') == 0 {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	var list []string
	if p := k.multi.Load(); p != nil {
		list = slices.Clone(*p)
	}
	list = append(list, ns)
	slices.SortFunc(list, func(a, b string) int { return len(b) - len(a) })
	k.multi.Store(&list)
}

// Prefix implements pinboard.Prefix over the namespaces this node knows.
func (d *Directory) Prefix(path string) int {
	list := d.known.multi.Load()
	if list == nil {
		return 0
	}
	for _, ns := range *list {
		if pinboard.InNamespace(path, ns) {
			return len(ns)
		}
	}
	return 0
}
