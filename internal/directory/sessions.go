package directory

import (
	"context"
	"pinboard/internal/ownership"
	"slices"
	"strconv"
	"time"

	"pinboard"
)

const (
	callTime   = 4 * time.Second // what a worker's call may take in all; its client waits 5 s
	mutateTime = 5 * time.Second // receipt + 5 s: later a mutation does nothing (R5)
)

// Register accepts a process: a new session with a lease in every bucket, the
// rows it restates, and the ids it must quit. Errors: Wait, Conflict, Invalid,
// or StoreUnavailable (joined with the cause).
func (d *Directory) Register(ctx context.Context, reg *Registration) (Grant, error) {
	ctx, cancel := d.o.Within(ctx, callTime)
	defer cancel()
	w := reg.Worker
	if err := d.world(&w); err != nil {
		return Grant{}, err
	}
	w.Session, w.Process, w.LeaseMs = d.sessionID(), ProcessOf(w.ClientID, w.Secret), d.o.Lease.Milliseconds()
	claims, bad := d.claims(&w, reg.Instances)
	e := ownership.Enrol{Worker: &w, Headroom: reg.Headroom, Draining: reg.Draining, Prev: reg.PrevSession, Heard: reg.Heard,
		Longest: d.long.Load(), OldNow: d.o.OldNow}
	if err := d.admit(ctx, &w, &e, len(reg.Instances) > 0); err != nil {
		return Grant{}, joined(err)
	}
	grants := make([]ownership.Enrolled, d.n)
	dups := make([][]ownership.Key, d.n)
	home := -1
	enrol := func(b int) (err error) {
		if b != home {
			grants[b], dups[b], err = d.enrol(ctx, b, e, claims[b])
		}
		return err
	}
	var err error
	if d.o.Hostnames { // one bucket decides who has the hostname; the others follow
		b := ownership.Key{ID: w.Hostname}.Bucket(d.n)
		err = enrol(b)
		home, e.Decided = b, grants[b].Bound
	}
	if err == nil {
		err = d.each(enrol)
	}
	if err != nil {
		return Grant{}, joined(err)
	}
	g := Grant{Session: w.Session, ExpiresIn: d.o.Lease, Duplicates: bad}
	for b := range grants {
		for _, k := range dups[b] {
			g.Duplicates = append(g.Duplicates, ID{k.Namespace, k.ID})
		}
		if grants[b].Drain {
			g.Draining, g.DrainLeft = true, drainLeft(grants[b].DrainAt, grants[b].Now)
		}
	}
	for _, ns := range w.Namespaces {
		d.known.add(ns)
	}
	d.roster.expire()
	return g, nil
}

func drainLeft(at, now ownership.Micros) *time.Duration {
	if at == 0 {
		return nil
	}
	left := time.Duration(max(0, at-now)) * time.Microsecond
	return &left
}

// world puts the worker into the mode's world.
func (d *Directory) world(w *ownership.Worker) error {
	if !d.o.Hostnames {
		w.Hostname, w.Env, w.Envs, w.Takeover, w.BindEpoch = ownership.World, ownership.World, nil, "", 0
		return nil
	}
	if w.Hostname == "" {
		return Invalid{"hostname", "required in hostname-aware mode"}
	}
	for ns, env := range w.Envs {
		if env == "" {
			return Invalid{"envs", "the env of " + ns + " is empty"}
		}
	}
	if w.Env == "" {
		w.Env = w.Hostname
	}
	if w.Takeover == "" {
		w.Takeover = "wind_down"
	}
	return nil
}

// claims sorts the restated ids by bucket; what cannot be routed is a
// duplicate at once (R7).
func (d *Directory) claims(w *ownership.Worker, instances map[string][]string) (byBucket [][]ownership.Key, bad []ID) {
	byBucket = make([][]ownership.Key, d.n)
	served := map[string]bool{}
	for _, ns := range w.Namespaces {
		served[ns] = true
	}
	dup := map[ownership.Key]bool{}
	for _, ns := range sortedKeys(instances) {
		for _, id := range instances[ns] {
			k := ownership.Key{Env: w.EnvOf(ns), Namespace: ns, ID: id}
			switch {
			case !served[ns] || !pinboard.ValidID(id):
				bad = append(bad, ID{ns, id})
			case !dup[k]:
				dup[k] = true
				byBucket[k.Bucket(d.n)] = append(byBucket[k.Bucket(d.n)], k)
			}
		}
	}
	return byBucket, bad
}

// admit asks one bucket first, so that a refused registration normally leaves
// no trace, and learns whether the process has a past (L5).
func (d *Directory) admit(ctx context.Context, w *ownership.Worker, e *ownership.Enrol, restates bool) error {
	b := ownership.Key{ID: w.ClientID}.Bucket(d.n)
	if d.o.Hostnames {
		b = ownership.Key{ID: w.Hostname}.Bucket(d.n)
	}
	var refusal error
	err := d.o.Store.Update(ctx, b, enrolSelect(w, nil, e.Prev), func(tx *ownership.Tx) error {
		refusal = d.rules.Admit(tx, e)
		w.Past = restates || e.Prev != "" || tx.Index(ownership.ByProcess(w.Process)) != ""
		return nil
	})
	if err != nil {
		return err
	}
	return refusal
}

func enrolSelect(w *ownership.Worker, rows []ownership.Key, prev string) ownership.Select {
	s := ownership.Select{Rows: rows, Index: []string{ownership.ByProcess(w.Process), ownership.ByOwnedClient(w.Owner, w.ClientID), ownership.ByClient(w.ClientID), ownership.ByURL(w.URL)}, Orders: []string{w.Process}}
	if prev != "" {
		s.Sessions = []string{prev}
	}
	for _, ns := range w.Namespaces {
		s.Index = append(s.Index, "n:"+ns)
		if w.Hostname != ownership.World {
			s.Bindings = append(s.Bindings, ownership.BindKey{Host: w.Hostname, Namespace: ns})
			s.Index = append(s.Index, "t:"+w.EnvOf(ns))
		}
	}
	return s
}

// enrol registers in one bucket, chunk by chunk.
func (d *Directory) enrol(ctx context.Context, b int, e ownership.Enrol, claims []ownership.Key) (last ownership.Enrolled, dups []ownership.Key, err error) {
	e.Seen = pinboard.Epoch(d.seen[b].Load())
	for first := true; first || len(claims) > 0; first = false {
		n := min(d.o.EnrolChunk, len(claims))
		e.Claims, claims = claims[:n], claims[n:]
		e.Last = len(claims) == 0
		bound := last.Bound // told by the first chunk
		var minted []*ownership.Mint
		err = d.o.Store.Update(ctx, b, enrolSelect(e.Worker, e.Claims, e.Prev), func(tx *ownership.Tx) (err error) {
			last, err = d.rules.Register(tx, &e)
			minted = tx.Out.Minted
			return err
		})
		if err != nil {
			return last, nil, err
		}
		last.Bound = last.Bound || bound
		for _, m := range minted {
			d.sawEpoch(b, m.Epoch)
		}
		e.Seen = pinboard.Epoch(d.seen[b].Load())
		dups = append(dups, last.Duplicates...)
	}
	return last, dups, nil
}

// beginWaits starts the wait of the bindings that a beat has displaced, once
// every bucket has them (H1).
func (d *Directory) beginWaits(ctx context.Context, w *ownership.Worker) error {
	return d.each(func(b int) error {
		return d.o.Store.Update(ctx, b, enrolSelect(w, nil, ""), func(tx *ownership.Tx) error {
			d.rules.BeginWait(tx, w)
			return nil
		})
	})
}

// WorkerOf returns the worker behind a session id, for the proof that comes
// with a beat and for the check whose token it is. An unknown session is
// Reregister; a deregistered one is Gone.
func (d *Directory) WorkerOf(ctx context.Context, sid string) (*ownership.Worker, error) {
	var s *ownership.Session
	b := ownership.Key{ID: sid}.Bucket(d.n)
	err := d.o.Store.Update(ctx, b, ownership.Select{Sessions: []string{sid}}, func(tx *ownership.Tx) error {
		d.rules.Begin(tx, 0)
		s = tx.Session(sid)
		return nil
	})
	switch {
	case err != nil:
		return nil, joined(err)
	case s == nil:
		return nil, Reregister{"unknown session"}
	case s.Phase == ownership.Ended:
		return s.Worker, Gone{}
	}
	return s.Worker, nil
}

// Beat renews a session in every bucket, or says what the worker must do. The
// answer is a Grant only when every bucket took it (L2). Errors: Reregister,
// Superseded, Gone, Wait, or StoreUnavailable.
func (d *Directory) Beat(ctx context.Context, b ownership.Beat) (Grant, error) {
	ctx, cancel := d.o.Within(ctx, callTime)
	defer cancel()
	all := make([]ownership.Renewal, d.n)
	sel := ownership.Select{Sessions: []string{b.Session}, Counts: []string{ownership.PlaceCount(b.Session)}}
	if p := d.roster.process(b.Session); p != "" {
		sel.Orders = []string{p}
	}
	err := d.each(func(i int) error {
		return d.o.Store.Update(ctx, i, sel, func(tx *ownership.Tx) error {
			all[i] = d.rules.Renew(tx, ownership.Pulse{Beat: b, Longest: d.long.Load()})
			return nil
		})
	})
	if err != nil {
		return Grant{}, joined(err)
	}
	worst, placed := all[0], int64(0)
	if displacer := slices.IndexFunc(all, func(r ownership.Renewal) bool { return r.Displaced }); displacer >= 0 {
		if err := d.beginWaits(ctx, all[displacer].Worker); err != nil {
			return Grant{}, joined(err)
		}
	}
	g := Grant{Session: b.Session, ExpiresIn: d.o.Lease}
	for _, r := range all {
		if r.Standing > worst.Standing {
			worst = r
		}
		placed += r.Placed
		g.Messages = append(g.Messages, r.Messages...)
	}
	if d.o.Connect != nil && worst.Lease.Degraded&ownership.ConnectsFailed != 0 {
		d.o.Go(func() { d.tryConnect(worst.Worker) })
	}
	g.Draining, g.DrainLeft = worst.Lease.Drain, drainLeft(worst.Lease.DrainAt, worst.Now)
	if worst.Standing == ownership.Renewed && placed > d.o.PlaceLimit && d.rules.MayOrder(&worst.Lease, worst.Now) {
		worst.Standing, worst.Reason = ownership.RestateDue, "more than "+strconv.FormatInt(d.o.PlaceLimit, 10)+" placements since the last restatement"
	}
	return g, d.answer(ctx, b.Session, worst)
}

// answer turns the worst standing into the beat's error, nil for a renewal. A
// restate order is given only after every bucket knows of it (L9, F3).
func (d *Directory) answer(ctx context.Context, session string, r ownership.Renewal) error {
	switch r.Standing {
	case ownership.Renewed:
		return nil
	case ownership.Over:
		return Gone{}
	case ownership.Ousted:
		return ownership.Superseded{Env: r.Lease.DisplacedBy, Epoch: r.Lease.DisplacedAt}
	case ownership.Unrenewed:
		if r.Lease.Ejected {
			// A bucket that missed the order would go on renewing; one that
			// cannot be told now is told at the next beat.
			_, _ = d.onSession(ctx, Selector{Session: session}, d.rules.Eject)
		}
		return ownership.Wait{Reason: r.Reason, After: time.Second}
	}
	err := d.each(func(b int) error {
		return d.o.Store.Update(ctx, b, ownership.Select{Sessions: []string{session}}, func(tx *ownership.Tx) error {
			d.rules.MarkRestating(tx, session, r.Standing == ownership.RestateDue)
			return nil
		})
	})
	if err != nil {
		return joined(err)
	}
	return Reregister{r.Reason}
}

// Release frees rows and returns how many. Unknown rows, wrong epochs and
// repeats are not errors (docs/protocol.md, "release, deregister, tag, durability").
func (d *Directory) Release(ctx context.Context, owner string, items []Release) (n int, err error) {
	ctx, cancel := d.o.Within(ctx, mutateTime)
	defer cancel()
	speaking := map[string]*ownership.Worker{}
	for _, it := range items {
		w, err := d.speaker(ctx, owner, it.Session, it.ClientID, speaking)
		if err != nil {
			return n, joined(err)
		}
		if w == nil || !pinboard.ValidID(it.ID) {
			continue
		}
		k := ownership.Key{Env: w.EnvOf(it.Namespace), Namespace: it.Namespace, ID: it.ID}
		freed := false
		err = d.o.Store.Update(ctx, k.Bucket(d.n), ownership.Select{Rows: []ownership.Key{k}, Sessions: []string{w.Session}}, func(tx *ownership.Tx) error {
			freed = d.rules.Release(tx, k, w.Session, it.Epoch, it.HasEpoch)
			return nil
		})
		if err != nil {
			return n, joined(err)
		}
		if freed {
			d.hints.drop(k)
			n++
		}
	}
	return n, nil
}

// speaker is the session that an item speaks for, nil if it is unknown or
// another token's.
func (d *Directory) speaker(ctx context.Context, owner, session, client string, cache map[string]*ownership.Worker) (*ownership.Worker, error) {
	if w, ok := cache[session+"\x00"+client]; ok {
		return w, nil
	}
	b := ownership.Key{ID: session}.Bucket(d.n)
	sel := ownership.Select{Sessions: []string{session}}
	if session == "" {
		b, sel = ownership.Key{ID: client}.Bucket(d.n), ownership.Select{Index: []string{ownership.ByOwnedClient(owner, client)}}
	}
	var w *ownership.Worker
	err := d.o.Store.Update(ctx, b, sel, func(tx *ownership.Tx) error {
		d.rules.Begin(tx, 0)
		id := session
		if id == "" {
			id = tx.Index(ownership.ByOwnedClient(owner, client))
		}
		if s := tx.Session(id); s != nil && s.Worker.Owner == owner {
			w = s.Worker
		}
		return nil
	})
	if err == nil {
		cache[session+"\x00"+client] = w
	}
	return w, err
}

// Deregister ends a session; its rows are nobody's at once. Unknown sessions
// are no error.
func (d *Directory) Deregister(ctx context.Context, owner, sid string) error {
	ctx, cancel := d.o.Within(ctx, mutateTime)
	defer cancel()
	w, err := d.speaker(ctx, owner, sid, "", map[string]*ownership.Worker{})
	if err != nil || w == nil {
		return joined(err)
	}
	return joined(d.each(func(b int) error {
		return d.o.Store.Update(ctx, b, ownership.Select{Sessions: []string{sid}}, func(tx *ownership.Tx) error {
			d.rules.Deregister(tx, sid)
			return nil
		})
	}))
}

// Tag labels a placement; false if the session's process does not own it at
// that epoch.
func (d *Directory) Tag(ctx context.Context, owner string, t Tag) (ok bool, err error) {
	ctx, cancel := d.o.Within(ctx, mutateTime)
	defer cancel()
	w, err := d.speaker(ctx, owner, t.Session, "", map[string]*ownership.Worker{})
	if err != nil || w == nil || !pinboard.ValidID(t.ID) {
		return false, joined(err)
	}
	k := ownership.Key{Env: w.EnvOf(t.Namespace), Namespace: t.Namespace, ID: t.ID}
	err = d.o.Store.Update(ctx, k.Bucket(d.n), ownership.Select{Rows: []ownership.Key{k}, Sessions: []string{w.Session}}, func(tx *ownership.Tx) error {
		ok = d.rules.Label(tx, k, w.Session, t.Epoch, t.Tag)
		return nil
	})
	return ok, joined(err)
}
