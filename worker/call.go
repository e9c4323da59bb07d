package worker

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"pinboard/api"
	"pinboard/internal/attest"
)

// MaxDepth is how many instances may stand behind one another in a call.
const MaxDepth = 50

// Reasons why a call does not even start.
var (
	ErrDepth     = errors.New("worker: call too deep")
	ErrNoSession = errors.New("worker: no session at pinboard")
)

// A Caller is the instance that made a request, proven by Pinboard.
type Caller struct {
	Namespace, ID string
	Depth         int // 1 for a call out of a client's request
}

type callerKey struct{}

// CallerFrom is the calling instance of the request whose context this is;
// false for a request from outside.
func CallerFrom(ctx context.Context) (Caller, bool) {
	c, ok := ctx.Value(callerKey{}).(Caller)
	return c, ok
}

func withCaller(ctx context.Context, c *Caller) context.Context {
	if c == nil {
		return ctx
	}
	return context.WithValue(ctx, callerKey{}, *c)
}

func callerOf(c attest.Claims) *Caller {
	i := strings.LastIndexByte(c.Caller, '/')
	if i <= 0 || i == len(c.Caller)-1 {
		return nil
	}
	return &Caller{Namespace: c.Caller[:i], ID: c.Caller[i+1:], Depth: max(c.Depth, 0)}
}

// Call sends a request to another instance, through Pinboard: the URL is
// "/<namespace>/<id>/...", a scheme and host in it are ignored. The callee
// sees this instance as its Caller. Make req with the context of the request
// being served, so that depth is counted, or with in.Context. Redirects are
// not followed; Pinboard-* headers of req are not sent.
func (in *Instance) Call(req *http.Request) (*http.Response, error) {
	depth := 1
	if c, ok := CallerFrom(req.Context()); ok {
		depth = c.Depth + 1
	}
	s := in.h.session
	id := s.ID()
	switch {
	case depth > MaxDepth:
		return nil, ErrDepth
	case id == "":
		return nil, ErrNoSession
	case in.ctx.Err() != nil:
		return nil, context.Cause(in.ctx)
	}
	out, err := in.h.outgoing(req)
	if err != nil {
		return nil, err
	}
	if l, now := in.h.look(); l.ending(now) {
		return nil, ErrStopped
	}
	out.Header.Set(api.HeaderFrom, in.Namespace+"/"+in.ID)
	out.Header.Set(api.HeaderSession, id)
	out.Header.Set(api.HeaderSessionKey, s.secret)
	out.Header.Set(api.HeaderDepth, strconv.Itoa(depth))
	return in.h.calls.RoundTrip(out)
}

// outgoing is req aimed at Pinboard's data plane.
func (h *Handler) outgoing(req *http.Request) (*http.Request, error) {
	target := strings.TrimRight(h.cfg.Pinboard, "/") + req.URL.EscapedPath()
	if q := req.URL.RawQuery; q != "" || req.URL.ForceQuery {
		target += "?" + q
	}
	u, err := url.Parse(target)
	if err != nil || !strings.HasPrefix(req.URL.Path, "/") {
		return nil, fmt.Errorf("worker: call to %q: want /<namespace>/<id> and a rest", req.URL.Path)
	}
	out := req.Clone(req.Context())
	out.URL, out.Host, out.RequestURI = u, u.Host, ""
	if h.cfg.Hostname != "" {
		out.Host = h.cfg.Hostname
	}
	for name := range out.Header {
		if strings.HasPrefix(strings.ToLower(name), "pinboard-") {
			delete(out.Header, name)
		}
	}
	return out, nil
}
