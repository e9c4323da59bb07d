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
	Longest  Micros
	Seen     pinboard.Epoch
	OldNow   func(server string) (Micros, bool) // an old server's clock, carried on (R6)
}

// ByProcess names the index entry of the newest session of a process.
func ByProcess(process string) string { return "p:" + process }

// ByClient names the index entry of the newest session of a clientId.
func ByClient(client string) string { return "c:" + client }

// ByURL names the index entry of the newest session at an advertise URL.
func ByURL(url string) string { return "u:" + url }

// Admit says whether the registration may be accepted, changing nothing.
func (p *Rules) Admit(tx *Tx, e *Enrol) error {
	p.Begin(tx, e.Longest)
	w := e.Worker
	if s := tx.Session(tx.Index(ByClient(w.ClientID))); s != nil && s.Worker.Process != w.Process && p.fate(tx, s) == running {
		return Wait{"clientId is in use by another process", time.Second}
	}
	if s := tx.Session(tx.Index(ByProcess(w.Process))); s != nil {
		switch {
		case s.Worker.Owner != w.Owner && p.fate(tx, s) == running:
			return Wait{"process is registered under another token", time.Second}
		case s.Ejected && p.fate(tx, s) == running:
			return Wait{"session was ejected", left(tx.Now, s.Until)}
		}
	}
	if s := tx.Session(tx.Index(ByURL(w.URL))); s != nil && s.Worker.Process != w.Process && p.fate(tx, s) == running {
		switch {
		case !s.Worker.Proven:
		case !w.Proven:
			return Wait{"advertise URL is in use by a proven worker", left(tx.Now, s.Until)}
		case tx.Now < s.ProvedAt+s.TTL/2:
			return Wait{"advertise URL was proved by another process just now", left(tx.Now, s.ProvedAt+s.TTL/2)}
		}
	}
	return p.admit(tx, w)
}

func left(now, until Micros) time.Duration {
	return max(time.Duration(until-now)*time.Microsecond, time.Second)
}

// Enrolled is what one bucket granted.
type Enrolled struct {
	Duplicates []Key
	Drain      bool
	DrainAt    Micros
	Now        Micros
	Displaced  bool // bindings changed: BeginWait once every bucket has them
	Moved      int
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
		p.succeed(tx, s, tx.Session(tx.Index(ByProcess(w.Process))))
		p.replace(tx, s, tx.Session(tx.Index(ByURL(w.URL))))
		out.Displaced = p.bind(tx, w)
		tx.PutIndex(ByProcess(w.Process), w.Session)
		tx.PutIndex(ByClient(w.ClientID), w.Session)
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
func (p *Rules) succeed(tx *Tx, s *Session, prior *Session) {
	if prior == nil || prior.Worker.Session == s.Worker.Session {
		return
	}
	s.Acks, s.Aborts, s.Ordered, s.Drain, s.DrainAt = prior.Acks, prior.Aborts, prior.Ordered, prior.Drain, prior.DrainAt
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
		if !s.Acks {
			free += tx.Meta.Longest
		}
		old.letGo(s.Worker.Session, free)
		tx.PutSession(*old)
	}
	s.Behind = nil
}

// reclaim decides one restated id by R6 and R7; false means duplicate.
func (p *Rules) reclaim(tx *Tx, k Key, s *Session, e *Enrol) bool {
	row := tx.Row(k)
	var owner *Session
	if row != nil && row.Kind != Held {
		owner = tx.Session(row.Session)
	}
	if owner == nil {
		p.close(tx, k, row, s, e)
		return false
	}
	ran, sameGen := p.ran(tx, owner, e)
	if owner.Worker.Process != s.Worker.Process {
		if !ran {
			p.close(tx, k, row, s, e)
		}
		return false
	}
	switch {
	case row.Kind == Closing, owner.Phase == Ended:
		p.close(tx, k, row, s, e)
		return false
	case owner.Phase == LetGo && row.Session != s.Worker.Session:
		// Left out by an earlier restatement, so it was free for others since.
		p.close(tx, k, row, s, e)
		return false
	case sameGen:
		row.Session, row.Nonce = s.Worker.Session, Nonce{}
		tx.PutRow(k, *row)
		return true
	case ran:
		if row.Since == 0 {
			row.Since = row.Epoch
		}
		row.Session, row.Nonce = s.Worker.Session, Nonce{}
		tx.MintRow(k, *row, e.Seen)
		return true
	}
	p.close(tx, k, row, s, e)
	return false
}

// ran reports whether the session's lease runs, in an earlier generation by
// that server's own clock as this node carries it on (R6).
func (p *Rules) ran(tx *Tx, s *Session, e *Enrol) (ran, sameGen bool) {
	if s.over() {
		return false, s.Gen == tx.Meta.Gen
	}
	if s.Gen == tx.Meta.Gen {
		return tx.Before(s.Until), true
	}
	now, ok := e.OldNow(ServerOf(s.Gen))
	return ok && now < s.Until, false
}

// close gives a duplicate that no running session owns a closing row: the id
// is placed nowhere until this process has quit it (R7).
func (p *Rules) close(tx *Tx, k Key, row *Row, s *Session, e *Enrol) {
	r := Row{Kind: Closing, Session: s.Worker.Session, Made: tx.Now}
	if row != nil {
		if row.Kind == Placed {
			p.lapse(tx, row.Session)
		}
		r.Claim = row.Claim
		if row.Kind == Closing {
			r.Made = row.Made
		}
	}
	tx.MintRow(k, r, e.Seen)
}
