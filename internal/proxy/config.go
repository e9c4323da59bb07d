// Package proxy is the data plane: an HTTP/1.1 engine over raw connections
// that resolves each request's owner and passes the bytes through.
//
// One goroutine serves one client connection; an upstream connection is
// borrowed from a pool shared by all of them and read in that same goroutine.
// A second goroutine exists only while a request body streams or a tunnel is
// open. Nothing here knows a store, a metrics library or a log format: the
// directory decides, observers are told.
package proxy

import (
	"context"
	"crypto/tls"
	"math/rand/v2"
	"net"
	"net/http"
	"net/netip"
	"syscall"
	"time"

	"pinboard"
	"pinboard/internal/directory"
	"pinboard/internal/ownership"
)

// A Directory says who owns an id. Strings inside a Request are immutable and
// may be kept. An error is a *pinboard.Refusal, the context's, or counts as
// StoreUnavailable.
type Directory interface {
	// Resolve is one atomic look-up; it may place the id.
	Resolve(ctx context.Context, r directory.Request) (directory.Placement, error)
	// Report tells what became of a forward. Served is reported for every
	// answered request and must cost next to nothing.
	Report(ctx context.Context, p directory.Placement, e directory.Event) directory.Verdict
	// Recheck re-reads the rows behind open streams in one batch (F2).
	Recheck(ctx context.Context, w []*directory.Watch) error
	// Caller proves an instance call: the session that owns the calling
	// instance, or InvalidSessionSecret, CallerMismatch, StoreUnavailable.
	Caller(ctx context.Context, c directory.CallerClaim) (session string, err error)
}

// Config is everything a Proxy is told. Directory, Control and Mint must be
// set; any other zero value means the stated default.
type Config struct {
	Directory Directory
	// Control serves /healthz, /readyz, /metrics and everything under
	// /registry and /dashboard.
	Control http.Handler
	// Mint appends a compact attestation for w; caller is "/ns/id" of a
	// proven caller or "" (then depth is 0).
	Mint func(dst []byte, w *ownership.Worker, caller string, depth int) []byte
	// Minted reports whether this fleet minted the attestation, for whichever
	// worker: such a request is a loop. nil: no loop is ever seen.
	Minted func(token []byte) bool
	// Prefix knows the registered namespaces; nil: the first segment.
	Prefix pinboard.Prefix
	// Observe is told of each finished exchange, in its goroutine; it must not
	// keep the pointer.
	Observe func(*Exchange)
	// RequestIDs gives every Exchange its RequestID; off, only those that
	// Pinboard answers and those of the control plane have one.
	RequestIDs bool
	// Mistrusted is told of a worker that refused an attestation and the Date
	// of its answer, "" without one. A diagnosis; it must not block.
	Mistrusted func(w *ownership.Worker, date string)
	// Panic is told of a panic that one exchange ended with.
	Panic func(v any, stack []byte)

	HostnameAware bool           // resolve by canonical authority
	Trusted       []netip.Prefix // peers whose X-Forwarded-* are believed
	Affinity      Affinity       // what prefers a worker for a new id
	CORSOrigins   []string       // origins that may read our own errors; "*" for all

	Lease            time.Duration   // 15 s; rows behind streams are re-read each third of it
	Limits           pinboard.Limits // of a forward's lateness; those for Lease
	HeadTimeout      time.Duration   // 10 s from the first byte of a head to its last
	ClientIdle       time.Duration   // 650 s between requests, above the usual load balancer's
	ConnectTimeout   time.Duration   // 2 s per address
	ResponseTimeout  time.Duration   // 300 s to the response head; negative: none
	PoolIdle         time.Duration   // 4 s; must stay below the workers' own idle limit
	HalfCloseGrace   time.Duration   // 1 s of silence after the client's FIN; five times that in a tunnel
	WorkerMaxConns   int             // 1024 finite exchanges per worker
	InstanceMaxConns int             // half of those: finite exchanges per instance
	WorkerQueue      time.Duration   // 1 s of waiting for one of a worker's
	ControlBody      int64           // 16 MiB

	// Dial connects to one numeric address; nil dials TCP with DialControl.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
	// DialControl sees each address before it is connected to (SSRF rules).
	DialControl func(network, address string, c syscall.RawConn) error
	// Lookup resolves a worker's host name, at every dial; nil asks the system.
	Lookup func(ctx context.Context, host string) ([]netip.Addr, error)
	// TLS is cloned for https workers.
	TLS *tls.Config

	Now  func() time.Time // must carry a monotonic reading
	Rand func(n int) int  // uniform in [0, n)
}

func (c Config) withDefaults() Config {
	orDuration(&c.Lease, 15*time.Second)
	if c.Limits == (pinboard.Limits{}) {
		c.Limits = pinboard.LimitsFor(c.Lease)
	}
	orDuration(&c.HeadTimeout, 10*time.Second)
	orDuration(&c.ClientIdle, 650*time.Second)
	orDuration(&c.ConnectTimeout, 2*time.Second)
	orDuration(&c.ResponseTimeout, 300*time.Second)
	orDuration(&c.PoolIdle, 4*time.Second)
	orDuration(&c.HalfCloseGrace, time.Second)
	orDuration(&c.WorkerQueue, time.Second)
	if c.WorkerMaxConns == 0 {
		c.WorkerMaxConns = 1024
	}
	if c.InstanceMaxConns == 0 {
		c.InstanceMaxConns = max(1, c.WorkerMaxConns/2)
	}
	if c.ControlBody == 0 {
		c.ControlBody = 16 << 20
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Rand == nil {
		c.Rand = rand.IntN
	}
	if c.Observe == nil {
		c.Observe = func(*Exchange) {}
	}
	if c.Mistrusted == nil {
		c.Mistrusted = func(*ownership.Worker, string) {}
	}
	if c.Panic == nil {
		c.Panic = func(any, []byte) {}
	}
	if c.Lookup == nil {
		c.Lookup = func(ctx context.Context, host string) ([]netip.Addr, error) {
			return net.DefaultResolver.LookupNetIP(ctx, "ip", host)
		}
	}
	if c.Dial == nil {
		d := &net.Dialer{Control: c.DialControl}
		c.Dial = d.DialContext
	}
	return c
}

func orDuration(d *time.Duration, v time.Duration) {
	if *d == 0 {
		*d = v
	}
}

// An End says how an exchange ended.
type End uint8

// The ways an exchange ends.
const (
	Complete    End = iota // the answer reached the client whole
	Rejected               // answered by Pinboard: Code says with what
	ClientGone             // the client left first
	WorkerGone             // the worker broke off: the client saw a cut answer
	OwnerGone              // cut because the lease lapsed or the row moved
	ShutdownCut            // cut at the end of the shutdown budget
)

// String is the end's name in logs and metrics.
func (e End) String() string {
	return [...]string{"complete", "rejected", "client_gone", "worker_gone", "owner_gone", "shutdown"}[e]
}

// A Kind sorts exchanges by how they hold connections.
type Kind uint8

// The kinds of exchange.
const (
	Finite  Kind = iota // until the response head, and while it has a known length
	Stream              // a body without announced length
	Tunnel              // an upgraded connection
	Control             // answered by the control handler
)

// String is the kind's name in logs and metrics.
func (k Kind) String() string { return [...]string{"finite", "stream", "tunnel", "control"}[k] }

// An Exchange is one finished request, as observers see it.
type Exchange struct {
	Method   string // "other" unless registered
	Address  pinboard.Address
	Path     string // of the request target, without query
	Peer     string
	Kind     Kind
	End      End
	Status   int               // sent to the client; 0 when none was
	Refusal  *pinboard.Refusal // when Pinboard answered
	Epoch    pinboard.Epoch    // 0 when nothing was resolved
	Worker   *ownership.Worker // nil when nothing was resolved
	Fresh    bool              // this request placed the id
	Forwards int               // deliveries to workers
	Start    time.Time         // head complete
	Resolved time.Duration     // from Start until the last resolution
	Head     time.Duration     // from Start until the response head; of streams and tunnels
	Total    time.Duration     // from Start until the end
	BytesIn  int64             // request body bytes sent on, framing included
	BytesOut int64             // response bytes written, head included

	RequestID string // X-Request-Id of the client, or made here; see Config.RequestIDs
	Fault     string // with the refusal WorkerInvalid: what the worker sent
}
