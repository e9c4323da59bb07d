package main

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"

	"pinboard/internal/ownership"
)

// followEvery is how old the list of workers may be.
const followEvery = 500 * time.Millisecond

// A roster is the list of workers as the store has it, kept up beside the
// loops.
type roster struct {
	client rueidis.Client
	key    string
	now    atomic.Pointer[crew]
}

// A crew is one reading of the list; it never changes. A session keeps its
// *ownership.Worker from one reading to the next.
type crew struct {
	bySession  map[string]*ownership.Worker
	newest     *ownership.Worker
	namespaces []string // of more than one segment, longest first
}

func newRoster(client rueidis.Client, prefix string) *roster {
	r := &roster{client: client, key: prefix + "{0}%w"}
	r.now.Store(&crew{})
	return r
}

func (r *roster) follow(ctx context.Context) {
	t := time.NewTicker(followEvery)
	defer t.Stop()
	for {
		if records, err := r.client.Do(ctx, r.client.B().Hgetall().Key(r.key).Build()).AsStrMap(); err == nil {
			r.now.Store(r.now.Load().next(records))
		}
		select {
		case <-ctx.Done():
			return
		case <-t.C:
		}
	}
}

// next is the crew of the records, JSON by token.
func (c *crew) next(records map[string]string) *crew {
	n := &crew{bySession: make(map[string]*ownership.Worker, len(records)), newest: c.newest}
	for _, text := range records {
		w := new(ownership.Worker)
		if json.Unmarshal([]byte(text), w) != nil {
			continue
		}
		if old := c.bySession[w.Session]; old != nil {
			w = old
		} else {
			n.newest = w
		}
		n.bySession[w.Session] = w
		for _, ns := range w.Namespaces {
			if strings.Count(ns, "/") > 1 && !slices.Contains(n.namespaces, ns) {
				n.namespaces = append(n.namespaces, ns)
			}
		}
	}
	slices.SortFunc(n.namespaces, func(a, b string) int { return len(b) - len(a) })
	return n
}

// prefix implements pinboard.Prefix.
func (c *crew) prefix(path string) int {
	for _, ns := range c.namespaces {
		if strings.HasPrefix(path, ns) && (len(path) == len(ns) || path[len(ns)] == '/') {
			return len(ns)
		}
	}
	return 0
}
