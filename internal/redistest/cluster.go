package redistest

import (
	"fmt"
	"net"
	"strconv"
	"strings"
	"testing"
)

const slots = 16384

// A Cluster is a Redis Cluster; slots are spread evenly over its primaries.
type Cluster struct {
	Nodes []*Server // primaries first, then one replica for each if asked for
}

// StartCluster runs a cluster of n primaries.
func StartCluster(t testing.TB, n int, config ...string) *Cluster {
	t.Helper()
	c := &Cluster{}
	for i := 0; i < n; i++ {
		c.Nodes = append(c.Nodes, clusterNode(t, config))
	}
	for i, s := range c.Nodes {
		s.Do("CLUSTER", "SET-CONFIG-EPOCH", strconv.Itoa(i+1))
		s.Do("CLUSTER", "ADDSLOTSRANGE", strconv.Itoa(i*slots/n), strconv.Itoa((i+1)*slots/n-1))
	}
	c.join(t)
	return c
}

// StartReplicatedCluster runs a cluster of n primaries with a replica each,
// Nodes[n+i] that of Nodes[i].
func StartReplicatedCluster(t testing.TB, n int, config ...string) *Cluster {
	t.Helper()
	c := StartCluster(t, n, config...)
	for i := 0; i < n; i++ {
		c.Nodes = append(c.Nodes, clusterNode(t, config))
	}
	c.join(t)
	for i := 0; i < n; i++ {
		id := c.ID(i)
		replica := c.Nodes[n+i]
		await(t, "replica", func() bool { _, err := replica.Try("CLUSTER", "REPLICATE", id); return err == nil })
		await(t, "replica in sync", func() bool { return replica.Info("replication", "master_link_status") == "up" })
	}
	return c
}

func clusterNode(t testing.TB, config []string) *Server {
	t.Helper()
	_, bus, _ := net.SplitHostPort(FreeAddr(t))
	return start(t, nil, append([]string{
		"cluster-enabled yes", "cluster-port " + bus, "cluster-node-timeout 1500",
		"cluster-require-full-coverage no", "cluster-allow-replica-migration no",
	}, config...)...)
}

func (c *Cluster) join(t testing.TB) {
	t.Helper()
	for _, s := range c.Nodes[1:] {
		host, port, _ := net.SplitHostPort(s.Addr)
		bus := strings.TrimSpace(fmt.Sprint(s.Do("CONFIG", "GET", "cluster-port").([]any)[1]))
		c.Nodes[0].Do("CLUSTER", "MEET", host, port, bus)
	}
	for _, s := range c.Nodes {
		s.Await("cluster formed", func() bool {
			info, _ := s.Do("CLUSTER", "INFO").(string)
			return strings.Contains(info, "cluster_state:ok") &&
				strings.Contains(info, fmt.Sprintf("cluster_known_nodes:%d\r", len(c.Nodes))) &&
				strings.Contains(info, "cluster_slots_ok:16384\r")
		})
	}
}

// URL names all nodes, as the store's option takes it.
func (c *Cluster) URL() string {
	addrs := make([]string, len(c.Nodes))
	for i, s := range c.Nodes {
		addrs[i] = s.Addr
	}
	return "redis+cluster://" + strings.Join(addrs, ",")
}

// ID is the node id of Nodes[i].
func (c *Cluster) ID(i int) string { return c.Nodes[i].Do("CLUSTER", "MYID").(string) }

// Slot is the hash slot of a key.
func (c *Cluster) Slot(key string) int {
	return int(c.Nodes[0].Do("CLUSTER", "KEYSLOT", key).(int64))
}

// Owner is the index of the primary that serves a slot of StartCluster's
// layout, as the nodes see it now; -1 when none does.
func (c *Cluster) Owner(slot int) int {
	for _, r := range c.Nodes[0].Do("CLUSTER", "SLOTS").([]any) {
		r := r.([]any)
		if lo, hi := r[0].(int64), r[1].(int64); int64(slot) < lo || int64(slot) > hi {
			continue
		}
		port := r[2].([]any)[1].(int64)
		for i, s := range c.Nodes {
			if strings.HasSuffix(s.Addr, fmt.Sprintf(":%d", port)) {
				return i
			}
		}
	}
	return -1
}

// BeginMove opens slot for migration from node i to node j: from now on keys
// that are not at i any more answer ASK, several of them TRYAGAIN.
func (c *Cluster) BeginMove(slot, i, j int) {
	c.Nodes[j].Do("CLUSTER", "SETSLOT", strconv.Itoa(slot), "IMPORTING", c.ID(i))
	c.Nodes[i].Do("CLUSTER", "SETSLOT", strconv.Itoa(slot), "MIGRATING", c.ID(j))
}

// MoveKeys carries up to n keys of the slot over and reports how many it did.
func (c *Cluster) MoveKeys(slot, i, j, n int) int {
	keys := c.Nodes[i].Do("CLUSTER", "GETKEYSINSLOT", strconv.Itoa(slot), strconv.Itoa(n)).([]any)
	if len(keys) == 0 {
		return 0
	}
	host, port, _ := net.SplitHostPort(c.Nodes[j].Addr)
	args := []string{"MIGRATE", host, port, "", "0", "5000", "KEYS"}
	for _, k := range keys {
		args = append(args, k.(string))
	}
	c.Nodes[i].Do(args...)
	return len(keys)
}

// EndMove gives the slot to node j.
func (c *Cluster) EndMove(slot, i, j int) {
	id := c.ID(j)
	for _, at := range []int{j, i} {
		c.Nodes[at].Do("CLUSTER", "SETSLOT", strconv.Itoa(slot), "NODE", id)
	}
}
