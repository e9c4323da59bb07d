package server

import (
	"context"
	"os"
	"time"
)

// drain ends the node without losing a request (docs/operating.md, "Stop and deploy"):
//
//	signal       /readyz 503, answers carry Connection: close, all is served
//	+ notice     the listener and idle connections close, finite exchanges end
//	+ budget     streams and tunnels are cut
//
// A node that never became ready has no balancer to wait for and skips the
// notice.
func (s *Server) drain(signals <-chan os.Signal, faults <-chan error, cause ...any) error {
	began := time.Now()
	over := make(chan struct{})
	defer close(over)
	second := another(signals, over)
	s.mu.Lock()
	was := s.ready.word()
	s.ready = s.ready.drain()
	s.mu.Unlock()
	s.cfg.Front.Drain()
	open := s.cfg.Front.Open()
	s.cfg.Log.Info("draining", append(cause, "noticeMs", s.cfg.Notice.Milliseconds(), "budgetMs", s.cfg.Budget.Milliseconds(),
		"exchanges", open.Exchanges, "streams", open.Streams, "tunnels", open.Tunnels)...)

	if was != Booting {
		notice := time.NewTimer(s.cfg.Notice)
		defer notice.Stop()
		select {
		case <-notice.C:
		case <-second:
			return s.abandon()
		case err := <-faults:
			s.cutAll()
			return err
		}
	}

	rest, cancel := context.WithDeadline(context.Background(), began.Add(s.cfg.Budget))
	defer cancel()
	done := make(chan Open, 1)
	go func() { done <- s.cfg.Front.Shutdown(rest) }()
	select {
	case cut := <-done:
		s.cfg.Log.Info("stopped", "tookMs", time.Since(began).Milliseconds(),
			"cutExchanges", cut.Exchanges, "cutStreams", cut.Streams, "cutTunnels", cut.Tunnels)
		return nil
	case <-second:
		return s.abandon()
	}
}

// echo is how soon after the first a signal is the same one, delivered to the
// process and to its group.
const echo = 100 * time.Millisecond

// another closes its answer at the first signal that is no echo.
func another(signals <-chan os.Signal, stop <-chan struct{}) <-chan struct{} {
	began, second := time.Now(), make(chan struct{})
	go func() {
		for {
			select {
			case <-stop:
				return
			case <-signals:
				if time.Since(began) >= echo {
					close(second)
					return
				}
			}
		}
	}()
	return second
}

// abandon is the answer to a second signal: the end of the process closes
// every connection faster than anything here could.
func (s *Server) abandon() error {
	s.cfg.Log.Warn("second signal, exiting now")
	return ErrSecondSignal
}

// cutAll closes the listener and every connection at once.
func (s *Server) cutAll() {
	over, cancel := context.WithCancel(context.Background())
	cancel()
	s.cfg.Front.Shutdown(over)
}
