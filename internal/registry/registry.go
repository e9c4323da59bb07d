// Package registry serves /registry/*, the control plane. It owns the edge:
// who may call (before a byte of the body is read and before the path is
// judged), what a body must look like, what an error says. What a call means
// is the directory's business.
package registry

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"sync"
	"time"

	"pinboard/internal/directory"
	"pinboard/internal/outbound"
	"pinboard/internal/ownership"
	"pinboard/internal/passport"
	"pinboard/internal/seldom"
)

// A Directory keeps sessions and placements; directory.Directory is one. Errors
// are the answers of directory/api.go, a *pinboard.Refusal, or anything else,
// which counts as the store being away. A session of another owner is unknown.
type Directory interface {
	Register(ctx context.Context, r *directory.Registration) (directory.Grant, error)
	WorkerOf(ctx context.Context, sid string) (*ownership.Worker, error)
	Beat(ctx context.Context, b ownership.Beat) (directory.Grant, error)
	Release(ctx context.Context, owner string, items []directory.Release) (int, error)
	Deregister(ctx context.Context, owner, sid string) error
	Tag(ctx context.Context, owner string, t directory.Tag) (bool, error)

	WindDown(ctx context.Context, o directory.WindDown) (bool, error)
	Drain(ctx context.Context, sel directory.Selector, deadline *time.Duration) (int, error)
	Undrain(ctx context.Context, sel directory.Selector) (int, error)
	Eject(ctx context.Context, sel directory.Selector) (int, error)
	Bound(ctx context.Context, hostname, namespace string) (env string, err error)
	DeleteBinding(ctx context.Context, hostname, namespace string) (bool, error)

	Workers(ctx context.Context, after string, limit int) ([]directory.WorkerInfo, string, error)
	Overview(ctx context.Context, after string, limit int) (directory.Overview, error)
	Events(ctx context.Context, after string, limit int) ([]ownership.Entry, string, error)
	Health(ctx context.Context) (directory.Health, error)
}

// Workers reaches workers; outbound.Client does.
type Workers interface {
	Prove(ctx context.Context, p outbound.Probe) outbound.Proof
	Stats(ctx context.Context, targets []outbound.StatsTarget) []outbound.Stats
	Push(ctx context.Context, p outbound.Push) outbound.PushResult
}

// Tokens judges Authorization headers; passport.Source does.
type Tokens interface {
	Authenticate(authorization []string) (*passport.Principal, bool)
}

// Config is everything a Server is told. Workers and Tokens must be set; any
// other zero value means the stated default.
type Config struct {
	Directory Directory // nil while the store is not reached: every permitted call is StoreUnavailable
	Workers   Workers
	Tokens    Tokens
	Policy    outbound.Policy // which address literals may be advertised

	RequireProof  bool // registrations without a challenge are refused
	HostnameAware bool // hostname, env and takeover count
	// LegacyPaths takes a worker with one namespace that ends its advertise
	// URL for one of 0.4.1 or older even if it sends a challenge (0.2.0 to
	// 0.4.1 do both). Off, only workers without a challenge are.
	LegacyPaths bool

	Node    func() any               // this node's counts in overview and health; none if nil
	Blocked func() string            // why this node must serve no id, for health; "" while it may; never if nil
	Proved  func(o outbound.Outcome) // told of each probe's outcome, for metrics
	Log     *slog.Logger             // slog.Default() if nil
	Rand    func() float64           // jitter of Retry-After, from 0 to 1; math/rand if nil
	Now     func() time.Time         // the node\'s clock; time.Now if nil
}

// A Server is the control plane of one node. Safe for concurrent use.
type Server struct {
	Config
	routes   map[string]route
	budget   *budget
	unproved quota           // of log lines
	failing  seldom.Warnings // about proofs, by clientId
	drains   drains
	pushes   sync.WaitGroup // callbacks under way
	closed   context.Context
	close    context.CancelFunc
}

// New returns a Server.
func New(c Config) *Server {
	if c.Log == nil {
		c.Log = slog.Default()
	}
	if c.Rand == nil {
		c.Rand = rand.Float64
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Blocked == nil {
		c.Blocked = func() string { return "" }
	}
	if c.Proved == nil {
		c.Proved = func(outbound.Outcome) {}
	}
	s := &Server{Config: c, budget: newBudget(), unproved: quota{now: c.Now}}
	s.closed, s.close = context.WithCancel(context.Background())
	s.routes = s.table()
	return s
}

// Close ends the callbacks under way and waits for them.
func (s *Server) Close() {
	s.close()
	s.pushes.Wait()
}

// A route is one endpoint: who may call it how, and what it does.
type route struct {
	method string
	scope  string
	time   time.Duration // that it takes at most; 0: no limit of ours
	answer int64         // of a GET: its bytes at most, for the budget
	serve  serveFunc
}

func (s *Server) table() map[string]route {
	worker := func(f serveFunc) route { return route{http.MethodPost, passport.ScopeWorker, workerTime, 0, f} }
	order := func(f serveFunc) route { return route{http.MethodPost, passport.ScopeOperator, 0, 0, f} }
	get := func(bytes int64, f serveFunc) route {
		return route{http.MethodGet, passport.ScopeOperator, 0, bytes, f}
	}
	return map[string]route{
		"/registry/register":          worker(serveJSON(s.register)),
		"/registry/heartbeat":         worker(serveJSON(s.heartbeat)),
		"/registry/release":           worker(serveJSON(s.release)),
		"/registry/deregister":        worker(serveJSON(s.deregister)),
		"/registry/tag":               worker(serveJSON(s.tag)),
		"/registry/durability/mark":   worker(serveJSON(s.mark)),
		"/registry/durability/unmark": worker(serveJSON(s.mark)),
		"/registry/wind_down":         order(serveJSON(s.windDown)),
		"/registry/drain":             order(serveJSON(s.drain)),
		"/registry/undrain":           order(serveJSON(s.undrain)),
		"/registry/eject":             order(serveJSON(s.eject)),
		"/registry/push":              order(serveJSON(s.push)),
		"/registry/binding/delete":    order(serveJSON(s.deleteBinding)),
		"/registry/workers":           get(listAnswer, serveList(s.workers)),
		"/registry/overview":          get(listAnswer, serveList(s.overview)),
		"/registry/events":            get(listAnswer, serveList(s.events)),
		"/registry/stats":             get(2*outbound.StatsBytes, serveList(s.stats)), // as they came, and encoded
		"/registry/health":            get(callCost, s.health),
	}
}
