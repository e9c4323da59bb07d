// Package outbound makes every request Pinboard makes to a worker besides
// forwards: the challenge probe, the stats fan-out, pushed callbacks. A worker
// chooses where they go, so this package also owns the guard: which URLs and
// which addresses, no redirects, no proxy, small bodies, little time.
package outbound

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"sync/atomic"

	"pinboard/api"
)

// Config says how a Client reaches workers.
type Config struct {
	Policy Policy
	TLS    *tls.Config                                                          // roots for https workers; nil: the system's
	Dial   func(ctx context.Context, network, address string) (net.Conn, error) // nil: a net.Dialer under Policy
}

// A Client talks to workers. It is safe for concurrent use and holds no state
// between calls: each call opens its own connection, since a kept one may end
// in a process that the URL no longer leads to.
type Client struct {
	http       *http.Client
	statsBytes int64 // StatsBytes, but for tests
}

// New returns a Client.
func New(c Config) *Client {
	if c.Dial == nil {
		c.Dial = (&net.Dialer{Timeout: probeTime, ControlContext: c.Policy.Control}).DialContext
	}
	return &Client{statsBytes: StatsBytes, http: &http.Client{
		Transport: &http.Transport{
			DialContext:            c.Dial,
			TLSClientConfig:        c.TLS,
			TLSNextProto:           map[string]func(string, *tls.Conn) http.RoundTripper{}, // HTTP/1.1 only
			DisableKeepAlives:      true,
			DisableCompression:     true,
			MaxResponseHeaderBytes: 64 << 10,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// Why a call failed, as workers and operators are told. The list is closed:
// nothing of Go's error texts, which hold addresses, gets out.
const (
	reasonNoAnswer    = "not answered"
	reasonTimeout     = "not answered in time"
	reasonCertificate = "certificate not trusted"
	reasonTooLarge    = "answer too large"
	reasonRefused     = "refused"
	reasonWrong       = "answered wrongly"
	reasonRedirect    = "answered with a redirect"
	reasonForbidden   = "address refused"
)

// do sends one request with the worker's secret in both headers (old clients
// know the second name only) and reads at most limit bytes, which it takes off
// left if that is there. A failure means there is no complete answer; then nothing was taken.
func (c *Client) do(r *http.Request, secret string, limit int64, left *atomic.Int64) (status int, body []byte, why failure) {
	r.Header.Set(api.HeaderSecret, secret)
	r.Header.Set(api.HeaderLegacySecret, secret)
	r.Header.Set("User-Agent", "Pinboard")
	resp, err := c.http.Do(r)
	if err != nil {
		return 0, nil, explain(err)
	}
	defer resp.Body.Close()
	m := &meter{r: io.LimitReader(resp.Body, limit+1), left: left}
	body, err = io.ReadAll(m)
	switch {
	case err == errSpent, err == nil && int64(len(body)) > limit:
		why.reason = reasonTooLarge
	case err != nil:
		why = explain(err)
	default:
		return resp.StatusCode, body, failure{}
	}
	m.giveBack()
	return 0, nil, why
}

// A meter takes what is read off a number of bytes that several readers share.
type meter struct {
	r    io.Reader
	left *atomic.Int64 // nil: nobody counts
	n    int64
}

var errSpent = errors.New("no bytes left")

// Read implements io.Reader.
func (m *meter) Read(p []byte) (int, error) {
	n, err := m.r.Read(p)
	m.n += int64(n)
	if m.left != nil && m.left.Add(-int64(n)) < 0 {
		err = errSpent
	}
	return n, err
}

func (m *meter) giveBack() {
	if m.left != nil {
		m.left.Add(m.n)
	}
}

// A failure is why there is no answer: the reason, "" for none, for whoever
// asks, and the error behind it for the log alone.
type failure struct {
	reason string
	err    error
}

// explain finds the reason. The URL is left out of the error: its query holds
// the challenge.
func explain(err error) failure {
	if asked := (*url.Error)(nil); errors.As(err, &asked) {
		return failure{reasonOf(err), asked.Err}
	}
	return failure{reasonOf(err), err}
}

func reasonOf(err error) string {
	var certificate *tls.CertificateVerificationError
	var timeout net.Error
	switch {
	case errors.Is(err, ErrForbidden):
		return reasonForbidden
	case errors.As(err, &certificate):
		return reasonCertificate
	case errors.Is(err, context.DeadlineExceeded), errors.As(err, &timeout) && timeout.Timeout():
		return reasonTimeout
	}
	return reasonNoAnswer
}
