package ownership

import (
	"slices"
	"strings"
)

// A closing row keeps an id from everybody while processes that were told
// `duplicates` still flush their instances of it (R7). Every order of
// restatements must end well, so it names all of them: Session and Others.

// closers lists the sessions that a closing row waits for.
func (r *Row) closers() []string { return append([]string{r.Session}, strings.Fields(r.Others)...) }

// waitFor makes the row wait for these sessions.
func (r *Row) waitFor(sessions []string) {
	r.Session, r.Others = sessions[0], strings.Join(sessions[1:], " ")
}

// close gives a duplicate a closing row of s, beside those that close already.
// Whoever the row named before is told so when it restates itself.
func (p *Rules) close(tx *Tx, k Key, row *Row, s *Session, e *Enrol) {
	closers := []string{s.Worker.Session}
	r := Row{Kind: Closing, Made: tx.Now}
	if row != nil {
		r.Claim = row.Claim
		switch row.Kind {
		case Placed:
			p.lapse(tx, row.Session)
		case Held:
			r.Until = row.Until
		case Closing:
			r.Until = row.Until
			closers = append(closers, p.stillClosing(tx, row, s.Worker.Process)...)
		}
	}
	r.waitFor(closers)
	tx.MintRow(k, r, e.Seen)
}

// stillClosing lists the closers of other processes that may not be done.
func (p *Rules) stillClosing(tx *Tx, row *Row, but string) (out []string) {
	for _, id := range row.closers() {
		if s := tx.Session(id); s != nil && s.Worker.Process != but && (p.fate(tx, s) != dead || tx.Now < p.freeAt(tx, s)) {
			out = append(out, id)
		}
	}
	return out
}

// closing judges a closing row: running while any of its sessions may still
// flush, unknown while that cannot be told, dead from free on. Sessions that
// take longer than four leases are to restate themselves.
func (p *Rules) closing(tx *Tx, row *Row) (all fate, free Micros) {
	all, free = dead, p.heldUntil(tx, row)
	overdue := tx.Now >= row.Made+orderLeases*tx.Meta.Longest
	for _, id := range row.closers() {
		s := tx.Session(id)
		switch p.fate(tx, s) {
		case running:
			if overdue && s.due() {
				tx.PutSession(*s)
			}
			all = running
		case unknown:
			if all == dead {
				all = unknown
			}
		case dead:
			free = max(free, p.freeAt(tx, s))
		}
	}
	return all, free
}

// quit notes that the process of by has closed its instance; from then on the
// row waits for the others. It reports whether the row waited for it.
func (p *Rules) quit(tx *Tx, k Key, row *Row, by *Session, until Micros) bool {
	rest := slices.DeleteFunc(row.closers(), func(id string) bool {
		s := tx.Session(id)
		return s != nil && s.Worker.Process == by.Worker.Process
	})
	switch len(rest) {
	case len(row.closers()):
		return false
	case 0:
		p.free(tx, k, row, max(until, row.Until), Released)
	default:
		r := *row
		r.Until = max(until, row.Until)
		r.waitFor(rest)
		tx.PutRow(k, r)
	}
	return true
}
