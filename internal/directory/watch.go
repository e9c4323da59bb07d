package directory

import (
	"context"
	"pinboard/internal/ownership"
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
	keys := make([]ownership.Key, len(ws))
	for i, w := range ws {
		keys[i] = w.Key
	}
	var out []ownership.Sighting
	err := d.o.Store.Update(ctx, b, ownership.Select{Rows: keys}, func(tx *ownership.Tx) error {
		out = make([]ownership.Sighting, len(ws))
		for i, w := range ws {
			out[i] = d.rules.Recheck(tx, w.Key, w.Process)
		}
		return nil
	})
	if err != nil {
		return err
	}
	for i, w := range ws {
		if w.Cut = out[i].Gone; out[i].Measured {
			w.Deadline = out[i].Deadline
		}
	}
	return nil
}
