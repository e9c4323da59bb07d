package proxy

import (
	"context"
	"strconv"

	"pinboard"
	"pinboard/internal/directory"
	"pinboard/internal/h1"
)

var callerKinds = h1.SetOf(h1.From, h1.Session, h1.SessionSecret)

// maxDepth bounds a chain of instance calls (docs/protocol.md, "What Pinboard says to workers").
const maxDepth = 50

// identify proves the calling instance, if the request names one, and returns
// its session. The three fields come all or none, each once.
func (x *exchange) identify(ctx context.Context, host string) (session string, _ *pinboard.Refusal) {
	var from, depth []byte
	var claim directory.CallerClaim
	counts := [4]int{}
	for _, f := range x.req.Fields {
		v := f.Value.Of(x.head)
		switch f.Kind {
		case h1.From:
			counts[0]++
			from = v
		case h1.Session:
			counts[1]++
			claim.Session = string(v)
		case h1.SessionSecret:
			counts[2]++
			claim.Secret = string(v)
		case h1.Depth:
			counts[3]++
			depth = v
		}
	}
	if counts[0] != 1 || counts[1] != 1 || counts[2] != 1 {
		return "", pinboard.InvalidSessionSecret
	}
	d, refusal := parseDepth(depth, counts[3])
	if refusal != nil {
		return "", refusal
	}
	text := string(from)
	a, refusal := pinboard.ParseAddress(text, x.c.p.cfg.Prefix)
	if refusal != nil || a.ID == "" || a.Rest != "" {
		return "", pinboard.CallerMismatch
	}
	claim.Namespace, claim.ID, claim.Host = a.Namespace, a.ID, host
	session, err := x.c.p.cfg.Directory.Caller(ctx, claim)
	if err != nil {
		return "", asRefusal(err)
	}
	x.caller, x.depth = text, d
	return session, nil
}

// parseDepth reads the depth that the caller has already incremented; without
// one it is 1.
func parseDepth(v []byte, n int) (int, *pinboard.Refusal) {
	if n == 0 {
		return 1, nil
	}
	if n > 1 || len(v) == 0 {
		return 0, pinboard.InvalidDepth
	}
	for _, c := range v {
		if c < '0' || c > '9' {
			return 0, pinboard.InvalidDepth
		}
	}
	d, err := strconv.Atoi(string(v))
	switch {
	case err != nil || d > maxDepth:
		return 0, pinboard.DepthExceeded
	case d < 1:
		return 0, pinboard.InvalidDepth
	}
	return d, nil
}
