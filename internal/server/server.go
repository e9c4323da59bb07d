// Package server runs one node: it boots the store behind an open port,
// watches readiness, keeps the background loops going and ends everything in
// the order that loses no request.
package server

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"os"
	"sync"
	"time"

	"pinboard/internal/wait"
)

// Front is the data plane. It owns every connection of the listener.
type Front interface {
	// Serve accepts until Shutdown, then returns nil.
	Serve(net.Listener) error
	// Drain makes every answer from now on say Connection: close.
	Drain()
	// Shutdown closes the listener and idle connections, waits for finite
	// exchanges, cuts what is still open when ctx ends (streams without a last
	// chunk, tunnels by TCP close) and reports what it cut.
	Shutdown(ctx context.Context) Open
	// Open counts what is open now.
	Open() Open
}

// Open counts what client connections carry.
type Open struct {
	Exchanges int // finite exchanges under way
	Streams   int // responses without an end in sight: SSE and the like
	Tunnels   int // WebSockets
}

// Config of a Server; every field is required.
type Config struct {
	Listener net.Listener
	Front    Front
	Log      *slog.Logger

	// Boot connects the store; it retries by itself, so an error is final. The
	// port is open meanwhile: probes answer, everything else is refused.
	Boot func(context.Context) error
	// Probe reports whether this node can resolve ids now.
	Probe func(context.Context) error
	// Blocked says why this node must resolve no id, "" while it may; no I/O.
	// What it says is known for sure, so it counts at once and in public.
	Blocked func() string
	// Workers is how many this node knows; no I/O.
	Workers func() int
	// Loops start after Boot and run until the very end of the drain.
	Loops []Loop
	// LoopFailed observes a failed run of a loop.
	LoopFailed func(loop string)

	Notice time.Duration // from the signal until the listener closes
	Budget time.Duration // from the signal until streams are cut

	Version     string // told by Health: what runs here
	StoreFormat int    // and which form of the store it speaks
}

// ErrSecondSignal is the answer of Run when an operator would not wait.
var ErrSecondSignal = errors.New("second signal: exit without draining")

const settleTime = time.Second

// Server is one node between its first and its last breath.
type Server struct {
	cfg     Config
	started time.Time
	lag     lagMeter

	mu    sync.Mutex
	ready readiness
}

// New makes a server that has not begun yet.
func New(cfg Config) *Server { return &Server{cfg: cfg, started: time.Now()} }

// Health is the node's present state for /readyz.
func (s *Server) Health() Health {
	s.mu.Lock()
	status := s.ready.word()
	s.mu.Unlock()
	h := Health{status, int64(time.Since(s.started).Seconds()), s.cfg.Workers(), s.cfg.Version, s.cfg.StoreFormat, ""}
	if status != Draining {
		h.Reason = s.cfg.Blocked()
	}
	if status == Ready && h.Reason != "" {
		h.Status = Unavailable
	}
	return h
}

// Lag is the worst scheduler lag since the last heartbeat line.
func (s *Server) Lag() time.Duration { return s.lag.read() }

// Run serves until a signal (or the end of ctx, which counts as one) and
// drains. It returns nil after a complete drain, ErrSecondSignal when a second
// signal came, or the fault that ended the node.
func (s *Server) Run(ctx context.Context, signals <-chan os.Signal) error {
	life, end := context.WithCancel(context.WithoutCancel(ctx))
	var running sync.WaitGroup
	defer awaitEnd(&running)
	defer end()

	faults := make(chan error, 1)
	start := func(f func(context.Context) error) {
		running.Go(func() {
			if err := caught(func() error { return f(life) }); err != nil {
				select {
				case faults <- err:
				default: // one fault is enough to end
				}
			}
		})
	}
	start(func(context.Context) error { return s.cfg.Front.Serve(s.cfg.Listener) })
	start(s.lag.run)
	start(s.heartbeat)
	start(func(ctx context.Context) error {
		if err := s.cfg.Boot(ctx); err != nil {
			if ctx.Err() != nil {
				return nil
			}
			return err
		}
		for _, l := range s.cfg.Loops {
			start(func(ctx context.Context) error { return s.repeat(ctx, l) })
		}
		return s.watch(ctx)
	})
	s.cfg.Log.Info("listening", "address", s.cfg.Listener.Addr().String())

	select {
	case err := <-faults:
		s.cutAll()
		return err
	case sig := <-signals:
		return s.drain(signals, faults, "signal", sig.String())
	case <-ctx.Done():
		return s.drain(signals, faults, "cause", "context ended")
	}
}

// watch probes for as long as the node lives.
func (s *Server) watch(ctx context.Context) error {
	for {
		probe, cancel := context.WithTimeout(ctx, probeTimeout)
		err := s.cfg.Probe(probe)
		cancel()
		if ctx.Err() != nil {
			return nil
		}
		s.observe(err)
		if !wait.For(ctx, probeEvery) {
			return nil
		}
	}
}

func (s *Server) observe(err error) {
	s.mu.Lock()
	before := s.ready.word()
	s.ready = s.ready.observe(err == nil)
	after := s.ready.word()
	s.mu.Unlock()
	switch {
	case before == after:
	case after == Ready:
		s.cfg.Log.Info("ready", "was", string(before))
	default:
		s.cfg.Log.Warn("not ready", "status", string(after), "error", inLine(err))
	}
}

// awaitEnd waits for goroutines that were told to end, but not for ever: a call
// that ignores its context must not hold up the exit.
func awaitEnd(running *sync.WaitGroup) {
	done := make(chan struct{})
	go func() { running.Wait(); close(done) }()
	select {
	case <-done:
	case <-time.After(settleTime):
	}
}
