package directory

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
// Order of refusals: product.md sections 1, 2 and 4. A hit on an unconfirmed
// row confirms it, except for the request that created it (R2, R6).
func (p *Rules) Lookup(tx *Tx, q Query) (Found, *pinboard.Refusal) {
	p.begin(tx, 0)
	env, known := p.env(tx, q.Host, q.NS)
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
func (p *Rules) serve(tx *Tx, f *Found, row *Row, s *Session, q Query) *pinboard.Refusal {
	if row.Kind == Closing {
		if tx.Now >= row.Made+orderLeases*tx.Meta.Longest && !s.Want {
			s.Want = true
			tx.PutSession(*s)
		}
		return pinboard.WindingDown
	}
	switch {
	case s.Replaced != "" || s.Super != "":
		return pinboard.OwnerReplaced
	case s.Successor != "":
		return pinboard.WorkerNotReady
	case s.Worker.Hostname != q.Host:
		return p.foreign(tx, f.Key, row, s, q.Host, q.MsgID)
	case s.Degraded&ProofsRefused != 0:
		return pinboard.WorkerNotReady
	case row.Wind != 0 && !tx.Before(row.Wind):
		return pinboard.WindingDown
	}
	mine := row.Nonce != Nonce{} && row.Nonce == q.Nonce
	if !mine && (row.Nonce != Nonce{} || row.Since != 0) {
		row.Nonce, row.Since = Nonce{}, 0
		tx.PutRow(f.Key, *row)
	}
	f.Row = *row
	return nil
}

// Place gives a vacant id to the session of that id, unconfirmed and marked
// with q.Nonce. Everything is judged again: if somebody else has placed it
// meanwhile the result is that owner; if the session may not have it, ok is
// false and the caller picks another. The epoch is in the Mint.
func (p *Rules) Place(tx *Tx, q Query, session string, seen pinboard.Epoch) (f Found, m *Mint, ok bool, refusal *pinboard.Refusal) {
	f, refusal = p.Lookup(tx, q)
	if refusal != nil || !f.Vacant {
		return f, nil, true, refusal
	}
	s := tx.Session(session)
	if !p.placeable(tx, s, q.Host, f.Key.Env, q.NS) {
		return f, nil, false, nil
	}
	if f.Row.Session != "" {
		p.lapse(tx, f.Row.Session)
	}
	row := Row{Kind: Placed, Session: session, Nonce: q.Nonce}
	if f.Row.Claim != "" && f.Row.Claim == q.Host {
		row.Taken = tx.Now
	}
	cause := "placed"
	if f.Row.Session != "" {
		cause = "moved" // from an owner whose lease is over
	}
	m = tx.MintRow(f.Key, row, seen)
	tx.Add(PlaceCount(session), 1)
	tx.Log(Entry{Cause: cause, Key: f.Key.String(), Session: session, Node: p.Node, Mint: m})
	f.Row, f.Session = row, *s
	return f, m, true, nil
}
