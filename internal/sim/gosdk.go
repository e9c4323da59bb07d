package sim

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"pinboard/internal/seam"
	"pinboard/worker"
)

// A goSDK runs the real code of package worker as a process: it is the machine
// below it, the wire to the nodes and the application in it. The SDK's
// activities are tasks of the process, so a freeze stops all of them wherever
// they wait, and a kill ends them there.
type goSDK struct {
	p     *Proc
	w     *World
	h     *worker.Handler
	stop  context.CancelFunc // begins the end of Run
	gone  bool               // its tasks unwind: nothing of it happens any more
	waits []*sdkWait
	apps  []*sdkApp
	grant *sdkGrant // answered, not yet worked off

	silent  bool // the simulation looks at the SDK: that is no point
	points  int  // passed so far, see point
	freeze  sdkFreeze
	stopped *Task // froze behind a look at the clock and has passed no point since
	late    int   // began all the same: the gap that no code can close
}

// A sdkFreeze stops the process at a point of its code.
type sdkFreeze struct {
	at     int // the number of the point, 0 for none
	d      time.Duration
	behind bool // points behind looks at the clock count as well
}

// startGo starts the SDK in a process.
func (p *Proc) startGo() {
	m := &goSDK{p: p, w: p.w}
	p.sdk = m
	h, err := worker.New(worker.Config{
		Pinboard: "http://pinboard", Token: simToken, Advertise: p.url, Transport: m,
		Hostname: p.Hostname, Env: p.Env, Takeover: p.Takeover, Epoch: p.BindEpoch,
		Headroom: func() float64 { return 100 - float64(len(p.instances)) },
		Beat:     interval, Buffer: p.lease.Buffer, Drain: max(p.Drain, 1), Log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		panic(err)
	}
	m.h = h
	for _, ns := range p.Namespaces {
		h.Handle(ns, worker.Class{Open: m.open, Idle: p.Idle})
	}
	ctx, cancel := context.WithCancel(context.Background())
	m.stop = cancel
	m.Go(func() {
		err := h.Run(ctx)
		p.w.note("%s: Run has ended: %v", p.Name, err)
		p.w.At(0, p.Crash)
	})
}

// leave is SIGTERM. The listener stays until Run has ended.
func (m *goSDK) leave() {
	m.p.leaving = true
	m.w.note("%s: leaves", m.p.Name)
	m.stop()
	m.stir()
}

// Now is the fake clock, read behind the point.
func (m *goSDK) Now() time.Time {
	m.point(false)
	now := m.w.time()
	m.point(true)
	return now
}

// After runs f as a task of its own, when the process runs.
func (m *goSDK) After(d time.Duration, f func()) (stop func()) {
	on := true
	m.w.At(max(d, 0), func() {
		m.p.run(func() {
			if on {
				m.Go(f)
			}
		})
	})
	return func() { on = false }
}

// Go runs f as a task of the process.
func (m *goSDK) Go(f func()) {
	if m.over() {
		return
	}
	m.w.Go(&m.p.Host, func() {
		defer m.stir()
		m.point(false)
		f()
	})
}

// over reports that nothing of the process happens any more: what unwinds must
// neither wait nor start anything.
func (m *goSDK) over() bool { return m.gone || m.p.dead }

// A sdkWait is a task that waits for channels.
type sdkWait struct {
	on   []<-chan struct{}
	got  int
	wake func()
}

// ready takes what one of the channels has.
func (x *sdkWait) ready() bool {
	for i, ch := range x.on {
		select {
		case <-ch:
			x.got = i
			return true
		default:
		}
	}
	return false
}

// Wait is the seam's: channels become ready by what tasks of this process do,
// so each of them stirs those that wait before it gives way.
func (m *goSDK) Wait(d time.Duration, on ...<-chan struct{}) int {
	m.worked()
	m.point(false)
	x := &sdkWait{on: on, got: -1}
	if !x.ready() {
		if m.over() {
			panic(killed{}) // a deferred call of what unwinds
		}
		m.stir()
		x.wake = m.w.waker()
		m.waits = append(m.waits, x)
		if d != seam.Forever {
			m.w.At(d, func() { m.drop(x); x.wake() })
		}
		m.park()
	}
	m.point(false)
	return x.got
}

// drop ends a wait whose time is over.
func (m *goSDK) drop(x *sdkWait) {
	for i := range m.waits {
		if m.waits[i] == x {
			m.waits = append(m.waits[:i:i], m.waits[i+1:]...)
			return
		}
	}
}

// stir wakes whoever has something to go on with.
func (m *goSDK) stir() {
	if m.over() {
		return
	}
	for _, x := range append([]*sdkWait(nil), m.waits...) {
		if x.ready() {
			m.drop(x)
			x.wake()
		}
	}
	m.mirror()
}

// mirror shows the checker what has begun to close.
func (m *goSDK) mirror() {
	for _, a := range m.apps {
		a.x.closing = a.x.closing || a.in.Context().Err() != nil
	}
}

// park gives way; it never returns in a process that has died.
func (m *goSDK) park() {
	if m.over() || !m.w.cur.yield(struct{}{}) {
		m.gone = true
		panic(killed{})
	}
}

// point is a place in the SDK's code where a stopped process can stand: at
// looks at the clock, locks, waits, and where a task begins.
func (m *goSDK) point(behind bool) {
	if m.silent || m.over() || m.w.cur == nil || behind && !m.freeze.behind {
		return
	}
	if m.stopped == m.w.cur {
		m.stopped = nil
	}
	if m.points++; m.points != m.freeze.at {
		return
	}
	m.w.note("%s: stops at point %d", m.p.Name, m.points)
	if behind {
		m.stopped = m.w.cur
	}
	m.stir()
	m.p.Freeze()
	m.w.At(m.freeze.d, func() {
		m.w.note("%s: goes on", m.p.Name)
		m.p.Thaw()
	})
	m.w.waker()()
	m.park()
}

// stopSoon stops the process at one of its next points; undo lets it go on.
func (m *goSDK) stopSoon(next int, d time.Duration) (undo func()) {
	m.freeze = sdkFreeze{at: m.points + 1 + next, d: d}
	return func() { m.freeze.at = 0 }
}

// begins is asked where code of the application begins: never behind the end
// of the lease as the SDK itself knows it, nor may it know of more than it was
// granted. A process that stopped behind its very last look began to begin
// before that.
func (m *goSDK) begins(what string) {
	m.silent = true
	ends := m.h.Session().Expires().Sub(start)
	m.silent = false
	if ends > m.p.granted {
		m.w.check.fail("%s: believes in a lease until %v, was granted one until %v", m.p.Name, ends, m.p.granted)
	}
	switch {
	case m.w.Now < ends:
	case m.stopped == m.w.cur:
		m.late++
	default:
		m.w.check.fail("%s: %s begins %v after the lease's end", m.p.Name, what, m.w.Now-ends)
	}
}

// NewLock makes a lock whose holder may be stopped.
func (m *goSDK) NewLock() sync.Locker { return &sdkLock{m: m} }

type sdkLock struct {
	m     *goSDK
	held  bool
	queue []func()
}

// Lock waits like everything else.
func (l *sdkLock) Lock() {
	l.m.point(false)
	for l.held {
		if l.m.over() {
			panic(killed{})
		}
		l.queue = append(l.queue, l.m.w.waker())
		l.m.park()
	}
	l.held = true
}

// Unlock lets the next one try.
func (l *sdkLock) Unlock() {
	l.held = false
	if len(l.queue) > 0 && !l.m.over() {
		next := l.queue[0]
		l.queue = l.queue[1:]
		next()
	}
}

// Float64 spreads retries; a story has no chance.
func (m *goSDK) Float64() float64 {
	if m.w.Still {
		return 0
	}
	return m.w.rand("sdk " + m.p.Name).Float64()
}

// Text is a text that no other process has.
func (m *goSDK) Text(n int) string {
	m.w.texts++
	return fmt.Sprintf("%0*x", 2*n, m.w.texts)
}
