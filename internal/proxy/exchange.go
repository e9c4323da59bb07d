package proxy

import (
	"context"
	"errors"
	"sync"
	"time"

	"pinboard"
	"pinboard/internal/directory"
	"pinboard/internal/h1"
)

// An exchange is one request and its answer. It is pooled: between requests a
// connection holds none.
type exchange struct {
	c    *conn
	head []byte // the request head inside c's block; nil once consumed

	scan      h1.Scan // how far a head was looked for
	blank     bool    // an empty line before the head has been skipped
	timed     bool    // the head is late beyond a deadline
	malformed *pinboard.Refusal
	req       h1.Request
	res       h1.Response

	out    []byte // a head being written, and what goes with it
	fields []h1.Field
	obs    Exchange

	place    directory.Placement
	resolved time.Time // when place arrived
	reached  time.Time // when its worker's connection was there
	hostname string    // canonical, in hostname mode
	caller   string    // "/ns/id", proven
	depth    int
	counted  bool // among the proxy's open exchanges
	slot     bool // a place among the worker's finite exchanges is held
	interim  int

	answer answer
	up     upload
	origin string // of the request, when it may read our errors
}

var exchanges = sync.Pool{New: func() any {
	return &exchange{
		req: h1.Request{Fields: make([]h1.Field, 0, 24)},
		res: h1.Response{Fields: make([]h1.Field, 0, 24)},
	}
}}

// maxKept bounds what a pooled exchange keeps of an unusually large head.
const maxKept = 256

func takeExchange(c *conn) *exchange {
	x := exchanges.Get().(*exchange)
	x.c = c
	return x
}

func (x *exchange) give() {
	x.dropOut()
	req, res, fields := x.req.Fields[:0], x.res.Fields[:0], x.fields[:0]
	if cap(req) > maxKept {
		req = nil
	}
	if cap(res) > maxKept {
		res = nil
	}
	done := x.up.done
	*x = exchange{fields: fields}
	x.req.Fields, x.res.Fields, x.up.done = req, res, done
	exchanges.Put(x)
}

// outSlack is room for what Pinboard adds to a head.
const outSlack = 1 << 10

// takeOut starts out empty, in a block that n bytes and our own lines fit in
// if there is such a block.
func (x *exchange) takeOut(n int) {
	n = min(n+outSlack, headBlock)
	if cap(x.out) < n {
		x.dropOut()
		x.out = takeBlock(n)
	}
	x.out = x.out[:0]
}

func (x *exchange) dropOut() {
	if x.out != nil {
		giveBlock(x.out)
		x.out = nil
	}
}

// releaseHeads gives up what only heads need, while a stream goes on.
func (x *exchange) releaseHeads() {
	x.req.Fields, x.res.Fields = nil, nil
}

// finish observes the exchange and gives it back.
func (x *exchange) finish() {
	c := x.c
	now := c.p.cfg.Now()
	if x.obs.Start.IsZero() { // the head never came whole
		x.obs.Start = now
	}
	x.obs.Total = now.Sub(x.obs.Start)
	if x.obs.Method == "" {
		x.obs.Method = otherMethod
	}
	if x.counted {
		c.p.counts[x.obs.Kind].Add(-1)
	}
	c.x = nil
	x.obs.Peer = c.peer.text
	c.p.cfg.Observe(&x.obs)
	x.give()
	c.pause(now)
}

// A next says what becomes of a connection behind an exchange.
type next uint8

const (
	again    next = iota // another exchange
	outside              // the exchange goes on, outside the poller
	hangUp               // a close at once
	partWell             // a close in stages
	passedOn             // other goroutines have taken over: the exchange is no longer the caller's
)

// nextOf: keep says that another exchange may follow, graceful that the
// client is owed a close in stages.
func nextOf(keep, graceful bool) next {
	switch {
	case keep:
		return again
	case graceful:
		return partWell
	}
	return hangUp
}

// brief reports that an exchange reads no more of its client's connection and
// does not keep it: it may run inside the poller.
func (x *exchange) brief() bool {
	return x.malformed != nil ||
		x.bodyInHand() && !x.req.WebSocket && !isControl(x.req.Path.Of(x.head))
}

// conclude runs an exchange to its end and observes it.
func (x *exchange) conclude() next {
	next := partWell
	if x.malformed != nil {
		x.reject(x.malformed)
	} else {
		next = x.run()
	}
	if next != passedOn {
		x.finish()
	}
	return next
}

// run serves one parsed request.
func (x *exchange) run() next {
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
		return nextOf(x.control())
	}
	return x.instance()
}

// become moves the exchange to another kind, once its response head is there.
func (x *exchange) become(k Kind) {
	x.c.p.counts[x.obs.Kind].Add(-1)
	x.c.p.counts[k].Add(1)
	x.obs.Kind = k
	x.obs.Head = x.c.p.cfg.Now().Sub(x.obs.Start)
}

// instance serves a request for an instance.
func (x *exchange) instance() next {
	c := x.c
	if refusal := x.prepare(); refusal != nil {
		return nextOf(x.reject(refusal))
	}
	if hops, limited := x.maxForwards(); limited && hops == 0 {
		return nextOf(x.answerOptions())
	}
	if !c.begin(resolving, x.bodyInHand()) {
		x.obs.End = ClientGone
		return hangUp
	}
	u, refusal := x.forward()
	switch {
	case u != nil && x.res.WebSocket:
		x.tunnel(u)
		return passedOn
	case u != nil:
		return x.relay(u)
	case refusal == nil:
		return nextOf(x.broken())
	}
	return nextOf(x.reject(refusal))
}

// prepare judges what needs no store.
func (x *exchange) prepare() *pinboard.Refusal {
	p := x.c.p
	var refusal *pinboard.Refusal
	if p.cfg.HostnameAware {
		var ok bool
		if x.hostname, ok = pinboard.Hostname(string(x.site())); !ok {
			return pinboard.MissingHost
		}
	}
	if x.obs.Address, refusal = pinboard.ParseAddress(x.obs.Path, p.cfg.Prefix); refusal != nil {
		return refusal
	}
	if x.obs.Method == "POST" && pinboard.ReservedWake(x.obs.Address.Rest) {
		return pinboard.NotFound
	}
	if x.req.Has.Has(h1.Attestation) && p.cfg.Minted != nil {
		for _, f := range x.req.Fields {
			if f.Kind == h1.Attestation && p.cfg.Minted(f.Value.Of(x.head)) {
				return pinboard.Loop
			}
		}
	}
	return nil
}

// bodyInHand reports that the whole request has been read.
func (x *exchange) bodyInHand() bool {
	return !x.req.HasBody() ||
		x.req.Body == h1.Length && int64(len(x.c.unread())-len(x.head)) >= x.req.ContentLength
}

// The one loop over placements (docs/guarantees.md, "Delivery").
const (
	maxReresolve = 2
	maxReplace   = 1
	resolveAge   = 5 * time.Second        // between the resolve and the first byte sent (F1)
	settlePause  = 200 * time.Millisecond // for a worker that has yet to read its register answer
)

// forward resolves, sends and reads the worker's final head. It returns the
// upstream to relay from, or why there is none; neither when the exchange was
// interrupted or the worker broke off.
func (x *exchange) forward() (*upstream, *pinboard.Refusal) {
	p, ctx := x.c.p, x.c.ctx
	req, refusal := x.request(ctx)
	if refusal != nil {
		return nil, refusal
	}
	for reresolved, replaced := 0, 0; ; {
		if refusal := x.resolve(ctx, req); refusal != nil {
			return nil, refusal
		}
		u, late, refusal := x.deliver(ctx)
		if late {
			if reresolved++; reresolved > maxReresolve {
				return nil, pinboard.ResolveTooSlow
			}
			continue
		}
		if u == nil {
			return nil, refusal
		}
		event, refusal := x.awaitHead(u)
		if event == directory.Served {
			if refusal != nil || x.res.Status == 0 {
				return nil, refusal
			}
			p.cfg.Directory.Report(ctx, x.place, event)
			return u, nil
		}
		v := x.report(event)
		again := v.Again && !x.req.HasBody()
		switch {
		case again && event == directory.Refused && replaced < maxReplace:
			replaced++
			req.Avoid = x.place.Worker.Session
		case again && event == directory.BadAttestation && reresolved < maxReresolve:
			reresolved = maxReresolve
			if !x.c.rest(settlePause) {
				return nil, nil
			}
		default:
			return nil, orRefusal(v.Refusal, defaultRefusal[event])
		}
		x.c.begin(resolving, true)
	}
}

// defaultRefusal is what a client gets when the verdict names nothing.
var defaultRefusal = map[directory.Event]*pinboard.Refusal{
	directory.Unreachable:    pinboard.WorkerUnreachable,
	directory.Refused:        pinboard.WorkerRefused,
	directory.BadAttestation: pinboard.WorkerNotReady,
}

func orRefusal(r, v *pinboard.Refusal) *pinboard.Refusal {
	if r == nil {
		return v
	}
	return r
}

// rest pauses for d: false when the client left meanwhile.
func (c *conn) rest(d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-c.ctx.Done():
		return false
	}
}

// request is what the directory must know.
func (x *exchange) request(ctx context.Context) (directory.Request, *pinboard.Refusal) {
	p := x.c.p
	r := directory.Request{Address: x.obs.Address}
	r.Host = x.hostname
	if x.req.Has&callerKinds != 0 {
		var refusal *pinboard.Refusal
		if r.Caller, refusal = x.identify(ctx, r.Host); refusal != nil {
			return r, refusal
		}
	}
	r.Affinity, r.Client = x.affinity(p.cfg.Affinity), x.clientIP()
	return r, nil
}

func (x *exchange) resolve(ctx context.Context, req directory.Request) *pinboard.Refusal {
	p := x.c.p
	place, err := p.cfg.Directory.Resolve(ctx, req)
	x.resolved = p.cfg.Now()
	x.obs.Resolved = x.resolved.Sub(x.obs.Start)
	if err != nil {
		return asRefusal(err)
	}
	x.place = place
	x.obs.Epoch, x.obs.Worker, x.obs.Fresh = place.Epoch, place.Worker, x.obs.Fresh || place.Fresh
	if place.Worker.PathInURL && x.obs.Address.ID == "_pinned" {
		return pinboard.InvalidID // would land on the worker's own control routes
	}
	return nil
}

func asRefusal(err error) *pinboard.Refusal {
	var r *pinboard.Refusal
	if errors.As(err, &r) {
		return r
	}
	return pinboard.StoreUnavailable
}

// reach takes a place and a connection: a kept one if there is one, else a
// new one. Neither a connection nor a refusal: the client has left.
func (x *exchange) reach(ctx context.Context) (*upstream, *pinboard.Refusal) {
	p := x.c.p
	k, err := p.worker(x.place.Worker)
	if err != nil {
		return nil, pinboard.WorkerUnreachable
	}
	u, waited, refusal := k.enter(ctx, p, x.resolved)
	if refusal != nil {
		if ctx.Err() != nil {
			return nil, nil
		}
		return nil, refusal
	}
	x.slot = true
	if u == nil {
		return x.dial(ctx, k)
	}
	x.reached = x.resolved
	if waited {
		x.reached = p.cfg.Now()
	}
	return u, nil
}

func (x *exchange) dial(ctx context.Context, k *worker) (*upstream, *pinboard.Refusal) {
	p := x.c.p
	u, err := p.dial(ctx, k)
	if err == nil {
		x.reached = p.cfg.Now()
		return u, nil
	}
	x.leave(k)
	switch {
	case ctx.Err() != nil:
		return nil, nil
	case isOurs(err):
		p.closeIdle()
		return nil, pinboard.Overloaded
	}
	v := x.report(directory.Unreachable)
	return nil, orRefusal(v.Refusal, pinboard.WorkerUnreachable)
}

// reportTimeout bounds a report; it is made even if the client has left.
const reportTimeout = 5 * time.Second

func (x *exchange) report(e directory.Event) directory.Verdict {
	p := x.c.p
	ctx, cancel := context.WithTimeout(p.ctx, reportTimeout)
	defer cancel()
	return p.cfg.Directory.Report(ctx, x.place, e)
}

// leave gives up the place among finite exchanges, once.
func (x *exchange) leave(k *worker) {
	if x.slot {
		x.slot = false
		k.leave()
	}
}

// putBack returns an upstream that was not written to.
func (x *exchange) putBack(u *upstream) {
	x.slot = false
	u.worker.give(u, x.c.p.cfg.Now(), true)
}

// discard closes an upstream whose exchange cannot be continued.
func (x *exchange) discard(u *upstream) {
	x.c.detach()
	x.leave(u.worker)
	u.close()
}

// broken ends an exchange that has no answer: interrupted, or cut off by the
// worker before its head.
func (x *exchange) broken() (keep, graceful bool) {
	switch x.c.cause() {
	case cutOwner:
		return x.reject(pinboard.OwnerLost)
	case cutTimeout:
		return x.reject(pinboard.WorkerTimeout)
	case cutUpload:
		return x.reject(pinboard.BadRequest)
	case cutShutdown:
		x.obs.End = ShutdownCut
	default:
		x.obs.End = ClientGone
	}
	return false, false
}
