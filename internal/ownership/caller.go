package ownership

import "pinboard"

// Caller proves an instance's identity: session, secret and that a session of
// the same process owns the calling id. equal compares
// secrets in constant time.
func (p *Rules) Caller(tx *Tx, q Query, session, secret string, equal func(a, b string) bool) (string, *pinboard.Refusal) {
	p.Begin(tx, 0)
	s := tx.Session(session)
	if s == nil || !equal(s.Worker.Secret, secret) {
		return "", pinboard.InvalidSessionSecret
	}
	recent := s.Asked != 0 && tx.Now < max(s.Until, s.Asked)+tx.Meta.Longest
	if p.fate(tx, s) != running && !recent || s.DisplacedBy != "" {
		return "", pinboard.InvalidSessionSecret
	}
	env, known := p.EnvAt(tx, q.Host, q.NS)
	if !known {
		return "", pinboard.CallerMismatch
	}
	row := tx.Row(Key{Env: env, Namespace: q.NS, ID: q.ID})
	if row == nil || row.Kind != Placed {
		return "", pinboard.CallerMismatch
	}
	owner := tx.Session(row.Session)
	if p.fate(tx, owner) != running || owner.Worker.Process != s.Worker.Process {
		return "", pinboard.CallerMismatch
	}
	return row.Session, nil
}
