package redisstore

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"pinboard/internal/ownership"
)

// A bench is a node's clock and a server's, both under control.
type bench struct {
	at     time.Time // the node's
	server float64   // microseconds
	rate   float64   // of the server's clock against the node's
	c      *clocks
}

func newBench() *bench {
	b := &bench{at: time.Unix(1_800_000_000, 0), server: 5e12, rate: 1}
	b.c = newClocks(func() time.Time { return b.at })
	return b
}

func (b *bench) pass(d time.Duration) {
	b.at = b.at.Add(d)
	b.server += float64(d.Microseconds()) * b.rate
}

// read is one round trip; the loop ticks with it.
func (b *bench) read(server string, there, back time.Duration) {
	sent := b.at
	b.pass(there)
	now := ownership.Micros(b.server)
	b.pass(back)
	b.c.sample(server, now, sent, b.at)
	b.c.tick()
}

// G4: whatever the round trips and a slewing clock do, the interval holds the
// server's time, and a deadline is never late.
func TestEstimateHoldsTheTruth(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := newBench()
		for range rapid.IntRange(1, 30).Draw(t, "rounds") {
			b.rate = rapid.Float64Range(1-drift*0.9, 1+drift*0.9).Draw(t, "rate")
			ms := func(name string, most int) time.Duration {
				return time.Duration(rapid.IntRange(0, most).Draw(t, name)) * time.Millisecond
			}
			b.pass(ms("pause", 1500))
			b.read("g", ms("there", 400), ms("back", 400))
			b.pass(ms("later", 1500))
			lo, hi, ok := b.c.bounds(b.c.clock("g"), b.at)
			if !ok || float64(lo) > b.server+2 || float64(hi) < b.server-2 {
				t.Fatalf("%f is not in [%d, %d]", b.server, lo, hi)
			}
			deadline := ownership.Micros(b.server) + rapid.Int64Range(0, 15e6).Draw(t, "lease")
			until, ok := b.c.until(b.c.clock("g"), deadline)
			if !ok {
				t.Fatal("no deadline")
			}
			// at the fastest allowed rate the server must not be past it then
			if then := b.server + float64(until.Sub(b.at).Microseconds())*(1+drift*0.9); until.After(b.at) && then > float64(deadline)+3 {
				t.Fatalf("deadline %d reached at %f", deadline, then)
			}
		}
	})
}

// An hour with a read each second keeps the interval as narrow as the best
// recent round trip.
func TestEstimateStaysNarrow(t *testing.T) {
	b := newBench()
	for i := range 3600 {
		b.pass(time.Second)
		d := time.Millisecond
		if i%10 == 0 {
			d = 0
		}
		b.read("g", d, 300*time.Millisecond*time.Duration(i%2))
	}
	lo, hi, _ := b.c.bounds(b.c.clock("g"), b.at)
	if hi-lo > 30_000 {
		t.Fatalf("%d us wide", hi-lo)
	}
}

// A clock that is another one from now on is believed at the next reading.
func TestEstimateFollowsAStep(t *testing.T) {
	for _, by := range []time.Duration{-time.Hour, -900 * time.Millisecond, 900 * time.Millisecond, time.Hour} {
		b := newBench()
		b.read("g", time.Millisecond, time.Millisecond)
		b.pass(500 * time.Millisecond)
		b.server += float64(by.Microseconds())
		b.read("g", time.Millisecond, time.Millisecond)
		if lo, hi, ok := b.c.bounds(b.c.clock("g"), b.at); !ok || float64(lo) > b.server+2 || float64(hi) < b.server-2 {
			t.Errorf("by %v: %f is not in [%d, %d]", by, b.server, lo, hi)
		}
	}
}

// A node that stood still or slept knows nothing any more, and says so.
func TestNodeThatStoodStill(t *testing.T) {
	b := newBench()
	b.read("g", 0, 0)
	b.at = b.at.Add(5 * time.Second) // no tick meanwhile; the server's clock anywhere
	if !b.c.tick() {
		t.Fatal("the gap went unseen")
	}
	if _, _, ok := b.c.bounds(b.c.clock("g"), b.at); ok {
		t.Fatal("an estimate survived")
	}
	if _, ok := b.c.until(b.c.clock("g"), 1); ok {
		t.Fatal("a deadline was given")
	}
}

func TestClocksAreBounded(t *testing.T) {
	b := newBench()
	for i := range 2 * keptClocks {
		b.c.clock(string(rune('A' + i)))
	}
	if n := len(b.c.byServer); n > keptClocks {
		t.Fatalf("%d clocks are kept", n)
	}
}
