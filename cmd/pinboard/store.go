package main

import (
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
	"time"

	"pinboard/internal/memstore"
	"pinboard/internal/ownership"
	"pinboard/internal/redisstore"
	"pinboard/internal/wait"
)

// retryStore is the pause between attempts to reach the store at the start.
const retryStore = time.Second

// store is where the node's directory lives and what it promises.
type store struct {
	ownership.Store
	oldNow    func(gen string) (ownership.Micros, bool)
	guarantee func() redisstore.Guarantee
	close     func()
	slack     time.Duration // how far the clock may step unseen
	doubts    *doubts       // nil in process: its clock cannot be set and nothing restores it
	disagrees func() string // why the node serves no id, "" while it may
}

// openStore reaches the store. It waits for one that is away; the error is
// final: a store that must not be used as it is configured, or the end of ctx.
func (c *Config) openStore(ctx context.Context, log *slog.Logger) (store, error) {
	if c.memory() {
		s := memstore.New(memstore.Options{Buckets: c.Buckets, Server: "memory-" + rand.Text()})
		alone := redisstore.Guarantee{State: redisstore.InProcess, Reason: "one node alone"}
		return store{Store: s, guarantee: func() redisstore.Guarantee { return alone }, close: func() {},
			disagrees: func() string { return "" }}, nil
	}
	doubts := &doubts{}
	told := errorKinds{}
	for attempt := 1; ; attempt++ {
		s, err := redisstore.Open(ctx, redisstore.Options{
			URL: c.storeURL(), URLFile: c.RedisURLFile, Prefix: c.KeyPrefix, Buckets: c.Buckets, Hostnames: c.HostnameAware,
			AllowEvicting: c.AllowEvictingRedis, RequireSafe: c.RequireSafeStore,
			Warn: func(text string) {
				log.Warn("the store's secrets cannot be read again, the last good ones go on", "error", text)
			},
			OnStep: func(server string) {
				log.Warn("the clock of a store server stepped; its buckets begin anew and are cold for a lease", "run", server)
			},
			OnDoubt:    doubts.told,
			OnDisagree: disagreement(log),
		})
		switch {
		case err == nil:
			g := s.Guarantee()
			log.Info("store reached", "safe", g.Safe, "state", string(g.State), "guarantee", g.Reason, "attempt", attempt)
			return store{Store: s, oldNow: s.OldNow, doubts: doubts, disagrees: s.Disagrees, guarantee: s.Guarantee, close: s.Close, slack: redisstore.Slack}, nil
		case redisstore.IsConfig(err):
			return store{}, usageError{c.storeVariable() + ": " + err.Error()}
		case ctx.Err() != nil:
			return store{}, ctx.Err()
		case told.fresh(err):
			log.Warn("the store cannot be reached, trying on", "error", err.Error(), "attempt", attempt)
		}
		if !wait.For(ctx, retryStore) {
			return store{}, ctx.Err()
		}
	}
}

// timedStore measures the calls of a store and tells what they committed.
type timedStore struct {
	ownership.Store
	stored    func(op string, took time.Duration, err error)
	committed func(*ownership.Tx)
}

// Update implements ownership.Store. A rule's own error is an answer of the
// store, not its failure.
func (s timedStore) Update(ctx context.Context, b int, prefetch ownership.Select, rule func(*ownership.Tx) error) error {
	begun := time.Now()
	var ruled error
	var last *ownership.Tx
	err := s.Store.Update(ctx, b, prefetch, func(tx *ownership.Tx) error {
		ruled, last = rule(tx), tx
		return ruled
	})
	if err == nil && last != nil && len(last.Out.Entries) > 0 {
		s.committed(last)
	}
	failure := err
	if ruled != nil && errors.Is(err, ruled) {
		failure = nil
	}
	s.stored("update", time.Since(begun), failure)
	return err
}

// Peek implements ownership.Store. It is part of every request: the beginning
// is the reading that the store took itself.
func (s timedStore) Peek(ctx context.Context, b int, hint ownership.Hint) (ownership.Peek, bool, error) {
	p, ok, err := s.Store.Peek(ctx, b, hint)
	if !p.Sent.IsZero() {
		s.stored("peek", time.Since(p.Sent), err)
	}
	return p, ok, err
}

// Walk implements ownership.Store.
func (s timedStore) Walk(ctx context.Context, b int, cursor string, n int) ([]ownership.Walked, string, error) {
	begun := time.Now()
	rows, next, err := s.Store.Walk(ctx, b, cursor, n)
	s.stored("walk", time.Since(begun), err)
	return rows, next, err
}
