// Package client calls the control plane of a Pinboard node, /registry/*. Any
// node answers for all. Workers use it through package worker; operators and
// the command line use it directly.
//
// A call either succeeds (status 200 and a body that says what it must) or
// returns an *Error, whose Kind is one of a closed list.
package client

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"pinboard/api"
	"pinboard/internal/seam"
)

// Timeout bounds one call. A node keeps everything inside a call well below it
// (5 s is what the published clients wait); an answer that starts later is Unreachable.
const Timeout = 5 * time.Second

// A Client holds one node's (or load balancer's) base URL and a bearer token.
// It is safe for concurrent use.
type Client struct {
	base  string
	token string
	http  http.Client
}

// New returns a client of the node at base, which may carry a path prefix.
// A nil transport means one of the client's own: no proxy, no compression.
func New(base, token string, transport http.RoundTripper) *Client {
	if transport == nil {
		transport = &http.Transport{DisableCompression: true, MaxIdleConnsPerHost: 2, IdleConnTimeout: time.Minute}
	}
	c := &Client{
		base:  strings.TrimRight(base, "/"),
		token: token,
		http: http.Client{
			Transport:     transport,
			Timeout:       Timeout,
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
	}
	if _, own := transport.(seam.Machine); own {
		c.http.Timeout = 0 // the machine bounds its calls by its own clock
	}
	return c
}

// Close drops idle connections.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// Register announces a worker. The node proves the advertise URL before it
// answers.
func (c *Client) Register(ctx context.Context, r api.Register) (Grant, error) {
	body, err := c.do(ctx, http.MethodPost, "/registry/register", r)
	if err != nil {
		return Grant{}, err
	}
	g := parseGrant(body)
	if g.Session == "" || g.ExpiresIn <= 0 {
		return Grant{}, malformed()
	}
	return g, nil
}

// Heartbeat renews a session.
func (c *Client) Heartbeat(ctx context.Context, h api.Heartbeat) (Grant, error) {
	body, err := c.do(ctx, http.MethodPost, "/registry/heartbeat", h)
	if err != nil {
		return Grant{}, err
	}
	g := parseGrant(body)
	if g.ExpiresIn <= 0 {
		return Grant{}, malformed()
	}
	return g, nil
}

// Release gives ids back; repeating it is harmless.
func (c *Client) Release(ctx context.Context, r api.Releases) (released int, err error) {
	a, err := post[api.ReleaseAnswer](ctx, c, "/registry/release", r)
	return a.Released, err
}

// Deregister ends a session; every id it still owns is free.
func (c *Client) Deregister(ctx context.Context, session string) error {
	_, err := c.do(ctx, http.MethodPost, "/registry/deregister", api.Deregister{SessionID: session})
	return err
}

// Tag labels a placement for operators; false if the row is not the session's
// at that epoch.
func (c *Client) Tag(ctx context.Context, t api.Tag) (tagged bool, err error) {
	a, err := post[api.TagAnswer](ctx, c, "/registry/tag", t)
	return a.Tagged, err
}

// WindDown orders one id to be closed by its owner; a nil deadline revokes.
func (c *Client) WindDown(ctx context.Context, w api.WindDown) error {
	_, err := post[api.Queued](ctx, c, "/registry/wind_down", w)
	return err
}

// Drain takes a worker out of placement.
func (c *Client) Drain(ctx context.Context, d api.Drain) error {
	_, err := post[api.Queued](ctx, c, "/registry/drain", d)
	return err
}

// Undrain revokes Drain.
func (c *Client) Undrain(ctx context.Context, s api.Select) error {
	_, err := post[api.Queued](ctx, c, "/registry/undrain", s)
	return err
}

// Push delivers an order in the way the worker's dialect takes it.
func (c *Client) Push(ctx context.Context, p api.Push) (api.PushAnswer, error) {
	return post[api.PushAnswer](ctx, c, "/registry/push", p)
}

// Eject stops the renewal of a session or of a process.
func (c *Client) Eject(ctx context.Context, s api.Select) (ejected int, err error) {
	a, err := post[api.EjectAnswer](ctx, c, "/registry/eject", s)
	return a.Ejected, err
}

// DeleteBinding removes a (hostname, namespace) binding.
func (c *Client) DeleteBinding(ctx context.Context, b api.Binding) (deleted bool, err error) {
	a, err := post[api.BindingAnswer](ctx, c, "/registry/binding/delete", b)
	return a.Deleted, err
}

// Get reads one of the operators' views ("workers", "overview", "health",
// "stats", "events") as the node wrote it.
func (c *Client) Get(ctx context.Context, view string, query url.Values) (json.RawMessage, error) {
	path := "/registry/" + view
	if len(query) > 0 {
		path += "?" + query.Encode()
	}
	body, err := c.do(ctx, http.MethodGet, path, nil)
	if err == nil && !json.Valid(body) {
		return nil, malformed()
	}
	return body, err
}

func post[A any](ctx context.Context, c *Client, path string, body any) (answer A, err error) {
	raw, err := c.do(ctx, http.MethodPost, path, body)
	if err != nil {
		return answer, err
	}
	if json.Unmarshal(raw, &answer) != nil {
		return answer, malformed()
	}
	return answer, nil
}

// do sends one request and returns the body of a 200.
func (c *Client) do(ctx context.Context, method, path string, body any) ([]byte, error) {
	var payload io.Reader
	if body != nil {
		b, err := json.Marshal(body)
		if err != nil {
			return nil, err
		}
		payload = bytes.NewReader(b)
	}
	req, err := http.NewRequestWithContext(ctx, method, c.base+path, payload)
	if err != nil {
		return nil, unreachable(err)
	}
	req.Header.Set("Authorization", "Bearer "+c.token)
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	res, err := c.http.Do(req)
	if err != nil {
		return nil, unreachable(err)
	}
	defer res.Body.Close()
	raw, err := io.ReadAll(io.LimitReader(res.Body, api.MaxBody+1))
	switch {
	case err != nil:
		return nil, unreachable(err)
	case len(raw) > api.MaxBody:
		return nil, unreachable(errors.New("answer too large"))
	case res.StatusCode != http.StatusOK:
		return nil, rejected(res, raw)
	}
	return raw, nil
}
