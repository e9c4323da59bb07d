package main

import (
	"log/slog"

	"pinboard/internal/ownership"
)

// fleetWatch tells of nodes that run otherwise than this one: a line for each
// setting and value, once while it lasts, and one when all are alike again.
type fleetWatch struct {
	log  *slog.Logger
	told map[string]bool // as of the last look, so it is no longer than the list of nodes
}

func (f *fleetWatch) look(diffs []ownership.Difference) {
	now := map[string]bool{}
	for _, d := range diffs {
		key := d.Setting + " " + d.There
		now[key] = true
		if !f.told[key] {
			f.log.Warn("another node of this store runs otherwise", "setting", d.Setting, "here", d.Here, "there", d.There,
				"nodes", d.Nodes, "node", d.Name)
		}
	}
	if len(now) == 0 && len(f.told) > 0 {
		f.log.Info("all nodes of this store run alike")
	}
	f.told = now
}

// differing counts the nodes that differ, by setting.
func differing(diffs []ownership.Difference) map[string]int {
	out := map[string]int{}
	for _, d := range diffs {
		out[d.Setting] += d.Nodes
	}
	return out
}
