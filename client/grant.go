package client

import (
	"bytes"
	"encoding/json"
	"math"
	"time"

	"pinboard/api"
)

// A Grant is an accepted registration or heartbeat. It is read forgivingly:
// a malformed optional part counts as absent, since the lease beside it is
// real.
type Grant struct {
	Session    string         // register only
	ExpiresIn  time.Duration  // from the moment the call was sent; always above zero
	Draining   *bool          // the operator's drain; nil if the answer did not say
	DrainLeft  *time.Duration // nil: no deadline
	Duplicates []api.Instance // register only: instances to quit
	Messages   []Message      // heartbeat only, in order
}

// A Message is a control message. Type is "wind_down"; one of another type or
// shape has Bad set: it must not be applied, and neither it nor anything
// behind it may be acknowledged.
type Message struct {
	MsgID    string
	NS, ID   string
	Deadline *time.Duration // time left, 0 evicts now, nil revokes
	Bad      bool
}

func parseGrant(body []byte) (g Grant) {
	var f map[string]json.RawMessage
	if json.Unmarshal(body, &f) != nil {
		return Grant{}
	}
	json.Unmarshal(f["sessionId"], &g.Session)
	if ms := number(f["expiresInMs"]); ms != nil {
		g.ExpiresIn = clamp(*ms / 1000)
	}
	var drain bool
	if string(f["draining"]) != "null" && json.Unmarshal(f["draining"], &drain) == nil {
		g.Draining = &drain
	}
	if left := number(f["drainDeadline"]); drain && left != nil && *left >= 0 {
		d := clamp(*left)
		g.DrainLeft = &d
	}
	g.Duplicates = parseDuplicates(f["duplicates"])
	g.Messages = parseMessages(f["messages"])
	return g
}

func parseDuplicates(raw json.RawMessage) (out []api.Instance) {
	var items []json.RawMessage
	json.Unmarshal(raw, &items)
	for _, item := range items {
		var i api.Instance
		if json.Unmarshal(item, &i) == nil && i.NS != "" && i.ID != "" {
			out = append(out, i)
		}
	}
	return out
}

func parseMessages(raw json.RawMessage) (out []Message) {
	var items []json.RawMessage
	json.Unmarshal(raw, &items)
	for _, item := range items {
		out = append(out, parseMessage(item))
	}
	return out
}

func parseMessage(item json.RawMessage) (m Message) {
	var f map[string]json.RawMessage
	var kind string
	json.Unmarshal(item, &f)
	json.Unmarshal(f["msgId"], &m.MsgID)
	json.Unmarshal(f["type"], &kind)
	json.Unmarshal(f["ns"], &m.NS)
	json.Unmarshal(f["id"], &m.ID)
	deadline, given := f["deadline"]
	left := number(deadline)
	m.Bad = kind != "wind_down" || m.ID == "" || !given || left == nil && string(bytes.TrimSpace(deadline)) != "null"
	if left != nil {
		d := clamp(max(*left, 0))
		m.Deadline = &d
	}
	return m
}

func number(raw json.RawMessage) *float64 {
	var f *float64
	if json.Unmarshal(raw, &f) != nil {
		return nil
	}
	return f
}

// clamp keeps absurd seconds inside a Duration.
func clamp(seconds float64) time.Duration {
	return time.Duration(min(seconds, math.MaxInt64/2/1e9) * 1e9)
}
