package directory

import (
	"cmp"
	"context"
	"pinboard/internal/ownership"
	"slices"
	"strconv"
)

// Workers lists workers by session id, limit at most, after the given one;
// next is "" at the end.
func (d *Directory) Workers(ctx context.Context, after string, limit int) (ws []WorkerInfo, next string, err error) {
	var list []ownership.Session
	var gen string
	var now ownership.Micros
	err = d.o.Store.Update(ctx, 0, ownership.Select{Roster: true}, func(tx *ownership.Tx) error {
		d.rules.Begin(tx, 0)
		list, gen, now = tx.Roster(), tx.Meta.Gen, tx.Now
		return nil
	})
	if err != nil {
		return nil, "", joined(err)
	}
	slices.SortFunc(list, func(a, b ownership.Session) int { return cmp.Compare(a.Worker.Session, b.Worker.Session) })
	for i := range list {
		if list[i].Worker.Session <= after {
			continue
		}
		if len(ws) == limit {
			next = ws[limit-1].SessionID
			break
		}
		ws = append(ws, d.info(&list[i], gen, now))
	}
	return ws, next, d.countPlaced(ctx, ws)
}

// countPlaced fills in what each worker holds, summed over the buckets.
func (d *Directory) countPlaced(ctx context.Context, ws []WorkerInfo) error {
	names := make([]string, len(ws))
	for i := range ws {
		names[i] = ownership.PlaceCount(ws[i].SessionID)
	}
	sums, err := d.counts(ctx, names)
	for i := range ws {
		ws[i].Placed = max(0, sums[i])
	}
	return err
}

func (d *Directory) counts(ctx context.Context, names []string) ([]int64, error) {
	per := make([][]int64, d.n)
	err := d.each(func(b int) error {
		return d.o.Store.Update(ctx, b, ownership.Select{Counts: names}, func(tx *ownership.Tx) error {
			d.rules.Begin(tx, 0)
			per[b] = make([]int64, len(names))
			for i, name := range names {
				per[b][i] = tx.Count(name)
			}
			return nil
		})
	})
	sums := make([]int64, len(names))
	for _, row := range per {
		for i, v := range row {
			sums[i] += v
		}
	}
	return sums, joined(err)
}

// info is a session as operators see it.
func (d *Directory) info(s *ownership.Session, gen string, now ownership.Micros) WorkerInfo {
	w, fit := s.Worker, d.rules.Fitness(s, gen, now)
	in := WorkerInfo{
		ClientID: w.ClientID, SessionID: w.Session, AdvertiseURL: w.URL, Namespaces: w.Namespaces,
		Draining: fit.Drains(), OwnDraining: s.OwnDrain, Degraded: s.Degraded.String(), State: fit.State(),
		Headroom: s.Headroom, LeaseLeftMs: max(0, (s.Until-now)/1000), RegisteredFor: max(0, (now-s.At)/1000), Owner: w.Owner,
		ClockSkewMs: d.skewOf(w.Session).Milliseconds(),
	}
	if w.Hostname != ownership.World {
		in.Hostname, in.Env, in.Envs, in.BindEpoch = w.Hostname, w.Env, w.Envs, w.BindEpoch
	}
	if left := drainLeft(s.DrainAt, now); s.Drain && left != nil {
		ms := left.Milliseconds()
		in.DrainLeftMs = &ms
	}
	return in
}

// An Overview is the fleet at a glance; Workers is paged.
type Overview struct {
	Workers []WorkerInfo  `json:"workers"`
	Next    *string       `json:"next"`
	Placed  []PlacedCount `json:"placed"`
	Buckets int           `json:"buckets"`
	ColdMs  int64         `json:"coldMs"` // until every bucket places new ids
}

// A PlacedCount is the number of rows under a namespace of an env.
type PlacedCount struct {
	Env       string `json:"env,omitempty"`
	Namespace string `json:"namespace"`
	Placed    int64  `json:"placed"`
}

// Overview reads counters and a page of workers; never the rows.
func (d *Directory) Overview(ctx context.Context, after string, limit int) (Overview, error) {
	ws, next, err := d.Workers(ctx, after, limit)
	if err != nil {
		return Overview{}, err
	}
	o := Overview{Workers: ws, Buckets: d.n}
	if next != "" {
		o.Next = &next
	}
	if o.Placed, err = d.placedCounts(ctx); err != nil {
		return Overview{}, err
	}
	cold, err := d.ColdFor(ctx)
	o.ColdMs = cold.Milliseconds()
	return o, joined(err)
}

// placedCounts sums the row counters of every env and namespace that a worker
// on the roster serves.
func (d *Directory) placedCounts(ctx context.Context) ([]PlacedCount, error) {
	if err := d.refresh(ctx, 0); err != nil {
		return nil, joined(err)
	}
	d.roster.mu.Lock()
	names := map[string]PlacedCount{}
	for _, s := range d.roster.sessions {
		for _, ns := range s.Worker.Namespaces {
			env := s.Worker.EnvOf(ns)
			c := PlacedCount{Env: env, Namespace: ns}
			if env == ownership.World {
				c.Env = ""
			}
			names[ownership.RowCount(env, ns)] = c
		}
	}
	d.roster.mu.Unlock()
	keys := sortedKeys(names)
	sums, err := d.counts(ctx, keys)
	if err != nil {
		return nil, err
	}
	out := make([]PlacedCount, len(keys))
	for i, k := range keys {
		out[i] = names[k]
		out[i].Placed = max(0, sums[i])
	}
	return out, nil
}

// Events lists ownership changes, newest first, older than the time "after"
// (microseconds of the store, "" for now); next is "" at the end of the rings.
func (d *Directory) Events(ctx context.Context, after string, limit int) (out []ownership.Entry, next string, err error) {
	before, perr := strconv.ParseInt(after, 10, 64)
	if perr != nil {
		before = 1 << 62
	}
	per := make([][]ownership.Entry, d.n)
	err = d.each(func(b int) (err error) {
		per[b], err = d.o.Store.Entries(ctx, b, ringRead)
		return err
	})
	if err != nil {
		return nil, "", joined(err)
	}
	for _, list := range per {
		for _, e := range list {
			if e.At < before {
				out = append(out, e)
			}
		}
	}
	slices.SortStableFunc(out, func(a, b ownership.Entry) int { return cmp.Compare(b.At, a.At) })
	for limit < len(out) && out[limit].At == out[limit-1].At {
		limit++ // a page never parts what happened at one time
	}
	if len(out) > limit {
		out = out[:limit]
		next = strconv.FormatInt(out[limit-1].At, 10)
	}
	return out, next, nil
}

const ringRead = 512

// Health tells how placement stands on this node's view of the store.
type Health struct {
	Buckets     int   `json:"buckets"`
	ColdMs      int64 `json:"coldMs"` // placement quarantine left in the coldest bucket
	Workers     int   `json:"workers"`
	LeaseMs     int64 `json:"leaseMs"`
	HostnameMod bool  `json:"hostnameAware"`

	Nodes []NodeInfo `json:"nodes"` // of this store, this one included
}

// Health reads it.
func (d *Directory) Health(ctx context.Context) (Health, error) {
	cold, err := d.ColdFor(ctx)
	if err != nil {
		return Health{}, joined(err)
	}
	n, err := d.LiveWorkers(ctx)
	return Health{Buckets: d.n, ColdMs: cold.Milliseconds(), Workers: n, LeaseMs: d.o.Lease.Milliseconds(), HostnameMod: d.o.Hostnames, Nodes: d.Nodes()}, err
}

// LiveWorkers counts workers whose lease runs, from the node's list of at most
// a second's age.
func (d *Directory) LiveWorkers(ctx context.Context) (n int, err error) {
	err = d.eachFitness(ctx, func(f ownership.Fitness) {
		if f.Live() {
			n++
		}
	})
	return n, err
}

// WorkerStates counts workers by state, for metrics.
func (d *Directory) WorkerStates(ctx context.Context) (map[string]int, error) {
	out := map[string]int{}
	err := d.eachFitness(ctx, func(f ownership.Fitness) {
		state := f.State()
		out[state]++
		switch {
		case state == "live" && f.Degraded():
			out["degraded"]++
		case state == "live" && f.Drains():
			out["draining"]++
		}
	})
	return out, err
}

// eachFitness judges every session on the node's list of at most a second's age.
func (d *Directory) eachFitness(ctx context.Context, do func(ownership.Fitness)) error {
	if err := d.recent(ctx); err != nil {
		return joined(err)
	}
	r := &d.roster
	r.mu.Lock()
	defer r.mu.Unlock()
	now := r.now + d.o.Now().Sub(r.read).Microseconds()
	for i := range r.sessions {
		do(d.rules.Fitness(&r.sessions[i], r.gen, now))
	}
	return nil
}
