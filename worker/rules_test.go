package worker

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"pinboard"
)

var t0 = time.Date(2026, 11, 30, 0, 0, 0, 0, time.UTC)

func at(seconds float64) time.Time { return t0.Add(time.Duration(seconds * 1e9)) }

// A lease of 15 s asked for at 0 with a buffer of 5 s.
func TestLease(t *testing.T) {
	fresh := lease{buffer: 5 * time.Second}
	granted := fresh.renewed(t0, 15*time.Second)
	capped := granted
	capped.limit = at(8)
	for _, c := range []struct {
		name             string
		l                lease
		now              float64
		healthy, expired bool
	}{
		{"before the first answer", fresh, 1e6, true, false},
		{"fresh", granted, 0, true, false},
		{"last healthy moment", granted, 9.999, true, false},
		{"buffer reached", granted, 10, false, false},
		{"last moment", granted, 14.999, false, false},
		{"over", granted, 15, false, true},
		{"capped, healthy", capped, 2.999, true, false},
		{"capped, buffer reached", capped, 3, false, false},
		{"capped, over", capped, 8, false, true},
		{"a shorter lease replaces", granted.renewed(at(1), 2*time.Second), 3, false, true},
	} {
		if h, e := c.l.healthy(at(c.now)), c.l.expired(at(c.now)); h != c.healthy || e != c.expired {
			t.Errorf("%s: healthy %v expired %v", c.name, h, e)
		}
	}
	if got := granted.stopAt(); !got.Equal(at(12.5)) {
		t.Errorf("stops at %v", got.Sub(t0))
	}
	if capped.stopAt() != granted.stopAt() {
		t.Error("a drain deadline moves the stop before the lapse")
	}
	if fresh.fenceMemory() != time.Minute || granted.fenceMemory() != 30*time.Second {
		t.Error("fence memory")
	}
}

func TestBackoff(t *testing.T) {
	for _, c := range []struct {
		failures int
		after    time.Duration
		chance   float64
		want     time.Duration
	}{
		{1, 0, 1, 6 * time.Second},
		{2, 0, 1, 12 * time.Second},
		{3, 0, 1, 24 * time.Second},
		{4, 0, 1, 30 * time.Second},
		{1000, 0, 1, 30 * time.Second},
		{1, 0, 0, 1800 * time.Millisecond},
		{1, 500 * time.Millisecond, 1, 500 * time.Millisecond},
		{3, 500 * time.Millisecond, 1, 2 * time.Second},
		{1, time.Hour, 1, 30 * time.Second},
		{1000, 50 * time.Millisecond, 1, 30 * time.Second},
	} {
		if got := backoff(c.failures, 3*time.Second, c.after, c.chance); got != c.want {
			t.Errorf("%+v: got %v", c, got)
		}
	}
}

func TestDrainEcho(t *testing.T) {
	left := func(s float64) *time.Duration { d := time.Duration(s * 1e9); return &d }
	d, changed := drain{}.echo(false, nil, t0)
	if changed {
		t.Error("no drain is no change")
	}
	if d, changed = d.echo(true, left(30), t0); !changed || !d.at.Equal(at(30)) {
		t.Error("a drain with a deadline", d)
	}
	if d, changed = d.echo(true, left(27.5), at(3)); changed || !d.at.Equal(at(30)) {
		t.Error("a countdown within a second is no change", d)
	}
	if d, changed = d.echo(true, left(20), at(3)); !changed || !d.at.Equal(at(23)) {
		t.Error("a moved deadline", d)
	}
	if d, changed = d.echo(true, nil, at(4)); !changed || !d.at.IsZero() {
		t.Error("a deadline taken away", d)
	}
	if d, changed = d.echo(false, left(1), at(5)); !changed || d.on || !d.at.IsZero() {
		t.Error("the end of a drain", d)
	}
}

// Fences against a plain second opinion: the highest epoch ever seen within
// memory, and the set of epochs released within memory.
func TestFencesNeverGoBack(t *testing.T) {
	const memory = 10 * time.Second
	k := key{"/t", "a"}
	rapid.Check(t, func(t *rapid.T) {
		f, now := fences{}, t0
		var highest pinboard.Epoch
		var used time.Time
		gone := map[pinboard.Epoch]bool{}
		for range rapid.IntRange(1, 40).Draw(t, "steps") {
			now = now.Add(time.Duration(rapid.IntRange(0, 6).Draw(t, "wait")) * time.Second)
			if now.Sub(used) > memory {
				highest, gone = 0, map[pinboard.Epoch]bool{}
			}
			epoch := pinboard.Epoch(rapid.IntRange(1, 5).Draw(t, "epoch"))
			switch rapid.IntRange(0, 2).Draw(t, "what") {
			case 0:
				f.sweep(now, memory)
			case 1:
				if epoch == highest {
					f.release(k, epoch, now, true)
					gone[epoch], used = true, now
				}
			case 2:
				d := f.admit(k, epoch, now, memory)
				want := epoch >= highest && !gone[epoch]
				if (d == nil) != want {
					t.Fatalf("admit %d after %d, released %v: %v", epoch, highest, gone, d)
				}
				if want {
					highest, used = epoch, now
				}
			}
		}
	})
}
