package directory

import (
	"context"
	"time"
)

// Recheck re-reads the rows behind open streams and moves each deadline to the
// lease of the session that the row names now. It cuts a stream whose row is
// gone or names another process; a fresh epoch or a newer session of the same
// process cuts nothing (F2). A row it cannot read keeps its old deadline, so
// that streams end by this node's own clock when the store stays away.
func (d *Directory) Recheck(ctx context.Context, ws []*Watch) error {
	byBucket := make([][]*Watch, d.n)
	for _, w := range ws {
		b := w.Key.Bucket(d.n)
		byBucket[b] = append(byBucket[b], w)
	}
	return joined(d.each(func(b int) error {
		for list := byBucket[b]; len(list) > 0; {
			n := min(recheckBatch, len(list))
			if err := d.recheck(ctx, b, list[:n]); err != nil {
				return err
			}
			list = list[n:]
		}
		return nil
	}))
}

const recheckBatch = 256

func (d *Directory) recheck(ctx context.Context, b int, ws []*Watch) error {
	keys := make([]Key, len(ws))
	for i, w := range ws {
		keys[i] = w.Key
	}
	type seen struct {
		cut      bool
		deadline time.Time
	}
	var out []seen
	err := d.o.Store.Update(ctx, b, Select{Rows: keys}, func(tx *Tx) error {
		d.rules.begin(tx, 0)
		out = make([]seen, len(ws))
		for i, w := range ws {
			row := tx.Row(w.Key)
			if row == nil || row.Kind == Held {
				out[i].cut = true
				continue
			}
			s := tx.Session(row.Session)
			if s == nil || s.Worker.Process != w.Process || s.Ended != 0 || s.Restated {
				out[i].cut = true
				continue
			}
			// In another generation the lease is no longer this server's to
			// measure: the deadline last read stands.
			if out[i].deadline = w.Deadline; s.Gen == tx.Meta.Gen {
				out[i].deadline = tx.Sent.Add(time.Duration(s.Until-tx.Now) * time.Microsecond)
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	for i, w := range ws {
		w.Cut, w.Deadline = out[i].cut, out[i].deadline
	}
	return nil
}
