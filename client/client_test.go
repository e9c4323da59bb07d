package client

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"pinboard/api"
)

// A node that answers every call with the same status and body.
type node struct {
	status int
	body   string
	header http.Header
	err    error
	seen   *http.Request
	sent   string
}

func (n *node) RoundTrip(r *http.Request) (*http.Response, error) {
	n.seen = r
	if r.Body != nil {
		b, _ := io.ReadAll(r.Body)
		n.sent = string(b)
	}
	if n.err != nil {
		return nil, n.err
	}
	h := n.header
	if h == nil {
		h = http.Header{}
	}
	return &http.Response{StatusCode: n.status, Header: h, Body: io.NopCloser(strings.NewReader(n.body)), Request: r}, nil
}

func beat(n *node) (Grant, error) {
	return New("http://pb/base/", "tok", n).Heartbeat(context.Background(), api.Heartbeat{SessionID: "s", Headroom: 1})
}

func TestRequestOnTheWire(t *testing.T) {
	n := &node{status: 200, body: `{"expiresInMs":15000}`}
	if _, err := beat(n); err != nil {
		t.Fatal(err)
	}
	if got := n.seen.Method + " " + n.seen.URL.String(); got != "POST http://pb/base/registry/heartbeat" {
		t.Error(got)
	}
	if n.seen.Header.Get("Authorization") != "Bearer tok" || n.seen.Header.Get("Content-Type") != "application/json" {
		t.Error(n.seen.Header)
	}
	if n.sent != `{"sessionId":"s","headroom":1,"draining":false}` || n.seen.ContentLength != int64(len(n.sent)) {
		t.Error(n.sent)
	}
}

// Every way a heartbeat can fail, and what the caller is told to make of it.
func TestKinds(t *testing.T) {
	for _, c := range []struct {
		name string
		node node
		want Kind
		wait time.Duration
	}{
		{"no answer", node{err: io.ErrUnexpectedEOF}, Unreachable, 0},
		{"not json", node{status: 200, body: "<html>"}, Malformed, 0},
		{"array", node{status: 200, body: "[]"}, Malformed, 0},
		{"no lease", node{status: 200, body: `{"draining":true}`}, Malformed, 0},
		{"lease as text", node{status: 200, body: `{"expiresInMs":"15000"}`}, Malformed, 0},
		{"lease of nothing", node{status: 200, body: `{"expiresInMs":0}`}, Malformed, 0},
		{"created is no success", node{status: 201, body: `{"expiresInMs":15000}`}, Rejected, 0},
		{"redirect is not followed", node{status: 307, header: http.Header{"Location": {"http://else/"}}}, Rejected, 0},
		{"deferred", node{status: 503, header: http.Header{"Retry-After": {"2.5"}}}, Deferred, 2500 * time.Millisecond},
		{"deferred without a time", node{status: 503}, Deferred, time.Second},
		{"deferred with a date", node{status: 503, header: http.Header{"Retry-After": {"Mon, 30 Nov 2026 00:00:00 GMT"}}}, Deferred, time.Second},
		{"deferred by nothing", node{status: 503, header: http.Header{"Retry-After": {"-4"}}}, Deferred, 50 * time.Millisecond},
		{"deferred for ever", node{status: 503, header: http.Header{"Retry-After": {"1e300"}}}, Deferred, clamp(1e300)},
		{"unauthorized", node{status: 401}, Unauthorized, 0},
		{"session lost", node{status: 409, body: `{"reregister":true}`}, Reregister, 0},
		{"session lost, odd status", node{status: 503, body: `{"reregister":true}`}, Reregister, 0},
		{"superseded wins", node{status: 409, body: `{"superseded":true,"reregister":true}`}, Superseded, 0},
		{"superseded needs its 409", node{status: 400, body: `{"superseded":true}`}, Rejected, 0},
		{"conflict with neither", node{status: 409, body: `{"error":"gone"}`}, Rejected, 0},
		{"200 with reregister is ignored", node{status: 200, body: `{"reregister":true}`}, Malformed, 0},
		{"endless", node{status: 200, body: strings.Repeat(" ", api.MaxBody+1)}, Unreachable, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := beat(&c.node)
			var e *Error
			if !errors.As(err, &e) || !errors.Is(err, c.want) || e.Kind != c.want || e.RetryAfter != c.wait {
				t.Errorf("got %v %+v, want %v after %v", err, e, c.want, c.wait)
			}
		})
	}
	_, err := beat(&node{status: 400, body: `{"error":"headroom: required","code":"bad_field"}`})
	if e := err.(*Error); e.Code != "bad_field" || e.Error() != "rejected: 400 headroom: required" {
		t.Error(e)
	}
	if _, err := beat(&node{err: io.ErrUnexpectedEOF}); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Error("the cause is lost:", err)
	}
}

// An optional part that makes no sense counts as absent: the lease is real.
func TestGrantIsReadForgivingly(t *testing.T) {
	yes, no := true, false
	ten, zero := 10*time.Second, time.Duration(0)
	for body, want := range map[string]Grant{
		`{"expiresInMs":1500.5}`:                                                 {ExpiresIn: 1500500 * time.Microsecond},
		`{"expiresInMs":1000,"draining":false,"drainDeadline":10}`:               {ExpiresIn: time.Second, Draining: &no},
		`{"expiresInMs":1000,"draining":true,"drainDeadline":10}`:                {ExpiresIn: time.Second, Draining: &yes, DrainLeft: &ten},
		`{"expiresInMs":1000,"draining":true,"drainDeadline":-1}`:                {ExpiresIn: time.Second, Draining: &yes},
		`{"expiresInMs":1000,"draining":true,"drainDeadline":"x"}`:               {ExpiresIn: time.Second, Draining: &yes},
		`{"expiresInMs":1000,"draining":"yes"}`:                                  {ExpiresIn: time.Second},
		`{"expiresInMs":1000,"draining":null}`:                                   {ExpiresIn: time.Second},
		`{"expiresInMs":1000,"duplicates":7,"messages":"x"}`:                     {ExpiresIn: time.Second},
		`{"expiresInMs":1000,"duplicates":[7,{"ns":"/t"},{"ns":"/t","id":"a"}]}`: {ExpiresIn: time.Second, Duplicates: []api.Instance{{NS: "/t", ID: "a"}}},
		`{"expiresInMs":1000,"messages":[
			{"msgId":"1","type":"wind_down","ns":"/t","id":"a","deadline":10},
			{"msgId":"2","type":"wind_down","ns":"/t","id":"a","deadline":null},
			{"msgId":"3","type":"wind_down","ns":"/t","id":"a","deadline":0},
			{"msgId":"4","type":"wind_down","ns":"/t","id":"a"},
			{"msgId":"5","type":"wind_down","ns":"/t","id":"a","deadline":true},
			{"msgId":"6","type":"wind_down","ns":"/t","deadline":1},
			{"msgId":"7","type":"explode","ns":"/t","id":"a","deadline":1},
			8]}`: {ExpiresIn: time.Second, Messages: []Message{
			{MsgID: "1", NS: "/t", ID: "a", Deadline: &ten},
			{MsgID: "2", NS: "/t", ID: "a"},
			{MsgID: "3", NS: "/t", ID: "a", Deadline: &zero},
			{MsgID: "4", NS: "/t", ID: "a", Bad: true},
			{MsgID: "5", NS: "/t", ID: "a", Bad: true},
			{MsgID: "6", NS: "/t", Deadline: func() *time.Duration { d := time.Second; return &d }(), Bad: true},
			{MsgID: "7", NS: "/t", ID: "a", Deadline: func() *time.Duration { d := time.Second; return &d }(), Bad: true},
			{Bad: true},
		}},
	} {
		got, err := beat(&node{status: 200, body: body})
		if d := cmp.Diff(want, got); d != "" || err != nil {
			t.Errorf("%s: %v %s", body, err, d)
		}
	}
}

func TestRegisterWantsASession(t *testing.T) {
	c := New("http://pb", "tok", &node{status: 200, body: `{"expiresInMs":15000,"draining":false}`})
	if _, err := c.Register(context.Background(), api.Register{}); !errors.Is(err, Malformed) {
		t.Errorf("got %v", err)
	}
	c = New("http://pb", "tok", &node{status: 200, body: `{"sessionId":"s1","expiresInMs":15000,"draining":false}`})
	if g, err := c.Register(context.Background(), api.Register{}); err != nil || g.Session != "s1" {
		t.Errorf("got %+v %v", g, err)
	}
}

// Each call reaches its own path with its own body, and reads its own answer.
func TestEveryCall(t *testing.T) {
	ctx, second := context.Background(), time.Second
	for path, c := range map[string]struct {
		answer, sent string
		call         func(*Client) (any, error)
		want         any
	}{
		"/registry/release": {`{"released":1}`, `[{"sessionId":"s","namespace":"/t","id":"a","epoch":"9"}]`,
			func(c *Client) (any, error) {
				return c.Release(ctx, api.Releases{{SessionID: "s", Namespace: "/t", ID: "a", Epoch: api.Epoch{Given: true, Value: 9}}})
			}, 1},
		"/registry/deregister": {``, `{"sessionId":"s"}`,
			func(c *Client) (any, error) { return nil, c.Deregister(ctx, "s") }, nil},
		"/registry/tag": {`{"tagged":true}`, `{"sessionId":"s","namespace":"/t","id":"a","tag":"x"}`,
			func(c *Client) (any, error) {
				return c.Tag(ctx, api.Tag{SessionID: "s", Namespace: "/t", ID: "a", Tag: "x"})
			}, true},
		"/registry/wind_down": {`{"queued":true}`, `{"namespace":"/t","id":"a","deadline":1}`,
			func(c *Client) (any, error) {
				return nil, c.WindDown(ctx, api.WindDown{Namespace: "/t", ID: "a", Deadline: &second})
			}, nil},
		"/registry/drain": {`{"queued":true}`, `{"clientId":"c","deadline":1}`,
			func(c *Client) (any, error) {
				return nil, c.Drain(ctx, api.Drain{Select: api.Select{ClientID: "c"}, Deadline: &second})
			}, nil},
		"/registry/undrain": {`{"queued":true}`, `{"sessionId":"s"}`,
			func(c *Client) (any, error) { return nil, c.Undrain(ctx, api.Select{SessionID: "s"}) }, nil},
		"/registry/push": {`{"queued":true,"delivered":false}`, `{"sessionId":"s","type":"drain"}`,
			func(c *Client) (any, error) {
				return c.Push(ctx, api.Push{Select: api.Select{SessionID: "s"}, Type: "drain"})
			}, api.PushAnswer{Queued: true, Delivered: new(bool)}},
		"/registry/eject": {`{"ejected":2}`, `{"clientId":"c"}`,
			func(c *Client) (any, error) { return c.Eject(ctx, api.Select{ClientID: "c"}) }, 2},
		"/registry/binding/delete": {`{"deleted":true}`, `{"hostname":"h","namespace":"/t"}`,
			func(c *Client) (any, error) {
				return c.DeleteBinding(ctx, api.Binding{Hostname: "h", Namespace: "/t"})
			}, true},
		"/registry/workers?limit=2": {`{"workers":[],"next":null}`, ``,
			func(c *Client) (any, error) { return c.Get(ctx, "workers", url.Values{"limit": {"2"}}) },
			json.RawMessage(`{"workers":[],"next":null}`)},
	} {
		n := &node{status: 200, body: c.answer}
		got, err := c.call(New("http://pb", "tok", n))
		if d := cmp.Diff(c.want, got); d != "" || err != nil {
			t.Errorf("%s: %v %s", path, err, d)
		}
		if n.seen.URL.RequestURI() != path || n.sent != c.sent {
			t.Errorf("%s: sent %s %s", path, n.seen.URL.RequestURI(), n.sent)
		}
	}
}
