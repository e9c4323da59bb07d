package redisstore_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"pinboard/internal/ownership"
	"pinboard/internal/redisstore"
	"pinboard/internal/redistest"
)

// G5: a store that was emptied and set up otherwise under a running node: who
// disagrees with the header serves no id, says why, and goes on when they agree.
func TestWhoDisagreesWithTheHeaderServesNothing(t *testing.T) {
	srv := redistest.Start(t)
	var said []string
	s := open(t, srv.URL(), func(o *redisstore.Options) { o.OnDisagree = func(reason string) { said = append(said, reason) } })
	if err := all(s, furnish); err != nil {
		t.Fatal(err)
	}
	srv.Do("FLUSHALL")
	other := open(t, srv.URL(), func(o *redisstore.Options) { o.Buckets++ })
	for b := range s.Buckets() {
		if err := s.Update(context.Background(), b, rows("old"), nothing); !errors.Is(err, redisstore.ErrDisagrees) || !errors.Is(err, redisstore.ErrUnavailable) {
			t.Fatalf("bucket %d: %v", b, err)
		}
		if _, _, err := s.Walk(context.Background(), b, "", 10); !errors.Is(err, redisstore.ErrDisagrees) {
			t.Fatalf("a walk of bucket %d: %v", b, err)
		}
	}
	if len(said) != 1 || !strings.Contains(said[0], "bucket count") || s.Disagrees() != said[0] {
		t.Fatalf("said %q, now %q", said, s.Disagrees())
	}
	if err := all(other, furnish); err != nil {
		t.Fatal(err)
	}
	other.Close()
	srv.Do("FLUSHALL")
	s.Look()
	if err := all(s, furnish); err != nil || s.Disagrees() != "" || len(said) != 2 || said[1] != "" {
		t.Fatalf("%v, said %q", err, said)
	}
}

// G1: a bucket that shows fewer commits than this node has seen is told to every
// rule, and hits miss, until another generation has begun there.
func TestForgottenHistory(t *testing.T) {
	srv := redistest.Start(t)
	s := open(t, srv.URL())
	update(t, s, furnish)
	update(t, s, nothing)
	hint := ownership.Hint{Key: key("old"), Session: sessionA}
	hit := func() bool {
		for range 100 { // the connection for hits is opened beside the first one
			if _, ok, err := s.Peek(context.Background(), 0, hint); ok || err != nil {
				return ok
			}
		}
		return false
	}
	if !hit() {
		t.Fatal("no hit to begin with")
	}
	before := srv.Do("GET", s.TagKey(0, "%g")).(string)
	update(t, s, func(tx *ownership.Tx) error { tx.PutIndex("j", sessionA); return nil })
	srv.Do("SET", s.TagKey(0, "%g"), before)
	if hit() {
		t.Fatal("a hit in a history that was lost")
	}
	rules := ownership.Rules{Lease: 15e6}
	for i, want := range []ownership.Cause{ownership.HistoryLost, ""} {
		update(t, s, func(tx *ownership.Tx) error {
			if tx.Doubt != want {
				t.Errorf("rule %d: doubt %q", i+1, tx.Doubt)
			}
			rules.Begin(tx, 0)
			return nil
		})
	}
}
