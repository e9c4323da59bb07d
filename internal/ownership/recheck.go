package ownership

import "time"

// A Sighting is what a stream's node learns of the row behind it.
type Sighting struct {
	Gone     bool      // the row is gone or names another process
	Measured bool      // Deadline is the lease of the session that the row names now
	Deadline time.Time // by the node's monotonic clock, never later than the store's
}

// Recheck looks at the row behind an open stream to process (F2). In another
// generation the lease is no longer this server's to measure: the deadline
// that was read last stands.
func (p *Rules) Recheck(tx *Tx, k Key, process string) Sighting {
	p.Begin(tx, 0)
	row := tx.Row(k)
	if row == nil || row.Kind == Held {
		return Sighting{Gone: true}
	}
	s := tx.Session(row.Session)
	if s == nil || s.Worker.Process != process || s.over() {
		return Sighting{Gone: true}
	}
	if s.Gen != tx.Meta.Gen {
		return Sighting{}
	}
	return Sighting{Measured: true, Deadline: tx.Sent.Add(time.Duration(s.Until-tx.Now) * time.Microsecond)}
}
