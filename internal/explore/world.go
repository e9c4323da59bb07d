package explore

import "pinboard/internal/ownership"

// A World says what is searched: how much of everything there is, and what may
// go wrong how often.
type World struct {
	Name      string
	Workers   int
	Nodes     int
	IDs       int
	Forwards  int // on their way at once
	Budget    int // faults in one run
	Faults    []stepKind
	Slack     bool // leases in the store last a tick longer than told
	Hostnames bool // each worker has a hostname of its own, all of one env
	Shared    bool // all workers claim one address
	Symmetric bool // workers count up to a swap
	Most      int  // states; 0: all of them

	rules ownership.Rules
}

func (w *World) ready() *World {
	w.Workers, w.Nodes, w.IDs, w.Forwards = max(w.Workers, 1), max(w.Nodes, 1), max(w.IDs, 1), max(w.Forwards, 1)
	w.rules = ownership.Rules{Lease: lease, Hostnames: w.Hostnames}
	if w.Slack {
		w.rules.Slack = tick
	}
	return w
}
