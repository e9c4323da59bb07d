package proxy

import (
	"bytes"
	"context"
	"sync"
	"time"

	"pinboard"
	"pinboard/internal/directory"
	"pinboard/internal/h1"
)

// An exchange is one request and its answer, and the sender of its delivery.
// It is pooled: between requests a connection holds none.
type exchange struct {
	delivery
	c    *conn
	head []byte // the request head inside c's block; nil once consumed

	scan      h1.Scan // how far a head was looked for
	blank     bool    // an empty line before the head has been skipped
	timed     bool    // the head is late beyond a deadline
	malformed *pinboard.Refusal
	req       h1.Request
	fields    []h1.Field // of trailers
	obs       Exchange
	hostname  string // canonical, in hostname mode
	counted   bool   // among the proxy's open exchanges

	answer answer
	up     upload
	origin string // of the request, when it may read our errors
}

// parse looks for a whole request head in the unread bytes. They stay unread
// until the exchange is done with them; an unfinished one is kept in c.x.
func (c *conn) parse() (whole bool) {
	for {
		b := c.unread()
		if len(b) == 0 {
			return false
		}
		if c.x == nil {
			c.x = takeExchange(c)
		}
		x := c.x
		switch {
		case !x.blank && b[0] == '\r' && (len(b) == 1 || b[1] == '\n'): // RFC 9112 2.2
			if len(b) > 1 {
				x.blank = true
				c.consume(2)
				continue
			}
		case x.parseHead(b):
			if x.timed {
				_ = c.nc.SetReadDeadline(time.Time{})
			}
			return true
		}
		if !x.timed {
			x.timed = true
			c.headBegun()
		}
		return false
	}
}

var exchanges = sync.Pool{New: func() any {
	x := &exchange{req: h1.Request{Fields: make([]h1.Field, 0, 24)}}
	x.res.Fields = make([]h1.Field, 0, 24)
	return x
}}

func takeExchange(c *conn) *exchange {
	x := exchanges.Get().(*exchange)
	x.c = c
	return x
}

// headBegun starts the time that a head may take; the connection is not idle.
func (c *conn) headBegun() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.since = c.p.cfg.Now()
	c.halfClosed = c.fin
	if !c.fin {
		_ = c.nc.SetReadDeadline(time.Now().Add(c.p.cfg.HeadTimeout))
	}
}

// parseHead looks for a whole head in b, valid or malformed.
func (x *exchange) parseHead(b []byte) (whole bool) {
	n, ok := x.scan.Find(b)
	switch {
	case !ok:
		x.malformed = pinboard.BadRequest
		return true
	case n > h1.MaxHead || n == 0 && len(b) >= h1.MaxHead:
		x.malformed = pinboard.HeadTooLarge
		if x.scan.FirstLine() > h1.MaxHead/2 {
			x.malformed = pinboard.TargetTooLong
		}
		return true
	case n == 0:
		return false
	}
	x.head = b[:n]
	x.obs.Start = x.c.p.cfg.Now()
	x.malformed = h1.ParseRequest(x.head, &x.req)
	return true
}

// brief reports that an exchange reads no more of its client's connection and
// does not keep it: it may run inside the poller.
func (x *exchange) brief() bool {
	return x.malformed != nil ||
		x.bodyInHand() && !x.req.WebSocket && !isControl(x.req.Path.Of(x.head))
}

// bodyInHand reports that the whole request has been read.
func (x *exchange) bodyInHand() bool {
	return !x.req.HasBody() ||
		x.req.Body == h1.Length && int64(len(x.c.unread())-len(x.head)) >= x.req.ContentLength
}

// isControl reports whether the control handler answers a path. The bytes are
// compared as they came: no other spelling reaches it.
func isControl(path []byte) bool {
	switch string(path) {
	case "/healthz", "/readyz", "/metrics", "/registry", "/dashboard":
		return true
	}
	return bytes.HasPrefix(path, []byte("/registry/")) || bytes.HasPrefix(path, []byte("/dashboard/"))
}

// conclude runs an exchange to its end and observes it.
func (x *exchange) conclude() next {
	next := x.run()
	if next != passedOn {
		x.finish()
	}
	return next
}

// run serves one request head.
func (x *exchange) run() next {
	if x.malformed != nil {
		return x.refuse(x.malformed)
	}
	x.obs.Method = methodName(x.req.Method.Of(x.head))
	path := x.req.Path.Of(x.head)
	x.obs.Path = x.c.p.paths.text(path)
	if len(path) == 0 {
		x.obs.Path = "/"
	}
	x.obs.Kind = Finite
	if isControl(path) {
		x.obs.Kind = Control
	}
	if x.c.p.cfg.RequestIDs {
		x.requestID()
	}
	x.counted = true
	x.c.p.counts[x.obs.Kind].Add(1)
	if x.obs.Kind == Control {
		return x.control()
	}
	return x.instance()
}

// instance serves a request for an instance.
func (x *exchange) instance() next {
	c := x.c
	if refusal := x.prepare(); refusal != nil {
		return x.refuse(refusal)
	}
	if hops, limited := x.maxForwards(); limited && hops == 0 {
		return x.answerOptions()
	}
	if !c.begin(resolving, x.bodyInHand()) {
		x.obs.End = ClientGone
		return hangUp
	}
	if refusal := x.order(c.ctx); refusal != nil {
		return x.refuse(refusal)
	}
	switch x.forward(c.ctx) {
	case rejected:
		return x.refuse(x.refusal)
	case interrupted:
		return x.broken()
	}
	if x.res.WebSocket {
		x.tunnel()
		return passedOn
	}
	return x.relay()
}

// prepare judges what needs no store.
func (x *exchange) prepare() *pinboard.Refusal {
	p := x.c.p
	var refusal *pinboard.Refusal
	registrable := true
	if p.cfg.HostnameAware {
		site := x.site()
		if len(site) == 0 || site[0] == ':' {
			return pinboard.MissingHost
		}
		x.hostname, registrable = pinboard.Hostname(string(site))
	}
	if x.obs.Address, refusal = pinboard.ParseAddress(x.obs.Path, p.cfg.Prefix); refusal != nil {
		return refusal
	}
	if !registrable { // a valid name, such as "a,b", that no worker can serve
		return pinboard.UnknownNamespace
	}
	if x.obs.Method == "POST" && pinboard.ReservedWake(x.obs.Address.Rest) {
		return pinboard.NotFound
	}
	if x.looped() {
		return pinboard.Loop
	}
	return nil
}

// order fills in what the delivery is to take where.
func (x *exchange) order(ctx context.Context) *pinboard.Refusal {
	p, r := x.c.p, &x.req
	x.p, x.from = p, x
	x.hasBody, x.whole = r.HasBody(), x.bodyInHand()
	x.headOnly, x.upgrade = x.obs.Method == "HEAD", r.WebSocket
	if n := len(x.head); x.whole && x.hasBody {
		x.body = x.c.unread()[n : n+int(r.ContentLength)]
	}
	x.size = len(x.head) + len(x.body)
	x.request = directory.Request{Address: x.obs.Address, Host: x.hostname}
	if r.Has&callerKinds != 0 {
		var refusal *pinboard.Refusal
		if x.request.Caller, refusal = x.identify(ctx, x.hostname); refusal != nil {
			return refusal
		}
	}
	x.request.Affinity, x.request.Client = x.affinity(p.cfg.Affinity), x.clientIP()
	return nil
}
