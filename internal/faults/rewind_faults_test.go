//go:build linux

package faults

import (
	"fmt"
	"net"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"pinboard/internal/redistest"
)

// A dump is what a server held under some keys.
type dump []any // key, expiry in milliseconds of Unix time or -1, value; and so on

func dumpOf(s *redistest.Server, pattern string) dump {
	return s.Do("EVAL", `local out = {}
for _, k in ipairs(redis.call('KEYS', ARGV[1])) do
  local n = #out
  out[n + 1], out[n + 2], out[n + 3] = k, redis.call('PEXPIRETIME', k), redis.call('DUMP', k)
end
return out`, "0", pattern).([]any)
}

// restore puts back what was there under the pattern, at one stroke. Keys that
// come back one by one are a store that loses rows without losing itself.
func (d dump) restore(s *redistest.Server, pattern string) {
	args := []string{"EVAL", `for _, k in ipairs(redis.call('KEYS', ARGV[1])) do redis.call('DEL', k) end
for i = 2, #ARGV, 3 do
  redis.call('RESTORE', ARGV[i], math.max(ARGV[i + 1], 0), ARGV[i + 2], 'ABSTTL')
end`, "0", pattern}
	for _, v := range d {
		args = append(args, fmt.Sprint(v))
	}
	s.Do(args...)
}

// shuffle ends every instance, so that ids change hands.
func (f *fleet) shuffle() {
	for i, id := range f.load.ids {
		f.load.request(id, f.nodes[i%len(f.nodes)].addr, "?close")
	}
	time.Sleep(lease / 8)
}

// thereAndBack makes the server a replica of another one with an older copy,
// and a primary again. No node has met the other one.
func thereAndBack(f *fleet) {
	other := redistest.Start(f.t)
	dumpOf(f.redis, "*").restore(other, "*")
	f.shuffle()
	f.silence(f.holder(), func() {
		host, port, _ := net.SplitHostPort(other.Addr)
		f.redis.Do("REPLICAOF", host, port)
		f.await("the replica in sync", func() bool { return f.redis.Info("replication", "master_link_status") == "up" })
		f.redis.Do("REPLICAOF", "NO", "ONE")
	})
	other.Stop()
}

// G1: the same server, the same run id, and less than it has shown before.
func TestPrimaryIsDemotedAndPromotedAgain(t *testing.T) {
	t.Parallel()
	trial(t, "primary demoted and promoted again, with older data", setting{}, func(f *fleet) {
		f.anew(func() { thereAndBack(f) })
	})
}

func TestAnIgnoredReturnIsNoticed(t *testing.T) {
	t.Parallel()
	mustFail(t, setting{binary: build(t, deaf)}, thereAndBack)
}

// restoredInPlace puts the keys of one bucket back to what they were.
func restoredInPlace(f *fleet) (bucket int) {
	bucket = f.chance.IntN(buckets)
	pattern := fmt.Sprint("*{", bucket, "}*")
	old := dumpOf(f.redis, pattern)
	f.shuffle()
	f.silence(f.holder(), func() { old.restore(f.redis, pattern) })
	return bucket
}

// reloaded puts the whole server back to a snapshot, without a restart.
func reloaded(f *fleet) {
	f.redis.Do("SAVE")
	f.shuffle()
	f.silence(f.holder(), func() { f.redis.Do("DEBUG", "RELOAD", "NOSAVE") })
}

func TestKeysAreRestoredInPlace(t *testing.T) {
	t.Parallel()
	trial(t, "older keys of a bucket restored into the running Redis", setting{}, func(f *fleet) {
		before := f.generations()
		b := restoredInPlace(f)
		f.await("another generation", func() bool { return f.generations()[b] != before[b] })
		if now := slices.Delete(f.generations(), b, b+1); !slices.Equal(now, slices.Delete(before, b, b+1)) {
			f.t.Errorf("bucket %d was restored, and others began anew: %v", b, now)
		}
	})
}

func TestSnapshotIsReloadedInPlace(t *testing.T) {
	t.Parallel()
	trial(t, "older snapshot reloaded by the running Redis", setting{}, func(f *fleet) {
		f.anew(func() { reloaded(f) })
	})
}

func TestIgnoredRestoresAreNoticed(t *testing.T) {
	t.Parallel()
	mustFail(t, setting{binary: build(t, deaf)}, func(f *fleet) { restoredInPlace(f); reloaded(f) })
}

// wipedForAnother empties the store while the nodes cannot reach it, and starts
// a node with another bucket count there. Then all can.
func wipedForAnother(f *fleet, count int) *node {
	for _, r := range f.links {
		r.Stall(true)
	}
	f.quiet()
	f.redis.Do("FLUSHALL")
	another := startNodeAt(f.t, "another", f.binary, f.redis.URL(), f.spare, count)
	f.await("its header", func() bool {
		header, _ := f.redis.Do("GET", "pb{0}%h").(string)
		return strings.Contains(header, fmt.Sprint(" ", count, " "))
	})
	for _, r := range f.links {
		r.Stall(false)
	}
	return another
}

// quiet waits until what was on its way to the server has been executed: a
// running node would else write its own header behind the wipe.
func (f *fleet) quiet() {
	for before, still := 0, 0; still < 5; time.Sleep(20 * time.Millisecond) {
		now := commands(f.redis)
		if still++; now > before+1 { // the one that asks
			still = 0
		}
		before = now
	}
}

// roam lets workers meet all nodes in turn, for d.
func (f *fleet) roam(d time.Duration) {
	for begun := time.Now(); time.Since(begun) < d; time.Sleep(beat) {
		for _, w := range f.workers {
			w.up.cut()
		}
	}
}

// G5: whoever was set up otherwise than the store serves no id, and says so,
// until the two agree.
func TestBucketCountChangesUnderRunningNodes(t *testing.T) {
	t.Parallel()
	trial(t, "FLUSHALL and a node of another PINBOARD_BUCKETS", setting{spare: true}, func(f *fleet) {
		count := f.nodes[0].buckets
		next := 3*buckets - count // one, then the other
		another := wipedForAnother(f, next)
		for _, n := range f.nodes {
			f.await("a node that is not ready", func() bool { return !n.ready() })
		}
		apart := monotonic()
		f.roam(2 * lease)
		for _, n := range f.nodes {
			if !strings.Contains(n.said(), fmt.Sprintf("the store was set up with bucket count %d, this node has %d", next, count)) {
				f.t.Errorf("%s does not say why it serves nothing", n.name)
			}
			if served := f.load.answered(n.addr, apart); served > 0 {
				f.t.Errorf("%s served %d requests out of its own buckets", n.name, served)
			}
		}
		for _, n := range f.nodes {
			n.kill()
			n.buckets = next
			n.again()
		}
		another.kill()
	})
}

func TestIgnoredBucketCountsAreNoticed(t *testing.T) {
	t.Parallel()
	careless := edit{"internal/redisstore/header.go", "	if s.header.differs.Load() != nil {\n		return errors.Join", "	if s.header.differs.Load() != nil && s.opt.Buckets < 0 {\n		return errors.Join"}
	var another *node
	mustFail(t, setting{binary: build(t, careless), spare: true}, func(f *fleet) {
		if another == nil {
			another = wipedForAnother(f, 2*buckets)
		}
		f.roam(2 * lease)
	})
}

// lostAndSlow restores a copy in which a worker that has gone since has its
// ids. Those who have them now are told to close them, and take long.
func lostAndSlow(f *fleet) {
	gone := f.workers[0]
	for f.instances(gone) == 0 {
		f.shuffle()
		time.Sleep(slowClose)
	}
	f.redis.Do("SAVE")
	exited := gone.signal(syscall.SIGTERM)
	select {
	case <-exited:
	case <-time.After(deadline):
		f.t.Fatal("a worker does not end")
	}
	gone.down.end()
	time.Sleep(lease / 8)
	f.redis.Restart()
	f.workers[0] = f.worker(0)
}

var slowClose = lease * 5 / 2

// slowCloses counts instances that were told to close and took two leases.
func (f *fleet) slowCloses() (n int) {
	for _, a := range readOwners(readJournal(f.t, f.journal)).instances {
		if a.quit != never && a.end != never && a.end-a.quit > int64(2*lease) {
			n++
		}
	}
	return n
}

// R7: an id is placed only when whoever was told to close it has closed it,
// however long that takes.
func TestSlowCloseBehindLostWrites(t *testing.T) {
	t.Parallel()
	trial(t, "restore of a copy, closes of two and a half leases", setting{slow: slowClose, tame: true}, func(f *fleet) {
		before := f.slowCloses()
		lostAndSlow(f)
		f.healed()
		f.await("slow closes", func() bool { return f.slowCloses() > before })
	})
}

func TestPlacementsBehindSlowClosesAreNoticed(t *testing.T) {
	t.Parallel()
	hasty := edit{"internal/ownership/register.go", "	case !mine && here && ran:\n", "	case !mine && ran:\n"}
	mustFail(t, setting{binary: build(t, hasty), slow: slowClose, tame: true}, func(f *fleet) {
		lostAndSlow(f)
		time.Sleep(slowClose)
	}, twoOwners)
}
