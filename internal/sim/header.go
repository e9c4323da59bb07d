package sim

import (
	"context"
	"errors"
)

// The header of a store says how many buckets it was set up with; the first
// node that asks sets it, and whoever disagrees decides nothing (G5). This is a
// model of what the store on Redis does, which has tests of its own.

var errDisagrees = errors.New("the store's header differs")

// agree says whether anything may be decided in a generation of bucket b: the
// header is read first in one that the node has not seen.
func (c *conn) agree(ctx context.Context, b int, gen string) error {
	if seen, ok := c.verified[b]; !ok || seen != gen {
		if err := c.compare(ctx); err != nil {
			return err
		}
		c.verified[b] = gen
	}
	if c.differs {
		return errDisagrees
	}
	return nil
}

// compare reads the header, as each node does every second besides.
func (c *conn) compare(ctx context.Context) error {
	v, _, err := c.send(ctx, 0, false, func(s *Server) verdict {
		if s.header == 0 {
			s.header = c.n.buckets
		}
		return verdict{header: s.header}
	})
	if err != nil {
		return err
	}
	if differs := v.header != c.n.buckets; differs != c.differs {
		c.differs = differs
		c.w.note("%s: agrees with the header: %v", c.n.Name, !differs)
	}
	return nil
}

// mixed reports a store or a node that is set up otherwise than the rest.
func (w *World) mixed() bool {
	for _, n := range w.nodes {
		if n.buckets != w.Buckets {
			return true
		}
	}
	return w.server.header != 0 && w.server.header != w.Buckets
}

// mix empties the store while a node comes up with another number of buckets:
// whoever asks first sets the store up.
func (w *World) mix(n *Node) func() {
	if len(w.nodes) < 2 || w.mixed() || n.dead || w.Now-w.stepped < watchTime || w.slewing || !w.mayForget(w.server.ahead()) {
		return nil
	}
	n.Kill()
	w.server.wipe()
	w.other = 2 * w.Buckets
	w.boot(n.at)
	return func() { w.unmix() }
}

// unmix is the operator who finds out: everything begins once more, alike.
func (w *World) unmix() {
	if !w.mixed() || !w.mayForget(w.server.ahead()) {
		return
	}
	w.note("store: is set up once more")
	for i, n := range w.nodes {
		if n.buckets != w.Buckets {
			n.Kill()
			w.boot(i)
		}
	}
	w.server.wipe()
}

// wipe is FLUSHALL.
func (s *Server) wipe() {
	s.mem.Wipe()
	s.since, s.header = s.w.Now, 0
}
