package ownership

import "pinboard"

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
		for _, id := range f.Row.closers() {
			p.lapse(tx, id)
		}
	}
	row := Row{Kind: Placed, Session: session, Nonce: q.Nonce}
	if f.Row.Claim != "" && f.Row.Claim == q.Host {
		row.Taken = tx.Now
	}
	cause := WasPlaced
	if f.Row.Session != "" {
		cause = Moved // from an owner whose lease is over
	}
	m = tx.MintRow(f.Key, row, seen)
	tx.Add(PlaceCount(session), 1)
	tx.Log(Entry{Cause: cause, Key: f.Key.String(), Session: session, Node: p.Node, Mint: m})
	f.Row, f.Session = row, *s
	return f, m, true, nil
}
