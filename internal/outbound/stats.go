package outbound

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"pinboard/api"
)

// The fan-out is for people looking at a page: it asks few workers at once and
// shows what it has rather than wait.
const (
	statsAtOnce = 16
	statsTime   = 2 * time.Second // per worker
	statsTotal  = 5 * time.Second // for all
	statsBody   = 4 << 20         // one worker: 10 000 instances and some fields of the app's
)

// StatsBytes is what all answers of one fan-out may hold together.
const StatsBytes = 8 << 20

// A StatsTarget is a worker to ask.
type StatsTarget struct{ URL, Secret string }

// Stats is what became of one worker's answer. Status is "ok", "failed" (the
// reason says why) or "unsupported" (404: the client is older than 0.9.0).
type Stats struct {
	Status string          `json:"status"`
	Reason string          `json:"reason,omitempty"`
	Stats  json.RawMessage `json:"stats,omitempty"`
}

// Stats asks workers for GET /_pinned/stats; the answers are in the order of
// the targets. A worker that fails or is slow costs only its own answer.
func (c *Client) Stats(ctx context.Context, targets []StatsTarget) []Stats {
	ctx, cancel := context.WithTimeout(ctx, statsTotal)
	defer cancel()
	out := make([]Stats, len(targets))
	var next atomic.Int64
	left := new(atomic.Int64)
	left.Store(c.statsBytes)
	var wg sync.WaitGroup
	for range min(statsAtOnce, len(targets)) {
		wg.Go(func() {
			for i := next.Add(1) - 1; i < int64(len(targets)); i = next.Add(1) - 1 {
				out[i] = c.stats(ctx, targets[i], left)
			}
		})
	}
	wg.Wait()
	return out
}

func (c *Client) stats(ctx context.Context, t StatsTarget, left *atomic.Int64) Stats {
	if ctx.Err() != nil {
		return Stats{Status: "failed", Reason: reasonTimeout}
	}
	ctx, cancel := context.WithTimeout(ctx, statsTime)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, t.URL+api.PathStats, nil)
	if err != nil {
		return Stats{Status: "failed", Reason: reasonNoAnswer}
	}
	status, body, why := c.do(r, t.Secret, statsBody, left)
	switch {
	case why.reason != "":
		return Stats{Status: "failed", Reason: why.reason}
	case status == http.StatusNotFound:
		left.Add(int64(len(body)))
		return Stats{Status: "unsupported"}
	case status != http.StatusOK:
		left.Add(int64(len(body)))
		return Stats{Status: "failed", Reason: "answered " + strconv.Itoa(status)}
	}
	if !bytes.HasPrefix(bytes.TrimLeft(body, " \t\r\n"), []byte("{")) || !json.Valid(body) {
		left.Add(int64(len(body)))
		return Stats{Status: "failed", Reason: reasonWrong}
	}
	return Stats{Status: "ok", Stats: body}
}
