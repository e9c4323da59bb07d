package main

import (
	"errors"
	"io"
	"log/slog"
	"math"
	"os"
	"runtime/debug"
	"testing"

	"github.com/KimMachineGun/automemlimit/memlimit"
)

// The collector's limit comes from the container, unless the operator named one
// or there is none.
func TestMemoryLimit(t *testing.T) {
	before := debug.SetMemoryLimit(-1)
	defer debug.SetMemoryLimit(before)
	for _, variable := range []string{"GOMEMLIMIT", "AUTOMEMLIMIT"} {
		t.Setenv(variable, "") // restores it
		os.Unsetenv(variable)
	}
	log := slog.New(slog.NewTextHandler(io.Discard, nil))
	container := memlimit.Limit(1000 << 20)
	for _, c := range []struct {
		name      string
		container memlimit.Provider
		operator  string
		want      int64
	}{
		{"a container", container, "", 900 << 20},
		{"no limit", func() (uint64, error) { return 0, memlimit.ErrNoLimit }, "", math.MaxInt64},
		{"no container", func() (uint64, error) { return 0, errors.New("no such file") }, "", 77 << 20},
		{"the operator's", container, "77MiB", 77 << 20},
	} {
		debug.SetMemoryLimit(77 << 20)
		if c.operator != "" {
			t.Setenv("GOMEMLIMIT", c.operator)
		}
		limitMemory(c.container, log)
		if got := debug.SetMemoryLimit(-1); got != c.want {
			t.Errorf("%s: %d, want %d", c.name, got, c.want)
		}
	}
}
