package main

import (
	"context"
	"log/slog"
	"sync/atomic"

	"pinboard/internal/ownership"
)

// doubts passes on what the store's guard holds against a bucket: as soon as
// the node runs, its directory opens every bucket, which begins the generation
// that is due, before a node that saw less decides something there.
type doubts struct {
	touch   atomic.Pointer[func(context.Context) error]
	running atomic.Bool
}

func (d *doubts) told(int, ownership.Cause) {
	touch := d.touch.Load()
	if touch == nil || !d.running.CompareAndSwap(false, true) {
		return
	}
	go func() {
		defer d.running.Store(false)
		_ = (*touch)(context.Background()) // what it misses is told again within a second
	}()
}

// begin hands over the node's way to open every bucket.
func (d *doubts) begin(touch func(context.Context) error) {
	if d != nil {
		d.touch.Store(&touch)
	}
}

// disagreement logs that this node and its store were set up differently.
func disagreement(log *slog.Logger) func(reason string) {
	return func(reason string) {
		if reason == "" {
			log.Info("the store agrees with this node again")
			return
		}
		log.Error("this node serves no id: its store was set up differently", "reason", reason)
	}
}
