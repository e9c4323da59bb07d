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

// A Proof is what became of a probe.
type Proof struct {
	Outcome  Outcome
	Answered bool   // a complete answer came, right or wrong
	Detail   string // why it proves nothing, for the log of this node alone
	Err      error  // what was behind that, likewise; nil if there was an answer
}

// Told is what whoever named the URL hears: whether something answered there,
// which a worker's owner needs, and nothing else that would make Pinboard an
// eye into its own network. "" when the URL is proved.
func (p Proof) Told() string {
	switch {
	case p.Outcome == Proved:
		return ""
	case p.Answered:
		return "challenge " + reasonWrong
	}
	return "challenge " + reasonNoAnswer
}

// Prove runs a probe.
func (c *Client) Prove(ctx context.Context, p Probe) Proof {
	ctx, cancel := context.WithTimeout(ctx, probeTime)
	defer cancel()
	target := p.URL + api.PathChallenge + "?challenge=" + url.QueryEscape(p.Challenge)
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, target, nil)
	if err != nil {
		return Proof{Unproved, false, reasonNoAnswer, err}
	}
	status, body, why := c.do(r, p.Secret, probeBody, nil)
	switch {
	case why.reason == reasonTooLarge:
		return Proof{Refuted, true, why.reason, nil}
	case why.reason != "":
		return Proof{Unproved, false, why.reason, why.err}
	case status == http.StatusForbidden:
		return Proof{Refuted, true, reasonRefused, nil}
	case status >= 300 && status < 400:
		return Proof{Unproved, true, reasonRedirect, nil}
	case status != http.StatusOK:
		return Proof{Unproved, true, "answered " + strconv.Itoa(status), nil}
	}
	var answer struct {
		Value *string `json:"value"`
	}
	if json.Unmarshal(body, &answer) != nil || answer.Value == nil ||
		subtle.ConstantTimeCompare([]byte(*answer.Value), []byte(p.Value)) != 1 {
		return Proof{Refuted, true, reasonWrong, nil}
	}
	return Proof{Outcome: Proved, Answered: true}
}
