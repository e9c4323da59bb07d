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
	Known bool   // this node has known the namespace: a wiped store is no proof that none is
	MsgID string // for a takeover's wind-down, fresh
	Heir  string // session of Host's that could have the id if a takeover frees it; "" none known
	Nonce Nonce  // of this request's own placement, if it made one (R2)
}

// A Found is a live owner, or (Vacant) an id that may be placed.
type Found struct {
	Key      Key
	Row      Row
	Session  Session
	Vacant   bool
	Heirless bool // another hostname holds it, and Query.Heir cannot have it
	Now      Micros
	Free     Micros // with a refusal: when its reason ends at the latest, if nothing else happens; 0 when nobody knows
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
		case !known && p.displaced(tx, q.Host, q.NS):
			f.Free = tx.Binding(p.BindKeyOf(q.Host, q.NS)).Wait
			return f, pinboard.BindingDisplaced
		case !known && !(p.cold(tx) && (q.Known || q.ID != "")): // a new store proves nothing
			return f, pinboard.UnknownNamespace
		case q.ID == "":
			return f, pinboard.InvalidID
		case p.cold(tx):
			f.Free = tx.Meta.Cold
			return f, pinboard.ColdStart
		case p.displaced(tx, q.Host, q.NS):
			f.Free = tx.Binding(p.BindKeyOf(q.Host, q.NS)).Wait
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
	s, state, free := p.holder(tx, row)
	switch {
	case state == running && row.Kind == Placed:
		f.Session = *s
		return f, p.serve(tx, &f, row, s, q)
	case state == unknown:
		f.Free = tx.Meta.Cold
		return f, pinboard.ColdStart
	case state == running:
		return f, pinboard.WindingDown
	case tx.Now < free:
		f.Free = free
		return f, pinboard.WindingDown
	case p.claimed(tx, row, free, q.Host):
		f.Free = free + tx.Meta.Longest
		return f, pinboard.TakeoverInProgress
	}
	return vacancy()
}

// holder is what still stands behind a row: the session of a placed one, and
// from when on the id is free if it is dead.
func (p *Rules) holder(tx *Tx, row *Row) (s *Session, state fate, free Micros) {
	switch row.Kind {
	case Held:
		return nil, dead, p.heldUntil(tx, row)
	case Closing:
		state, free = p.closing(tx, row)
		return nil, state, free
	}
	s = tx.Session(row.Session)
	return s, p.fate(tx, s), p.freeAt(tx, s)
}

// heldUntil is when a held row is free. No wait is longer than the longest
// lease: what lies further ahead was written by another clock, and the cold
// start since has covered it (G4).
func (p *Rules) heldUntil(tx *Tx, row *Row) Micros {
	if row.Until > tx.Now+tx.Meta.Longest+p.Slack {
		return tx.Meta.Cold
	}
	return row.Until
}

// serve judges a placed row whose owner's lease runs.
func (p *Rules) serve(tx *Tx, found *Found, row *Row, s *Session, q Query) *pinboard.Refusal {
	switch f := s.standing(tx.Meta.Gen); {
	case f&(IsReplaced|IsSuperseded) != 0:
		found.Free = p.freeAt(tx, s)
		return pinboard.OwnerReplaced
	case f&IsSucceeded != 0:
		return pinboard.WorkerNotReady
	case s.Worker.Hostname != q.Host:
		refusal := p.foreign(tx, found, row, s, q)
		if refusal == pinboard.TakeoverInProgress {
			if found.Free = row.Wind; row.Wind == 0 { // it rests from the takeover before
				found.Free = row.Taken + takeoverRest*tx.Meta.Longest
			}
		}
		return refusal
	case f&IsRefusing != 0:
		return pinboard.WorkerNotReady
	case row.Wind != 0 && !tx.Before(row.Wind):
		return pinboard.WindingDown
	}
	mine := row.Nonce != Nonce{} && row.Nonce == q.Nonce
	if !mine && (row.Nonce != Nonce{} || row.Since != 0 && row.Wind == 0) {
		if row.Nonce = (Nonce{}); row.Wind == 0 { // an instance that closes answers without adopting the epoch
			row.Since = 0
		}
		tx.PutRow(found.Key, *row)
	}
	found.Row = *row
	return nil
}
