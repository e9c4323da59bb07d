package directory

import (
	"context"
	"pinboard/internal/ownership"
	"sync"
	"time"
)

// fleet is who this node last saw on its store.
type fleet struct {
	mu    sync.Mutex
	nodes []ownership.Node
	now   ownership.Micros // the store's clock when read
	read  time.Time
}

// NodeInfo is a node of the store as operators see it.
type NodeInfo struct {
	Name          string `json:"name"`
	Self          bool   `json:"self,omitempty"` // the node that answers
	Version       string `json:"version"`
	StoreFormat   int    `json:"storeFormat"`
	LeaseMs       int64  `json:"leaseMs"`
	SlackMs       int64  `json:"slackMs"`
	HostnameAware bool   `json:"hostnameAware"`
	ColdStart     bool   `json:"coldStart"`
	SinceMs       int64  `json:"sinceMs"` // for how long it has been there
	SeenMs        int64  `json:"seenMs"`  // how long ago it last said so
}

// Meet records this node in the store, reads who else is there, and says where
// they differ from this one. A call every few seconds is enough; a node that
// does not call is not listed by the others.
func (d *Directory) Meet(ctx context.Context) ([]ownership.Difference, error) {
	me := ownership.Node{
		Name: d.o.Node, Version: d.o.Version, Format: d.o.Format, LeaseMs: d.o.Lease.Milliseconds(),
		SlackMs: d.o.Slack.Milliseconds(), Hostnames: d.o.Hostnames, ColdStart: !d.o.NoCold,
	}
	var nodes []ownership.Node
	var now ownership.Micros
	err := d.o.Store.Update(ctx, 0, ownership.Select{Index: []string{ownership.NodesIndex}}, func(tx *ownership.Tx) error {
		nodes, now = ownership.NoteNode(tx, me), tx.Now
		return nil
	})
	if err != nil {
		return nil, joined(err)
	}
	f := &d.fleet
	f.mu.Lock()
	defer f.mu.Unlock()
	f.nodes, f.now, f.read = nodes, now, d.o.Now()
	return ownership.Differences(me.Name, nodes), nil
}

// Leave takes this node off the list of Meet; without it the others drop it
// after some leases.
func (d *Directory) Leave(ctx context.Context) error {
	return joined(d.o.Store.Update(ctx, 0, ownership.Select{Index: []string{ownership.NodesIndex}}, func(tx *ownership.Tx) error {
		ownership.DropNode(tx, d.o.Node)
		return nil
	}))
}

// Nodes lists who was on the store at the last Meet, by name.
func (d *Directory) Nodes() []NodeInfo {
	f := &d.fleet
	f.mu.Lock()
	defer f.mu.Unlock()
	now := f.now + d.o.Now().Sub(f.read).Microseconds()
	out := make([]NodeInfo, len(f.nodes))
	for i, n := range f.nodes {
		out[i] = NodeInfo{
			Name: n.Name, Self: n.Name == d.o.Node, Version: n.Version, StoreFormat: n.Format, LeaseMs: n.LeaseMs, SlackMs: n.SlackMs,
			HostnameAware: n.Hostnames, ColdStart: n.ColdStart, SinceMs: max(0, (now-n.Since)/1000), SeenMs: max(0, (now-n.Seen)/1000),
		}
	}
	return out
}
