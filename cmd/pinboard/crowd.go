package main

import (
	"fmt"
	"log/slog"
	"sync"
	"time"

	"pinboard/internal/directory"
)

// crowdHint explains to operators why one worker has most of the new ids.
type crowdHint struct {
	log *slog.Logger

	mu   sync.Mutex
	text string
	at   time.Time
}

// crowdShown is how long a crowd explains what an operator looks at.
const crowdShown = time.Hour

// told is told of a crowd, seldom.
func (c *crowdHint) told(crowd directory.Crowd) {
	text := fmt.Sprintf("%d of the last %d new ids of this node had one affinity key and went to one of %d workers: PINBOARD_AFFINITY=none spreads them (docs/operating.md, \"Placement\")",
		crowd.IDs, crowd.Of, crowd.Workers)
	c.log.Info("one affinity key has most of the new ids, all on one worker", "session", crowd.Session, "ids", crowd.IDs,
		"of", crowd.Of, "workers", crowd.Workers, "hint", "PINBOARD_AFFINITY=none spreads them")
	c.mu.Lock()
	defer c.mu.Unlock()
	c.text, c.at = text, time.Now()
}

// hint is the text of the last crowd, "" when it is long ago.
func (c *crowdHint) hint(now time.Time) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if now.Sub(c.at) > crowdShown {
		return ""
	}
	return c.text
}
