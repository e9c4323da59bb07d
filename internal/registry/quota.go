package registry

import (
	"sync"
	"time"
)

// A quota bounds log lines that others can cause: quotaLines in each quotaTime.
type quota struct {
	now func() time.Time

	mu      sync.Mutex
	began   time.Time
	lines   int
	leftOut int // since the last line
}

const (
	quotaLines = 20
	quotaTime  = 10 * time.Second
)

// take reports whether another line may be written, and how many were left out
// before it.
func (q *quota) take() (leftOut int, more bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if now := q.now(); now.Sub(q.began) >= quotaTime {
		q.began, q.lines = now, 0
	}
	if q.lines == quotaLines {
		q.leftOut++
		return 0, false
	}
	q.lines++
	leftOut, q.leftOut = q.leftOut, 0
	return leftOut, true
}
