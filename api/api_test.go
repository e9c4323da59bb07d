package api

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

const register = `{"clientId":"c1","secret":"s1","namespaces":["/t"],"advertiseUrl":"http://w:1","headroom":1024,"draining":false`

// Bodies as the published clients send them, one per generation whose shape differs.
func TestDialects(t *testing.T) {
	base := Register{ClientID: "c1", Secret: "s1", Namespaces: []string{"/t"}, AdvertiseURL: "http://w:1", Headroom: 1024}
	with := func(change func(*Register)) Register { r := base; change(&r); return r }
	ms := 1.8e12
	for name, c := range map[string]struct {
		body string
		want Register
	}{
		"0.1.0":           {register + `}`, base},
		"0.1.0 draining":  {register + `,"drainDeadline":1800000000000}`, with(func(r *Register) { r.DrainDeadline = &ms })},
		"0.2.0 challenge": {register + `,"challenge":"aa","challengeValue":"bb"}`, with(func(r *Register) { r.Challenge, r.ChallengeValue = "aa", "bb" })},
		"0.8.1 hostname": {register + `,"hostname":"h","env":"e","takeover":"deny","envs":{"/t":"x"},"epoch":7}`, with(func(r *Register) {
			r.Hostname, r.Env, r.Takeover, r.Envs, r.Epoch = "h", "e", "deny", map[string]string{"/t": "x"}, 7
		})},
		"0.16.0 again": {register + `,"prevSessionId":"p","instances":{"/t":["a","b"]}}`, with(func(r *Register) {
			r.PrevSessionID, r.Instances = "p", map[string][]string{"/t": {"a", "b"}}
		})},
		"unknown field, wrong case, null": {register + `,"future":{"x":[1]},"Headroom":"no","epoch":null}`, base},
	} {
		var got Register
		if err := json.Unmarshal([]byte(c.body), &got); err != nil {
			t.Errorf("%s: %v", name, err)
		} else if d := cmp.Diff(c.want, got); d != "" {
			t.Errorf("%s: %s", name, d)
		}
	}
}

// A wrong value answers with the name of its field and never with the value.
func TestFieldErrors(t *testing.T) {
	hb := `{"sessionId":"s","headroom":1,"draining":false`
	reg := func(field, value string) string {
		return `{"` + field + `":` + value + `,` + strings.Replace(register, `"`+field+`":`, `"_`+field+`":`, 1)[1:] + `}`
	}
	for _, c := range []struct {
		into any
		body string
		want string // prefix of the text
	}{
		{new(Register), `[]`, "body: want one JSON object"},
		{new(Register), `null`, "body: want one JSON object"},
		{new(Register), `"x"`, "body: want one JSON object"},
		{new(Register), reg("headroom", `"1"`), "headroom: want a number"},
		{new(Register), reg("headroom", `-1`), "headroom: want a number from 0"},
		{new(Register), reg("headroom", `1e308`), "headroom: want a number from 0"},
		{new(Register), reg("headroom", `1e999`), "headroom: want a number"},
		{new(Register), reg("headroom", `null`), "headroom: required"},
		{new(Register), reg("headroom", `true`), "headroom: want a number"},
		{new(Register), reg("clientId", `7`), "clientId: want a string"},
		{new(Register), reg("clientId", `""`), "clientId: want 1 to 256"},
		{new(Register), reg("clientId", `"a b"`), "clientId: want 1 to 256"},
		{new(Register), reg("secret", `"a\nb"`), "secret: want 1 to 1024"},
		{new(Register), reg("secret", `{}`), "secret: want a string"},
		{new(Register), reg("namespaces", `"/t"`), "namespaces: want a list"},
		{new(Register), reg("namespaces", `[]`), "namespaces: want a list of at least one"},
		{new(Register), reg("namespaces", `["/t",7]`), "namespaces: want a list"},
		{new(Register), reg("namespaces", `["/t","/t"]`), "namespaces: want each namespace once"},
		{new(Register), reg("namespaces", `["/registry"]`), "namespaces: want"},
		{new(Register), reg("namespaces", `["t"]`), "namespaces: want"},
		{new(Register), reg("advertiseUrl", `null`), "advertiseUrl: required"},
		{new(Register), reg("advertiseUrl", `"http://`+strings.Repeat("a", 10_000)+`"`), "advertiseUrl: want at most"},
		{new(Register), reg("draining", `"false"`), "draining: want true or false"},
		{new(Register), reg("draining", `0`), "draining: want true or false"},
		{new(Register), register + `,"challenge":"a"}`, "challengeValue: required"},
		{new(Register), register + `,"challengeValue":"a"}`, "challenge: required"},
		{new(Register), register + `,"challenge":1,"challengeValue":"a"}`, "challenge: want a string"},
		{new(Register), register + `,"epoch":0}`, "epoch: want an integer, at least 1"},
		{new(Register), register + `,"epoch":1.5}`, "epoch: want an integer"},
		{new(Register), register + `,"epoch":true}`, "epoch: want an integer"},
		{new(Register), register + `,"takeover":"steal"}`, "takeover: want"},
		{new(Register), register + `,"envs":["x"]}`, "envs: want an object of strings"},
		{new(Register), register + `,"instances":{"/t":"a"}}`, "instances: want an object of lists"},
		{new(Register), register + `,"instances":{"/t":[1]}}`, "instances: want an object of lists"},
		{new(Register), register + `,"prevSessionId":1}`, "prevSessionId: want a string"},
		{new(Register), register + `,"drainDeadline":"soon"}`, "drainDeadline: want a number"},
		{new(Heartbeat), `{"headroom":1}`, "sessionId: required"},
		{new(Heartbeat), `{"sessionId":"s"}`, "headroom: required"},
		{new(Heartbeat), hb + `,"acks":"m"}`, "acks: want a list of strings"},
		{new(Heartbeat), hb + `,"acks":[1]}`, "acks: want a list of strings"},
		{new(Heartbeat), hb + `,"challenge":"a"}`, "challengeValue: required"},
		{new(Heartbeat), hb + `,"acks":[` + strings.Repeat(`"m",`, 10_000) + `"m"]}`, "acks: want at most 10000"},
		{new(Register), register + `,"instances":{"/t":[` + strings.Repeat(`"a",`, 100_000) + `"a"]}}`, "instances: want at most 100000"},
		{new(Releases), `7`, "body: want one JSON object"},
		{new(Releases), `[7]`, "[0]: want one JSON object"},
		{new(Releases), `{"namespace":"/t","id":"a"}`, "sessionId: required"},
		{new(Releases), `[{"sessionId":"s","namespace":"/t","id":"a"},{"sessionId":"s","id":"a"}]`, "[1].namespace: required"},
		{new(Releases), `[{"sessionId":"s","namespace":"/t","id":"a","epoch":12}]`, "[0].epoch: want a string"},
		{new(Releases), `[{"sessionId":"s","namespace":"/t","id":"a","epoch":"1e3"}]`, "[0].epoch: want a string of decimal digits"},
		{new(Releases), `[{"sessionId":"s","namespace":"/t","id":"a","epoch":""}]`, "[0].epoch: want a string of decimal digits"},
		{new(Deregister), `{}`, "sessionId: required"},
		{new(Tag), `{"sessionId":"s","namespace":"/t","id":"a"}`, "tag: required"},
		{new(Tag), `{"sessionId":"s","namespace":"/t","id":"a","tag":"` + strings.Repeat("ä", 257) + `"}`, "tag: want at most 256"},
		{new(WindDown), `{"namespace":"/t","id":"a"}`, "deadline: required, null revokes"},
		{new(WindDown), `{"namespace":"/t","id":"a","deadline":-1}`, "deadline: want a number"},
		{new(WindDown), `{"namespace":"/t","id":"a","deadline":"0"}`, "deadline: want a number"},
		{new(Drain), `{}`, "sessionId: want either"},
		{new(Drain), `{"sessionId":"s","clientId":"c"}`, "sessionId: want either"},
		{new(Drain), `{"sessionId":"s","deadline":true}`, "deadline: want a number"},
		{new(Push), `{"sessionId":"s","type":"explode"}`, "type: want evict"},
		{new(Push), `{"sessionId":"s","type":"evict"}`, "id: required"},
		{new(Select), `{"clientId":{}}`, "clientId: want a string"},
		{new(Binding), `{"hostname":"h"}`, "namespace: required"},
		{new(Mark), `{"sessionId":"s","ns":"/t"}`, "id: required"},
	} {
		err := json.Unmarshal([]byte(c.body), c.into)
		var field *FieldError
		if !errors.As(err, &field) || !strings.HasPrefix(err.Error(), c.want) {
			t.Errorf("%T %.120s: got %v, want %s", c.into, c.body, err, c.want)
		}
	}
}

func TestReleaseShapes(t *testing.T) {
	for name, c := range map[string]struct {
		body string
		want Releases
	}{
		"0.1.0":         {`{"clientId":"c","namespace":"/t","id":"a"}`, Releases{{ClientID: "c", Namespace: "/t", ID: "a"}}},
		"0.3.0":         {`{"sessionId":"s","namespace":"/t","id":"a"}`, Releases{{SessionID: "s", Namespace: "/t", ID: "a"}}},
		"0.6.0":         {` [{"sessionId":"s","namespace":"/t","id":"a"}]`, Releases{{SessionID: "s", Namespace: "/t", ID: "a"}}},
		"0.9.0":         {`[{"sessionId":"s","namespace":"/t","id":"a","epoch":"12"}]`, Releases{{SessionID: "s", Namespace: "/t", ID: "a", Epoch: Epoch{true, 12}}}},
		"leading zeros": {`[{"sessionId":"s","namespace":"/t","id":"a","epoch":"0012"}]`, Releases{{SessionID: "s", Namespace: "/t", ID: "a", Epoch: Epoch{true, 12}}}},
		"beyond int64":  {`[{"sessionId":"s","namespace":"/t","id":"a","epoch":"18446744073709551617"}]`, Releases{{SessionID: "s", Namespace: "/t", ID: "a", Epoch: Epoch{true, 0}}}},
		"none":          {`[]`, Releases{}},
	} {
		var got Releases
		if err := json.Unmarshal([]byte(c.body), &got); err != nil {
			t.Errorf("%s: %v", name, err)
		} else if d := cmp.Diff(c.want, got); d != "" {
			t.Errorf("%s: %s", name, d)
		}
	}
}

// What our own clients send, our own server reads back.
func TestRoundTrip(t *testing.T) {
	s := 1500 * time.Millisecond
	for _, c := range []struct{ in, out any }{
		{&Register{ClientID: "c", Secret: "s", Namespaces: []string{"/t"}, AdvertiseURL: "u", Challenge: "a", ChallengeValue: "b", Instances: map[string][]string{"/t": {"x"}}}, new(Register)},
		{&Heartbeat{SessionID: "s", Headroom: 2, Acks: []string{"m"}, HasAcks: true}, new(Heartbeat)},
		{&Releases{{SessionID: "s", Namespace: "/t", ID: "a", Epoch: Epoch{true, 9}}}, new(Releases)},
		{&Tag{SessionID: "s", Namespace: "/t", ID: "a", Tag: "x"}, new(Tag)},
		{&WindDown{Namespace: "/t", ID: "a", Deadline: &s}, new(WindDown)},
		{&WindDown{Namespace: "/t", ID: "a"}, new(WindDown)},
		{&Drain{Select: Select{ClientID: "c"}, Deadline: &s}, new(Drain)},
		{&Push{Select: Select{SessionID: "s"}, Type: "wind_down", ID: "a", Deadline: &s}, new(Push)},
		{&Select{SessionID: "s"}, new(Select)},
		{&Binding{Hostname: "h", Namespace: "/t"}, new(Binding)},
	} {
		body, err := json.Marshal(c.in)
		if err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(body, c.out); err != nil {
			t.Errorf("%s: %v", body, err)
		} else if d := cmp.Diff(c.in, c.out); d != "" {
			t.Errorf("%s: %s", body, d)
		}
	}
}

// draining on every answer, deadline on every message: clients read both as required.
func TestAnswersAlwaysCarry(t *testing.T) {
	for want, v := range map[string]any{
		`{"sessionId":"s","expiresInMs":1,"draining":false}`:                  RegisterAnswer{SessionID: "s", ExpiresInMs: 1},
		`{"expiresInMs":1,"draining":false}`:                                  HeartbeatAnswer{ExpiresInMs: 1},
		`{"msgId":"m","type":"wind_down","ns":"/t","id":"a","deadline":null}`: Message{MsgID: "m", Type: "wind_down", NS: "/t", ID: "a"},
	} {
		if got, _ := json.Marshal(v); string(got) != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}

func FuzzDecode(f *testing.F) {
	f.Add([]byte(register + `}`))
	f.Add([]byte(`[{"sessionId":"s","namespace":"/t","id":"a","epoch":"1"}]`))
	f.Add([]byte(`{"sessionId":"s","headroom":1e3,"acks":[]}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		for _, into := range []any{new(Register), new(Heartbeat), new(Releases), new(Deregister), new(Tag), new(WindDown), new(Drain), new(Push), new(Select), new(Binding), new(Mark)} {
			if !json.Valid(body) {
				return
			}
			err := json.Unmarshal(body, into)
			var field *FieldError
			if err != nil && !errors.As(err, &field) {
				t.Fatalf("%T: %v is no FieldError", into, err)
			}
		}
	})
}
