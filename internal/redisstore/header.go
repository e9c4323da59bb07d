package redisstore

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"sync/atomic"

	"github.com/redis/rueidis"
)

// A header is this node's agreement with what all nodes of a store must have
// alike. A store can be emptied and set up otherwise under a running node, so
// it is read again each second, and before anything is decided in a generation
// that the node has not seen. Whoever disagrees serves no id until they agree.
type header struct {
	verified []atomic.Pointer[string] // by bucket: the generation that it was read for
	differs  atomic.Pointer[string]   // why nothing is served, for the operator; nil while they agree
}

// ErrDisagrees is a store that was set up otherwise than this node.
var ErrDisagrees = errors.New("the store's header differs")

// agree says whether anything may be decided in generation gen of bucket b.
func (s *Store) agree(ctx context.Context, b int, gen string) error {
	if seen := s.header.verified[b].Load(); seen == nil || *seen != gen {
		if err := s.compareHeader(ctx); err != nil {
			return err
		}
		s.header.verified[b].Store(&gen)
	}
	if s.header.differs.Load() != nil {
		return errors.Join(ErrUnavailable, ErrDisagrees)
	}
	return nil
}

// compareHeader reads the header and notes whether it agrees. The error is the
// store's, never the difference.
func (s *Store) compareHeader(ctx context.Context) error {
	err := s.assertHeader(ctx)
	if err != nil && !IsConfig(err) {
		return err
	}
	before := s.header.differs.Load()
	switch {
	case err == nil && before != nil:
		if s.header.differs.CompareAndSwap(before, nil) {
			s.opt.OnDisagree("")
		}
	case err != nil && (before == nil || *before != err.Error()):
		text := err.Error()
		if s.header.differs.CompareAndSwap(before, &text) {
			s.opt.OnDisagree(text)
		}
	}
	return nil
}

// Disagrees says why this node serves no id, "" while it may.
func (s *Store) Disagrees() string {
	if text := s.header.differs.Load(); text != nil {
		return *text
	}
	return ""
}

// assertHeader writes or compares what all nodes must agree on.
func (s *Store) assertHeader(ctx context.Context) error {
	mode := "plain"
	if s.opt.Hostnames {
		mode = "hostnames"
	}
	want := strings.Join([]string{strconv.Itoa(Format), strconv.Itoa(s.opt.Buckets), mode}, " ")
	n, err := s.topo.node(ctx, 0)
	if err != nil {
		return err
	}
	if _, err := n.do(ctx, "SET", s.keys.header(), want, "NX"); err != nil && !rueidis.IsRedisNil(err) {
		return err
	}
	m, err := n.do(ctx, "GET", s.keys.header())
	if err != nil {
		return err
	}
	got := strings.Fields(text(m))
	if len(got) != 3 {
		return misconfigured("%s in the store is not a header of this program: use another key prefix", s.keys.header())
	}
	for i, what := range []string{"format", "bucket count", "mode"} {
		if w := strings.Fields(want)[i]; got[i] != w {
			return misconfigured("the store was set up with %s %s, this node has %s", what, got[i], w)
		}
	}
	return nil
}
