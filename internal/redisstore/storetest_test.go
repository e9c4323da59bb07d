package redisstore_test

import (
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"pinboard/internal/ownership"
	"pinboard/internal/ownership/storetest"
	"pinboard/internal/redisstore"
	"pinboard/internal/redistest"
)

// frozenClock shows the time in the key "clock", which the rig moves.
const frozenClock = "local function clock() local t, now = redis.call('TIME'), tonumber(redis.call('GET', 'clock')) " +
	"return now, now - (t[1] * 1000000 + t[2]) end\n"

// A rig is a store on a server of its own whose clock stands still.
type rig struct {
	t     *testing.T
	srv   *redistest.Server
	store *redisstore.Store
	now   atomic.Pointer[time.Time]
}

func openRig(t *testing.T) storetest.Rig {
	r := &rig{t: t, srv: redistest.Start(t)}
	r.set(time.Now())
	r.store = open(t, r.srv.URL(), func(o *redisstore.Options) {
		o.Buckets = 3
		o.SetClock(frozenClock)
		o.SetNow(r.Now)
	})
	return r
}

func (r *rig) set(t time.Time) {
	r.now.Store(&t)
	r.srv.Do("SET", "clock", strconv.FormatInt(t.UnixMicro(), 10))
}

func (r *rig) Store() ownership.Store { return r.store }

func (r *rig) Now() time.Time { return *r.now.Load() }

func (r *rig) Advance(d time.Duration) {
	r.set(r.Now().Add(d))
	r.store.Look()
}

func (r *rig) NewServer(kept bool) {
	if !kept {
		r.srv.Do("FLUSHALL")
		r.set(r.Now())
	}
	r.srv.Do("SAVE")
	run := r.srv.Info("server", "run_id")
	r.srv.Restart()
	if r.srv.Info("server", "run_id") == run {
		r.t.Fatal("the server did not change")
	}
	r.store.Look()
}

func TestStore(t *testing.T) { storetest.Run(t, 25, openRig) }
