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
	"pinboard/internal/directory"
)

// probeTime bounds a probe: the worker's own call, inside which it happens,
// gives up after 5 s (protocol.md section 2.0).
const probeTime = 2 * time.Second

const probeBody = 4 << 10

// A Probe asks the process behind a URL for the value that belongs to a
// challenge. Only the process that posted the pair knows both.
type Probe struct {
	URL, Secret, Challenge, Value string
}

// Prove runs a probe. The reason is fit for the worker and for operators, ""
// when it proved the URL. What proves nothing (no answer, 404, 5xx, anything
// unexpected) is ProofMissing; 403 and a wrong value show that somebody else
// answers: ProofRefused.
func (c *Client) Prove(ctx context.Context, p Probe) (directory.Proof, string) {
	ctx, cancel := context.WithTimeout(ctx, probeTime)
	defer cancel()
	target := p.URL + api.PathChallenge + "?challenge=" + url.QueryEscape(p.Challenge)
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, target, nil)
	if err != nil {
		return directory.ProofMissing, "challenge " + reasonNoAnswer
	}
	status, body, reason := c.do(r, p.Secret, probeBody)
	switch {
	case reason == reasonTooLarge:
		return directory.ProofRefused, "challenge " + reasonWrong
	case reason != "":
		return directory.ProofMissing, "challenge " + reason
	case status == http.StatusForbidden:
		return directory.ProofRefused, "challenge " + reasonRefused
	case status >= 300 && status < 400:
		return directory.ProofMissing, "challenge " + reasonRedirect
	case status != http.StatusOK:
		return directory.ProofMissing, "challenge answered " + strconv.Itoa(status)
	}
	var answer struct {
		Value *string `json:"value"`
	}
	if json.Unmarshal(body, &answer) != nil || answer.Value == nil ||
		subtle.ConstantTimeCompare([]byte(*answer.Value), []byte(p.Value)) != 1 {
		return directory.ProofRefused, "challenge " + reasonWrong
	}
	return directory.ProofOK, ""
}
