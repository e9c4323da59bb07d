package ownership

import (
	"pinboard"
	"slices"
)

// free ends a row of which nobody holds an instance. A takeover's claim stays
// behind for one lease (H3).
func (p *Rules) free(tx *Tx, k Key, row *Row, until Micros, cause Cause) {
	if row.Kind == Placed {
		tx.Add(PlaceCount(row.Session), -1)
	}
	tx.Log(Entry{Cause: cause, Key: k.String(), Session: row.Session, Epoch: row.Epoch, Node: p.Node})
	if row.Claim == "" && until <= tx.Now {
		tx.DropRow(k)
		return
	}
	tx.PutRow(k, Row{Kind: Held, Epoch: row.Epoch, Until: max(until, tx.Now), Claim: row.Claim})
}

// ReleaseFresh takes back a new placement that nobody confirmed: epoch and
// nonce must match (R3). It reports whether it did.
func (p *Rules) ReleaseFresh(tx *Tx, k Key, epoch pinboard.Epoch, nonce Nonce) bool {
	p.Begin(tx, 0)
	row := tx.Row(k)
	if row == nil || row.Kind != Placed || row.Epoch != epoch || nonce == (Nonce{}) || row.Nonce != nonce {
		return false
	}
	p.free(tx, k, row, 0, TakenBack)
	return true
}

// Release frees the row of k for a session of the process that owns it: at the
// row's epoch; at any epoch from Since on; a closing row at any epoch, for that
// process; without an epoch only for the very session, and then the id is placed
// nowhere for one lease (R5-R7). It reports whether it did.
func (p *Rules) Release(tx *Tx, k Key, session string, epoch pinboard.Epoch, hasEpoch bool) bool {
	p.Begin(tx, 0)
	row, by := tx.Row(k), tx.Session(session)
	if row == nil || by == nil || row.Kind == Held {
		return false
	}
	var until Micros
	if !hasEpoch {
		if !slices.Contains(row.closers(), session) {
			return false
		}
		until = tx.Now + tx.Meta.Longest
		if !by.Aborts && !by.Acks { // clients before 0.9.0 name no epoch; restating would cost them everything
			by.Aborts = true
			tx.PutSession(*by)
		}
	}
	if row.Kind == Closing {
		twin := Key{Env: row.Twin, Namespace: k.Namespace, ID: k.ID}
		if r := tx.Row(twin); row.Twin != "" && r != nil && r.Kind == Closing {
			p.quit(tx, twin, r, by, until)
		}
		return p.quit(tx, k, row, by, until)
	}
	owner := tx.Session(row.Session)
	switch {
	case owner == nil || owner.Worker.Process != by.Worker.Process:
		return false
	case !hasEpoch, epoch == row.Epoch:
	case row.Since == 0 || epoch < row.Since || epoch > row.Epoch:
		return false
	}
	p.free(tx, k, row, until, Released)
	return true
}

// Label sets the operator's label of a row at its epoch (0: any), for a
// session of the owning process.
func (p *Rules) Label(tx *Tx, k Key, session string, epoch pinboard.Epoch, tag string) bool {
	p.Begin(tx, 0)
	row, by := tx.Row(k), tx.Session(session)
	if row == nil || by == nil || row.Kind != Placed || epoch != 0 && epoch != row.Epoch {
		return false
	}
	owner := tx.Session(row.Session)
	if owner == nil || owner.Worker.Process != by.Worker.Process || p.fate(tx, owner) != running {
		return false
	}
	row.Tag = tag
	tx.PutRow(k, *row)
	return true
}

// Deregister ends a session whose process has closed everything: its rows are
// nobody's at once.
func (p *Rules) Deregister(tx *Tx, session string) bool {
	p.Begin(tx, 0)
	s := tx.Session(session)
	if s == nil || s.Phase >= Succeeded { // a later registration speaks for the process (L6)
		return s != nil
	}
	s.end(tx.Now)
	tx.PutSession(*s)
	tx.Log(Entry{Cause: Deregistered, Session: session, Node: p.Node})
	return true
}
