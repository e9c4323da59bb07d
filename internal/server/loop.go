package server

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"strings"
	"time"

	"pinboard/internal/wait"
)

// A Loop is background work of a node, run again and again while it lives.
type Loop struct {
	Name  string
	Every time.Duration // from the end of one run to the start of the next
	Run   func(context.Context) error
}

// crash is a panic that reached the top of a goroutine: the node must end,
// because whatever it was in the middle of is half done.
type crash struct {
	value any
	stack []byte
}

func (c *crash) Error() string { return fmt.Sprintf("panic: %v\n%s", c.value, c.stack) }

// caught runs f and turns a panic into an error.
func caught(f func() error) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = &crash{v, debug.Stack()}
		}
	}()
	return f()
}

// repeat runs a loop until ctx ends. Errors are counted and logged when they
// begin and when they end; only a panic is fatal.
func (s *Server) repeat(ctx context.Context, l Loop) error {
	failing := false
	for {
		err := caught(func() error { return l.Run(ctx) })
		var fatal *crash
		if errors.As(err, &fatal) {
			return err
		}
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil:
			s.cfg.LoopFailed(l.Name)
			if !failing {
				s.cfg.Log.Warn("background loop fails", "loop", l.Name, "error", inLine(err))
			}
		case failing:
			s.cfg.Log.Info("background loop works again", "loop", l.Name)
		}
		failing = err != nil
		if !wait.For(ctx, l.Every) {
			return nil
		}
	}
}

// inLine is the text of an error on one line: joined errors stand on several.
func inLine(err error) string { return strings.ReplaceAll(err.Error(), "\n", ": ") }
