package proxy

import (
	"context"
	"errors"
	"os"
	"strconv"
	"time"

	"pinboard"
)

// deliver reaches the placed worker, writes the request, at most once, and
// judges the answer. A connection that turns out closed before one byte was
// written to it is replaced; nothing else is ever sent again.
func (d *delivery) deliver(ctx context.Context) outcome {
	o := d.reach(ctx)
	for o == reached {
		if o = d.write(); o == stale {
			o = d.replace(ctx)
		}
	}
	return o
}

// reach takes a place and a connection: a kept one if there is one, else a
// new one.
func (d *delivery) reach(ctx context.Context) outcome {
	k, err := d.p.worker(d.place.Worker)
	if err != nil {
		return d.reject(pinboard.WorkerUnreachable)
	}
	u, refusal := k.enter(ctx, d, d.resolved)
	switch {
	case refusal != nil && ctx.Err() != nil:
		return interrupted
	case refusal != nil:
		return d.reject(refusal)
	}
	d.slot, d.u = true, u
	if u == nil {
		return d.dial(ctx, k)
	}
	return reached
}

func (d *delivery) dial(ctx context.Context, k *worker) outcome {
	u, err := d.p.dial(ctx, k)
	if err == nil {
		d.u = u
		return reached
	}
	d.leave(k)
	switch {
	case ctx.Err() != nil:
		return interrupted
	case isOurs(err):
		d.p.closeIdle()
		return d.reject(pinboard.Overloaded)
	}
	return unreachable
}

// replace finds another connection for one that was closed while it was idle.
func (d *delivery) replace(ctx context.Context) outcome {
	k := d.u.worker
	d.from.back(d.u)
	k.failed(d.u)
	d.u.close()
	if d.u = k.take(d.p.cfg.Now(), d.p.cfg.PoolIdle); d.u == nil {
		return d.dial(ctx, k)
	}
	return reached
}

// write sends the request on u and goes on to the answer. Between the look at
// the resolve's age and the first byte nothing dials, waits or takes a lock
// that is held for longer than a copy, and the attestation is minted behind
// that look (docs/rules.md F1).
func (d *delivery) write() outcome {
	u := d.u
	d.takeOut(d.size)
	d.out = d.from.compose(d.out, u.worker)
	if !u.armed {
		u.armed = setUserTimeout(u.tcp, d.p.cfg.Limits.Unacknowledged) == nil
	}
	u.target.Store(unwritten)
	if !d.from.lend(u) {
		d.discard()
		return interrupted
	}
	if pinboard.Elapsed(d.place.Sent, d.p.cfg.Now()) > d.p.cfg.Limits.Age {
		d.from.back(u)
		d.res.IdleFor = 0 // said by another worker, if at all
		d.putBack()
		return late
	}
	d.out = d.seal(d.out)
	u.target.Store(u.sent + uint64(len(d.out)))
	sent, err := u.ask(d.out, d.whole)
	u.sent += uint64(sent)
	switch {
	case sent > 0:
		return d.written(err)
	case u.reused && !errors.Is(err, os.ErrDeadlineExceeded):
		return stale
	}
	d.discard()
	if d.from.cut(nil) {
		return interrupted
	}
	return d.reject(pinboard.WorkerBroken)
}

// outSlack is room for what Pinboard adds to a head.
const outSlack = 1 << 10

// takeOut starts out empty, in a block that n bytes and our own lines fit in
// if there is such a block.
func (d *delivery) takeOut(n int) {
	n = min(n+outSlack, headBlock)
	if cap(d.out) < n {
		d.dropOut()
		d.out = takeBlock(n)
	}
	d.out = d.out[:0]
}

func (d *delivery) dropOut() {
	if d.out != nil {
		giveBlock(d.out)
		d.out = nil
	}
}

// seal appends the epoch, what proves that Pinboard sent this, the end of the
// head, and the body.
func (d *delivery) seal(b []byte) []byte {
	w := d.place.Worker
	b = append(b, "Pinboard-Epoch: "...)
	b = strconv.AppendUint(b, uint64(d.place.Epoch), 10)
	b = append(b, "\r\nPinboard-Attestation: "...)
	b = d.p.cfg.Mint(b, w, d.caller, d.depth)
	b = append(b, "\r\n"...)
	if d.foreign {
		b = append(b, hopsLine...)
	}
	if w.SendSecret {
		b = append(b, "X-Pinned-Proxy-Secret: "...)
		b = append(b, w.Secret...)
		b = append(b, "\r\n"...)
		if d.caller != "" {
			b = append(b, "Pinboard-Caller: "...)
			b = append(b, d.caller...)
			b = append(b, "\r\nPinboard-Subrequest-Depth: "...)
			b = strconv.AppendInt(b, int64(d.depth), 10)
			b = append(b, "\r\n"...)
		}
	}
	b = append(b, "\r\n"...)
	return append(b, d.body...)
}

// written goes on after the request, or its head, has been written.
func (d *delivery) written(err error) outcome {
	d.forwards++
	d.dropOut()
	if !d.whole {
		d.from.follow(d.u)
		return d.awaitHead()
	}
	if err != nil && len(d.u.unread()) == 0 {
		// A worker may answer and close before it has read everything.
		if err = d.u.fill(); err != nil {
			return d.lost(err)
		}
	}
	return d.awaitHead()
}

// leave gives up the place among finite exchanges, once.
func (d *delivery) leave(k *worker) {
	if d.slot {
		d.slot = false
		k.leave(d)
	}
}

// putBack keeps u for another exchange, along with the place.
func (d *delivery) putBack() {
	u := d.u
	d.u = nil
	if !u.quiet() {
		d.leave(u.worker)
		u.close()
		return
	}
	var leaves *delivery
	if d.slot {
		leaves, d.slot = d, false
	}
	u.worker.give(u, d.p.cfg.Now(), leaves, time.Duration(d.res.IdleFor)*time.Second)
}

// discard closes u, whose exchange cannot be continued.
func (d *delivery) discard() {
	u := d.u
	d.from.back(u)
	d.u = nil
	d.leave(u.worker)
	u.close()
}
