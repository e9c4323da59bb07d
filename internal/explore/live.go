package explore

import (
	"fmt"
	"sync"

	"pinboard/internal/ownership"
)

// A liveness check lets a state go on without faults, at the pace of a sound
// system: workers call once a tick, closes end, every id is asked for once a
// tick. The ticks until the id is served are remembered by class.
type liveness struct {
	w     *World
	mu    sync.Mutex
	known map[Key]int
	worst int
}

func newLiveness(w *World) *liveness { return &liveness{w: w, known: map[Key]int{}} }

// never is a wait that no promise covers.
const never = 100

// check returns what is wrong with s, "" if all ids are served in time.
func (l *liveness) check(s *state) string {
	limit := s.limit()
	for id := range l.w.IDs {
		n, bad := l.ticks(s, id)
		if bad != "" {
			return "while it goes on: " + bad
		}
		l.mu.Lock()
		l.worst = max(l.worst, n)
		l.mu.Unlock()
		if n > limit {
			return fmt.Sprintf("%s is not served within %d ticks", l.w.key(id).ID, limit)
		}
	}
	return ""
}

// limit is what docs/guarantees.md promises: two leases and a restatement, or
// six under a closing row or a wind-down.
func (s *state) limit() int {
	long := int((s.w.rules.Lease + s.w.rules.Slack) / tick)
	for _, r := range s.b.Rows() {
		if r.Row.Kind == ownership.Closing || r.Row.Wind != 0 {
			return 6*long + 2
		}
	}
	for i := range s.procs {
		if s.procs[i].leaving {
			return 6*long + 2
		}
	}
	return 2*long + 2
}

func (l *liveness) ticks(s *state, id int) (n int, bad string) {
	var path []Key
	c := s.clone()
	c.left = 0
	c.hasOld = false
	for n = 0; n < never; n++ {
		k := c.key()
		k[0] ^= byte(id)
		l.mu.Lock()
		rest, ok := l.known[k]
		l.mu.Unlock()
		if ok {
			n += rest
			break
		}
		path = append(path, k)
		if c.fair(id) {
			break
		}
		if c.bad != "" {
			return n, c.bad
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for i, k := range path {
		l.known[k] = n - i
	}
	return n, ""
}

// fair lets one tick pass without faults; true if id was served in it.
func (s *state) fair(id int) (done bool) {
	s.onServed = func(x int) { done = done || x == id }
	defer func() { s.onServed = nil }()
	s.recover()
	for range 2 {
		for i := range s.procs {
			s.work(i)
		}
	}
	for len(s.fwds) > 0 {
		s.arrive(0, false)
	}
	for host := range s.w.hosts() {
		var to *state
		s.request(0, id, host, func(_ step, t *state) {
			if to == nil {
				to = t
			}
		})
		if to != nil {
			*s = *to
			for len(s.fwds) > 0 {
				s.arrive(0, false)
			}
		}
	}
	s.twoOwners()
	if !done {
		s.tick()
	}
	return done
}

// recover ends the faults that last.
func (s *state) recover() {
	alive := false
	for i := range s.procs {
		p := &s.procs[i]
		if p.paused {
			p.paused = false
			p.overdue(s.now)
		}
		for id := range p.inst {
			p.inst[id].slow = false
		}
		alive = alive || !p.dead && !p.leaving && !p.drains && !p.over
	}
	for len(s.held) > 0 {
		s.goOn(0)
	}
	for i := range s.procs {
		if p := &s.procs[i]; p.dead && !alive {
			*p = newProc(s.w, p.life+1)
			break
		}
	}
}

// work is what one process does in a tick.
func (s *state) work(i int) {
	p := &s.procs[i]
	for range 3 {
		if s.calling1(p) {
			c := s.calling(i, 0)
			a := s.do2(c)
			s.take(c, &a)
		}
	}
	for id := range p.inst {
		if in := &p.inst[id]; in.on && in.live && in.closing {
			p.closed(id, s.now)
		}
	}
	if s.flushing(i) {
		c := s.releasing(i, 0)
		s.do(c)
		p.flushed(c.items)
	}
	if s.leaves(p) {
		s.exit(i, 0)
	}
}
