package api

import (
	"bytes"
	"encoding/json"
	"strconv"
	"strings"

	"pinboard"
)

// A Releases is the body of POST /registry/release: a list since 0.6.0, one
// object before that.
type Releases []Release

// A Release gives one id back. SessionID is empty only in the oldest shape,
// which names ClientID (0.1.0-0.2.1).
type Release struct {
	SessionID string `json:"sessionId,omitempty"`
	ClientID  string `json:"clientId,omitempty"`
	Namespace string `json:"namespace"`
	ID        string `json:"id"`
	Epoch     Epoch  `json:"epoch,omitzero"`
}

// An Epoch is a placement epoch as workers send it: an optional decimal
// string, compared as an integer of any length.
type Epoch struct {
	Given bool
	Value pinboard.Epoch // 0 when not given, or when no placement can have had it
}

// MarshalJSON writes the decimal string.
func (e Epoch) MarshalJSON() ([]byte, error) { return json.Marshal(e.Value.String()) }

// ReleaseAnswer counts the rows that ended; clients read only the status.
type ReleaseAnswer struct {
	Released int `json:"released"`
}

// UnmarshalJSON decodes strictly, in all three shapes.
func (r *Releases) UnmarshalJSON(body []byte) error {
	o := new(object)
	if !bytes.HasPrefix(bytes.TrimLeft(body, " \t\r\n"), []byte("[")) {
		one, err := o.release(body, "")
		*r = Releases{one}
		return err
	}
	*r = Releases{}
	var err error
	elements(body, func(item []byte) bool {
		var one Release
		if one, err = o.release(item, "["+strconv.Itoa(len(*r))+"]."); err != nil {
			return false
		}
		if len(*r) == maxReleases {
			err = &FieldError{Want: "want at most " + strconv.Itoa(maxReleases) + " releases"}
			return false
		}
		*r = append(*r, one)
		return true
	})
	return err
}

func (o *object) release(body []byte, at string) (Release, error) {
	o.parse(body, at)
	r := Release{
		SessionID: o.token("sessionId", maxText),
		ClientID:  o.token("clientId", maxText),
		Namespace: o.requiredText("namespace", maxText),
		ID:        o.requiredText("id", maxText),
		Epoch:     o.epoch(),
	}
	if r.SessionID == "" && r.ClientID == "" {
		o.fail("sessionId", "required")
	}
	return r, o.err
}

// epoch reads an optional decimal string. Leading zeros count for nothing;
// beyond 2^63-1 it is an epoch that was never minted: given, but zero.
func (o *object) epoch() Epoch {
	s, ok := o.text("epoch", 4300)
	if !ok {
		return Epoch{}
	}
	if s == "" || strings.Trim(s, "0123456789") != "" {
		o.fail("epoch", "want a string of decimal digits")
	}
	v, err := pinboard.ParseEpoch(strings.TrimLeft(s, "0"))
	if err != nil {
		v = 0
	}
	return Epoch{Given: true, Value: v}
}

// A Deregister is the body of POST /registry/deregister; the instances of the
// oldest shape (0.3.0-0.5.0) are ignored.
type Deregister struct {
	SessionID string `json:"sessionId"`
}

// UnmarshalJSON decodes strictly.
func (d *Deregister) UnmarshalJSON(body []byte) error {
	o := parseObject(body, "")
	d.SessionID = o.requiredToken("sessionId", maxText)
	return o.err
}

// A Tag is the body of POST /registry/tag: a label for operators, "" clears it.
type Tag struct {
	SessionID string `json:"sessionId"`
	Namespace string `json:"namespace"`
	ID        string `json:"id"`
	Epoch     Epoch  `json:"epoch,omitzero"`
	Tag       string `json:"tag"`
}

// TagAnswer says whether the label was set.
type TagAnswer struct {
	Tagged bool `json:"tagged"`
}

// UnmarshalJSON decodes strictly.
func (t *Tag) UnmarshalJSON(body []byte) error {
	o := parseObject(body, "")
	*t = Tag{
		SessionID: o.requiredToken("sessionId", maxText),
		Namespace: o.requiredText("namespace", maxText),
		ID:        o.requiredText("id", maxText),
		Epoch:     o.epoch(),
	}
	tag, ok := o.text("tag", maxText)
	if !ok {
		o.fail("tag", "required")
	}
	t.Tag = tag
	return o.err
}

// A Mark is the body of POST /registry/durability/mark and unmark (0.3.0-0.5.0).
type Mark struct {
	SessionID  string   `json:"sessionId"`
	NS         string   `json:"ns"`
	ID         string   `json:"id"`
	DelayUntil *float64 `json:"delayUntil,omitempty"` // epoch milliseconds
}

// UnmarshalJSON decodes strictly.
func (m *Mark) UnmarshalJSON(body []byte) error {
	o := parseObject(body, "")
	*m = Mark{
		SessionID:  o.requiredToken("sessionId", maxText),
		NS:         o.requiredText("ns", maxText),
		ID:         o.requiredText("id", maxText),
		DelayUntil: o.number("delayUntil", 1e15),
	}
	return o.err
}
