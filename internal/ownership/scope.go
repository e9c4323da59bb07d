package ownership

import (
	"strconv"
	"strings"

	"pinboard"
)

// Scope is the one place that knows hostname mode: it turns (hostname,
// namespace) into the env whose rows count, and says what a hostname may do
// with a row of another one. Outside that mode there is one World.

// HostOf is the canonical hostname that rules work with.
func (p *Rules) HostOf(h string) string {
	if p.Hostnames {
		return h
	}
	return World
}

// BindKeyOf names the binding behind a request.
func (p *Rules) BindKeyOf(host, ns string) BindKey {
	if !p.Hostnames {
		return BindKey{}
	}
	return BindKey{Host: host, Namespace: ns}
}

// EnvAt is the env of a request, and whether the namespace is known there.
func (p *Rules) EnvAt(tx *Tx, host, ns string) (env string, known bool) {
	if !p.Hostnames {
		return World, tx.Index("n:"+ns) != ""
	}
	if b := tx.Binding(p.BindKeyOf(host, ns)); bound(b) {
		return b.InForce(), true
	}
	return "", false
}

// displaced reports that new ids of the binding still wait.
func (p *Rules) displaced(tx *Tx, host, ns string) bool {
	if !p.Hostnames {
		return false
	}
	b := tx.Binding(p.BindKeyOf(host, ns))
	return b != nil && tx.Now < b.Wait && b.Wait <= tx.Now+2*tx.Meta.Longest+p.Slack // else another clock wrote it
}

// A policy is what an env does about ids held by another hostname: that of its
// latest accepted registration with the highest epoch.
func envPolicy(tx *Tx, env string) (deny bool) {
	_, takeover, _ := strings.Cut(tx.Index("t:"+env), " ")
	return takeover == "deny"
}

func putEnvPolicy(tx *Tx, env, takeover string, epoch int64) {
	old, _, _ := strings.Cut(tx.Index("t:"+env), " ")
	if n, err := strconv.ParseInt(old, 10, 64); err == nil && n > epoch {
		return
	}
	tx.PutIndex("t:"+env, strconv.FormatInt(epoch, 10)+" "+takeover)
}

// admit refuses a registration whose bindings another env holds: at a lower
// epoch, or at an equal one, where the incumbent stays. A process with a past
// that comes back for what is left is let in, also if nothing is: clients take
// only a beat's answer for the end, so its first beat tells it, and until then it
// gets no id (H2).
func (p *Rules) admit(tx *Tx, e *Enrol) error {
	if !p.Hostnames {
		return nil
	}
	var held error
	w := e.Worker
	for _, ns := range w.Namespaces {
		b := settled(tx.Binding(BindKey{w.Hostname, ns}), tx.Now)
		switch refused, wait := b.refuses(w.EnvOf(ns), w.BindEpoch, e.Decided, tx.Now); {
		case wait:
			return Wait{"another env has just bound " + ns, left(tx.Now, min(b.By, tx.Now+p.Lease/3))}
		case refused:
			held = Conflict{"hostname binding of " + ns + " is held by another env at epoch " + strconv.FormatInt(b.Epoch, 10)}
		}
	}
	if w.Past || len(e.Claims) > 0 || e.Prev != "" || tx.Index(ByProcess(w.Process)) != "" {
		return nil
	}
	return held
}

// bind claims the worker's bindings, as far as they are free for its envs; all
// says that each of them is.
func (p *Rules) bind(tx *Tx, e *Enrol) (all bool) {
	all = true
	if !p.Hostnames {
		return all
	}
	w := e.Worker
	for _, ns := range w.Namespaces {
		k, env := BindKey{w.Hostname, ns}, w.EnvOf(ns)
		b := settled(tx.Binding(k), tx.Now)
		if held, wait := b.refuses(env, w.BindEpoch, e.Decided, tx.Now); held || wait {
			all = false
			continue
		}
		tx.PutBinding(k, b.claim(env, w.BindEpoch, tx.Now+tx.Meta.Longest))
		putEnvPolicy(tx, env, w.Takeover, w.BindEpoch)
	}
	return all
}

// proveBindings ends what is open about the bindings of a worker that has
// beaten: its registration has been answered. A binding that displaces another
// env takes no new ids for one lease; until every bucket has it that wait is
// open-ended in effect, and BeginWait then starts it (H1).
func (p *Rules) proveBindings(tx *Tx, w *Worker) (displaced bool) {
	if !p.Hostnames {
		return false
	}
	for _, ns := range w.Namespaces {
		k := BindKey{w.Hostname, ns}
		b := settled(tx.Binding(k), tx.Now)
		if !bound(b) || b.By == 0 || b.Env != w.EnvOf(ns) {
			continue
		}
		c := &Binding{Env: b.Env, Epoch: b.Epoch, Wait: b.Wait}
		if b.Was != "" {
			c.Wait, displaced = tx.Now+2*tx.Meta.Longest, true
			tx.Log(Entry{Cause: Displaced, Key: k.Host + " " + ns, Session: w.Session, Node: p.Node})
		}
		tx.PutBinding(k, c)
	}
	return displaced
}

// BeginWait starts the wait of the bindings that w displaced, after every bucket
// has them (H1). It never ends a wait early.
func (p *Rules) BeginWait(tx *Tx, w *Worker) {
	p.Begin(tx, 0)
	for _, ns := range w.Namespaces {
		k := BindKey{w.Hostname, ns}
		if b := tx.Binding(k); bound(b) && b.By == 0 && b.Env == w.EnvOf(ns) && tx.Now < b.Wait {
			c := *b
			c.Wait = tx.Now + tx.Meta.Longest
			tx.PutBinding(k, &c)
		}
	}
}

// superseded reports that none of the worker's bindings is left, and the env
// and epoch that took the last one (H2).
func (p *Rules) superseded(tx *Tx, w *Worker) (env string, epoch int64, yes bool) {
	if !p.Hostnames {
		return "", 0, false
	}
	for _, ns := range w.Namespaces {
		b := settled(tx.Binding(BindKey{w.Hostname, ns}), tx.Now)
		if !bound(b) {
			continue
		}
		if own := w.EnvOf(ns); b.Env == own || b.InForce() == own {
			return "", 0, false
		}
		env, epoch, yes = b.Env, b.Epoch, true
	}
	return env, epoch, yes
}

// unbound reports that a binding of the worker was deleted: it must register
// again to have it back.
func (p *Rules) unbound(tx *Tx, w *Worker) bool {
	if !p.Hostnames {
		return false
	}
	for _, ns := range w.Namespaces {
		if !bound(tx.Binding(BindKey{w.Hostname, ns})) {
			return true
		}
	}
	return false
}

// foreign decides what host gets for a row that s, a worker of another
// hostname of the same env, holds. A takeover leaves its claim and a wind-down
// of one lease on the row. It starts only where it can end: heir is a worker of
// host that could have the id now. A row that a takeover placed stays where it
// is for a while, so that two busy hostnames do not toss it back and forth (H3).
func (p *Rules) foreign(tx *Tx, found *Found, row *Row, s *Session, q Query) *pinboard.Refusal {
	k, due := found.Key, tx.Now+tx.Meta.Longest
	switch {
	case envPolicy(tx, k.Env):
		return pinboard.HeldElsewhere
	case row.Claim != "" && row.Wind != 0 && row.Wind <= due:
		return pinboard.TakeoverInProgress
	case row.Taken != 0 && row.Taken <= tx.Now && tx.Now < row.Taken+takeoverRest*tx.Meta.Longest && row.Claim == "":
		return pinboard.TakeoverInProgress
	case row.Claim == "" && !p.placeable(tx, tx.Session(q.Heir), q.Host, k.Env, q.NS):
		found.Heirless = true
		return pinboard.NoLiveBackends
	}
	if row.Claim == "" {
		row.Claim = q.Host
	}
	if row.Wind == 0 || row.Wind > due { // an operator's longer one does not hold it up
		p.wind(tx, k, row, s, due, q.MsgID)
	} else {
		tx.PutRow(k, *row)
	}
	return pinboard.TakeoverInProgress
}

// claimed reports that an id that became free at since belongs to another
// hostname's takeover for now (H3).
func (p *Rules) claimed(tx *Tx, row *Row, since Micros, host string) bool {
	return row.Claim != "" && row.Claim != host && since != 0 && tx.Now < since+tx.Meta.Longest
}

// DeleteBinding forgets a binding (H4) and what its epoch said of the env's
// takeover. Whatever is bound there next takes no new ids for one lease, as
// after a displacement: workers of the old env may still serve. Workers of it
// that live on are told to register again at their next beat; until then
// requests get 503 `hostname binding displaced, retry`.
func (p *Rules) DeleteBinding(tx *Tx, k BindKey) bool {
	p.Begin(tx, 0)
	b := tx.Binding(k)
	if !bound(b) {
		return false
	}
	for _, env := range []string{b.Env, b.Was} {
		if _, takeover, ok := strings.Cut(tx.Index("t:"+env), " "); ok && env != "" {
			tx.PutIndex("t:"+env, "-1 "+takeover)
		}
	}
	tx.PutBinding(k, &Binding{Wait: tx.Now + tx.Meta.Longest})
	tx.Log(Entry{Cause: BindingDeleted, Key: k.Host + " " + k.Namespace, Node: p.Node})
	return true
}
