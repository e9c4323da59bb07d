package redisstore

import (
	"time"

	"golang.org/x/sys/unix"

	"pinboard/internal/guard"
)

// rawClock is the machine's clock that nobody sets or slews: a time daemon that
// slews the clock of a store on the same machine slews the usual monotonic one
// as well.
func rawClock() func() guard.Local {
	begun := time.Now()
	return func() guard.Local {
		var t unix.Timespec
		if unix.ClockGettime(unix.CLOCK_MONOTONIC_RAW, &t) != nil {
			return time.Since(begun).Microseconds()
		}
		return t.Nano() / 1000
	}
}

// sleptFor is how long the machine has slept since it started.
func sleptFor() time.Duration {
	var boot, mono unix.Timespec
	if unix.ClockGettime(unix.CLOCK_BOOTTIME, &boot) != nil || unix.ClockGettime(unix.CLOCK_MONOTONIC, &mono) != nil {
		return 0
	}
	return time.Duration(boot.Nano() - mono.Nano())
}
