package ownership

import (
	"pinboard"
)

// A Query is one resolution in one bucket.
type Query struct {
	Host  string // as in Request, canonical; World outside hostname mode
	NS    string
	ID    string // "" names no instance
	Env   string // expected env: the prefetched row's; a rule uses the binding's
	Known bool   // this node has known the namespace: a wiped store is no proof
	MsgID string // for a takeover's wind-down, fresh
	Nonce Nonce  // of this request's own placement, if it made one (R2)
}

// A Found is a live owner, or (Vacant) an id that may be placed.
type Found struct {
	Key     Key
	Row     Row
	Session Session
	Vacant  bool
	Now     Micros
}

// Lookup finds the owner of an id, or that it is free, or why neither is so.
// Unknown namespace, no id, cold, displaced: refusals in this order. A hit on an unconfirmed
// row confirms it, except for the request that created it (R2, R6).
func (p *Rules) Lookup(tx *Tx, q Query) (Found, *pinboard.Refusal) {
	p.Begin(tx, 0)
	env, known := p.EnvAt(tx, q.Host, q.NS)
	f := Found{Key: Key{Env: env, Namespace: q.NS, ID: q.ID}, Now: tx.Now}
	vacancy := func() (Found, *pinboard.Refusal) {
		switch {
		case !known && !(q.Known && p.cold(tx)):
			return f, pinboard.UnknownNamespace
		case q.ID == "":
			return f, pinboard.InvalidID
		case p.cold(tx):
			return f, pinboard.ColdStart
		case p.displaced(tx, q.Host, q.NS):
			return f, pinboard.BindingDisplaced
		}
		f.Vacant = true
		return f, nil
	}
	if !known || q.ID == "" {
		return vacancy()
	}
	row := tx.Row(f.Key)
	if row == nil {
		return vacancy()
	}
	f.Row = *row
	if row.Kind == Held {
		if tx.Now < row.Until {
			return f, pinboard.WindingDown
		}
		if p.claimed(tx, row, row.Until, q.Host) {
			return f, pinboard.TakeoverInProgress
		}
		return vacancy()
	}
	s := tx.Session(row.Session)
	switch p.fate(tx, s) {
	case unknown:
		return f, pinboard.ColdStart
	case dead:
		if s != nil && tx.Now < freeAt(s) {
			return f, pinboard.WindingDown
		}
		if p.claimed(tx, row, freeAt(s), q.Host) {
			return f, pinboard.TakeoverInProgress
		}
		return vacancy()
	}
	f.Session = *s
	return f, p.serve(tx, &f, row, s, q)
}

// serve judges a row whose owner's lease runs.
func (p *Rules) serve(tx *Tx, found *Found, row *Row, s *Session, q Query) *pinboard.Refusal {
	if row.Kind == Closing {
		if tx.Now >= row.Made+orderLeases*tx.Meta.Longest && s.due() {
			tx.PutSession(*s)
		}
		return pinboard.WindingDown
	}
	switch f := s.standing(tx.Meta.Gen); {
	case f&(IsReplaced|IsSuperseded) != 0:
		return pinboard.OwnerReplaced
	case f&IsSucceeded != 0:
		return pinboard.WorkerNotReady
	case s.Worker.Hostname != q.Host:
		return p.foreign(tx, found.Key, row, s, q.Host, q.MsgID)
	case f&IsRefusing != 0:
		return pinboard.WorkerNotReady
	case row.Wind != 0 && !tx.Before(row.Wind):
		return pinboard.WindingDown
	}
	mine := row.Nonce != Nonce{} && row.Nonce == q.Nonce
	if !mine && (row.Nonce != Nonce{} || row.Since != 0) {
		row.Nonce, row.Since = Nonce{}, 0
		tx.PutRow(found.Key, *row)
	}
	found.Row = *row
	return nil
}
