package outbound

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"strconv"
	"time"

	"pinboard/api"
	"pinboard/internal/wait"
)

// A callback is tried a few times within the operator's own call.
const (
	pushTries = 3
	pushTime  = 1500 * time.Millisecond // per try
	pushPause = 200 * time.Millisecond  // before the second try, twice that before the third
	pushBody  = 4 << 10
)

// A Push is one callback of the oldest dialect (docs/protocol.md, "What Pinboard says to workers").
type Push struct {
	URL, Secret string
	Path        string         // api.PathWindDown, PathDrain or PathResume
	ID          string         // wind_down, resume of one instance
	Deadline    *time.Duration // time left when Push is called
}

// A PushResult reports a callback to the operator.
type PushResult struct {
	Delivered bool
	Attempts  int
	Reason    string // of the last failure
}

// Push calls a worker back until it answers 200, three times at most. Trouble
// on the way and 5xx are tried again, any other answer is final. The deadline
// counts from receipt, so each try sends what is left.
func (c *Client) Push(ctx context.Context, p Push) (result PushResult) {
	began := time.Now()
	for i := range pushTries {
		if i > 0 && !wait.For(ctx, time.Duration(i)*pushPause) || ctx.Err() != nil {
			return result
		}
		result.Attempts++
		var again bool
		if result.Reason, again = c.push(ctx, p, time.Since(began)); result.Reason == "" {
			result.Delivered = true
			return result
		}
		if !again {
			return result
		}
	}
	return result
}

func (c *Client) push(ctx context.Context, p Push, elapsed time.Duration) (reason string, again bool) {
	ctx, cancel := context.WithTimeout(ctx, pushTime)
	defer cancel()
	body := struct {
		ID       string   `json:"id,omitempty"`
		Deadline *float64 `json:"deadline,omitempty"`
	}{ID: p.ID}
	if p.Deadline != nil {
		left := *p.Deadline - elapsed
		body.Deadline = api.Seconds(&left)
	}
	encoded, err := json.Marshal(body)
	if err != nil {
		return reasonNoAnswer, false
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, p.URL+p.Path, bytes.NewReader(encoded))
	if err != nil {
		return reasonNoAnswer, false
	}
	r.Header.Set("Content-Type", "application/json")
	status, _, why := c.do(r, p.Secret, pushBody, nil)
	switch {
	case why.reason != "":
		return why.reason, why.reason != reasonForbidden
	case status == http.StatusOK:
		return "", false
	case status == http.StatusForbidden:
		return reasonRefused, false
	}
	return "answered " + strconv.Itoa(status), status >= 500
}
