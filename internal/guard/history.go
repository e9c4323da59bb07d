package guard

import (
	"maps"

	"pinboard/internal/ownership"
)

// A bucket is what the node last saw of one.
type bucket struct {
	server  string
	gen     string           // its generation then
	commits int64            // its counter of commits then
	at      ownership.Micros // the server's clock then
	breaks  int              // the steps of the server's clock that gen has answered
	vouched Local            // the last sleep of this node that is known to have missed nothing
	watch   int64            // number of the watch record last seen (ownership.Watch)
	left    map[string]place // how it looked at servers that it has left; copied when changed
}

type place struct {
	gen string
	at  ownership.Micros
}

// Known is what the node knew of a bucket when it sent a read. Replies may
// overtake each other: each is judged by what was known then.
type Known struct{ bucket }

// Known returns it; call it before the read is sent.
func (g *Guard) Known(b int) Known {
	g.mu.Lock()
	defer g.mu.Unlock()
	return Known{g.buckets[b]}
}

// A State is what a read shows of a bucket.
type State struct {
	Gen     string           // its generation, "" before first use
	Since   ownership.Micros // when that began
	Commits int64            // how many commits it had, whatever the generation
	Longest ownership.Micros // its longest lease
}

// Judge says what a rule on the bucket must be told: a cause to begin a new
// generation, or none. Not sure: nothing may be decided yet; read again.
func (g *Guard) Judge(b int, k Known, r Reading, st State) (doubt ownership.Cause, sure bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.longest = max(g.longest, st.Longest)
	if ownership.ServerOf(st.Gen) != r.Server {
		return "", true // begins a generation in any case
	}
	s := g.server(r.Server)
	if doubt, sure = k.doubt(s, &r, &st); doubt != "" || !sure {
		return doubt, sure
	}
	g.learn(b, s, &r, &st)
	return "", true
}

// doubt compares a read with what was known when it was sent.
func (k *Known) doubt(s *server, r *Reading, st *State) (ownership.Cause, bool) {
	if k.server != r.Server {
		// Seen elsewhere last: what was known of it here, if anything, is over
		// since then, and must not come back (G1).
		p, was := k.left[r.Server]
		if was && (st.Gen == p.gen || st.Since < p.at-grace) {
			return ownership.HistoryLost, true
		}
		if s.breaks > 0 && st.Since < s.after {
			return ownership.ClockStepped, true
		}
		return "", true
	}
	answered := k.breaks == s.breaks
	switch {
	case st.Gen == k.gen && !answered:
		return ownership.ClockStepped, true
	case st.Gen == k.gen && st.Commits < k.commits:
		return ownership.HistoryLost, true
	case st.Gen != k.gen && !answered && st.Since < s.after:
		return ownership.ClockStepped, true
	case st.Gen != k.gen && answered && st.Since < k.at-grace:
		return ownership.HistoryLost, true
	case st.Gen != k.gen:
		return "", true // begun by another node meanwhile
	case s.asked == k.vouched:
		return "", true
	case r.Received-s.asked > vouching:
		return ownership.ClockStepped, true
	}
	return "", false
}

// learn adopts what a read showed, unless a later one has been adopted.
func (g *Guard) learn(b int, s *server, r *Reading, st *State) {
	m := &g.buckets[b]
	switch same := m.server == r.Server && m.breaks == s.breaks; {
	case same && r.Now < m.at: // overtaken by a later one
	case same && m.gen == st.Gen && st.Commits <= m.commits:
		m.at = r.Now
	default:
		g.adopt(b, s, r, st)
	}
	g.clear[b].Store(m.breaks == s.breaks && m.vouched == s.asked)
	if s.now != nil && g.past[st.Gen] != s.now {
		g.remember(st.Gen, s.now)
	}
}

// adopt replaces what is known of b.
func (g *Guard) adopt(b int, s *server, r *Reading, st *State) {
	m := &g.buckets[b]
	if m.server != r.Server {
		left := maps.Clone(m.left)
		if left == nil {
			left = map[string]place{}
		}
		if delete(left, r.Server); m.server != "" {
			left[m.server] = place{m.gen, m.at}
		}
		*m = bucket{server: r.Server, left: left}
	}
	m.gen, m.commits, m.at, m.breaks, m.vouched = st.Gen, st.Commits, r.Now, s.breaks, s.asked
	g.commits[b].Store(st.Commits)
}

func (g *Guard) remember(gen string, c *carried) {
	if g.past[gen] == nil {
		if g.pasts = append(g.pasts, gen); len(g.pasts) > keptPasts {
			delete(g.past, g.pasts[0])
			g.pasts = g.pasts[1:]
		}
	}
	g.past[gen] = c
}

// Committed tells that this node's own commit, made at reading r, left the
// bucket like st. A generation that it began answers everything doubted.
func (g *Guard) Committed(b int, r Reading, st State, began bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	s := g.server(r.Server)
	g.longest = max(g.longest, st.Longest)
	if !began {
		if m := &g.buckets[b]; m.server == r.Server && m.gen == st.Gen && m.commits < st.Commits {
			m.commits, m.at = st.Commits, max(m.at, r.Now)
			g.commits[b].Store(st.Commits)
		}
		return
	}
	g.adopt(b, s, &r, &st)
	g.clear[b].Store(true)
	if s.now != nil {
		g.remember(st.Gen, s.now)
	}
}

// Commits is the bucket's counter as last seen: a hit that was sent behind
// this call and shows less reads an older history. Not ok while something is
// doubted of the bucket: then nothing is a hit.
func (g *Guard) Commits(b int) (n int64, ok bool) { return g.commits[b].Load(), g.clear[b].Load() }

// Watching is what this node can say of the clock behind bucket b, for the
// watch record: it has watched since then without a break. False when it is
// not sure itself.
func (g *Guard) Watching(serverID string) (since ownership.Micros, ok bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	s := g.servers[serverID]
	if s == nil || s.since == 0 || s.slept {
		return 0, false
	}
	return s.since, true
}

// Watched takes the watch record of b as read or written at reading r. If
// somebody has watched from before this node slept until after it woke, its
// sleep has missed nothing.
func (g *Guard) Watched(b int, r Reading, w ownership.Watch) {
	g.mu.Lock()
	defer g.mu.Unlock()
	m, s := &g.buckets[b], g.server(r.Server)
	if m.server != r.Server {
		return
	}
	if s.asked != m.vouched && m.watch == w.Number && m.watch != 0 && w.Until >= s.wake && m.breaks == s.breaks {
		m.vouched = s.asked
	}
	if s.asked == m.vouched {
		m.watch = w.Number
	}
}
