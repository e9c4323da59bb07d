//go:build linux

package faults

import (
	"fmt"
	"net"
	"strconv"
	"testing"
	"time"

	"pinboard/internal/redistest"
)

// commands is how many a server has executed.
func commands(s *redistest.Server) int {
	n, _ := strconv.Atoi(s.Info("stats", "total_commands_processed"))
	return n
}

// detach ends the replication to s; no reconnect succeeds until attach.
func detach(s *redistest.Server) {
	s.Do("CONFIG", "SET", "masterauth", "wrong")
	s.Do("CLIENT", "KILL", "TYPE", "master")
}

// attach makes s a replica of primary, in sync.
func (f *fleet) attach(s, primary *redistest.Server) {
	s.Do("CONFIG", "SET", "masterauth", "")
	host, port, _ := net.SplitHostPort(primary.Addr)
	s.Do("REPLICAOF", host, port)
	f.await("the replica in sync", func() bool { return s.Info("replication", "master_link_status") == "up" })
}

// FC-38: replication stands still, the primary dies, and the replica that is
// promoted has never heard of the last placements.
func TestSentinelFailoverWithLostWrites(t *testing.T) {
	t.Parallel()
	a := redistest.Start(t)
	b := redistest.StartReplica(t, a)
	s := redistest.StartSentinels(t, 3, a, 1)
	trial(t, "Sentinel failover, last writes lost (12 s of lag)", setting{url: s.URL(), lag: 12 * time.Second}, func(f *fleet) {
		detach(b)
		before := commands(a)
		time.Sleep(lease / 2)
		if commands(a) < before+10 || b.Info("replication", "master_link_status") != "down" {
			f.t.Error("no writes were lost")
		}
		a.Stop()
		f.await("the promotion", func() bool { return s.Primary() == b.Addr })
		a.Restart()
		f.attach(a, b)
		a, b = b, a
	})
}

// G3: a primary that is cut off from its replicas, but not from the nodes, is
// replaced while it lives. With min-replicas-to-write it refuses to write
// before the cold start of the new one is over.
func TestSentinelReplacesALivingPrimary(t *testing.T) {
	t.Parallel()
	safe := []string{"min-replicas-to-write 1", "min-replicas-max-lag 1"}
	a := redistest.Start(t, safe...)
	b, c := redistest.StartReplica(t, a, safe...), redistest.StartReplica(t, a, safe...)
	s := redistest.StartSentinels(t, 3, a, 2)
	trial(t, "living primary replaced by Sentinel (3 s of lag)", setting{url: s.URL(), lag: 3 * time.Second}, func(f *fleet) {
		detach(b)
		detach(c)
		f.await("the promotion", func() bool {
			s.Nodes[0].Try("SENTINEL", "FAILOVER", "pinboard") // refused while one is under way
			time.Sleep(lease / 4)
			return s.Primary() != a.Addr
		})
		primary, replica := b, c
		if s.Primary() == c.Addr {
			primary, replica = c, b
		}
		f.attach(replica, primary) // lets the new primary write
		time.Sleep(lease)          // and the old one goes on, for whoever has not noticed
		f.attach(a, primary)
		a, b, c = primary, replica, a
	})
}

// A shard's primary dies and its replica takes over.
func TestClusterFailover(t *testing.T) {
	t.Parallel()
	c := redistest.StartReplicatedCluster(t, 3)
	trial(t, "cluster failover of one shard (12 s of lag)", setting{url: c.URL(), lag: 12 * time.Second}, func(f *fleet) {
		slot, lost := 0, 0
		f.await("a slot of another server than the one that is asked about slots", func() bool {
			slot = c.Slot(fmt.Sprint("{", f.chance.IntN(buckets), "}"))
			lost = c.Owner(slot)
			return lost > 0
		})
		c.Nodes[lost].Stop()
		f.await("another owner", func() bool { now := c.Owner(slot); return now >= 0 && now != lost })
		c.Nodes[lost].Restart()
	})
}

// FC-41: every bucket in turn moves to another shard while it is used.
func TestSlotsMove(t *testing.T) {
	t.Parallel()
	c := redistest.StartCluster(t, 3)
	trial(t, "slots move in a cluster", setting{url: c.URL()}, func(f *fleet) {
		for b := range buckets {
			slot := c.Slot(fmt.Sprint("{", b, "}"))
			from := c.Owner(slot)
			to := (from + 1) % 3
			c.BeginMove(slot, from, to)
			for c.MoveKeys(slot, from, to, 5) > 0 {
				time.Sleep(5 * time.Millisecond)
			}
			c.EndMove(slot, from, to)
			time.Sleep(f.between(0, lease/4))
		}
	})
}
