package main

import (
	"log/slog"

	"github.com/KimMachineGun/automemlimit/memlimit"
)

// memoryShare of the container's limit is what Go tries to stay within; the
// rest is for what its collector does not count.
const memoryShare = 0.9

// limitMemory makes the collector work harder near the container's memory limit
// (control group v1 or v2) instead of letting the kernel end the process. A
// GOMEMLIMIT of the operator's wins; without a limit nothing changes.
func limitMemory(container memlimit.Provider, log *slog.Logger) {
	var found uint64
	_, err := memlimit.Set(memlimit.WithRatio(memoryShare), memlimit.WithProvider(func() (n uint64, err error) {
		found, err = container()
		return found, err
	}))
	switch {
	case err != nil:
		log.Debug("no memory limit of a container", "error", err.Error())
	case found > 0:
		log.Info("memory limit", "containerBytes", found, "share", memoryShare)
	}
}
