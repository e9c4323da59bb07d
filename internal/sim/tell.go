package sim

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"pinboard/internal/ownership"
)

// rows tells what the store holds.
func (s *Story) rows() {
	w := s.w
	var lines []string
	for b := range w.Buckets {
		rows, _, _ := w.server.mem.Walk(context.Background(), b, "", 1<<20)
		var now Micros
		w.peekAt(b, func(tx *ownership.Tx) { now = tx.Now })
		for _, r := range rows {
			line := s.rowLine(r.Key, &r.Row, now)
			if w.Buckets > 1 {
				line = fmt.Sprintf("%d: %s", b, line)
			}
			lines = append(lines, line)
		}
	}
	slices.Sort(lines)
	for _, l := range lines {
		s.say("%s", l)
	}
	if len(lines) == 0 {
		s.say("no rows")
	}
}

func (s *Story) rowLine(k ownership.Key, r *ownership.Row, now Micros) string {
	c := s.w.check
	env := ""
	if k.Env != ownership.World {
		env = k.Env + " "
	}
	line := env + k.ID + " "
	left := func(t Micros) string { return fmt.Sprint((time.Duration(t-now) * time.Microsecond).Round(time.Second)) }
	switch r.Kind {
	case ownership.Placed:
		line += fmt.Sprintf("placed on %s @%s", c.clientOf(r.Session), c.name(k, r.Epoch))
		if (r.Nonce != ownership.Nonce{}) {
			line += " unconfirmed"
		}
		if r.Since != 0 {
			line += " since " + c.name(k, r.Since)
		}
		if r.Wind != 0 {
			line += " to go in " + left(r.Wind)
		}
	case ownership.Closing:
		line += fmt.Sprintf("closing in %s @%s", c.clientOf(r.Session), c.name(k, r.Epoch))
	case ownership.Held:
		line += "held for " + left(r.Until)
	}
	if r.Claim != "" {
		line += " claimed by " + r.Claim
	}
	return line
}

// sessions tells what the first bucket knows of the workers.
func (s *Story) sessions() {
	var lines []string
	s.w.peekAt(0, func(tx *ownership.Tx) {
		for _, x := range tx.Roster() {
			left := (time.Duration(x.Until-tx.Now) * time.Microsecond).Round(time.Second)
			line := fmt.Sprintf("%s: lease %v", s.w.check.clientOf(x.Worker.Session), left)
			for name, on := range map[string]bool{"beaten": x.Beaten, "drained": x.Drain, "restating": x.Asked != 0, "replaced": x.ReplacedBy != "",
				"succeeded": x.Next != "", "ejected": x.Ejected, "ended": x.Phase == ownership.Ended, "degraded": x.Degraded != 0, "superseded": x.DisplacedBy != ""} {
				if on {
					line += " " + name
				}
			}
			f := strings.Fields(line)
			slices.Sort(f[3:])
			lines = append(lines, strings.Join(f, " "))
		}
	})
	slices.Sort(lines)
	for _, l := range lines {
		s.say("%s", l)
	}
}

// streams tells which streams are open, and through which node.
func (s *Story) streams() {
	for _, n := range s.w.nodes {
		for _, f := range n.flows {
			if f.open {
				s.say("%s: %s from %s", n.Name, f.watch.Key.ID, f.p.Name)
			}
		}
	}
	if s.out.Len() == 0 {
		s.say("no streams")
	}
}

// buckets tells how long each of them is cold, and the longest lease it knows.
func (s *Story) buckets() {
	for b := range s.w.Buckets {
		s.w.peekAt(b, func(tx *ownership.Tx) {
			cold := max(0, time.Duration(tx.Meta.Cold-tx.Now)*time.Microsecond)
			s.say("%d: cold for %v, longest lease %v", b, cold.Round(time.Second), time.Duration(tx.Meta.Longest)*time.Microsecond)
		})
	}
}
