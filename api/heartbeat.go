package api

// A Heartbeat is the body of POST /registry/heartbeat, all dialects.
type Heartbeat struct {
	SessionID      string   `json:"sessionId"`
	Headroom       float64  `json:"headroom"`
	Draining       bool     `json:"draining"`
	Challenge      string   `json:"challenge,omitempty"`
	ChallengeValue string   `json:"challengeValue,omitempty"`
	DrainDeadline  *float64 `json:"drainDeadline,omitempty"` // as in Register
	Acks           []string `json:"acks,omitempty"`          // a set of msgIds
	HasAcks        bool     `json:"-"`                       // the field was there: the client confirms messages
}

// A HeartbeatAnswer renews the lease. Messages apply in order.
type HeartbeatAnswer struct {
	ExpiresInMs   int64     `json:"expiresInMs"`
	Draining      bool      `json:"draining"`
	DrainDeadline *float64  `json:"drainDeadline,omitempty"` // remaining seconds
	Messages      []Message `json:"messages,omitempty"`
}

// A Message is a control message. Deadline is always on the wire: seconds
// from receipt, 0 evicts now, null revokes.
type Message struct {
	MsgID    string   `json:"msgId"`
	Type     string   `json:"type"`
	NS       string   `json:"ns"`
	ID       string   `json:"id"`
	Deadline *float64 `json:"deadline"`
}

// UnmarshalJSON decodes strictly.
func (h *Heartbeat) UnmarshalJSON(body []byte) error {
	o := parseObject(body, "")
	*h = Heartbeat{
		SessionID:     o.requiredToken("sessionId", maxText),
		Headroom:      o.headroom(),
		Draining:      o.bool("draining"),
		DrainDeadline: o.number("drainDeadline", 1e15),
	}
	h.Challenge, h.ChallengeValue = o.challenge()
	if raw := o.raw("acks"); raw != nil {
		h.Acks, h.HasAcks = o.strings("acks", raw, maxAcks, "want a list of strings of at most 256 characters", "want at most 10000 message ids"), true
	}
	return o.err
}
