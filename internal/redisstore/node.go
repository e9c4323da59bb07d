package redisstore

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/redis/rueidis"
)

// Bounds of one command. Together they keep every operation under two
// seconds, also when the server is a black hole.
const (
	dialTimeout = 500 * time.Millisecond
	opTimeout   = 1400 * time.Millisecond
)

// ErrUnavailable is any failure to get a sound answer from the store. What
// was asked for may or may not have happened.
var ErrUnavailable = errors.New("store unavailable")

func unavailable(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrUnavailable, fmt.Sprintf(format, args...))
}

// A node is one Redis server at an address. Its client queues nothing for
// later: while the server is away, dialling fails and so do commands.
type node struct {
	addr string
	db   int
	src  *source // how to sign in, asked for each connection
	role role

	mu      sync.Mutex
	client  rueidis.Client
	dialing chan struct{} // non-nil while the client is being made
	failure error         // of the last attempt
	closed  bool

	hits *hitLine
}

func (n *node) options() rueidis.ClientOption {
	return rueidis.ClientOption{
		InitAddress: []string{n.addr}, ForceSingleClient: true, SelectDB: n.db,
		DialCtxFn: n.connect, AuthCredentialsFn: n.credentials,
		Dialer:      net.Dialer{Timeout: dialTimeout, KeepAlive: time.Second},
		AlwaysRESP2: true, DisableCache: true, DisableRetry: true,
		ClientSetInfo:    rueidis.DisableClientSetInfo,
		ConnWriteTimeout: opTimeout, PipelineMultiplex: 1,
		ReadBufferEachConn: 1 << 16, WriteBufferEachConn: 1 << 16,
	}
}

func (n *node) connect(ctx context.Context, addr string, d *net.Dialer, _ *tls.Config) (net.Conn, error) {
	if c := n.src.login(n.role).to(addr); c != nil {
		return (&tls.Dialer{NetDialer: d, Config: c}).DialContext(ctx, "tcp", addr)
	}
	return d.DialContext(ctx, "tcp", addr)
}

func (n *node) credentials(rueidis.AuthCredentialsContext) (rueidis.AuthCredentials, error) {
	l := n.src.login(n.role)
	return rueidis.AuthCredentials{Username: l.user, Password: l.password}, nil
}

// conn is the client. Making one dials, so it happens beside the caller, who
// waits no longer than ctx.
func (n *node) conn(ctx context.Context) (rueidis.Client, error) {
	n.mu.Lock()
	if n.closed {
		n.mu.Unlock()
		return nil, unavailable("server left")
	}
	if n.client != nil {
		defer n.mu.Unlock()
		return n.client, nil
	}
	if n.dialing == nil {
		n.dialing = make(chan struct{})
		go n.dial(n.dialing)
	}
	done := n.dialing
	n.mu.Unlock()
	select {
	case <-done:
	case <-ctx.Done():
		return nil, unavailable("%v", ctx.Err())
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.client == nil {
		return nil, fmt.Errorf("%w: cannot connect: %w", ErrUnavailable, n.failure)
	}
	return n.client, nil
}

func (n *node) dial(done chan struct{}) {
	c, err := rueidis.NewClient(n.options())
	n.mu.Lock()
	defer n.mu.Unlock()
	defer close(done)
	n.dialing, n.failure = nil, err
	if c != nil && (err != nil || n.closed) {
		c.Close()
		return
	}
	n.client = c
}

// drop closes the connections: a reply is missing or was not the expected
// one, so nothing that still arrives on them can be trusted (R10).
func (n *node) drop(c rueidis.Client) {
	n.mu.Lock()
	same := n.client == c
	if same {
		n.client = nil
	}
	n.mu.Unlock()
	if same {
		go c.Close()
	}
}

func (n *node) close() {
	n.mu.Lock()
	c := n.client
	n.client, n.closed = nil, true
	n.mu.Unlock()
	if c != nil {
		c.Close()
	}
	if n.hits != nil {
		n.hits.close()
	}
}

// do runs one command. Errors that are the server's own words come back as
// they are, everything else as ErrUnavailable.
func (n *node) do(ctx context.Context, words ...string) (rueidis.RedisMessage, error) {
	c, err := n.conn(ctx)
	if err != nil {
		return rueidis.RedisMessage{}, err
	}
	m, err := c.Do(ctx, c.B().Arbitrary(words...).Build()).ToMessage()
	return m, n.ours(ctx, c, err)
}

// ours turns an error of c into one of ours. A caller that hung up or ran out
// of its own time leaves a reply behind, which the client still takes in its
// place; running out of ours means that no reply comes any more, and closes.
func (n *node) ours(ctx context.Context, c rueidis.Client, err error) error {
	if err == nil {
		return nil
	}
	if _, ok := rueidis.IsRedisErr(err); ok || rueidis.IsRedisNil(err) {
		return err
	}
	if cause := context.Cause(ctx); cause == nil || cause == errSilent {
		n.drop(c)
	}
	return unavailable("%v", err)
}

// errSilent is the cause of the end of a context that this package bounded.
var errSilent = errors.New("no answer in time")

func bounded(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, d, errSilent)
}
