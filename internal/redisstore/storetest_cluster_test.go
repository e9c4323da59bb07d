package redisstore_test

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"pinboard/internal/ownership"
	"pinboard/internal/ownership/storetest"
	"pinboard/internal/redisstore"
	"pinboard/internal/redistest"
)

// A clusterRig is a rig over three primaries. Their common time is kept under
// a key in a slot of each, since a script sees only its own server's.
type clusterRig struct {
	rig
	cluster *redistest.Cluster
	clocks  [3]string
}

// openClusterRig opens the n-th rig over a cluster; each has keys of its own.
func openClusterRig(t *testing.T, c *redistest.Cluster, n int) storetest.Rig {
	r := &clusterRig{cluster: c}
	r.t = t
	for i, found := 0, 0; found < 3; i++ {
		k := fmt.Sprintf("{c%d}clock", i)
		if o := r.cluster.Owner(r.cluster.Slot(k)); r.clocks[o] == "" {
			r.clocks[o] = k
			found++
		}
	}
	r.set(time.Now())
	prelude := "local function clock() for _, k in ipairs({'" + strings.Join(r.clocks[:], "', '") + "'}) do " +
		"local now = redis.pcall('GET', k) if type(now) == 'string' then " +
		"local t = redis.call('TIME') return tonumber(now), now - (t[1] * 1000000 + t[2]) end end end\n"
	r.store = open(t, r.cluster.URL(), func(o *redisstore.Options) {
		o.Buckets, o.Prefix = 6, fmt.Sprint("rig", n)
		o.SetClock(prelude)
		o.SetNow(r.Now)
	})
	return r
}

func (r *clusterRig) set(t time.Time) {
	r.now.Store(&t)
	for i, k := range r.clocks {
		r.cluster.Nodes[i].Do("SET", k, strconv.FormatInt(t.UnixMicro(), 10))
	}
}

func (r *clusterRig) Advance(d time.Duration) {
	r.set(r.Now().Add(d))
	r.store.Look()
}

func (r *clusterRig) NewServer(kept bool) {
	for _, n := range r.cluster.Nodes {
		if !kept {
			n.Do("FLUSHALL")
		}
		n.Do("SAVE")
		n.Restart()
	}
	for i, n := range r.cluster.Nodes {
		n.Await("cluster is back", func() bool {
			_, err := n.Try("SET", r.clocks[i], strconv.FormatInt(r.Now().UnixMicro(), 10))
			return err == nil
		})
	}
	r.store.Look()
	if err := all(r.store, func(*ownership.Tx) error { return nil }); err != nil {
		r.t.Fatal(err)
	}
}

func TestStoreOnCluster(t *testing.T) {
	if testing.Short() {
		t.Skip("restarts a cluster several times")
	}
	t.Parallel()
	c, n := redistest.StartCluster(t, 3), 0
	storetest.Run(t, 2, func(t *testing.T) storetest.Rig {
		n++
		return openClusterRig(t, c, n)
	})
}
