package guard

import (
	"sync"
	"sync/atomic"

	"pinboard/internal/ownership"
)

// Options configure a Guard.
type Options struct {
	Buckets int
	Slack   ownership.Micros    // what leases are held longer than told: steps up to it do no harm
	OnStep  func(server string) // a server's clock stepped; none if nil
	Asleep  func() Local        // how long this machine has slept since it started; none if nil
}

// A Guard is one node's memory of its servers' clocks and its buckets'
// histories. Safe for concurrent use.
type Guard struct {
	o Options

	mu      sync.Mutex
	servers map[string]*server
	order   []string // of servers, oldest first
	buckets []bucket
	longest ownership.Micros    // the longest lease that may run (G5): the window in which steps add up
	past    map[string]*carried // clock of a generation that this node saw
	pasts   []string            // of past, oldest first
	asleep  Local               // as last asked
	commits []atomic.Int64      // of each bucket as last seen, for hits
	clear   []atomic.Bool       // nothing is doubted of the bucket, for hits
}

const (
	keptServers = 64
	keptPasts   = 1024
	vouching    = 3_000_000 // microseconds that a node which slept waits for another one's watch
	doze        = 50_000    // microseconds that tell a sleep of the machine from the noise of two readings
	grace       = 2_000_000 // microseconds between the read and the commit that begins a generation
)

// A server is one process of the store.
type server struct {
	watch
	now    *carried         // its clock as it is carried on
	since  ownership.Micros // it was watched without a break since then, by its own clock
	breaks int              // how often its clock was found stepped
	broke  Local            // ... last noticed then
	after  ownership.Micros // ... and happened no earlier than this, by the clock since
	slept  bool             // this node may have slept since the last sure reading
	asked  Local            // the clock moved while this node slept, noticed then: others may vouch for it; 0 never
	wake   ownership.Micros // ... first reading of it
}

// New returns a Guard that has seen nothing.
func New(o Options) *Guard {
	if o.OnStep == nil {
		o.OnStep = func(string) {}
	}
	if o.Asleep == nil {
		o.Asleep = func() Local { return 0 }
	}
	return &Guard{o: o, asleep: o.Asleep(), servers: map[string]*server{}, buckets: make([]bucket, o.Buckets), past: map[string]*carried{},
		commits: make([]atomic.Int64, o.Buckets), clear: make([]atomic.Bool, o.Buckets)}
}

// Time judges a completed reading of a server's clock. Behind a Stepped, Judge
// demands a new generation of every bucket there.
func (g *Guard) Time(r Reading) Verdict {
	g.mu.Lock()
	defer g.mu.Unlock()
	s := g.server(r.Server)
	window := g.longest
	v, gained := s.judge(&r, window, g.o.Slack-int64(float64(window)*drift))
	switch {
	case v == Stepped && r.Sent < s.broke:
		return Unsure // of before or behind the step that is known already
	case v == Stepped && gained && (s.slept || g.dozed()):
		g.woke(s, &r)
		return Sure
	case v == Stepped:
		g.stepped(s, &r)
		return Stepped
	case v == Unsure:
		return Unsure
	}
	if s.keep(&r) {
		s.slept = false
	}
	if s.now == nil {
		s.now, s.since = &carried{}, r.Now
	}
	s.now.take(&r)
	return Sure
}

// stepped begins a new watch of s, whose clock is another one from r on.
func (g *Guard) stepped(s *server, r *Reading) {
	elapsed := int64(float64(max(0, r.Received-s.now.at)) * (1 + drift))
	s.after, s.broke = r.Now-elapsed-tight, r.Received
	s.breaks++
	g.anew(s, r)
	g.o.OnStep(r.Server)
}

// woke begins a new watch of s: either its clock stepped while this node
// slept, or the node's own stood still. Who else watched decides.
func (g *Guard) woke(s *server, r *Reading) {
	s.asked, s.wake, s.broke = r.Received, r.Now, r.Received
	s.now.gone = true
	g.anew(s, r)
}

func (g *Guard) anew(s *server, r *Reading) {
	s.watch, s.since, s.slept, s.now = watch{}, r.Now, false, &carried{}
	s.keep(r)
	s.now.take(r)
	for b := range g.buckets {
		if g.buckets[b].server == r.Server {
			g.clear[b].Store(false)
		}
	}
}

func (g *Guard) server(id string) *server {
	s := g.servers[id]
	if s == nil {
		s = &server{}
		g.servers[id] = s
		if g.order = append(g.order, id); len(g.order) > keptServers {
			delete(g.servers, g.order[0])
			g.order = g.order[1:]
		}
	}
	return s
}

// dozed asks the machine whether it has slept: a reading can come before
// whoever calls Slept.
func (g *Guard) dozed() bool {
	before := g.asleep
	if g.asleep = g.o.Asleep(); g.asleep-before <= doze {
		return false
	}
	g.sleptAll()
	return true
}

// Slept tells that the node's own clock may have stood still.
func (g *Guard) Slept() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.asleep = g.o.Asleep()
	g.sleptAll()
}

func (g *Guard) sleptAll() {
	for _, s := range g.servers {
		s.slept = true
	}
}

// OldNow is what the clock behind a generation shows at local time now at the
// latest; false if this node has lost sight of it (R6).
func (g *Guard) OldNow(gen string, now Local) (ownership.Micros, bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	c := g.past[gen]
	if c == nil || c.gone {
		return 0, false
	}
	return c.latest(now), true
}

// A carried clock is an offset at some local time, carried on by drift alone.
type carried struct {
	lo, hi int64
	at     Local // 0: no reading yet
	gone   bool  // this node slept: nothing is known of it any more
}

func (c *carried) latest(now Local) ownership.Micros {
	return now + c.hi + int64(float64(max(0, now-c.at))*drift)
}

// take narrows the estimate by a reading that fits the watch.
func (c *carried) take(r *Reading) {
	lo, hi := r.offset()
	if c.at != 0 {
		d := int64(float64(max(r.Received-c.at, 0)) * drift)
		if l, h := c.lo-d, c.hi+d; lo <= h && l <= hi {
			lo, hi = max(lo, l), min(hi, h)
		}
	}
	c.lo, c.hi, c.at = lo, hi, r.Received
}
