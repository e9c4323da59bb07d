// Package seam is what the Go SDK takes from the machine it runs on: the
// clock, waiting, goroutines, locks and chance. Package worker takes them from
// here only, so that the same code runs on a real machine and, as activities
// that hand over to each other, under the fake clock of internal/sim.
package seam

import (
	"crypto/rand"
	"encoding/hex"
	"net/http"
	"sync"
	"time"

	mathrand "math/rand/v2"
)

// Forever is a wait without an end of its own.
const Forever time.Duration = -1

// A Machine runs one worker. Whoever holds a lock of it must not Wait.
type Machine interface {
	Now() time.Time
	// After runs f later, as an activity of its own. It may still run when
	// stop comes at the very moment.
	After(d time.Duration, f func()) (stop func())
	// Go runs f as an activity of its own.
	Go(f func())
	// Wait returns when one of at most two channels is closed or has something
	// to take, with the number of that channel, or after d, with -1.
	Wait(d time.Duration, on ...<-chan struct{}) int
	// NewLock makes a lock; taking it may take time like any wait.
	NewLock() sync.Locker
	// Float64 is a random number from 0 to 1, Text n random bytes in hexadecimal.
	Float64() float64
	Text(n int) string
}

// Of is the machine below a transport: the transport itself if it is one. Only
// a simulation has such a transport, whose calls take time by its own clock.
func Of(transport http.RoundTripper) Machine {
	if m, ok := transport.(Machine); ok {
		return m
	}
	return Real{}
}

// Real is the machine that everybody else runs on.
type Real struct{}

// Now is time.Now.
func (Real) Now() time.Time { return time.Now() }

// After is time.AfterFunc.
func (Real) After(d time.Duration, f func()) (stop func()) {
	t := time.AfterFunc(d, f)
	return func() { t.Stop() }
}

// Go is a goroutine.
func (Real) Go(f func()) { go f() }

// Wait is a select.
func (Real) Wait(d time.Duration, on ...<-chan struct{}) int {
	var two [2]<-chan struct{} // a nil channel is never ready
	if copy(two[:], on) < len(on) {
		panic("seam: a wait for more than two channels")
	}
	var over <-chan time.Time
	if d != Forever {
		t := time.NewTimer(d)
		defer t.Stop()
		over = t.C
	}
	select {
	case <-two[0]:
		return 0
	case <-two[1]:
		return 1
	case <-over:
		return -1
	}
}

// NewLock is a sync.Mutex.
func (Real) NewLock() sync.Locker { return new(sync.Mutex) }

// Float64 needs no secrecy: it spreads retries.
func (Real) Float64() float64 { return mathrand.Float64() }

// Text is fit for secrets.
func (Real) Text(n int) string {
	b := make([]byte, n)
	rand.Read(b)
	return hex.EncodeToString(b)
}

// A Group counts activities, to wait for the end of all: a sync.WaitGroup
// whose Wait is one of the machine.
type Group struct {
	On Machine

	mu   sync.Mutex // never held over a wait
	n    int
	idle chan struct{} // closed when n is 0 again
}

// Go runs f as one of the group.
func (g *Group) Go(f func()) {
	g.mu.Lock()
	if g.n == 0 {
		g.idle = make(chan struct{})
	}
	g.n++
	g.mu.Unlock()
	g.On.Go(func() {
		defer g.done()
		f()
	})
}

func (g *Group) done() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.n--; g.n == 0 {
		close(g.idle)
	}
}

// Wait returns when none is left.
func (g *Group) Wait() {
	for {
		g.mu.Lock()
		n, idle := g.n, g.idle
		g.mu.Unlock()
		if n == 0 {
			return
		}
		g.On.Wait(Forever, idle)
	}
}
