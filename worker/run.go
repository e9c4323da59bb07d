package worker

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"pinboard/internal/seam"
)

// straggle is how much longer than Config.Drain Run waits for instances that
// do not react to being stopped.
const straggle = 5 * time.Second

// ErrStragglers ends Run when instances did not stop in time. The worker is
// then not deregistered: its ids stay where they are until the lease lapses,
// since something of them may still run.
var ErrStragglers = errors.New("worker: instances did not stop in time")

// Run registers at Pinboard and serves until ctx ends; then it takes nothing
// new, lets instances finish for Config.Drain, closes them, gives their ids
// back and deregisters. The Handler must be reachable at Config.Advertise
// while Run runs. It can run once.
func (h *Handler) Run(ctx context.Context) error {
	h.mu.Lock()
	if h.running {
		h.mu.Unlock()
		return errors.New("worker: Run called twice")
	}
	h.running = true
	h.mu.Unlock()
	if len(h.classes) == 0 {
		return errors.New("worker: no namespace to serve")
	}

	beats, stopBeats := context.WithCancel(context.WithoutCancel(ctx))
	ended := make(chan struct{})
	var why, err error
	h.m.Go(func() {
		defer close(ended)
		why = h.session.run(beats)
	})
	if h.m.Wait(seam.Forever, ctx.Done(), ended) == 0 {
		h.drainFor(h.cfg.Drain)
	} else {
		err = why // superseded: everything is closing already
	}
	left := h.awaitEmpty(h.cfg.Drain + straggle)
	stopBeats()
	h.m.Wait(seam.Forever, ended)
	h.end()
	if left > 0 {
		return fmt.Errorf("%w: %d left", ErrStragglers, left)
	}
	h.closers.Wait()
	h.session.releases.finish()
	h.session.deregister()
	if t, ok := h.calls.(interface{ CloseIdleConnections() }); ok {
		t.CloseIdleConnections()
	}
	return err
}

// end stops everything that happens by itself, except what still closes.
func (h *Handler) end() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.over = true
	if len(h.table) == 0 {
		h.timers.stop.stop()
		h.timers.lapse.stop()
	}
}

// ListenAndServe listens at addr, runs the worker behind it and returns what
// Run returned: the whole life of a worker process in one call.
func (h *Handler) ListenAndServe(ctx context.Context, addr string) error {
	ln, err := net.Listen("tcp", addr)
	if err != nil {
		return err
	}
	return h.Serve(ctx, ln)
}

// Serve is ListenAndServe on a listener that is there already.
func (h *Handler) Serve(ctx context.Context, ln net.Listener) error {
	srv := &http.Server{Handler: h, ReadHeaderTimeout: 10 * time.Second}
	broke := make(chan error, 1)
	go func() { broke <- srv.Serve(ln) }()

	run, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	unwatch := make(chan struct{})
	go func() {
		defer close(unwatch)
		select {
		case err := <-broke:
			broke <- err
			stop(err)
		case <-run.Done():
		}
	}()
	err := h.Run(run)
	stop(nil)
	<-unwatch

	bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), straggle)
	defer cancel()
	srv.Shutdown(bounded)
	srv.Close()
	if served := <-broke; err == nil && !errors.Is(served, http.ErrServerClosed) {
		err = served
	}
	return err
}
