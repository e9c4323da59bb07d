package main

import (
	"context"
	"fmt"
	"time"

	"pinboard/bench/figures"
	"pinboard/bench/load"
)

// idle is the resident memory each of n silent connections costs every
// target. A target starts afresh before it, because memory it already had
// would hide what it needs.
func (f *Fleet) idle(ctx context.Context, kind load.Kind, n int, targets ...*Target) (map[string]figures.Spread, error) {
	out := map[string]figures.Spread{}
	for _, t := range targets {
		per, err := f.idleCost(ctx, kind, n, t)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", t.Name, err)
		}
		out[t.Name] = figures.One(per)
	}
	return out, nil
}

func (f *Fleet) idleCost(ctx context.Context, kind load.Kind, n int, t *Target) (perConn float64, err error) {
	if err := f.refresh(ctx, t); err != nil {
		return 0, err
	}
	before := resident(t.process.PID())
	end, err := load.Idle(ctx, t.Streams, kind, n, ids)
	if err != nil {
		return 0, err
	}
	time.Sleep(3 * time.Second) // buffers that are only for busy connections go back
	after := resident(t.process.PID())
	end()
	// What follows must not meet a target that has just lost thousands of
	// connections: haproxy, for one, then reuses none for a while.
	return float64(after-before) / float64(n), f.refresh(ctx, t)
}

// refresh starts a target anew and warms it.
func (f *Fleet) refresh(ctx context.Context, t *Target) error {
	if err := t.Restart(ctx); err != nil {
		return err
	}
	if t.Name == figures.Pinboard {
		if err := f.awaitPlacing(ctx, t); err != nil {
			return err
		}
	}
	return t.Warm(ctx)
}
