package proxy

import (
	"context"
	"time"

	"pinboard"
	"pinboard/internal/directory"
	"pinboard/internal/h1"
)

// An Errand is a delivery that no client waits for: a POST without a body, as
// a wake is one. It is the whole of what such a sender needs.
type Errand struct {
	delivery
	ctx     context.Context
	path    string
	patient time.Duration
	stop    func() bool

	Composed func() // runs when a connection is there and its head is being written
}

// NewErrand has p deliver a POST for the address; patience bounds the wait for
// its answer.
func NewErrand(p *Proxy, a pinboard.Address, patience time.Duration) *Errand {
	e := &Errand{path: a.Namespace + "/" + a.ID + a.Rest, patient: patience}
	e.p, e.from, e.whole, e.request = p, e, true, directory.Request{Address: a}
	return e
}

// Deliver runs the errand. Status is the worker's, 0 when none answered for good.
func (e *Errand) Deliver(ctx context.Context) (status int, refusal *pinboard.Refusal, forwards int) {
	e.ctx = ctx
	switch e.forward(ctx) {
	case answered:
		status = e.res.Status
		var scan h1.Scan
		n, _ := scan.Find(e.u.unread())
		e.settle(n)
	case rejected:
		refusal = e.refusal
	}
	e.dropOut()
	return status, refusal, e.forwards
}

func (e *Errand) compose(b []byte, k *worker) []byte {
	if e.Composed != nil {
		e.Composed()
	}
	return append(b, "POST "+k.base+e.path+" HTTP/1.1\r\nHost: "+k.site+"\r\nContent-Length: 0\r\n"...)
}

func (e *Errand) lend(u *upstream) bool {
	e.stop = context.AfterFunc(e.ctx, func() { _ = u.nc.SetDeadline(past) })
	_ = u.nc.SetReadDeadline(time.Now().Add(e.patient))
	return e.ctx.Err() == nil
}

func (e *Errand) back(u *upstream) {
	e.stop()
	_ = u.nc.SetDeadline(time.Time{})
}

func (e *Errand) again() bool        { return e.ctx.Err() == nil }
func (e *Errand) follow(*upstream)   { panic("nothing follows") }
func (e *Errand) heard()             {}
func (e *Errand) pass([]byte) bool   { return true }
func (e *Errand) cut(err error) bool { return e.ctx.Err() != nil || isTimeout(err) }

// Written is how many bytes were written to each idle connection of a session,
// as this node counts them.
func (p *Proxy) Written(session string) (n []uint64) {
	p.workersMu.RLock()
	k := p.workers[session]
	p.workersMu.RUnlock()
	if k == nil {
		return nil
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, u := range k.idle {
		n = append(n, u.sent)
	}
	return n
}
