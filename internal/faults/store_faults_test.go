//go:build linux

package faults

import (
	"testing"
	"time"
)

// The store stands still, for less than a lease and for more.
func TestStoreIsFrozen(t *testing.T) {
	t.Parallel()
	trial(t, "SIGSTOP of Redis", setting{}, func(f *fleet) {
		for _, d := range []time.Duration{lease / 2, lease * 3 / 2} {
			f.redis.Pause()
			time.Sleep(d)
			f.redis.Resume()
			time.Sleep(f.between(lease/2, lease))
		}
	})
}

// FC-39: everything is gone while workers hold their instances.
func TestStoreIsWiped(t *testing.T) {
	t.Parallel()
	trial(t, "FLUSHALL", setting{}, func(f *fleet) {
		f.redis.Do("FLUSHALL")
	})
}

func TestStoreRestartsEmpty(t *testing.T) {
	t.Parallel()
	trial(t, "restart of Redis without its data", setting{}, func(f *fleet) {
		f.redis.Restart()
	})
}

func TestStoreRestartsWithItsData(t *testing.T) {
	t.Parallel()
	trial(t, "restart of Redis with its data", setting{config: []string{"appendonly yes", "appendfsync always"}}, func(f *fleet) {
		f.redis.Restart()
		if n, _ := f.redis.Do("DBSIZE").(int64); n == 0 {
			f.t.Error("the data is gone")
		}
	})
}

// FC-39: the store comes back with rows, sessions and epochs of a moment ago.
func TestStoreIsRestored(t *testing.T) {
	t.Parallel()
	trial(t, "restore of a snapshot two leases old", setting{}, func(f *fleet) {
		f.redis.Do("SAVE")
		f.replace(f.chance.IntN(len(f.workers))) // its rows move to others, and come back with the snapshot
		time.Sleep(2 * lease)
		f.redis.Restart()
	})
}

// FC-42: nothing can be written, for less than a lease and for more; reading
// goes on.
func TestStoreIsFull(t *testing.T) {
	t.Parallel()
	trial(t, "full memory", setting{config: []string{"maxmemory-policy noeviction"}}, func(f *fleet) {
		for _, d := range []time.Duration{lease / 2, lease * 3 / 2} {
			f.redis.Do("CONFIG", "SET", "maxmemory", "1")
			time.Sleep(d)
			f.redis.Do("CONFIG", "SET", "maxmemory", "0")
			time.Sleep(f.between(lease/4, lease))
		}
	})
}
