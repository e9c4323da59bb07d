package main

import (
	"context"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"time"

	"pinboard/bench/figures"
	"pinboard/bench/load"
)

// measureAll takes every measurement of a run. Idle connections come first,
// because they restart their targets; rows last, because they fill Redis.
func (f *Fleet) measureAll(ctx context.Context, o Options, progress io.Writer) (m figures.Measurements, err error) {
	streaming := slices.DeleteFunc(slices.Clone(f.targets), func(t *Target) bool {
		return !slices.Contains([]string{figures.Nginx, figures.HAProxy, figures.NodeRequest, figures.ReverseProxy, figures.Pinboard}, t.Name)
	})
	fmt.Fprintf(progress, "%d idle WebSockets, then event streams, through each of %d targets\n", o.Idle, len(streaming))
	if m.WebSocket, err = f.idle(ctx, load.WebSocket, o.Idle, streaming...); err != nil {
		return m, err
	}
	if m.EventStream, err = f.idle(ctx, load.EventStream, o.Idle, streaming...); err != nil {
		return m, err
	}
	script := filepath.Join(filepath.Dir(f.peers), "wrk.lua")
	loaded := slices.DeleteFunc(slices.Clone(f.targets), func(t *Target) bool { return t.Name == figures.Direct })
	if m.Closed, err = f.rounds(ctx, progress, "64 conns", o.Rounds, f.closed(script, 64, o.Window), loaded...); err != nil {
		return m, err
	}
	if m.Single, err = f.rounds(ctx, progress, "1 conn", o.Latency, f.closed(script, 1, 2*time.Second), f.targets...); err != nil {
		return m, err
	}
	if m.Open, err = f.rounds(ctx, progress, "open loop", o.Latency, open(o.Open), f.targets...); err != nil {
		return m, err
	}
	if m.Syscalls, err = f.systemCalls(ctx, f.closed(script, 64, o.Window), loaded...); err != nil {
		return m, err
	}
	pinboard := f.Target(figures.Pinboard)
	if pinboard == nil {
		return m, nil
	}
	if m.Allocs, err = allocations(ctx, pinboard, f.closed(script, 64, o.Window)); err != nil {
		return m, err
	}
	fmt.Fprintf(progress, "%d rows\n", o.Rows)
	m.RowBytes, err = f.rowBytes(ctx, pinboard, o.Rows)
	return m, err
}
