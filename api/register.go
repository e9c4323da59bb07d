package api

import (
	"encoding/json"

	"pinboard"
)

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
	r.Envs, r.Instances = o.envs(), o.instances()
	r.Namespaces = o.namespaces()
	if o.err == nil && r.stored() > maxStored {
		o.err = &FieldError{Want: "want at most 64 KiB besides instances"}
	}
	return o.err
}

// stored is about how much a store keeps of the registration, in each bucket.
func (r *Register) stored() int {
	kept := *r
	kept.Instances, kept.Challenge, kept.ChallengeValue = nil, "", ""
	b, err := json.Marshal(&kept)
	if err != nil {
		return maxStored + 1
	}
	return len(b)
}

// envs is the env of each namespace that has its own.
func (o *object) envs() (envs map[string]string) {
	const want = "want an object of strings of at most 256 characters"
	raw := o.raw("envs")
	if raw == nil {
		return nil
	}
	envs = map[string]string{}
	left := maxNames
	if !members(raw, func(name, value []byte) bool {
		ns, ok := text(name, maxText)
		env, ok2 := text(value, maxText)
		switch {
		case !ok || !ok2:
			o.fail("envs", want)
		case left == 0:
			o.fail("envs", "want at most 256 namespaces")
		default:
			envs[ns] = env
			left--
		}
		return o.err == nil
	}) {
		o.fail("envs", want)
	}
	return envs
}

// instances is what a process says it holds, by namespace. All lists together
// hold at most maxInstances.
func (o *object) instances() (held map[string][]string) {
	const want = "want an object of lists of strings of at most 256 characters"
	raw := o.raw("instances")
	if raw == nil {
		return nil
	}
	held = map[string][]string{}
	names, left := maxNames, maxInstances
	if !members(raw, func(name, value []byte) bool {
		ns, ok := text(name, maxText)
		switch {
		case !ok:
			o.fail("instances", want)
		case names == 0:
			o.fail("instances", "want at most 256 namespaces")
		default:
			ids := o.strings("instances", value, left, want, "want at most 100000 ids")
			held[ns], names, left = ids, names-1, left-len(ids)
		}
		return o.err == nil
	}) {
		o.fail("instances", want)
	}
	return held
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
	if raw := o.raw("namespaces"); raw != nil {
		list = o.strings("namespaces", raw, maxNames, "want a list of strings of at most 256 characters", "want at most 256 namespaces")
	}
	if len(list) == 0 {
		o.fail("namespaces", "want a list of at least one namespace")
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
