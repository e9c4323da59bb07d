package server

import (
	"context"
	"runtime"
	"sync/atomic"
	"time"

	"pinboard/internal/wait"
)

const (
	heartbeatEvery = time.Minute
	lagEvery       = 250 * time.Millisecond
)

// lagMeter measures how late due timers fire: what the machine (or a garbage
// collection) withholds from the process. Worst since the last reset.
type lagMeter struct{ worst atomic.Int64 }

func (m *lagMeter) run(ctx context.Context) error {
	for {
		due := time.Now().Add(lagEvery)
		if !wait.For(ctx, lagEvery) {
			return nil
		}
		if late := int64(time.Since(due)); late > m.worst.Load() {
			m.worst.Store(late)
		}
	}
}

func (m *lagMeter) read() time.Duration  { return time.Duration(m.worst.Load()) }
func (m *lagMeter) reset() time.Duration { return time.Duration(m.worst.Swap(0)) }

// heartbeat logs one line a minute, so that silence in the log means that the
// node is gone.
func (s *Server) heartbeat(ctx context.Context) error {
	for wait.For(ctx, heartbeatEvery) {
		var mem runtime.MemStats
		runtime.ReadMemStats(&mem)
		h, open := s.Health(), s.cfg.Front.Open()
		s.cfg.Log.Info("heartbeat",
			"uptimeSeconds", h.UptimeSeconds, "status", string(h.Status), "workers", h.Workers,
			"exchanges", open.Exchanges, "streams", open.Streams, "tunnels", open.Tunnels,
			"heapBytes", mem.HeapAlloc, "sysBytes", mem.Sys, "goroutines", runtime.NumGoroutine(),
			"schedulerLagMs", s.lag.reset().Milliseconds())
	}
	return nil
}
