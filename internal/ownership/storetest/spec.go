package storetest

import (
	"time"

	"pinboard"
)

// A spec is the executable specification: the rules of docs/rules.md
// in the dumbest form that is still exact for one world without
// hostnames. It knows nothing of buckets, transactions, codecs or caches. Time
// only moves in advance.
type spec struct {
	lease time.Duration
	now   time.Duration
	cold  time.Duration // nothing new is placed before
	gen   int
	known bool // some worker of the namespace registered in this store
	procs map[string]*specProc
	rows  map[string]*specRow
}

type specProc struct {
	session  string
	until    time.Duration
	gen      int
	past     bool // placeable after its first beat only
	beaten   bool
	acks     bool
	draining bool
	ordered  bool // told to register again
	ended    bool
	wiped    bool                      // its session is unknown to the store
	holds    map[string]pinboard.Epoch // instances in its memory, with their epochs
}

type rowState int

const (
	placed rowState = iota
	closing
	held
)

type specRow struct {
	state rowState
	proc  string
	epoch pinboard.Epoch
	fresh bool
	until time.Duration // held, closing: not before
	gen   int
	left  time.Duration // its owner left it out of a restatement: free from then on; -1 not

	closers map[string]*specCloser // closing: who still flushes, by process
}

// A specCloser is a process that was told to quit the id.
type specCloser struct {
	gen  int
	left time.Duration // as of a row
}

func newSpec(lease time.Duration) *spec {
	return &spec{lease: lease, cold: lease, procs: map[string]*specProc{}, rows: map[string]*specRow{}}
}

func (s *spec) proc(name string) *specProc {
	if s.procs[name] == nil {
		s.procs[name] = &specProc{holds: map[string]pinboard.Epoch{}}
	}
	return s.procs[name]
}

func (s *spec) runs(p *specProc) bool {
	return p.session != "" && !p.ended && !p.wiped && p.gen == s.gen && s.now < p.until
}

// mayPlace lists the processes that may get a new id now.
func (s *spec) mayPlace() map[string]bool {
	out := map[string]bool{}
	for name, p := range s.procs {
		if s.runs(p) && !p.draining && !p.ordered && (!p.past || p.beaten) && p.until-s.now > min(5*time.Second, s.lease/3) {
			out[name] = true
		}
	}
	return out
}

// resolve says who must answer: an owner and epoch, a refusal, or (any) one of
// several processes with a new epoch.
func (s *spec) resolve(id string) (owner string, epoch pinboard.Epoch, refusal *pinboard.Refusal, any map[string]bool) {
	if r := s.rows[id]; r != nil {
		switch {
		case r.state == closing:
			if refusal := s.closing(r); refusal != nil {
				return "", 0, refusal, nil
			}
		case r.state == held:
			if s.now < r.until {
				return "", 0, pinboard.WindingDown, nil
			}
		case r.left >= 0:
			if s.now < r.left {
				return "", 0, pinboard.WindingDown, nil
			}
		case r.gen != s.gen:
			if s.now < s.cold {
				return "", 0, pinboard.ColdStart, nil
			}
		case s.runs(s.procs[r.proc]):
			return r.proc, r.epoch, nil, nil
		}
	}
	switch {
	case s.now < s.cold: // also where nobody knows the namespace: a new store proves nothing
		return "", 0, pinboard.ColdStart, nil
	case !s.known:
		return "", 0, pinboard.UnknownNamespace, nil
	}
	any = s.mayPlace()
	if len(any) == 0 {
		return "", 0, pinboard.NoLiveBackends, nil
	}
	return "", 0, nil, any
}

// closing says why a closing row is not free, nil when all have quit.
func (s *spec) closing(r *specRow) *pinboard.Refusal {
	unknown, waits := false, s.now < r.until
	for name, c := range r.closers {
		switch {
		case c.left >= 0:
			waits = waits || s.now < c.left
		case c.gen != s.gen:
			unknown = unknown || s.now < s.cold
		case s.runs(s.procs[name]):
			return pinboard.WindingDown
		}
	}
	switch {
	case unknown:
		return pinboard.ColdStart
	case waits:
		return pinboard.WindingDown
	}
	return nil
}

// placedOn records what the store chose.
func (s *spec) placedOn(id, proc string, epoch pinboard.Epoch) {
	s.rows[id] = &specRow{proc: proc, epoch: epoch, fresh: true, gen: s.gen, left: -1}
	s.procs[proc].holds[id] = epoch
}

// register moves what the process restates and returns the duplicates.
func (s *spec) register(name, session string) (dups map[string]bool) {
	p, dups := s.proc(name), map[string]bool{}
	p.past = p.session != "" || len(p.holds) > 0
	for id := range p.holds {
		r := s.rows[id]
		mine := r != nil && r.state == placed && r.proc == name && r.left < 0 && !p.wiped && !p.ended
		switch {
		case mine && r.gen == s.gen:
			r.fresh = false
		default: // another generation without a carried clock counts as lapsed (R6)
			dups[id] = true
			if r != nil && r.state == placed && r.proc != name && r.gen == s.gen && s.runs(s.procs[r.proc]) && r.left < 0 {
				continue
			}
			c := &specRow{state: closing, left: -1, closers: map[string]*specCloser{name: {s.gen, -1}}}
			if r != nil && r.state != placed {
				c.until = r.until
			}
			if r != nil {
				for other, was := range r.closers {
					if c.closers[other] == nil && (was.left > s.now || was.left < 0 && (was.gen != s.gen && s.now < s.cold || was.gen == s.gen && s.runs(s.procs[other]))) {
						c.closers[other] = was
					}
				}
			}
			s.rows[id] = c
		}
	}
	for id, r := range s.rows {
		free := s.now
		if lapsed := p.gen == s.gen && s.now >= p.until || p.gen != s.gen && s.now >= s.cold; !p.acks && !lapsed && !p.ended {
			free += s.lease
		}
		_, restated := p.holds[id]
		if r.proc == name && r.state == placed && !restated && r.left < 0 {
			r.left = free
		}
		if c := r.closers[name]; c != nil && !restated && c.left < 0 {
			c.left = free
		}
	}
	p.session, p.until, p.gen, p.beaten, p.ordered, p.ended, p.wiped = session, s.now+s.lease, s.gen, false, false, false, false
	s.known = true
	return dups
}

// beat says whether the session is renewed (true) or must register again.
func (s *spec) beat(name string) bool {
	p := s.procs[name]
	p.beaten = true
	p.acks = p.acks || !p.wiped // whatever the answer, the process has shown that it sends them
	if !s.runs(p) || p.ordered {
		if !p.wiped {
			p.ordered = true
		}
		return false
	}
	p.until = max(p.until, s.now+s.lease)
	return true
}

// release says whether the row is freed. epoch 0 is an absent epoch.
func (s *spec) release(name, id string, epoch pinboard.Epoch) bool {
	r, p := s.rows[id], s.procs[name]
	if r != nil && r.state == closing && !p.wiped && p.session != "" {
		return s.quit(r, name, id, epoch)
	}
	if r == nil || r.state != placed || r.proc != name || p.wiped || p.session == "" {
		return false
	}
	switch {
	case epoch == 0:
		if r.left >= 0 {
			return false // the row still names an older session
		}
		s.rows[id] = &specRow{state: held, until: s.now + s.lease, left: -1}
		return true
	case epoch != r.epoch:
		return false
	}
	delete(s.rows, id)
	return true
}

// quit is the release of a closing row by one of those who close, at any epoch.
func (s *spec) quit(r *specRow, name, id string, epoch pinboard.Epoch) bool {
	c := r.closers[name]
	if c == nil || epoch == 0 && c.left >= 0 {
		return false
	}
	if delete(r.closers, name); epoch == 0 {
		r.until = max(r.until, s.now+s.lease)
	}
	switch {
	case len(r.closers) > 0:
	case s.now < r.until:
		s.rows[id] = &specRow{state: held, until: r.until, left: -1}
	default:
		delete(s.rows, id)
	}
	return true
}

func (s *spec) deregister(name string) {
	if p := s.procs[name]; !p.wiped && !p.ended {
		p.ended = true
		for _, r := range s.rows {
			if r.proc == name && r.state == placed && r.left < 0 {
				r.left = s.now
			}
			if c := r.closers[name]; c != nil && c.left < 0 {
				c.left = s.now
			}
		}
	}
}

// newServer is another generation, with the old content or without.
func (s *spec) newServer(kept bool) {
	s.gen++
	s.cold = s.now + s.lease
	if kept {
		return
	}
	s.known, s.rows = false, map[string]*specRow{}
	for _, p := range s.procs {
		p.wiped, p.acks = p.session != "", false
	}
}
