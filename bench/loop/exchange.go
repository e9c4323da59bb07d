package main

import (
	"net/http"
	"time"

	"pinboard"
	"pinboard/internal/h1"
	"pinboard/internal/metrics"
	"pinboard/internal/ownership"
)

const (
	resolveAge = 5 * time.Second // between the look-up and the first byte sent (F1)
	early      = 10 * time.Millisecond
)

// An exchange is one request and its answer.
type exchange struct {
	c       *client // nil between exchanges
	call    uint64  // counts look-ups; survives reuse
	head    []byte  // inside c's block
	req     h1.Request
	res     h1.Response
	method  string
	address pinboard.Address
	key     ownership.Key
	owner   *ownership.Worker
	worker  *worker
	epoch   pinboard.Epoch
	until   time.Time // the owner's lease
	sent    time.Time // when the look-up was sent
	start   time.Time
	heard   time.Time // of the worker, or when the client half-closed
	up      *upstream
	body    h1.Body
	begun   bool // bytes of the final answer went to the client
	interim int
}

// begin judges the head and asks who owns the id.
func (x *exchange) begin(c *client, head []byte) {
	x.c, x.head, x.start = c, head, time.Now()
	c.l.set.open.Add(1)
	if r := h1.ParseRequest(head, &x.req); r != nil {
		x.refuse(r)
		return
	}
	switch string(x.req.Method.Of(head)) {
	case http.MethodGet:
		x.method = http.MethodGet
	case http.MethodHead:
		x.method = http.MethodHead
	}
	crew := c.l.set.workers.now.Load()
	var r *pinboard.Refusal
	x.address, r = pinboard.ParseAddress(string(x.req.Path.Of(head)), crew.prefix)
	switch {
	case r != nil:
		x.refuse(r)
		return
	case x.method == "" || x.req.HasBody() || x.req.WebSocket || x.req.Has&refused != 0:
		x.refuse(pinboard.Unimplemented)
		return
	}
	x.key = ownership.Key{Env: ownership.World, Namespace: x.address.Namespace, ID: x.address.ID}
	hint := c.l.hints[x.key]
	if x.owner = hint.worker; x.owner == nil {
		x.owner = crew.newest
	}
	if x.owner == nil {
		x.refuse(pinboard.NoLiveBackends)
		return
	}
	x.epoch = pinboard.Epoch(hint.epoch)
	if !c.l.hits.ask(x, x.key, x.owner.Session) {
		x.refuse(pinboard.StoreUnavailable)
	}
}

// refused is what only the proxy can judge.
var refused = h1.SetOf(h1.From, h1.Session, h1.SessionSecret, h1.Attestation)

// resolved takes the reply to the look-up.
func (x *exchange) resolved(whole bool, part *[3][]byte, sent time.Time) {
	l, now := x.c.l, time.Now()
	l.set.metrics.Stored("peek", now.Sub(sent), nil)
	var epoch pinboard.Epoch
	ok := false
	if whole {
		epoch, x.until, ok = l.hits.judge(part, x.owner.Session, now)
	}
	ok = ok && (x.epoch == 0 || epoch == x.epoch)
	switch {
	case ok && x.up != nil: // renewed
		return
	case !ok && x.up != nil:
		x.refuse(pinboard.OwnerLost)
		return
	case !ok:
		// The proxy would run the look-up rule now; here the next request tries
		// the newest session, at any epoch.
		delete(l.hints, x.key)
		x.refuse(pinboard.WorkerNotReady)
		return
	}
	if x.epoch == 0 {
		x.epoch = epoch
		if len(l.hints) >= maxHints {
			clear(l.hints)
		}
		l.hints[x.key] = owner{x.owner, uint64(epoch)}
	}
	l.set.metrics.Resolved("found")
	if x.worker = l.worker(x.owner); x.worker == nil {
		x.refuse(pinboard.WorkerUnreachable)
		return
	}
	x.sent, x.heard = sent, now
	x.forward()
}

// forward sends the request on a kept connection or a new one.
func (x *exchange) forward() {
	k, l := x.worker, x.c.l
	for len(k.idle) > 0 {
		u := k.idle[len(k.idle)-1]
		k.idle = k.idle[:len(k.idle)-1]
		if l.now.Sub(u.since) <= poolIdle && !u.readable && !u.fin && !(l.set.look && u.spoken()) {
			u.carry(x)
			return
		}
		u.close()
	}
	u, err := l.dial(k)
	if err != nil {
		x.refuse(pinboard.WorkerUnreachable)
		return
	}
	u.x, x.up = x, u
}

// refuse answers with a refusal, or cuts an answer that has begun.
func (x *exchange) refuse(r *pinboard.Refusal) {
	c := x.c
	c.l.set.count(r, time.Since(x.start))
	if x.up != nil {
		x.up.close()
	}
	if x.begun {
		x.free()
		c.reset()
		return
	}
	keep := x.method != "" && !x.req.HasBody() && !x.req.Close && !c.fin
	c.send(appendRefusal(c.l.out[:0], r, x.req.Minor, x.method == http.MethodHead, !keep))
	c.r += len(x.head)
	x.free()
	c.over(keep)
}

// served ends an exchange whose answer is complete.
func (x *exchange) served(closing bool) {
	c := x.c
	m := c.l.set.metrics
	m.Request(metrics.RouteInstance, x.res.Status, time.Since(x.start))
	m.Forwarded("served")
	x.worker.good = c.l.now
	c.r += len(x.head)
	x.free()
	c.over(!closing)
}

// abandon ends an exchange whose client has left.
func (x *exchange) abandon() {
	m := x.c.l.set.metrics
	m.Request(metrics.RouteInstance, 0, time.Since(x.start))
	if x.up != nil {
		m.Forwarded("client_abort")
		x.up.close()
	}
	x.free()
}

func (x *exchange) free() {
	l := x.c.l
	l.set.open.Add(-1)
	x.c.x = nil
	req, res := x.req.Fields[:0], x.res.Fields[:0]
	*x = exchange{call: x.call + 1}
	x.req.Fields, x.res.Fields = req, res
	l.spare = append(l.spare, x)
}

// sweep is what is due of an exchange.
func (x *exchange) sweep(now time.Time) {
	switch {
	case x.up == nil: // the look-up has its own limit
	case x.c.fin && now.Sub(x.heard) > halfCloseGrace:
		x.c.gone()
	case !x.begun && now.Sub(x.heard) > responseTimeout:
		x.refuse(pinboard.WorkerTimeout)
	case now.Add(sweepEvery + early).After(x.until):
		x.renew(now)
	}
}

// renew is due before the lease of a stream's owner lapses. The proxy reads
// the row again; here one that the store still vouches for lasts another round.
func (x *exchange) renew(now time.Time) {
	if !x.c.l.hits.ask(x, x.key, x.owner.Session) {
		x.refuse(pinboard.OwnerLost)
	}
}

// count counts an answer of our own.
func (s *settings) count(r *pinboard.Refusal, took time.Duration) {
	s.metrics.Request(metrics.RouteInstance, r.Status, took)
	s.metrics.Refused(r.Code)
}
