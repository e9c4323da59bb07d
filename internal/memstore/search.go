package memstore

import (
	"cmp"
	"slices"

	"pinboard/internal/ownership"
)

// A Bucket is the content of one bucket outside any store, for a search over
// its states. It has no lock and no clock, and it never changes: a commit
// leaves another one. What a commit does is what a Store does.
type Bucket struct{ b *bucket }

// NewBucket returns an empty one.
func NewBucket() Bucket { return Bucket{newBucket()} }

// Tx opens a transaction that reads from src, which stands before the content;
// the caller sets time and server.
func (b Bucket) Tx(src ownership.Source) *ownership.Tx {
	tx := ownership.NewTx(src)
	tx.Meta = b.b.meta
	return tx
}

// Source is the content as a rule reads it.
func (b Bucket) Source() ownership.Source { return b.b }

// Commit returns the content with what a rule wrote. The ring of entries stays
// empty: no rule reads it.
func (b Bucket) Commit(w *ownership.Writes, now ownership.Micros) Bucket {
	c := b.b.clone()
	c.commit(w, now)
	c.ring = nil
	return Bucket{c}
}

// Meta is the bucket's own record.
func (b Bucket) Meta() ownership.Meta { return b.b.meta }

// Last is the epoch counter, Commits the counter of commits.
func (b Bucket) Last() uint64 { return uint64(b.b.last) }

// Commits counts the commits that changed something.
func (b Bucket) Commits() int64 { return b.b.commits }

// Rows lists every row by its key.
func (b Bucket) Rows() []ownership.Walked {
	out := make([]ownership.Walked, 0, len(b.b.order))
	for _, c := range b.b.order {
		out = append(out, ownership.Walked{Key: c.key, Row: c.row})
	}
	slices.SortFunc(out, func(x, y ownership.Walked) int { return cmp.Compare(x.Key.String(), y.Key.String()) })
	return out
}
