package ownership

import (
	"cmp"
	"encoding/json"
	"slices"
	"strconv"
	"strings"
)

// A Node is what a node records of itself in its store, so that operators see
// who runs on it and how. Nothing is decided by it: a node that is not listed
// counts like any other. The JSON names are stored bytes.
type Node struct {
	Name      string `json:"name"` // new with each start
	Version   string `json:"version"`
	Format    int    `json:"storeFormat"`
	LeaseMs   int64  `json:"leaseMs"`
	SlackMs   int64  `json:"slackMs"`
	Hostnames bool   `json:"hostnameAware"`
	ColdStart bool   `json:"coldStart"`
	Since     Micros `json:"since"` // first recorded
	Seen      Micros `json:"seen"`  // last recorded
}

// NodesIndex names the index entry of bucket 0 that lists the nodes.
const NodesIndex = "nodes"

const (
	nodeStep    = 4 * second // recorded no more often than this
	nodeLeases  = 3          // a node not recorded for so many of its leases has gone,
	nodeLeast   = 15 * second
	maxNodes    = 128
	maxNodeText = 80 // bytes of a name or a version
)

// A noted is a record as it is stored: a newer version's keeps the members that
// this one does not know.
type noted struct {
	Node
	raw json.RawMessage
}

// NoteNode records that me is here and returns all nodes that are, by name. It
// writes seldom, begins no generation, and drops those that have gone.
func NoteNode(tx *Tx, me Node) []Node {
	me.Name, me.Version = short(me.Name), short(me.Version)
	me.Since, me.Seen = tx.Now, tx.Now
	kept, stale := []noted{}, true
	for _, n := range readNodes(tx) {
		switch {
		case n.Name == me.Name:
			me.Since = min(n.Since, tx.Now)
			same := n.Node
			same.Since, same.Seen = me.Since, me.Seen
			stale = same != me || tx.Now < n.Seen || tx.Now-n.Seen >= nodeStep
		case n.here(tx.Now):
			kept = append(kept, n)
		}
	}
	if stale {
		raw, _ := json.Marshal(me) // plain fields: it cannot fail
		slices.SortStableFunc(kept, func(a, b noted) int { return cmp.Compare(b.Seen, a.Seen) })
		kept = append(kept[:min(len(kept), maxNodes-1)], noted{me, raw})
		writeNodes(tx, kept)
	} else {
		kept = append(kept, noted{Node: me})
	}
	list := make([]Node, len(kept))
	for i, n := range kept {
		list[i] = n.Node
	}
	slices.SortFunc(list, func(a, b Node) int { return cmp.Compare(a.Name, b.Name) })
	return list
}

// DropNode forgets a node that leaves.
func DropNode(tx *Tx, name string) {
	list := readNodes(tx)
	kept := slices.DeleteFunc(slices.Clone(list), func(n noted) bool { return n.Name == short(name) })
	if len(kept) < len(list) {
		writeNodes(tx, kept)
	}
}

// here reports a node that was recorded lately. One of a later time than now
// was recorded by a clock that has stepped.
func (n *Node) here(now Micros) bool {
	gone := max(nodeLeast, nodeLeases*n.LeaseMs*1000)
	return now-n.Seen <= gone && n.Seen-now <= gone
}

func short(text string) string {
	return strings.ToValidUTF8(text[:min(len(text), maxNodeText)], "")
}

// readNodes reads the list. What is no list is nobody's loss: the next write
// begins one.
func readNodes(tx *Tx) (list []noted) {
	var raws []json.RawMessage
	_ = json.Unmarshal([]byte(tx.Index(NodesIndex)), &raws)
	for _, raw := range raws {
		n := noted{raw: raw}
		if json.Unmarshal(raw, &n.Node) == nil && n.Name != "" {
			list = append(list, n)
		}
	}
	return list
}

func writeNodes(tx *Tx, list []noted) {
	if len(list) == 0 {
		tx.PutIndex(NodesIndex, "")
		return
	}
	raws := make([]json.RawMessage, len(list))
	for i, n := range list {
		raws[i] = n.raw
	}
	text, _ := json.Marshal(raws) // each was valid when it was read
	tx.PutIndex(NodesIndex, string(text))
}

// A Difference is a setting that other nodes have otherwise than this one.
type Difference struct {
	Setting string // of NodeSettings
	Here    string
	There   string
	Nodes   int    // how many have it so
	Name    string // one of them
}

// NodeSettings are what nodes of one store should have alike.
var NodeSettings = []string{"version", "storeFormat", "leaseMs", "slackMs", "hostnameAware", "coldStart"}

// settings are in the order of NodeSettings.
func (n *Node) settings() []string {
	return []string{n.Version, strconv.Itoa(n.Format), strconv.FormatInt(n.LeaseMs, 10), strconv.FormatInt(n.SlackMs, 10),
		strconv.FormatBool(n.Hostnames), strconv.FormatBool(n.ColdStart)}
}

// Differences compares the node of that name with the others: one entry for
// each setting and value that differs, however many nodes have it.
func Differences(name string, nodes []Node) (out []Difference) {
	name = short(name)
	at := slices.IndexFunc(nodes, func(n Node) bool { return n.Name == name })
	if at < 0 {
		return nil
	}
	here := nodes[at].settings()
	for i, setting := range NodeSettings {
		first := len(out)
		for j := range nodes {
			there := nodes[j].settings()[i]
			if there == here[i] {
				continue
			}
			same := slices.IndexFunc(out[first:], func(d Difference) bool { return d.There == there })
			if same < 0 {
				out = append(out, Difference{setting, here[i], there, 1, nodes[j].Name})
				continue
			}
			out[first+same].Nodes++
		}
	}
	return out
}
