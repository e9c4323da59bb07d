package memstore

import (
	"maps"
	"slices"

	"pinboard/internal/ownership"
)

// An Image is a copy of everything a store held at one moment.
type Image struct{ buckets []*bucket }

// Image copies the store's content, as a replica or a snapshot would have it.
func (s *Store) Image() *Image {
	im := &Image{}
	for _, b := range s.buckets {
		b.mu.Lock()
		im.buckets = append(im.buckets, b.clone())
		b.mu.Unlock()
	}
	return im
}

// Restart makes the store another server: a new generation with the content
// of im, or empty if im is nil. It is what a failover, a restart with or
// without its data, and the restore of a snapshot look like from outside.
func (s *Store) Restart(server string, im *Image) {
	for i, b := range s.buckets {
		b.mu.Lock()
		fresh := newBucket()
		if im != nil {
			fresh = im.buckets[i].clone()
		}
		b.adopt(fresh)
		b.mu.Unlock()
	}
	s.server = server
}

// Wipe empties the store under the same server, as FLUSHALL does.
func (s *Store) Wipe() { s.Restart(s.server, nil) }

func (b *bucket) clone() *bucket {
	c := newBucket()
	c.meta, c.last, c.commits = b.meta, b.last, b.commits
	for _, x := range b.order {
		c.putRow(x.key, &x.row)
	}
	for id, s := range b.sessions {
		s.Behind = slices.Clone(s.Behind)
		c.sessions[id] = s
	}
	maps.Copy(c.index, b.index)
	maps.Copy(c.bindings, b.bindings)
	for p, o := range b.orders {
		c.orders[p] = slices.Clone(o)
	}
	maps.Copy(c.counts, b.counts)
	c.ring = slices.Clone(b.ring)
	return c
}

// adopt takes over everything of c but the lock.
func (b *bucket) adopt(c *bucket) {
	b.meta, b.last, b.rows, b.order, b.sessions = c.meta, c.last, c.rows, c.order, c.sessions
	b.index, b.bindings, b.orders, b.counts, b.ring, b.commits = c.index, c.bindings, c.orders, c.counts, c.ring, c.commits
}

var _ ownership.Store = (*Store)(nil)
