package proxy

import (
	"slices"

	"pinboard/internal/h1"
)

// An answer is the final answer on its way to the client.
type answer struct {
	body    h1.Body
	plain   bool // chunks are taken apart: HTTP/1.0 knows none
	closing bool // the client's connection ends with it
	apart   bool // it has a goroutine of its own
}

// relay passes the final answer on: the head and the part of the body that
// came with it in one write, then each read in one write. A stream that must be
// waited for goes on in a fresh goroutine, because a stack that has run an
// exchange is several times as large as a waiting stream needs.
func (x *exchange) relay() next {
	c, u, a := x.c, x.u, &x.answer
	c.answer(answering)
	x.obs.Status = x.res.Status
	x.finishRequest()
	a.body = h1.NewBody(x.res.Body, x.res.ContentLength)
	a.body.Spaced = true
	a.plain = x.req.Minor == 0 && a.body.Framing == h1.Chunked
	a.closing = x.closes(a.plain)
	n := x.buildAnswer(a.closing, a.plain)
	u.consume(n)
	if a.body.Framing == h1.Chunked || a.body.Framing == h1.UntilClose {
		x.leave(u.worker)
		x.become(Stream)
	}
	end, over := x.pump()
	if !over {
		a.apart = true
		c.then = x.stream
		return passedOn
	}
	return x.relayed(end)
}

// stream goes on with an answer, and behind it with its connection.
func (x *exchange) stream() (over bool) {
	c := x.c
	end, _ := x.pump()
	next := x.relayed(end)
	x.finish()
	return c.goOn(next)
}

// become moves the exchange to another kind, once its response head is there.
func (x *exchange) become(k Kind) {
	x.c.p.counts[x.obs.Kind].Add(-1)
	x.c.p.counts[k].Add(1)
	x.obs.Kind = k
	x.obs.Head = x.c.p.cfg.Now().Sub(x.obs.Start)
}

// finishRequest consumes what of the request is still unread: nothing of it is
// needed once an answer is certain.
func (x *exchange) finishRequest() {
	if x.head == nil {
		return
	}
	n := len(x.head)
	if x.req.HasBody() {
		n += int(x.req.ContentLength)
	}
	x.head = nil
	x.c.consume(n)
}

// closes reports whether the client's connection ends with this answer.
func (x *exchange) closes(plain bool) bool {
	return x.req.Close || x.c.p.draining.Load() || x.res.Body == h1.UntilClose || plain ||
		x.up.state == uploadRunning && (x.uninvited() || x.cutting())
}

// cutting reports that a request that still comes will not reach the worker
// whole: that has closed, or says that it will behind this answer.
func (x *exchange) cutting() bool {
	select {
	case end := <-x.up.done:
		x.takeUpload(x.u, end)
		return end == uploadBroken
	default:
		return x.res.Close && x.res.Body != h1.Chunked
	}
}

// buildAnswer writes the answer's head into out; n is its length as received.
func (x *exchange) buildAnswer(closing, plain bool) (n int) {
	u, fields := x.u, x.res.Fields
	n = 2 // the blank line
	if len(fields) > 0 {
		n += int(fields[len(fields)-1].End)
	} else {
		n += int(x.res.Line.End) + 2
	}
	head := u.unread()[:n]
	x.takeOut(len(u.unread()))
	b := append(x.out, "HTTP/1.1 "...)
	b = append(b, x.res.Line.Of(head)...)
	b = append(b, "\r\n"...)
	drop := fromWorker
	if x.res.Status == 204 || x.res.Status == 101 {
		drop |= h1.SetOf(h1.ContentLength, h1.TransferEncoding)
	}
	if x.res.Body != h1.Chunked && x.obs.Method != "HEAD" || plain {
		drop |= h1.SetOf(h1.Trailer)
	}
	if x.req.Minor == 0 {
		drop |= h1.SetOf(h1.TransferEncoding)
	}
	b = h1.AppendFields(b, head, fields, drop, x.res.Listed)
	if x.res.Status == 101 {
		b = append(b, "Connection: Upgrade\r\nUpgrade: websocket\r\n"...)
	} else {
		b = x.appendPersistence(b, closing)
	}
	x.out = append(b, "\r\n"...)
	return n
}

// pump moves the body. out may hold the head, which goes with the first bytes.
// Not over: a stream that is to be waited for and has no goroutine of its own.
func (x *exchange) pump() (end End, over bool) {
	u, b, plain := x.u, &x.answer.body, x.answer.plain
	for {
		pass, n, ok := x.takeBody(u, b, plain)
		if len(x.out) > 0 && len(pass) <= largeBlock {
			x.out = append(x.out, pass...)
			pass = nil
		}
		held := 0
		if ok && b.AtLast() {
			var trailers []byte
			trailers, held, ok = b.TakeLast(u.unread()[n:], x.fields[:0])
			if held > 0 && !plain {
				x.openOut()
				x.out = append(append(x.out, pass...), trailers...)
				pass = nil
			}
		}
		if err := x.flush(pass); err != nil {
			x.c.interrupt(cutClient)
			return x.endOf(ClientGone), true
		}
		u.consume(n + held)
		switch {
		case !ok:
			return x.endOf(WorkerGone), true
		case b.Ended():
			return Complete, true
		case x.obs.Kind == Stream:
			x.releaseHeads()
			if !x.answer.apart {
				return Complete, false
			}
		}
		err := u.fill()
		switch {
		case err == nil:
			x.c.heard()
		case isEOF(err) && b.Framing == h1.UntilClose && x.c.cause() == uncut:
			return Complete, true
		case isTimeout(err):
			x.c.interrupt(cutClient)
			return x.endOf(ClientGone), true
		default:
			return x.endOf(WorkerGone), true
		}
	}
}

// releaseHeads gives up what only heads need, while a stream goes on.
func (x *exchange) releaseHeads() {
	x.req.Fields, x.res.Fields = nil, nil
}

// takeBody takes what u has read of the body: the bytes to pass on and how
// many were taken. The data of a dechunked body goes to out.
func (x *exchange) takeBody(u *upstream, b *h1.Body, plain bool) (pass []byte, n int, ok bool) {
	if !plain {
		pass, ok = b.Take(u.unread())
		return pass, len(pass), ok
	}
	x.openOut()
	in, had := u.unread(), len(x.out)
	x.out = slices.Grow(x.out, len(in))
	m, n, ok := b.Read(x.out[had:had+len(in)], in)
	if x.out = x.out[:had+m]; had+m == 0 {
		x.dropOut()
	}
	return nil, n, ok
}

// openOut makes out usable without dropping what it holds.
func (x *exchange) openOut() {
	if x.out == nil {
		x.takeOut(0)
	}
}

// flush writes out, if it holds anything, then pass; out is given back, so
// that a waiting stream holds no block.
func (x *exchange) flush(pass []byte) error {
	if len(x.out) > 0 {
		err := x.writeClient(x.out)
		x.dropOut()
		if err != nil {
			return err
		}
	}
	if len(pass) == 0 {
		return nil
	}
	return x.writeClient(pass)
}

func (x *exchange) writeClient(b []byte) error {
	n, err := x.c.send(b)
	x.obs.BytesOut += int64(n)
	return err
}

// relayed puts things away behind an answer.
func (x *exchange) relayed(end End) next {
	c, u, a := x.c, x.u, &x.answer
	x.dropOut()
	if end == Complete && a.body.Framing != h1.UntilClose {
		x.outlast(u)
	} else {
		x.stopUpload(u, 0)
	}
	x.obs.End = end
	c.detach()
	whole := x.up.state != uploadBroken
	c.curtailed = !whole
	if end == Complete && whole && !x.res.Close && len(u.unread()) == 0 {
		x.putBack()
	} else {
		x.leave(u.worker)
		u.close()
	}
	switch {
	case end == Complete:
		return behind(!a.closing && whole, nil)
	case a.body.Framing == h1.UntilClose || a.plain:
		c.reset() // only a reset tells this end from a complete one
	case end == WorkerGone:
		return partWell
	}
	return hangUp
}

// endOf names the end: whoever interrupted first, else what was observed.
func (x *exchange) endOf(seen End) End {
	switch x.c.cause() {
	case cutClient:
		return ClientGone
	case cutOwner:
		return OwnerGone
	case cutShutdown:
		return ShutdownCut
	}
	return seen
}
