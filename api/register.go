package api

import "pinboard"

// A Register is the body of POST /registry/register, all dialects.
type Register struct {
	ClientID       string              `json:"clientId"`
	Secret         string              `json:"secret"`
	Namespaces     []string            `json:"namespaces"`
	AdvertiseURL   string              `json:"advertiseUrl"`
	Headroom       float64             `json:"headroom"`
	Draining       bool                `json:"draining"`
	Challenge      string              `json:"challenge,omitempty"`
	ChallengeValue string              `json:"challengeValue,omitempty"` // with Challenge or not at all
	DrainDeadline  *float64            `json:"drainDeadline,omitempty"`  // epoch milliseconds, 0.1.0-0.2.1; read for its type only
	Hostname       string              `json:"hostname,omitempty"`
	Env            string              `json:"env,omitempty"`
	Envs           map[string]string   `json:"envs,omitempty"`
	Takeover       string              `json:"takeover,omitempty"` // "wind_down", "deny"
	Epoch          int64               `json:"epoch,omitempty"`    // binding epoch, not a placement's
	Instances      map[string][]string `json:"instances,omitempty"`
	PrevSessionID  string              `json:"prevSessionId,omitempty"`
}

// A RegisterAnswer accepts a registration. Draining is always sent: clients up
// to 0.14.0 take its absence for an ancient server (docs/protocol.md, "register").
type RegisterAnswer struct {
	SessionID     string     `json:"sessionId"`
	ExpiresInMs   int64      `json:"expiresInMs"`
	Draining      bool       `json:"draining"`
	DrainDeadline *float64   `json:"drainDeadline,omitempty"` // remaining seconds
	Duplicates    []Instance `json:"duplicates,omitempty"`
}

// An Instance names an instance in answers.
type Instance struct {
	NS string `json:"ns"`
	ID string `json:"id"`
}

// UnmarshalJSON decodes strictly.
func (r *Register) UnmarshalJSON(body []byte) error {
	o := parseObject(body, "")
	*r = Register{
		ClientID:      o.requiredToken("clientId", maxText),
		Secret:        o.requiredToken("secret", maxSecret),
		Headroom:      o.headroom(),
		Draining:      o.bool("draining"),
		Epoch:         o.integer("epoch", 1),
		PrevSessionID: o.token("prevSessionId", maxText),
		DrainDeadline: o.number("drainDeadline", 1e15),
	}
	r.Challenge, r.ChallengeValue = o.challenge()
	r.AdvertiseURL = o.requiredText("advertiseUrl", maxURL)
	r.Hostname, _ = o.text("hostname", maxText)
	r.Env, _ = o.text("env", maxText)
	r.Takeover, _ = o.text("takeover", maxText)
	if r.Takeover != "" && r.Takeover != "wind_down" && r.Takeover != "deny" {
		o.fail("takeover", `want "wind_down" or "deny"`)
	}
	optional(o, "envs", &r.Envs, "want an object of strings")
	optional(o, "instances", &r.Instances, "want an object of lists of strings")
	if count(r.Instances) > maxInstances {
		o.fail("instances", "want at most 100000 ids")
	}
	r.Namespaces = o.namespaces()
	return o.err
}

func count(instances map[string][]string) (n int) {
	for _, ids := range instances {
		n += len(ids)
	}
	return n
}

// challenge is the pair, both or neither.
func (o *object) challenge() (challenge, value string) {
	challenge, value = o.token("challenge", maxText), o.token("challengeValue", maxText)
	switch {
	case challenge == "" && value != "":
		o.fail("challenge", "required beside challengeValue")
	case challenge != "" && value == "":
		o.fail("challengeValue", "required beside challenge")
	}
	return challenge, value
}

// namespaces is the list of a worker's namespaces: at least one, no doubles,
// each one that Pinboard can route (docs/protocol.md, "register").
func (o *object) namespaces() []string {
	var list []string
	if !optional(o, "namespaces", &list, "want a list of strings") || len(list) == 0 {
		o.fail("namespaces", "want a list of at least one namespace")
	}
	if len(list) > maxText {
		o.fail("namespaces", "want at most 256 namespaces")
		return nil
	}
	seen := make(map[string]bool, len(list))
	for _, ns := range list {
		if !pinboard.ValidNamespace(ns) {
			o.fail("namespaces", `want "/" and segments of visible ASCII, the first not one of Pinboard's own paths`)
		}
		if seen[ns] {
			o.fail("namespaces", "want each namespace once")
		}
		seen[ns] = true
	}
	return list
}
