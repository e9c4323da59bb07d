package directory

import (
	"context"
	"pinboard/internal/ownership"
	"sync"
)

const (
	walkRows    = 256 // rows looked at in one step
	forgetBatch = 64  // sessions forgotten in one step
)

// keeper remembers where the walk over the rows goes on.
type keeper struct {
	mu     sync.Mutex
	bucket int
	cursor string
}

// Keep does one small, bounded step of housekeeping: it looks at some rows and
// collects those that nobody can own any more (R8), and at each new bucket
// forgets sessions long gone. Every node runs it; doubling does no harm.
func (d *Directory) Keep(ctx context.Context) error {
	k := &d.keeping
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.cursor == "" {
		err := d.o.Store.Update(ctx, k.bucket, ownership.Select{Roster: true}, func(tx *ownership.Tx) error {
			d.rules.Forget(tx, forgetBatch)
			return nil
		})
		if err != nil {
			return joined(err)
		}
	}
	rows, next, err := d.o.Store.Walk(ctx, k.bucket, k.cursor, walkRows)
	if err != nil {
		return joined(err)
	}
	if err := d.collect(ctx, k.bucket, rows); err != nil {
		return joined(err)
	}
	if k.cursor = next; next == "" {
		k.bucket = (k.bucket + 1) % d.n
	}
	return nil
}

// collect lets the rule judge the rows that are not plainly in use.
func (d *Directory) collect(ctx context.Context, b int, rows []ownership.Walked) error {
	live, err := d.livingSessions(ctx)
	if err != nil {
		return err
	}
	var doubtful []ownership.Key
	for _, r := range rows {
		if r.Row.Kind != ownership.Placed || !live[r.Row.Session] {
			doubtful = append(doubtful, r.Key)
		}
	}
	if len(doubtful) == 0 {
		return nil
	}
	return d.o.Store.Update(ctx, b, ownership.Select{Rows: doubtful}, func(tx *ownership.Tx) error {
		d.rules.Collect(tx, doubtful)
		return nil
	})
}

// livingSessions are those whose rows need no look; a list of at most a
// second's age, since a row passed over is looked at in the next round.
func (d *Directory) livingSessions(ctx context.Context) (map[string]bool, error) {
	if err := d.recent(ctx); err != nil {
		return nil, err
	}
	r := &d.roster
	r.mu.Lock()
	defer r.mu.Unlock()
	now := r.now + d.o.Now().Sub(r.read).Microseconds()
	live := make(map[string]bool, len(r.sessions))
	for i := range r.sessions {
		s := &r.sessions[i]
		live[s.Worker.Session] = d.rules.Fitness(s, r.gen, now).Forwards()
	}
	return live, nil
}
