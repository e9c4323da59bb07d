// Package wait waits for time to pass or for a context to end, whichever comes
// first.
package wait

import (
	"context"
	"time"
)

// For waits for d, or less if ctx ends, and reports whether it was d.
func For(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}
