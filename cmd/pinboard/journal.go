package main

import (
	"context"
	"errors"
	"log/slog"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"pinboard/internal/directory"
	"pinboard/internal/ownership"
)

// A journal writes one line for each change of ownership that this node has
// committed and that an operator looks for. Others of the fleet write theirs.
// What a call of a worker or an operator did stands in the registry's lines.
type journal struct {
	log   *slog.Logger
	began func(cause ownership.Cause) // counts a bucket's new generation

	mu   sync.Mutex
	gens map[beginning]*opened
}

// A beginning is what gives the buckets of a server new generations.
type beginning struct {
	server string
	cause  ownership.Cause
}

// opened is who has followed a beginning that was told.
type opened struct {
	buckets map[int]bool
	at      time.Time
}

// perSession are the changes of a session. Every bucket records them; the
// first one speaks for all.
var perSession = map[ownership.Cause]string{
	ownership.Replaced:       "worker replaced at its address",
	ownership.RestateOrdered: "worker told to restate",
}

// committed is told of each commit that holds entries.
func (j *journal) committed(tx *ownership.Tx) {
	for _, e := range tx.Out.Entries {
		epoch := e.Epoch
		if e.Mint != nil {
			epoch = e.Mint.Epoch
		}
		text, session := perSession[e.Cause]
		switch {
		case e.Cause == ownership.Moved:
			j.log.Info("id moved", "id", strings.TrimPrefix(e.Key, ownership.World), "session", e.Session, "epoch", epoch.String())
		case e.Cause == ownership.Displaced:
			j.log.Info("hostname bound to another env", "binding", e.Key, "session", e.Session)
		case beginsGeneration[e.Cause] != nil:
			j.generation(tx, e.Cause)
		case session && tx.Bucket == 0:
			j.log.Info(text, "session", e.Session)
		}
	}
}

// beginsGeneration are the causes of a new generation and how loud each is: a
// server that nobody had seen is a restart or a failover, the others are a
// fault of its clock or of its data.
var beginsGeneration = map[ownership.Cause]slog.Leveler{
	ownership.Generation: slog.LevelInfo, ownership.ClockStepped: slog.LevelWarn, ownership.HistoryLost: slog.LevelWarn,
}

// generation counts a new one and tells of it, one line for all buckets.
func (j *journal) generation(tx *ownership.Tx, cause ownership.Cause) {
	j.began(cause)
	if !j.first(beginning{tx.Server, cause}, tx.Bucket, tx.Sent) {
		return
	}
	cold := time.Duration(max(0, tx.Meta.Cold-tx.Now)) * time.Microsecond
	j.log.Log(context.Background(), beginsGeneration[cause].Level(), "new generation of a store server",
		"cause", string(cause), "server", tx.Server, "coldMs", cold.Milliseconds())
}

const (
	maxGens  = 256              // remembered beginnings; a repeated line does no harm
	together = 10 * time.Second // in which the buckets follow one beginning
)

// first reports a beginning that has not been told. A bucket that begins anew
// for the same cause tells of another one, and so does one that comes later.
func (j *journal) first(b beginning, bucket int, at time.Time) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	if o := j.gens[b]; o != nil && !o.buckets[bucket] && at.Sub(o.at) < together {
		o.buckets[bucket] = true
		return false
	}
	if j.gens == nil || len(j.gens) >= maxGens {
		j.gens = map[beginning]*opened{}
	}
	j.gens[b] = &opened{map[int]bool{bucket: true}, at}
	return true
}

// errorKinds tells errors that are news from those that have been told: each
// kind once, and not too many.
type errorKinds map[string]bool

const maxKinds = 32

// ports and the like differ from one attempt to the next and make no new kind.
var numbers = regexp.MustCompile(`[0-9]+`)

// fresh reports that no error of this kind has been told.
func (k errorKinds) fresh(err error) bool {
	kind := numbers.ReplaceAllString(err.Error(), "#")
	if k[kind] || len(k) >= maxKinds {
		return false
	}
	k[kind] = true
	return true
}

// An outage logs the errors of the store: each kind once, and one line when
// the store has worked for a while without any.
type outage struct {
	log     *slog.Logger
	now     func() time.Time
	failing atomic.Bool

	mu    sync.Mutex
	kinds errorKinds
	count int
	last  time.Time // of the last error
	text  string    // of the last error
}

// calm is the time without an error after which an outage is over.
const calm = 5 * time.Second

func newOutage(log *slog.Logger) *outage {
	return &outage{log: log, now: time.Now, kinds: errorKinds{}}
}

// saw is told how each call of the store ended. It costs a call that worked
// next to nothing.
func (o *outage) saw(err error) {
	switch {
	case err == nil && !o.failing.Load():
	case err == nil:
		o.worked()
	case errors.Is(err, context.Canceled): // somebody left, nothing failed
	default:
		o.failed(err)
	}
}

func (o *outage) failed(err error) {
	o.failing.Store(true)
	o.mu.Lock()
	defer o.mu.Unlock()
	o.count++
	o.last, o.text = o.now(), oneLine(err.Error())
	if o.kinds.fresh(err) {
		o.log.Warn("the store fails", "error", o.text)
	}
}

func (o *outage) worked() {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.count == 0 || o.now().Sub(o.last) < calm {
		return
	}
	o.log.Info("the store works again", "failures", o.count)
	o.kinds, o.count, o.text = errorKinds{}, 0, ""
	o.failing.Store(false)
}

// why is the last error of an outage, "" outside one.
func (o *outage) why() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text
}

// lostWorkers tells of workers whose lease ran out, once each. Nobody says so
// when it happens: every node sees it in its list of workers.
type lostWorkers struct {
	log    *slog.Logger
	looked bool            // what had lapsed before this node began is no news
	told   map[string]bool // lapsed sessions of the last look
}

// look compares the list of workers with the last one; lapsed is how many it
// shows, 0 most of the time.
func (l *lostWorkers) look(ctx context.Context, d workerList, lapsed int) error {
	now := map[string]bool{}
	for after, more := "", lapsed > 0; more; more = after != "" {
		list, next, err := d.Workers(ctx, after, lostPage)
		if err != nil {
			return err
		}
		after = next
		for _, w := range list {
			// A session of an earlier generation counts as lapsed while its own
			// lease still runs: its worker is about to restate.
			if w.State != "lapsed" || w.LeaseLeftMs > 0 {
				continue
			}
			now[w.SessionID] = true
			if l.looked && !l.told[w.SessionID] {
				l.log.Warn("worker lost, its lease ran out", "session", w.SessionID, "client", w.ClientID, "url", w.AdvertiseURL,
					"namespaces", w.Namespaces, "placed", w.Placed, "token", w.Owner)
			}
		}
	}
	l.looked, l.told = true, now
	return nil
}

const lostPage = 1000

// workerList is a directory, as far as its workers are concerned.
type workerList interface {
	Workers(ctx context.Context, after string, limit int) ([]directory.WorkerInfo, string, error)
}
