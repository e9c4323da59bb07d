package proxy

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"pinboard/internal/directory"
)

// sweepEvery is the pace of what need not be exact; leases and response
// timeouts are met when they are due. sweepsPerLimit of them fit into a user
// timeout, so that it is lifted long before it could end a connection whose
// worker has the head but reads no body for a while.
const (
	sweepEvery     = time.Second
	sweepsPerLimit = 5
)

// early cuts a stream before its owner's lease can have lapsed, whatever the
// timer's slack.
const early = 10 * time.Millisecond

// A sweeper looks at every connection now and then, so that the hit path sets
// no timer: it times out idle clients and silent workers, lifts user timeouts
// (F1), cuts streams at the lapse of their owner's lease and re-reads the rows
// behind them (F2).
type sweeper struct {
	p    *Proxy
	base time.Time
	pace time.Duration
	next atomic.Int64 // when it looks again, ns behind base
	kick chan struct{}
	done sync.WaitGroup
}

func (s *sweeper) start(p *Proxy) {
	s.p, s.kick = p, make(chan struct{}, 1)
	s.base, s.pace = p.cfg.Now(), min(sweepEvery, p.cfg.Limits.Unacknowledged/sweepsPerLimit)
	s.done.Go(s.run)
	s.done.Go(s.recheck)
}

// before makes sure that the sweeper looks at or before the times given.
func (s *sweeper) before(times ...time.Time) {
	for _, t := range times {
		if !t.IsZero() && int64(t.Sub(s.base)) < s.next.Load() {
			select {
			case s.kick <- struct{}{}:
			default:
			}
			return
		}
	}
}

func (s *sweeper) run() {
	t := time.NewTimer(0)
	defer t.Stop()
	var conns []*conn
	for {
		select {
		case <-s.p.ctx.Done():
			return
		case <-s.kick:
		case <-t.C:
		}
		now := s.p.cfg.Now()
		next := now.Add(s.pace)
		s.next.Store(int64(next.Sub(s.base))) // before anything is looked at: what begins meanwhile kicks
		conns = s.p.snapshot(conns[:0])
		for _, c := range conns {
			if due := c.sweep(now); !due.IsZero() && due.Before(next) {
				next = due
			}
		}
		clear(conns)
		s.p.expireWorkers(now)
		s.next.Store(int64(next.Sub(s.base)))
		t.Reset(max(next.Sub(s.p.cfg.Now()), time.Millisecond))
	}
}

func (p *Proxy) snapshot(conns []*conn) []*conn {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range p.conns {
		conns = append(conns, c)
	}
	return conns
}

func (p *Proxy) expireWorkers(now time.Time) {
	p.workersMu.Lock()
	defer p.workersMu.Unlock()
	for session, k := range p.workers {
		if k.expire(now, p.cfg.PoolIdle) {
			delete(p.workers, session)
		}
	}
}

// sweep does what is due for c and says when something will be next.
func (c *conn) sweep(now time.Time) (due time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	p := c.p
	if c.phase == idle && now.Sub(c.since) > p.cfg.ClientIdle {
		_ = c.nc.SetReadDeadline(past)
	}
	if c.up == nil {
		return time.Time{}
	}
	// Most requests are over before it is worth asking the kernel.
	if c.up.armed && now.Sub(c.up.taken) >= p.sweeper.pace && c.up.acknowledged() {
		c.up.armed = setUserTimeout(c.up.tcp, 0) != nil
	}
	if !c.headBy.IsZero() {
		if !now.Before(c.headBy) {
			c.cutLocked(cutTimeout)
		}
		due = c.headBy
	}
	if lapse := c.watch.Deadline; !lapse.IsZero() {
		lapse = lapse.Add(-early)
		if !now.Before(lapse) {
			c.cutLocked(cutOwner)
		} else if due.IsZero() || lapse.Before(due) {
			due = lapse
		}
	}
	if due.Before(now) {
		return time.Time{} // already acted upon
	}
	return due
}

// Rows behind streams are re-read each third of a lease, or sooner when the
// lease read last is about to lapse. rechecks is how often a lease the loop looks.
const rechecks = 12

func (s *sweeper) recheck() {
	p := s.p
	pace := p.cfg.Lease / rechecks
	t := time.NewTicker(pace)
	defer t.Stop()
	for {
		select {
		case <-p.ctx.Done():
			return
		case <-t.C:
			p.recheck(p.cfg.Now(), pace)
		}
	}
}

// An opened is one exchange whose row is being re-read.
type opened struct {
	c     *conn
	seq   uint64
	watch directory.Watch
}

func (p *Proxy) recheck(now time.Time, pace time.Duration) {
	var open []*opened
	var watches []*directory.Watch
	for _, c := range p.snapshot(nil) {
		if o := c.dueForRecheck(now, pace); o != nil {
			open = append(open, o)
			watches = append(watches, &o.watch)
		}
	}
	if len(open) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(p.ctx, p.cfg.Lease/3)
	defer cancel()
	if p.cfg.Directory.Recheck(ctx, watches) != nil {
		return // the deadlines known so far stand
	}
	for _, o := range open {
		o.c.rechecked(o, now)
	}
}

func (c *conn) dueForRecheck(now time.Time, pace time.Duration) *opened {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.up == nil || c.watch.Deadline.IsZero() || c.why != uncut {
		return nil
	}
	age := now.Sub(c.checked)
	if age+pace < c.p.cfg.Lease/3 && (age < pace || c.watch.Deadline.Sub(now) > 3*pace) {
		return nil
	}
	return &opened{c: c, seq: c.seq, watch: c.watch}
}

func (c *conn) rechecked(o *opened, now time.Time) {
	c.mu.Lock()
	if c.seq == o.seq && c.up != nil {
		c.checked, c.watch.Deadline = now, o.watch.Deadline
		if o.watch.Cut {
			c.cutLocked(cutOwner)
		}
	}
	deadline := c.watch.Deadline
	c.mu.Unlock()
	c.p.sweeper.before(deadline)
}
