package worker

import (
	"time"

	"pinboard/internal/seam"
)

// A timer calls a function later, as an activity of its own. It may call once
// more than wanted, when stop or arm come at the very moment: what it calls
// looks at the time and the state again.
type timer struct{ cancel func() }

func (t *timer) arm(m seam.Machine, d time.Duration, call func()) {
	t.stop()
	t.cancel = m.After(d, call)
}

func (t *timer) stop() {
	if t.cancel != nil {
		t.cancel()
	}
}

// timers of a worker's lease.
type timers struct {
	stop  timer // close everything
	lapse timer // closing takes too long: end it
}
