package ownership

import (
	"time"

	"pinboard"
)

// An Enrol is a registration as one bucket sees it: one script, so that no row
// ever names a session without its lease (L4). Large restatements come in
// chunks; only the last one lets go of what was not restated.
type Enrol struct {
	Worker   *Worker
	Headroom float64
	Draining bool
	Claims   []Key // this bucket's share of the restated ids
	Prev     string
	Last     bool
	Decided  bool      // hostname mode: the bucket that decides for the hostname has admitted it
	Heard    time.Time // when the node began to hear the request, by its own clock; zero: now
	Longest  Micros
	Seen     pinboard.Epoch
	OldNow   func(gen string) (Micros, bool) // the clock behind an earlier generation, carried on (R6)
}

// ByProcess names the index entry of the newest session of a process.
func ByProcess(process string) string { return "p:" + process }

// ByOwnedClient names the index entry of the newest session of a token's
// clientId: another token's use of the same one is no concern of its.
func ByOwnedClient(owner, client string) string { return "o:" + owner + "\x00" + client }

// ByClient names the index entry of the newest session of a clientId, whoever's.
func ByClient(client string) string { return "c:" + client }

// ByURL names the index entry of the newest session at an advertise URL.
func ByURL(url string) string { return "u:" + url }

// Admit says whether the registration may be accepted, changing nothing.
func (p *Rules) Admit(tx *Tx, e *Enrol) error {
	p.Begin(tx, e.Longest)
	w := e.Worker
	if s := tx.Session(tx.Index(ByOwnedClient(w.Owner, w.ClientID))); s != nil && s.Worker.Process != w.Process && p.fate(tx, s) == running {
		return Wait{"clientId is in use by another process", time.Second}
	}
	if s := tx.Session(tx.Index(ByProcess(w.Process))); s != nil {
		switch {
		case s.Worker.Owner != w.Owner && p.fate(tx, s) == running:
			return Wait{"process is registered under another token", time.Second}
		case s.Ejected && p.fate(tx, s) == running:
			return Wait{"session was ejected", left(tx.Now, s.Until)}
		case s.Worker.Session != w.Session && s.Gen == tx.Meta.Gen && s.At > heard(tx, e.Heard):
			return Wait{"a later registration of this process is there", time.Second}
		}
	}
	if s := tx.Session(w.Session); s != nil && s.Phase >= Succeeded {
		return Wait{"a later registration of this process is there", time.Second}
	}
	if s := tx.Session(tx.Index(ByURL(w.URL))); s != nil && s.Worker.Process != w.Process && p.fate(tx, s) == running {
		switch {
		case !s.Worker.Proven && (w.Proven || s.Worker.Owner == w.Owner):
		case !s.Worker.Proven:
			return Wait{"advertise URL is in use by a worker of another token", left(tx.Now, s.Until)}
		case !w.Proven:
			return Wait{"advertise URL is in use by a proven worker", left(tx.Now, s.Until)}
		case tx.Now < s.ProvedAt+s.TTL/2:
			return Wait{"advertise URL was proved by another process just now", left(tx.Now, s.ProvedAt+s.TTL/2)}
		}
	}
	return p.admit(tx, e)
}

// heard is the latest that the store's clock can have shown when the node heard
// of something, at that time of its own: the order of what one process sends
// (L6).
func heard(tx *Tx, at time.Time) Micros {
	if at.IsZero() {
		return tx.Now
	}
	return tx.Now - Micros(float64(tx.Sent.Sub(at).Microseconds())*(1-drift))
}

// drift is how much faster or slower two sound clocks may run.
const drift = 1e-3

func left(now, until Micros) time.Duration {
	return max(time.Duration(until-now)*time.Microsecond, time.Second)
}

// Enrolled is what one bucket granted.
type Enrolled struct {
	Duplicates []Key
	Drain      bool
	DrainAt    Micros
	Now        Micros
	Moved      int
	Bound      bool // no other env holds a binding of the worker's
}

// Register grants the session its lease, gives back the rows of the process's
// earlier sessions and turns everything else restated into duplicates.
func (p *Rules) Register(tx *Tx, e *Enrol) (Enrolled, error) {
	if err := p.Admit(tx, e); err != nil {
		return Enrolled{}, err
	}
	out := Enrolled{Now: tx.Now}
	s := p.enlist(tx, e, &out)
	for _, k := range e.Claims {
		if p.reclaim(tx, k, s, e) {
			out.Moved++
		} else {
			out.Duplicates = append(out.Duplicates, k)
		}
	}
	p.elsewhere(tx, s, e)
	if e.Last {
		p.letGo(tx, s)
	}
	tx.PutSession(*s)
	out.Drain, out.DrainAt = s.Drain, s.DrainAt
	tx.Log(Entry{Cause: Registered, Session: s.Worker.Session, Count: out.Moved, Node: p.Node})
	if n := len(out.Duplicates); n > 0 {
		tx.Log(Entry{Cause: Duplicates, Session: s.Worker.Session, Count: n, Node: p.Node})
	}
	return out, nil
}

// enlist writes or renews the session and its place in the indexes.
func (p *Rules) enlist(tx *Tx, e *Enrol, out *Enrolled) *Session {
	w := e.Worker
	s := tx.Session(w.Session)
	if s == nil {
		s = &Session{Worker: w, Lease: Lease{Gen: tx.Meta.Gen, TTL: p.Lease, At: tx.Now}}
		if w.Proven {
			s.ProvedAt = tx.Now
		}
		p.succeed(tx, s, tx.Session(tx.Index(ByProcess(w.Process))), e)
		p.replace(tx, s, tx.Session(tx.Index(ByURL(w.URL))))
		out.Bound = p.bind(tx, e)
		tx.PutIndex(ByProcess(w.Process), w.Session)
		if other := tx.Session(tx.Index(ByClient(w.ClientID))); other == nil || other.Worker.Owner == w.Owner || p.fate(tx, other) != running {
			tx.PutIndex(ByClient(w.ClientID), w.Session) // operators mean who was there first
		}
		tx.PutIndex(ByOwnedClient(w.Owner, w.ClientID), w.Session)
		tx.PutIndex(ByURL(w.URL), w.Session)
		for _, ns := range w.Namespaces {
			tx.PutIndex("n:"+ns, "1")
		}
		p.carryOrders(tx, w)
	}
	s.Gen, s.Headroom, s.OwnDrain = tx.Meta.Gen, e.Headroom, e.Draining
	s.Aborts = s.Aborts && e.Prev == "" // prevSessionId is newer than the dialects that abort
	s.Until = max(s.Until, tx.Now+p.Lease+p.Slack)
	return s
}

// succeed makes s the newest session of its process: older ones forward and
// renew no more, and what belongs to the process passes on (L6, L9).
func (p *Rules) succeed(tx *Tx, s *Session, prior *Session, e *Enrol) {
	if prior == nil || prior.Worker.Session == s.Worker.Session {
		return
	}
	s.Acks, s.Aborts, s.Ordered, s.Drain, s.DrainAt = prior.Acks, prior.Aborts, prior.Ordered, prior.Drain, prior.DrainAt
	if _, shift := p.ran(tx, prior, e); s.DrainAt != 0 {
		s.DrainAt += shift
	}
	s.Behind = append([]string{prior.Worker.Session}, prior.succeed(s.Worker.Session)...)
	tx.PutSession(*prior)
}

// replace lets s, newly proven at its URL, take the place of another process's
// session there (L7).
func (p *Rules) replace(tx *Tx, s *Session, old *Session) {
	if old == nil || old.Worker.Process == s.Worker.Process || p.fate(tx, old) != running {
		return
	}
	old.ReplacedBy = s.Worker.Session
	tx.PutSession(*old)
	tx.Log(Entry{Cause: Replaced, Session: old.Worker.Session, Node: p.Node})
}

// letGo ends the restatement: rows still naming an older session are nobody's,
// for processes that never sent acks after one lease more (L6, R5).
func (p *Rules) letGo(tx *Tx, s *Session) {
	for _, id := range s.Behind {
		old := tx.Session(id)
		if old == nil || old.over() {
			continue
		}
		free := tx.Now
		if !s.Acks && p.fate(tx, old) != dead { // else its rows are free already
			free += tx.Meta.Longest
		}
		old.letGo(s.Worker.Session, free)
		tx.PutSession(*old)
	}
	s.Behind = nil
}

// reclaim decides one restated id (docs/protocol.md says what the worker does
// with the answer; R6, R7); false means duplicate. Within a generation the row
// of a running session stays its own. In another one nothing says who is right,
// the row or the worker: whoever is told `duplicates` gets a closing row.
func (p *Rules) reclaim(tx *Tx, k Key, s *Session, e *Enrol) bool {
	row := tx.Row(k)
	if row == nil || row.Kind != Placed {
		p.close(tx, k, row, s, e)
		return false
	}
	owner := tx.Session(row.Session)
	mine := owner != nil && owner.Worker.Process == s.Worker.Process
	here := owner != nil && owner.Gen == tx.Meta.Gen
	ran, shift := p.ran(tx, owner, e)
	switch {
	case !mine && here && ran:
		return false
	case !mine, owner.over():
		// Over and still named: left out by an earlier restatement, or
		// deregistered, so it was free for others since.
		p.close(tx, k, row, s, e)
		return false
	case here:
		row.Session, row.Nonce = s.Worker.Session, Nonce{}
		tx.PutRow(k, *row)
		return true
	case ran:
		if row.Since == 0 {
			row.Since = row.Epoch
		}
		if row.Wind != 0 {
			row.Wind += shift
		}
		row.Session, row.Nonce = s.Worker.Session, Nonce{}
		tx.MintRow(k, *row, e.Seen)
		return true
	}
	p.close(tx, k, row, s, e)
	return false
}

// ran reports whether the session's lease runs, in an earlier generation by the
// clock behind it as this node carries it on (R6); shift is how far the clock
// of now is ahead of that one.
func (p *Rules) ran(tx *Tx, s *Session, e *Enrol) (ran bool, shift Micros) {
	switch {
	case s == nil, s.over():
		return false, 0
	case s.Gen == tx.Meta.Gen:
		return tx.Before(s.Until), 0
	}
	now, ok := e.OldNow(s.Gen)
	if !ok {
		return false, 0
	}
	return now < s.Until, tx.Now - now
}

// elsewhere gives ids that the process holds under another env of an earlier
// session of its own a closing row there as well: whatever env an id was held
// under is protected until the instance is closed (H1, R7).
func (p *Rules) elsewhere(tx *Tx, s *Session, e *Enrol) {
	if !p.Hostnames {
		return
	}
	for _, k := range e.Claims {
		for _, id := range s.Behind {
			old := tx.Session(id)
			if old == nil || old.Worker.EnvOf(k.Namespace) == k.Env {
				continue
			}
			there := k
			there.Env = old.Worker.EnvOf(k.Namespace)
			row := tx.Row(there)
			if row == nil || row.Kind == Held {
				continue
			}
			if owner := tx.Session(row.Session); row.Kind == Placed && owner != nil && owner.Worker.Process != s.Worker.Process {
				continue
			}
			p.close(tx, there, row, s, e)
			if here := tx.Row(k); here != nil && here.Kind == Closing { // the release of one ends both
				here.Twin = there.Env
				tx.PutRow(k, *here)
			}
		}
	}
}
