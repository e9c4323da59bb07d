package worker

import "time"

// A timer calls a function later, on a goroutine of its own. It may call once
// more than wanted, when stop or arm come at the very moment: what it calls
// looks at the time and the state again.
type timer struct{ t *time.Timer }

func (t *timer) arm(d time.Duration, call func()) {
	t.stop()
	t.t = time.AfterFunc(d, call)
}

func (t *timer) stop() {
	if t.t != nil {
		t.t.Stop()
	}
}

// timers of a worker's lease.
type timers struct {
	stop  timer // close everything
	lapse timer // closing takes too long: end it
}
