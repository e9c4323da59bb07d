package outbound

import (
	"context"
	"crypto/subtle"
	"encoding/json"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"pinboard/api"
)

// probeTime bounds a probe: the worker's own call, inside which it happens,
// gives up after 5 s (docs/protocol.md, "What Pinboard says to workers").
const probeTime = 2 * time.Second

const probeBody = 4 << 10

// An Outcome says what a probe showed.
type Outcome int

const (
	Unproved Outcome = iota // nothing: timeout, connect, 404, 5xx, anything unexpected
	Proved                  // the URL ends in the process that posted the pair
	Refuted                 // 403 or a wrong value: somebody else answers
)

// A Probe asks the process behind a URL for the value that belongs to a
// challenge. Only the process that posted the pair knows both.
type Probe struct {
	URL, Secret, Challenge, Value string
}

// Prove runs a probe. The reason is fit for the worker and for operators, ""
// when it proved the URL.
func (c *Client) Prove(ctx context.Context, p Probe) (Outcome, string) {
	ctx, cancel := context.WithTimeout(ctx, probeTime)
	defer cancel()
	target := p.URL + api.PathChallenge + "?challenge=" + url.QueryEscape(p.Challenge)
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, target, nil)
	if err != nil {
		return Unproved, "challenge " + reasonNoAnswer
	}
	status, body, reason := c.do(r, p.Secret, probeBody)
	switch {
	case reason == reasonTooLarge:
		return Refuted, "challenge " + reasonWrong
	case reason != "":
		return Unproved, "challenge " + reason
	case status == http.StatusForbidden:
		return Refuted, "challenge " + reasonRefused
	case status >= 300 && status < 400:
		return Unproved, "challenge " + reasonRedirect
	case status != http.StatusOK:
		return Unproved, "challenge answered " + strconv.Itoa(status)
	}
	var answer struct {
		Value *string `json:"value"`
	}
	if json.Unmarshal(body, &answer) != nil || answer.Value == nil ||
		subtle.ConstantTimeCompare([]byte(*answer.Value), []byte(p.Value)) != 1 {
		return Refuted, "challenge " + reasonWrong
	}
	return Proved, ""
}
