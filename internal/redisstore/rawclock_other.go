//go:build !linux

package redisstore

import (
	"time"

	"pinboard/internal/guard"
)

// rawClock is the monotonic clock: a slewed one cannot be told here.
func rawClock() func() guard.Local {
	begun := time.Now()
	return func() guard.Local { return time.Since(begun).Microseconds() }
}

// sleptFor cannot be told here; a gap between two ticks tells of most sleeps.
func sleptFor() time.Duration { return 0 }
