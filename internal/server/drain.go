package server

import (
	"context"
	"os"
	"time"
)

// drain ends the node without losing a request (product.md section 6):
//
//	signal       /readyz 503, answers carry Connection: close, all is served
//	+ notice     the listener and idle connections close, finite exchanges end
//	+ budget     streams and tunnels are cut
//
// A node that never became ready has no balancer to wait for and skips the
// notice.
func (s *Server) drain(signals <-chan os.Signal, faults <-chan error, cause ...any) error {
	began := time.Now()
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
		case <-signals:
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
	case <-signals:
		return s.abandon()
	}
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
