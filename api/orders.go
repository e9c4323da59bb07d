package api

import (
	"encoding/json"
	"time"
)

// A WindDown is the body of POST /registry/wind_down. The deadline key is
// required; null revokes an earlier order. Hostname says whose id it is where
// several hostnames use one namespace.
type WindDown struct {
	Namespace string         `json:"namespace"`
	ID        string         `json:"id"`
	Hostname  string         `json:"hostname,omitempty"`
	Deadline  *time.Duration `json:"-"`
}

// MarshalJSON writes the deadline as seconds or null.
func (w WindDown) MarshalJSON() ([]byte, error) {
	type plain WindDown
	return json.Marshal(struct {
		plain
		Deadline *float64 `json:"deadline"`
	}{plain(w), Seconds(w.Deadline)})
}

// UnmarshalJSON decodes strictly.
func (w *WindDown) UnmarshalJSON(body []byte) error {
	o := parseObject(body, "")
	*w = WindDown{
		Namespace: o.requiredText("namespace", maxText),
		ID:        o.requiredText("id", maxText),
		Deadline:  o.seconds("deadline"),
	}
	w.Hostname, _ = o.text("hostname", maxText)
	if o.err == nil && !o.has("deadline") {
		o.fail("deadline", "required, null revokes")
	}
	return o.err
}

// A Select is the body of undrain and eject, and the head of drain and push:
// it names a session, or the process with this clientId.
type Select struct {
	SessionID string `json:"sessionId,omitempty"`
	ClientID  string `json:"clientId,omitempty"`
}

func (o *object) selector() Select {
	s := Select{SessionID: o.token("sessionId", maxText), ClientID: o.token("clientId", maxText)}
	if (s.SessionID == "") == (s.ClientID == "") {
		o.fail("sessionId", "want either sessionId or clientId")
	}
	return s
}

// UnmarshalJSON decodes strictly.
func (s *Select) UnmarshalJSON(body []byte) error {
	o := parseObject(body, "")
	*s = o.selector()
	return o.err
}

// A Drain is the body of POST /registry/drain. Without a deadline it has none.
type Drain struct {
	Select
	Deadline *time.Duration
}

// MarshalJSON writes the deadline as seconds.
func (d Drain) MarshalJSON() ([]byte, error) {
	return json.Marshal(struct {
		Select
		Deadline *float64 `json:"deadline,omitempty"`
	}{d.Select, Seconds(d.Deadline)})
}

// UnmarshalJSON decodes strictly.
func (d *Drain) UnmarshalJSON(body []byte) error {
	o := parseObject(body, "")
	*d = Drain{Select: o.selector(), Deadline: o.seconds("deadline")}
	return o.err
}

// A Push is the body of POST /registry/push: evict, wind_down, drain or
// resume, delivered the way the worker's dialect takes it. Evict and wind_down
// need namespace and id; resume with an id revokes, without one it undrains.
type Push struct {
	Select
	Type      string         `json:"type"`
	Namespace string         `json:"namespace,omitempty"` // may be absent where the worker has only one
	ID        string         `json:"id,omitempty"`
	Deadline  *time.Duration `json:"-"` // wind_down: absent counts as 0, as the oldest clients read it
}

// MarshalJSON writes the deadline as seconds.
func (p Push) MarshalJSON() ([]byte, error) {
	type plain Push
	return json.Marshal(struct {
		plain
		Deadline *float64 `json:"deadline,omitempty"`
	}{plain(p), Seconds(p.Deadline)})
}

// UnmarshalJSON decodes strictly.
func (p *Push) UnmarshalJSON(body []byte) error {
	o := parseObject(body, "")
	*p = Push{Select: o.selector(), Type: o.requiredText("type", maxText), Deadline: o.seconds("deadline")}
	p.Namespace, _ = o.text("namespace", maxText)
	p.ID, _ = o.text("id", maxText)
	switch p.Type {
	case "evict", "wind_down":
		if p.ID == "" {
			o.fail("id", "required")
		}
	case "drain", "resume":
	default:
		o.fail("type", "want evict, wind_down, drain or resume")
	}
	return o.err
}

// Wind is the deadline of an evict or wind_down: never nil.
func (p *Push) Wind() *time.Duration {
	if p.Type == "evict" || p.Deadline == nil {
		return new(time.Duration)
	}
	return p.Deadline
}

// Queued accepts an order that rides the next heartbeat.
type Queued struct {
	Queued bool `json:"queued"`
}

// PushAnswer tells the operator how the order travels: queued for the next
// heartbeat, or called back at once with its outcome.
type PushAnswer struct {
	Queued    bool   `json:"queued"`
	Delivered *bool  `json:"delivered,omitempty"`
	Attempts  int    `json:"attempts,omitempty"`
	Reason    string `json:"reason,omitempty"` // why a callback failed; no address
}

// EjectAnswer counts the sessions that will not be renewed any more.
type EjectAnswer struct {
	Ejected int `json:"ejected"`
}

// A Binding is the body of POST /registry/binding/delete.
type Binding struct {
	Hostname  string `json:"hostname"`
	Namespace string `json:"namespace"`
}

// UnmarshalJSON decodes strictly.
func (b *Binding) UnmarshalJSON(body []byte) error {
	o := parseObject(body, "")
	*b = Binding{Hostname: o.requiredText("hostname", maxText), Namespace: o.requiredText("namespace", maxText)}
	return o.err
}

// BindingAnswer says whether there was one.
type BindingAnswer struct {
	Deleted bool `json:"deleted"`
}

// Done is the answer of calls that have nothing to tell.
type Done struct {
	OK bool `json:"ok"`
}

// An Error is every answer under /registry that is no 200, and every answer of
// Pinboard's own making on the data plane.
type Error struct {
	Error        string `json:"error"`
	Code         string `json:"code"`
	RetryAfterMs int64  `json:"retryAfterMs,omitempty"`
	Reregister   bool   `json:"reregister,omitempty"` // heartbeat 409: restate yourself
	Superseded   bool   `json:"superseded,omitempty"` // heartbeat 409: stop for good
	Env          string `json:"env,omitempty"`        // superseded by
	Epoch        int64  `json:"epoch,omitempty"`
}
