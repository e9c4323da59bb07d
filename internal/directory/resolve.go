package directory

import (
	"context"
	"errors"
	"pinboard/internal/ownership"
	"strings"
	"time"

	"pinboard"
	"pinboard/internal/pick"
)

const (
	youngSession = 5 * time.Second // its 403s prove nothing yet (F3)
	placeTries   = 4               // candidates tried before the roster counts as empty
)

// Resolve finds or makes the owner of an id: one round trip for a placed id,
// two for a new one. The error is a *pinboard.Refusal.
func (d *Directory) Resolve(ctx context.Context, r Request) (Placement, error) {
	host := d.rules.HostOf(r.Host)
	k := ownership.Key{Env: ownership.World, Namespace: r.Address.Namespace, ID: r.Address.ID}
	if d.o.Hostnames {
		k.Env = d.known.env(host, k.Namespace)
	}
	b := k.Bucket(d.n)
	if p, ok := d.peek(ctx, b, host, k); ok {
		return p, nil
	}
	q := ownership.Query{Host: host, NS: k.Namespace, ID: k.ID, Env: k.Env, Known: d.known.has(k.Namespace), MsgID: d.msgID()}
	found, sent, err := d.lookup(ctx, b, q)
	if found.Heirless && err != nil {
		d.known.bind(q.Host, q.NS, found.Key.Env)
		found, sent, err = d.lookupForHeir(ctx, b, q, r)
	}
	if err != nil {
		return Placement{}, refusalOf(err)
	}
	if !found.Vacant {
		return d.placement(&found, sent, found.Row.Epoch, q.Nonce), nil
	}
	if r.Caller == "" && !d.limiter.allow(d.o.Now(), r.Client) {
		return Placement{}, pinboard.PlacementRate
	}
	p, err := d.place(ctx, b, q, r)
	if err != nil {
		return Placement{}, refusalOf(err)
	}
	return p, nil
}

// A Later is a refusal whose reason ends after a while, if nothing else happens.
type Later struct {
	*pinboard.Refusal
	After time.Duration
}

// Unwrap makes it the refusal that it is about.
func (r Later) Unwrap() error { return r.Refusal }

// refusing is a refusal with what the rule knew of its end.
func refusing(f *ownership.Found, r *pinboard.Refusal) error {
	if f.Free <= f.Now {
		return r
	}
	return Later{r, time.Duration(f.Free-f.Now) * time.Microsecond}
}

// refusalOf is what the client may see of an error.
func refusalOf(err error) error {
	var timed Later
	if errors.As(err, &timed) {
		return timed
	}
	var r *pinboard.Refusal
	if errors.As(err, &r) {
		return r
	}
	return pinboard.StoreUnavailable
}

// peek serves a hit by one MGET when the node remembers the owner.
func (d *Directory) peek(ctx context.Context, b int, host string, k ownership.Key) (Placement, bool) {
	o, ok := d.hints.get(k)
	if !ok {
		return Placement{}, false
	}
	w := o.worker
	p, ok, err := d.o.Store.Peek(ctx, b, ownership.Hint{Key: k, Session: w.Session, Bind: d.rules.BindKeyOf(host, k.Namespace)})
	if err != nil || !ok || p.Row.Epoch != o.epoch || w.Hostname != host {
		return Placement{}, false
	}
	d.sawEpoch(b, p.Row.Epoch)
	return Placement{
		Key: k, Worker: w, Epoch: p.Row.Epoch, Sent: p.Sent, Deadline: p.Until,
		Draining: p.Draining, Settling: p.Settling || p.Age < youngSession,
	}, true
}

// lookup runs the look-up rule. A refusal may have something to commit (a
// takeover's order, a wanted restatement), so it is no error inside the rule.
func (d *Directory) lookup(ctx context.Context, b int, q ownership.Query) (f ownership.Found, sent time.Time, err error) {
	var refusal *pinboard.Refusal
	sel := d.want(q)
	if q.Heir != "" {
		sel = d.want(q, q.Heir)
	}
	err = d.o.Store.Update(ctx, b, sel, func(tx *ownership.Tx) error {
		f, refusal = d.rules.Lookup(tx, q)
		sent = tx.Sent
		return nil
	})
	switch {
	case err != nil:
		return f, sent, err
	case refusal != nil:
		return f, sent, refusing(&f, refusal)
	}
	d.known.add(q.NS)
	d.known.bind(q.Host, q.NS, f.Key.Env)
	return f, sent, nil
}

// lookupForHeir asks again for an id that another hostname holds, with a worker
// of this one that could have it: a takeover starts only where it can end (H3).
func (d *Directory) lookupForHeir(ctx context.Context, b int, q ownership.Query, r Request) (f ownership.Found, sent time.Time, err error) {
	if q.Heir, _, err = d.choose(ctx, b, q, r, nil, false); err != nil {
		return f, sent, err
	}
	return d.lookup(ctx, b, q)
}

// want prefetches what a look-up reads.
func (d *Directory) want(q ownership.Query, sessions ...string) ownership.Select {
	s := ownership.Select{Sessions: sessions}
	if q.ID != "" {
		s.Rows = []ownership.Key{{Env: q.Env, Namespace: q.NS, ID: q.ID}}
	}
	if d.o.Hostnames {
		s.Bindings = []ownership.BindKey{d.rules.BindKeyOf(q.Host, q.NS)}
	} else {
		s.Index = []string{"n:" + q.NS}
	}
	return s
}

// placement is what a found owner means for a forward.
func (d *Directory) placement(f *ownership.Found, sent time.Time, epoch pinboard.Epoch, nonce ownership.Nonce) Placement {
	s := &f.Session
	d.sawEpoch(f.Key.Bucket(d.n), epoch)
	d.hints.put(f.Key, s.Worker, epoch)
	return Placement{
		Key: f.Key, Worker: s.Worker, Epoch: epoch,
		Fresh: f.Row.Nonce != ownership.Nonce{} && f.Row.Nonce == nonce, Nonce: nonce,
		Settling: s.Asked != 0 || f.Now-s.At < youngSession.Microseconds(),
		Draining: s.OwnDrain || s.Drain,
		Sent:     sent,
		Deadline: sent.Add(time.Duration(s.Until-f.Now) * time.Microsecond),
	}
}

// place gives a vacant id to a worker. A candidate that the store no longer
// accepts means an old roster: it is read again and another is picked.
func (d *Directory) place(ctx context.Context, b int, q ownership.Query, r Request) (Placement, error) {
	q.Nonce = d.nonce()
	avoid := []string{r.Avoid}
	for try := range placeTries {
		w, n, err := d.choose(ctx, b, q, r, avoid, try > 0)
		if err != nil {
			return Placement{}, err
		}
		p, ok, err := d.tryPlace(ctx, b, q, w)
		if err != nil {
			return Placement{}, err
		}
		if ok {
			if p.Fresh {
				d.crowded(p, r, n)
			}
			return p, nil
		}
		avoid = append(avoid, w)
	}
	return Placement{}, pinboard.NoLiveBackends
}

// choose picks one of n candidates from the roster.
func (d *Directory) choose(ctx context.Context, b int, q ownership.Query, r Request, avoid []string, stale bool) (session string, n int, err error) {
	env := q.Env
	if d.o.Hostnames {
		env = d.known.env(q.Host, q.NS)
	}
	for {
		cs, fresh, err := d.candidates(ctx, b, q.Host, env, q.NS, avoid, stale)
		if err != nil {
			return "", 0, err
		}
		d.mu.Lock()
		i := pick.Choose(cs, pick.Request{Caller: r.Caller, Affinity: r.Affinity, Balance: d.o.Balance}, d.rand)
		d.mu.Unlock()
		if i >= 0 {
			return cs[i].Session, len(cs), nil
		}
		if fresh {
			return "", 0, pinboard.NoLiveBackends
		}
		stale = true
	}
}

// tryPlace writes the placement. A lost reply is looked up by its nonce once
// (R2, R10); anything else unknown is an error and the row, if it was written,
// is found by the next resolve.
func (d *Directory) tryPlace(ctx context.Context, b int, q ownership.Query, w string) (p Placement, ok bool, err error) {
	var f ownership.Found
	var m *ownership.Mint
	var sent time.Time
	var refusal *pinboard.Refusal
	err = d.o.Store.Update(ctx, b, d.want(q, w), func(tx *ownership.Tx) error {
		f, m, ok, refusal = d.rules.Place(tx, q, w, pinboard.Epoch(d.seen[b].Load()))
		sent = tx.Sent
		return nil
	})
	if err != nil {
		f, sent, err = d.lookup(ctx, b, q)
		if err != nil || f.Vacant {
			return p, false, errors.Join(pinboard.StoreUnavailable, err)
		}
		return d.placement(&f, sent, f.Row.Epoch, q.Nonce), true, nil
	}
	switch {
	case refusal != nil:
		return p, false, refusing(&f, refusal)
	case !ok:
		return p, false, nil
	case m != nil:
		d.roster.debit(w)
		d.known.add(q.NS)
		return d.placement(&f, sent, m.Epoch, q.Nonce), true, nil
	}
	return d.placement(&f, sent, f.Row.Epoch, q.Nonce), true, nil
}

// env is the env that this node last saw behind a binding.
func (k *known) env(host, ns string) string {
	if v, ok := k.envs.Load(ownership.BindKey{Host: host, Namespace: ns}); ok {
		return v.(string)
	}
	return ""
}

func (k *known) bind(host, ns, env string) {
	if host == ownership.World || k.env(host, ns) == env {
		return
	}
	k.envs.Store(ownership.BindKey{Host: strings.Clone(host), Namespace: strings.Clone(ns)}, strings.Clone(env))
}
