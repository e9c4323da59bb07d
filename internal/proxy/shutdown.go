package proxy

import (
	"context"
	"time"
)

// Stats counts what a shutdown ended by force.
type Stats struct {
	Finite  int // requests that had no whole answer yet
	Streams int // cut without a last chunk
	Tunnels int // closed by TCP
	Control int
}

// Drain makes every answer say Connection: close, while new connections and
// requests are still served: the notice period.
func (p *Proxy) Drain() { p.draining.Store(true) }

// Pace and patience of a shutdown: a client may already have sent a request on
// a connection that is idle here.
const (
	shutdownPace = 20 * time.Millisecond
	idlePatience = 500 * time.Millisecond
)

// Shutdown stops accepting, lets what is under way end, and cuts the rest when
// ctx is done. It returns when no goroutine of the proxy is left.
func (p *Proxy) Shutdown(ctx context.Context) Stats {
	p.Drain()
	p.mu.Lock()
	p.closed = true
	for l := range p.listeners {
		_ = l.Close()
	}
	p.mu.Unlock()
	ended := make(chan struct{})
	go func() {
		p.served.Wait()
		close(ended)
	}()
	begun := p.cfg.Now()
	t := time.NewTicker(shutdownPace)
	defer t.Stop()
	var s Stats
	for waiting := true; waiting; {
		select {
		case <-ended:
			waiting = false
		case <-t.C:
			p.closeQuiet(begun)
		case <-ctx.Done():
			s = p.cutAll()
			<-ended
			waiting = false
		}
	}
	p.over.Do(p.dismantle)
	return s
}

// dismantle ends what serves all connections, once there are none.
func (p *Proxy) dismantle() {
	p.stop()
	p.sweeper.done.Wait()
	p.watcher.close()
	p.spare.close()
	p.forgetWorkers()
}

// closeQuiet closes connections that have been idle for a while.
func (p *Proxy) closeQuiet(begun time.Time) {
	now := p.cfg.Now()
	if now.Sub(begun) < idlePatience {
		return
	}
	for _, c := range p.snapshot(nil) {
		c.mu.Lock()
		if c.phase == idle && now.Sub(c.since) >= idlePatience || c.phase == closing {
			_ = c.nc.SetReadDeadline(past)
		}
		c.mu.Unlock()
	}
}

func (p *Proxy) cutAll() Stats {
	s := Stats{
		Finite:  p.InFlight(Finite),
		Streams: p.InFlight(Stream),
		Tunnels: p.InFlight(Tunnel),
		Control: p.InFlight(Control),
	}
	for _, c := range p.snapshot(nil) {
		c.interrupt(cutShutdown)
	}
	return s
}

func (p *Proxy) forgetWorkers() {
	p.workersMu.Lock()
	defer p.workersMu.Unlock()
	for session, k := range p.workers {
		k.closeIdle(true)
		delete(p.workers, session)
	}
}
