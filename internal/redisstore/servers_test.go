package redisstore_test

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"pinboard/internal/ownership"
	"pinboard/internal/redisstore"
	"pinboard/internal/redistest"
)

// all runs f on every bucket at once and returns the first error.
func all(s *redisstore.Store, f func(*ownership.Tx) error) error {
	errs := make([]error, s.Buckets())
	var wg sync.WaitGroup
	for b := range errs {
		wg.Go(func() { errs[b] = s.Update(context.Background(), b, ownership.Select{}, f) })
	}
	wg.Wait()
	return errors.Join(errs...)
}

// FC-40: the server forgets its scripts all the time and nobody notices.
func TestScriptsAreForgotten(t *testing.T) {
	srv := redistest.Start(t)
	s := open(t, srv.URL())
	var wg sync.WaitGroup
	var stop atomic.Bool
	wg.Go(func() {
		for !stop.Load() {
			srv.Do("SCRIPT", "FLUSH")
		}
	})
	for i := range 8 {
		wg.Go(func() {
			for range 50 {
				update(t, s, func(tx *ownership.Tx) error { tx.Add(fmt.Sprint(i), 1); return nil })
			}
		})
	}
	time.AfterFunc(300*time.Millisecond, func() { stop.Store(true) })
	wg.Wait()
	update(t, s, func(tx *ownership.Tx) error {
		for i := range 8 {
			if n := tx.Count(fmt.Sprint(i)); n != 50 {
				t.Errorf("%d updates of 50 took place", n)
			}
		}
		return nil
	})
}

// FC-41: every operation on a cluster, then one shard's scripts flushed.
func TestCluster(t *testing.T) {
	t.Parallel()
	c := redistest.StartCluster(t, 3)
	for _, u := range []string{c.URL(), c.Nodes[1].URL()} { // the second is detected
		s := open(t, u, func(o *redisstore.Options) { o.Buckets = 16 })
		for range 3 {
			if err := all(s, furnish); err != nil {
				t.Fatal(err)
			}
			c.Nodes[2].Do("SCRIPT", "FLUSH")
		}
		used := map[string]bool{}
		for b := range s.Buckets() {
			rows, _, err := s.Walk(context.Background(), b, "", 100)
			if err != nil || len(rows) != 1 || rows[0].Key != key("old") {
				t.Fatalf("bucket %d: %v %v", b, rows, err)
			}
			if e, err := s.Entries(context.Background(), b, 1); err != nil || len(e) != 0 {
				t.Fatalf("bucket %d: %v %v", b, e, err)
			}
			var gen string
			s.Update(context.Background(), b, ownership.Select{}, func(tx *ownership.Tx) error { gen = tx.Server; return nil })
			used[gen] = true
			h := ownership.Hint{Key: key("old"), Session: sessionA}
			if _, ok, err := s.Peek(context.Background(), b, h); !ok || err != nil {
				t.Fatalf("bucket %d: hit %v %v", b, ok, err)
			}
		}
		if len(used) != 3 {
			t.Fatalf("%d servers used", len(used))
		}
	}
}

// FC-41: a slot moves under load. Scripts wait or fail, never see half of a
// bucket, and go on at the new server.
func TestSlotMovesUnderLoad(t *testing.T) {
	t.Parallel()
	c := redistest.StartCluster(t, 3)
	s := open(t, c.URL())
	if err := all(s, furnish); err != nil {
		t.Fatal(err)
	}
	const b = 1
	slot := c.Slot(s.TagKey(b, ""))
	i := c.Owner(slot)
	j := (i + 1) % 3
	var stop atomic.Bool
	var done, failed atomic.Int64
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for !stop.Load() {
				err := s.Update(context.Background(), b, rows("old", "absent"), func(tx *ownership.Tx) error {
					if tx.Row(key("old")) == nil || tx.Session(sessionA) == nil || tx.Meta.Gen == "" {
						t.Error("a moving row read as absent")
					}
					tx.Add("n", 1)
					return nil
				})
				switch {
				case err == nil:
					done.Add(1)
				case errors.Is(err, redisstore.ErrUnavailable):
					failed.Add(1)
				default:
					t.Error(err)
				}
				if _, _, err := s.Peek(context.Background(), b, ownership.Hint{Key: key("old"), Session: sessionA}); err != nil && !errors.Is(err, redisstore.ErrUnavailable) {
					t.Error(err)
				}
			}
		})
	}
	time.Sleep(50 * time.Millisecond)
	c.BeginMove(slot, i, j)
	for c.MoveKeys(slot, i, j, 1) > 0 {
		time.Sleep(10 * time.Millisecond)
	}
	c.EndMove(slot, i, j)
	before := done.Load()
	c.Nodes[0].Await("updates go on", func() bool { return done.Load() > before+50 })
	stop.Store(true)
	wg.Wait()
	if failed.Load() > 0 {
		t.Errorf("%d updates failed although the slot moved in less than a second", failed.Load())
	}
	update := func(tx *ownership.Tx) error {
		if n := tx.Count("n"); n != done.Load()+failed.Load() {
			t.Errorf("%d updates counted, %d done", n, done.Load())
		}
		return nil
	}
	if err := s.Update(context.Background(), b, ownership.Select{}, update); err != nil {
		t.Fatal(err)
	}
}

// FC-41: a slot that stays half moved answers an error in bounded time.
func TestSlotStuckHalfway(t *testing.T) {
	t.Parallel()
	c := redistest.StartCluster(t, 3)
	s := open(t, c.URL())
	if err := all(s, furnish); err != nil {
		t.Fatal(err)
	}
	slot := c.Slot(s.TagKey(1, ""))
	i := c.Owner(slot)
	c.BeginMove(slot, i, (i+1)%3)
	c.MoveKeys(slot, i, (i+1)%3, 2)
	begun := time.Now()
	err := s.Update(context.Background(), 1, rows("old"), nothing)
	if !errors.Is(err, redisstore.ErrUnavailable) || time.Since(begun) > patience {
		t.Fatalf("%v after %v", err, time.Since(begun))
	}
	if err := s.Update(context.Background(), 0, rows("old"), nothing); err != nil {
		t.Fatalf("another bucket: %v", err)
	}
}

// FC-41: a lost shard fails its own buckets only, at once, and its replica
// takes over as a new generation.
func TestLostShard(t *testing.T) {
	t.Parallel()
	c := redistest.StartReplicatedCluster(t, 3)
	s := open(t, c.URL(), func(o *redisstore.Options) { o.Buckets = 8 })
	if err := all(s, furnish); err != nil {
		t.Fatal(err)
	}
	lost := c.Owner(c.Slot(s.TagKey(0, "")))
	caughtUp(c.Nodes[lost], c.Nodes[3+lost])
	c.Nodes[lost].Stop()
	begun := time.Now()
	for b := range 8 {
		err := s.Update(context.Background(), b, rows("old"), nothing)
		if mine := c.Slot(s.TagKey(b, "")); (err != nil) != (slotOwner(mine) == lost) {
			t.Errorf("bucket %d: %v", b, err)
		}
	}
	if took := time.Since(begun); took > 8*patience {
		t.Errorf("took %v", took)
	}
	c.Nodes[(lost+1)%3].Await("failover", func() bool {
		return all(s, func(tx *ownership.Tx) error {
			if tx.Row(key("old")) == nil {
				t.Error("the replica does not have the row")
			}
			return nil
		}) == nil
	})
	var gen, stored string
	s.Update(context.Background(), 0, ownership.Select{}, func(tx *ownership.Tx) error { gen, stored = tx.Server, tx.Meta.Gen; return nil })
	if gen == stored {
		t.Error("the promoted replica passes for the server before it")
	}
}

// caughtUp waits until the replica has what the primary has now.
func caughtUp(primary, replica *redistest.Server) {
	at, _ := strconv.Atoi(primary.Info("replication", "master_repl_offset"))
	replica.Await("replica caught up", func() bool {
		n, _ := strconv.Atoi(replica.Info("replication", "slave_repl_offset"))
		return n >= at
	})
}

// slotOwner is StartCluster's layout for three primaries.
func slotOwner(slot int) int {
	for i := range 3 {
		if slot < (i+1)*16384/3 {
			return i
		}
	}
	return -1
}

func TestSentinelFailover(t *testing.T) {
	t.Parallel()
	a := redistest.Start(t)
	b := redistest.StartReplica(t, a)
	sent := redistest.StartSentinels(t, 3, a, 1)
	s := open(t, sent.URL())
	if err := all(s, furnish); err != nil {
		t.Fatal(err)
	}
	caughtUp(a, b)
	sent.Failover()
	a.Await("the new primary serves", func() bool {
		return all(s, func(tx *ownership.Tx) error {
			if tx.Row(key("old")) == nil {
				return errors.New("lost row")
			}
			tx.Add("n", 1)
			if tx.Server == a.Info("server", "run_id") {
				return errors.New("the demoted server")
			}
			return nil
		}) == nil
	})
}

func TestSentinelNamesNobody(t *testing.T) {
	srv := redistest.Start(t)
	sent := redistest.StartSentinels(t, 1, srv, 0)
	_, err := tryOpen(strings.Replace(sent.URL(), "master=pinboard", "master=other", 1))
	if !errors.Is(err, redisstore.ErrUnavailable) || !strings.Contains(err.Error(), "other") {
		t.Fatal(err)
	}
}

// TLS and an ACL user with no more than it needs.
func TestTLSAndACL(t *testing.T) {
	srv, ca := redistest.StartTLS(t)
	srv.AddUser("pin-board", "p:w@d/?#%", "~pb{*", "-@all", "+@read", "+@write", "+@scripting", "+@connection", "+info", "+time", "-@dangerous", "+info")
	u := "rediss://" + url.PathEscape("pin-board") + ":" + url.PathEscape("p:w@d/?#%") + "@" + srv.Addr
	s := open(t, u+"?ca="+url.QueryEscape(ca))
	if err := all(s, furnish); err != nil {
		t.Fatal(err)
	}
	peek(t, s, ownership.Hint{Key: key("old"), Session: sessionA})
	if s, err := tryOpen(u); err == nil {
		s.Close()
		t.Error("an unknown authority was trusted")
	}
}

func TestRefusesWhatItMustNotUse(t *testing.T) {
	for _, c := range []struct {
		name  string
		setup func(*redistest.Server)
		opt   func(*redisstore.Options)
		says  string
	}{
		{"another bucket count", nil, func(o *redisstore.Options) { o.Buckets++ }, "bucket count 4, this node has 5"},
		{"another mode", nil, func(o *redisstore.Options) { o.Hostnames = true }, "mode plain, this node has hostnames"},
		{"another format", func(s *redistest.Server) { s.Do("SET", "pb{0}%h", "0 4 plain") }, nil, "format 0, this node has 2"},
		{"a foreign key", func(s *redistest.Server) { s.Do("SET", "pb{0}%h", "x") }, nil, "another key prefix"},
		{"an evicting server", func(s *redistest.Server) {
			s.Do("CONFIG", "SET", "maxmemory", "100mb", "maxmemory-policy", "allkeys-lru")
		}, nil, "allkeys-lru"},
		{"no replicas", nil, func(o *redisstore.Options) { o.RequireSafe = true }, "a server has 0 replicas"},
		{"a wrong password", nil, func(o *redisstore.Options) { o.URL = strings.Replace(o.URL, "//", "//:nope@", 1) }, "user or password"},
		{"a prefix with braces", nil, func(o *redisstore.Options) { o.Prefix = "a{b" }, "prefix"},
	} {
		t.Run(c.name, func(t *testing.T) {
			srv := redistest.Start(t)
			open(t, srv.URL())
			if c.setup != nil {
				c.setup(srv)
			}
			s, err := tryOpen(srv.URL(), func(o *redisstore.Options) {
				if c.opt != nil {
					c.opt(o)
				}
			})
			if err == nil {
				s.Close()
				t.Fatal("accepted")
			}
			if !redisstore.IsConfig(err) || !strings.Contains(err.Error(), c.says) || strings.Contains(err.Error(), "\n") {
				t.Fatalf("%v", err)
			}
		})
	}
	srv := redistest.Start(t, "maxmemory 100mb", "maxmemory-policy allkeys-lru")
	open(t, srv.URL(), func(o *redisstore.Options) { o.AllowEvicting = true })
}

// G3: what holds, and how far a replica may lag.
func TestGuarantee(t *testing.T) {
	a := redistest.Start(t)
	s := open(t, a.URL())
	if g := s.Guarantee(); g.State != redisstore.OneServer || g.Safe || g.Lag != 0 {
		t.Errorf("alone: %+v", g)
	}
	r1 := redistest.StartReplica(t, a)
	r2 := redistest.StartReplica(t, a)
	a.Await("two replicas known", func() bool { return a.Info("replication", "connected_slaves") == "2" })
	s = open(t, a.URL())
	if g := s.Guarantee(); g.State != redisstore.Lax || g.Safe || g.Lag != 12*time.Second || !strings.Contains(g.Reason, "is 0, 1 is needed") {
		t.Errorf("two replicas: %+v", g)
	}
	for _, m := range []*redistest.Server{a, r1} {
		m.Do("CONFIG", "SET", "min-replicas-to-write", "1", "min-replicas-max-lag", "3")
	}
	a.Await("good replicas", func() bool { return a.Info("replication", "min_slaves_good_slaves") == "2" })
	s = open(t, a.URL())
	if g := s.Guarantee(); g.State != redisstore.Lax || g.Safe || g.Lag != 12*time.Second {
		t.Errorf("one member does not refuse: %+v", g)
	}
	r2.Do("CONFIG", "SET", "min-replicas-to-write", "1", "min-replicas-max-lag", "3")
	s = open(t, a.URL(), func(o *redisstore.Options) { o.RequireSafe = true })
	if g := s.Guarantee(); g.State != redisstore.Safe || !g.Safe || g.Lag != 5*time.Second {
		t.Errorf("all refuse: %+v", g)
	}
	r1.Do("CONFIG", "SET", "min-replicas-max-lag", "0")
	s = open(t, a.URL())
	if g := s.Guarantee(); g.State != redisstore.Lax || g.Safe || g.Lag != 12*time.Second {
		t.Errorf("one member knows no lag: %+v", g)
	}
}

// A server that lost its replicas is not taken for one that has none: what it
// lost may be promoted.
func TestLostReplicasAreNotNone(t *testing.T) {
	t.Parallel()
	a := redistest.Start(t)
	b := redistest.StartReplica(t, a)
	single := open(t, a.URL())
	sent := redistest.StartSentinels(t, 1, a, 1)
	watched := open(t, sent.URL())
	b.Stop()
	a.Await("the replica is gone", func() bool { return a.Info("replication", "connected_slaves") == "0" })
	for name, s := range map[string]*redisstore.Store{"seen by this process": single, "known to the sentinels": watched} {
		if g := s.Assess(); g.State != redisstore.Lax || g.Safe || !strings.Contains(g.Reason, "none of its 1 replicas") {
			t.Errorf("%s: %+v", name, g)
		}
	}
	alone := redistest.Start(t)
	s := open(t, redistest.StartSentinels(t, 1, alone, 0).URL())
	if g := s.Guarantee(); g.State != redisstore.OneServer {
		t.Errorf("sentinels without replicas: %+v", g)
	}
}

// The same in a cluster, and a server that does not tell is not safe.
func TestGuaranteeOfAClusterAndOfTheSilent(t *testing.T) {
	t.Parallel()
	c := redistest.StartReplicatedCluster(t, 3)
	s := open(t, c.URL(), func(o *redisstore.Options) { o.Buckets = 16 })
	if g := s.Guarantee(); g.State != redisstore.Lax || !strings.Contains(g.Reason, "1 replicas") {
		t.Errorf("one replica each: %+v", g)
	}
	for _, primary := range c.Nodes[:3] { // word of a new replica spreads slowly
		primary.Await("all replicas known", func() bool {
			return strings.Count(primary.Do("CLUSTER", "NODES").(string), "slave ") == 3
		})
	}
	for _, replica := range c.Nodes[3:] {
		replica.Stop()
	}
	for _, primary := range c.Nodes[:3] {
		primary.Await("the replica is gone", func() bool { return primary.Info("replication", "connected_slaves") == "0" })
	}
	if g := s.Assess(); g.State != redisstore.Lax || !strings.Contains(g.Reason, "none of its 1 replicas") {
		t.Errorf("replicas lost: %+v", g)
	}
	bare := redistest.StartCluster(t, 3)
	s = open(t, bare.URL(), func(o *redisstore.Options) { o.Buckets = 16 })
	if g := s.Guarantee(); g.State != redisstore.OneServer {
		t.Errorf("no replicas: %+v", g)
	}
	a := redistest.Start(t)
	redistest.StartReplica(t, a)
	redistest.StartReplica(t, a)
	a.Await("two replicas known", func() bool { return a.Info("replication", "connected_slaves") == "2" })
	a.AddUser("u", "p", "~*", "+@all", "-config")
	s = open(t, strings.Replace(a.URL(), "//", "//u:p@", 1))
	if g := s.Guarantee(); g.State != redisstore.Unknown || g.Safe || !strings.Contains(g.Reason, "cannot be read") {
		t.Errorf("CONFIG forbidden: %+v", g)
	}
}
