package directory

import (
	"context"
	"crypto/subtle"
	"maps"
	"pinboard/internal/ownership"
	"slices"
	"time"

	"pinboard"
)

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

// A CallerClaim is what an instance says of itself (docs/protocol.md, "What Pinboard says to workers").
type CallerClaim struct {
	Host      string // canonical authority of the call, as in Request
	Namespace string
	ID        string
	Session   string
	Secret    string
}

// Caller proves an instance's identity and returns the session that owns it
// now. The error is a *pinboard.Refusal: InvalidSessionSecret, CallerMismatch
// or, the store being away, StoreUnavailable.
func (d *Directory) Caller(ctx context.Context, c CallerClaim) (session string, err error) {
	host := d.rules.HostOf(c.Host)
	k := ownership.Key{Env: ownership.World, Namespace: c.Namespace, ID: c.ID}
	q := ownership.Query{Host: host, NS: c.Namespace, ID: c.ID, Env: ownership.World}
	if d.o.Hostnames {
		q.Env = d.known.env(host, c.Namespace)
	}
	var refusal *pinboard.Refusal
	err = d.o.Store.Update(ctx, k.Bucket(d.n), d.want(q, c.Session), func(tx *ownership.Tx) error {
		session, refusal = d.rules.Caller(tx, q, c.Session, c.Secret, equalSecrets)
		return nil
	})
	switch {
	case err != nil:
		return "", pinboard.StoreUnavailable
	case refusal != nil:
		return "", refusal
	}
	return session, nil
}

func equalSecrets(a, b string) bool {
	return subtle.ConstantTimeCompare([]byte(a), []byte(b)) == 1
}

// WindDown takes an order for one id; false if the id is not placed.
func (d *Directory) WindDown(ctx context.Context, o WindDown) (ok bool, err error) {
	ctx, cancel := d.o.Within(ctx, mutateTime)
	defer cancel()
	if !pinboard.ValidID(o.ID) {
		return false, nil
	}
	msg := d.msgID()
	b := ownership.Key{Namespace: o.Namespace, ID: o.ID}.Bucket(d.n)
	err = d.o.Store.Update(ctx, b, ownership.Select{}, func(tx *ownership.Tx) error {
		d.rules.Begin(tx, 0)
		env, known := d.rules.EnvAt(tx, d.rules.HostOf(o.Host), o.Namespace)
		ok = known && d.rules.WindDown(tx, ownership.Key{Env: env, Namespace: o.Namespace, ID: o.ID}, o.Deadline, msg, o.Process)
		return nil
	})
	return ok, joined(err)
}

// chosen lists the sessions that a selector names.
func (d *Directory) chosen(ctx context.Context, s Selector) (id string, err error) {
	if s.Session != "" {
		return s.Session, nil
	}
	err = d.o.Store.Update(ctx, ownership.Key{ID: s.ClientID}.Bucket(d.n), ownership.Select{Index: []string{ownership.ByClient(s.ClientID)}}, func(tx *ownership.Tx) error {
		d.rules.Begin(tx, 0)
		id = tx.Index(ownership.ByClient(s.ClientID))
		return nil
	})
	return id, err
}

// onSession runs a rule for one session in every bucket; n is 1 if any bucket
// knows it.
func (d *Directory) onSession(ctx context.Context, sel Selector, rule func(tx *ownership.Tx, session string) bool) (n int, err error) {
	ctx, cancel := d.o.Within(ctx, mutateTime)
	defer cancel()
	id, err := d.chosen(ctx, sel)
	if err != nil || id == "" {
		return 0, joined(err)
	}
	done := make([]bool, d.n)
	err = d.each(func(b int) error {
		return d.o.Store.Update(ctx, b, ownership.Select{Sessions: []string{id}}, func(tx *ownership.Tx) error {
			done[b] = rule(tx, id)
			return nil
		})
	})
	if slices.Contains(done, true) {
		n = 1
		d.roster.expire()
	}
	return n, joined(err)
}

// Drain tells a worker's process to take no new ids and, with a deadline, to
// have quit all by then; it lasts until Undrain. n counts the workers found.
func (d *Directory) Drain(ctx context.Context, sel Selector, deadline *time.Duration) (n int, err error) {
	return d.onSession(ctx, sel, func(tx *ownership.Tx, id string) bool { return d.rules.SetDrain(tx, id, true, deadline) })
}

// Undrain ends a drain.
func (d *Directory) Undrain(ctx context.Context, sel Selector) (n int, err error) {
	return d.onSession(ctx, sel, func(tx *ownership.Tx, id string) bool { return d.rules.SetDrain(tx, id, false, nil) })
}

// Eject stops renewing a session; its lease runs out.
func (d *Directory) Eject(ctx context.Context, sel Selector) (n int, err error) {
	return d.onSession(ctx, sel, d.rules.Eject)
}

// Bound is the env that a hostname shows under a namespace, "" for none.
func (d *Directory) Bound(ctx context.Context, hostname, namespace string) (env string, err error) {
	b := ownership.Key{ID: hostname}.Bucket(d.n)
	err = d.o.Store.Update(ctx, b, ownership.Select{Bindings: []ownership.BindKey{{Host: hostname, Namespace: namespace}}}, func(tx *ownership.Tx) error {
		d.rules.Begin(tx, 0)
		env, _ = d.rules.EnvAt(tx, d.rules.HostOf(hostname), namespace)
		return nil
	})
	return env, joined(err)
}

// DeleteBinding forgets a binding (hostname mode).
func (d *Directory) DeleteBinding(ctx context.Context, hostname, namespace string) (ok bool, err error) {
	found := make([]bool, d.n)
	err = d.each(func(b int) error {
		return d.o.Store.Update(ctx, b, ownership.Select{Bindings: []ownership.BindKey{{Host: hostname, Namespace: namespace}}}, func(tx *ownership.Tx) error {
			found[b] = d.rules.DeleteBinding(tx, ownership.BindKey{Host: hostname, Namespace: namespace})
			return nil
		})
	})
	return slices.Contains(found, true), joined(err)
}
