package ownership

import (
	"strconv"
	"strings"

	"pinboard"
)

// Scope is the one place that knows hostname mode: it turns (hostname,
// namespace) into the env whose rows count, and says what a hostname may do
// with a row of another one. Outside that mode there is one World.

// host is the canonical hostname that rules work with.
func (p *Rules) HostOf(h string) string {
	if p.Hostnames {
		return h
	}
	return World
}

// bindKey names the binding behind a request.
func (p *Rules) BindKeyOf(host, ns string) BindKey {
	if !p.Hostnames {
		return BindKey{}
	}
	return BindKey{Host: host, Namespace: ns}
}

// env is the env of a request, and whether the namespace is known there.
func (p *Rules) EnvAt(tx *Tx, host, ns string) (env string, known bool) {
	if !p.Hostnames {
		return World, tx.Index("n:"+ns) != ""
	}
	if b := tx.Binding(p.BindKeyOf(host, ns)); bound(b) {
		return b.Env, true
	}
	return "", false
}

func bound(b *Binding) bool { return b != nil && b.Env != "" }

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

// admit refuses a registration whose bindings are held by a newer deployment:
// lower epochs, and an equal epoch of another env (H1).
func (p *Rules) admit(tx *Tx, w *Worker) error {
	if !p.Hostnames {
		return nil
	}
	for _, ns := range w.Namespaces {
		b := tx.Binding(BindKey{w.Hostname, ns})
		switch {
		case !bound(b):
		case w.BindEpoch < b.Epoch:
			return Conflict{"hostname binding of " + ns + " is held at a higher epoch"}
		case w.BindEpoch == b.Epoch && b.Env != w.EnvOf(ns):
			return Conflict{"hostname binding of " + ns + " is held by another env at this epoch"}
		}
	}
	return nil
}

// bind makes the worker's envs those of its hostname. A changed binding takes
// no new ids for one lease; until every bucket has it that wait is open-ended
// in effect, and BeginWait then starts it (H1).
func (p *Rules) bind(tx *Tx, w *Worker) (displacedAny bool) {
	if !p.Hostnames {
		return false
	}
	for _, ns := range w.Namespaces {
		k, env := BindKey{w.Hostname, ns}, w.EnvOf(ns)
		b := tx.Binding(k)
		switch {
		case b == nil:
			tx.PutBinding(k, &Binding{Env: env, Epoch: w.BindEpoch})
		case !bound(b):
			tx.PutBinding(k, &Binding{Env: env, Epoch: w.BindEpoch, Wait: b.Wait})
		case b.Env != env:
			tx.PutBinding(k, &Binding{Env: env, Epoch: w.BindEpoch, Wait: tx.Now + 2*tx.Meta.Longest})
			tx.Log(Entry{Cause: Displaced, Key: k.Host + " " + ns, Session: w.Session, Node: p.Node})
			displacedAny = true
		case w.BindEpoch > b.Epoch:
			tx.PutBinding(k, &Binding{Env: env, Epoch: w.BindEpoch, Wait: b.Wait})
		}
		putEnvPolicy(tx, env, w.Takeover, w.BindEpoch)
	}
	return displacedAny
}

// BeginWait starts the wait of the bindings that w displaced, after every bucket
// has them (H1). It never ends a wait early.
func (p *Rules) BeginWait(tx *Tx, w *Worker) {
	p.Begin(tx, 0)
	for _, ns := range w.Namespaces {
		k := BindKey{w.Hostname, ns}
		if b := tx.Binding(k); b != nil && b.Env == w.EnvOf(ns) && tx.Now < b.Wait {
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
		b := tx.Binding(BindKey{w.Hostname, ns})
		if !bound(b) {
			continue
		}
		if b.Env == w.EnvOf(ns) {
			return "", 0, false
		}
		env, epoch, yes = b.Env, b.Epoch, true
	}
	return env, epoch, yes
}

// foreign decides what host gets for a row that s, a worker of another
// hostname of the same env, holds. A takeover leaves its claim and a wind-down
// of one lease on the row. A row that a takeover placed stays where it is for
// ten leases, so that two busy hostnames cannot toss it back and forth; until
// then the other one is denied (H3).
func (p *Rules) foreign(tx *Tx, k Key, row *Row, s *Session, host string, msgID string) *pinboard.Refusal {
	if envPolicy(tx, k.Env) {
		return pinboard.HeldElsewhere
	}
	if row.Taken != 0 && row.Taken <= tx.Now && tx.Now < row.Taken+takeoverRest*tx.Meta.Longest && row.Claim == "" {
		return pinboard.HeldElsewhere
	}
	if row.Claim == "" || row.Wind == 0 {
		if row.Claim == "" {
			row.Claim = host
		}
		if row.Wind == 0 {
			p.wind(tx, k, row, s, tx.Now+tx.Meta.Longest, msgID)
		} else {
			tx.PutRow(k, *row)
		}
	}
	return pinboard.TakeoverInProgress
}

// claimed reports that an id that became free at since belongs to another
// hostname's takeover for now (H3).
func (p *Rules) claimed(tx *Tx, row *Row, since Micros, host string) bool {
	return row.Claim != "" && row.Claim != host && since != 0 && tx.Now < since+tx.Meta.Longest
}

// DeleteBinding forgets a binding (H4). Whatever is bound there next takes no
// new ids for one lease, as after a displacement: workers of the old env may
// still serve.
func (p *Rules) DeleteBinding(tx *Tx, k BindKey) bool {
	p.Begin(tx, 0)
	if !bound(tx.Binding(k)) {
		return false
	}
	tx.PutBinding(k, &Binding{Wait: tx.Now + tx.Meta.Longest})
	tx.Log(Entry{Cause: BindingDeleted, Key: k.Host + " " + k.Namespace, Node: p.Node})
	return true
}
