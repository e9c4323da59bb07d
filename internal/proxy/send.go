package proxy

import (
	"context"
	"errors"
	"os"
	"strings"
	"time"

	"pinboard"
	"pinboard/internal/directory"
	"pinboard/internal/h1"
)

// deliver reaches the placed worker and writes the request, at most once: a
// connection that turns out closed before one byte of it was written is
// replaced, nothing else is ever sent again. late reports a resolve that is
// too old to act upon. No upstream, no refusal: the exchange was interrupted.
func (x *exchange) deliver(ctx context.Context) (u *upstream, late bool, _ *pinboard.Refusal) {
	c, p := x.c, x.c.p
	u, refusal := x.reach(ctx)
	for u != nil {
		now := x.reached
		if now.Sub(x.place.Sent) > resolveAge {
			x.putBack(u)
			return nil, true, nil
		}
		inHand := x.bodyInHand()
		x.build(u.worker, inHand)
		if !u.armed {
			u.armed = setUserTimeout(u.tcp, userTimeout) == nil
		}
		var headBy time.Time
		if inHand && p.cfg.ResponseTimeout > 0 {
			headBy = now.Add(p.cfg.ResponseTimeout)
		}
		watch := directory.Watch{Key: x.place.Key, Process: x.place.Worker.Process, Deadline: x.place.Deadline}
		if !c.attach(u, watch, x.place.Sent, now, headBy, len(x.out)) {
			x.discard(u)
			return nil, false, nil
		}
		sent, err := u.ask(x.out, inHand)
		u.sent += uint64(sent)
		k := u.worker
		switch {
		case sent > 0:
			return x.delivered(u, inHand, err)
		case u.reused && !errors.Is(err, os.ErrDeadlineExceeded):
			c.detach()
			k.failed(u)
			u.close()
			if u = k.take(now, p.cfg.PoolIdle); u == nil {
				u, refusal = x.dial(ctx, k)
			}
		default:
			x.discard(u)
			if c.cause() != uncut {
				return nil, false, nil
			}
			return nil, false, pinboard.WorkerBroken
		}
	}
	return nil, false, refusal
}

// delivered goes on after the request, or its head, has been written.
func (x *exchange) delivered(u *upstream, inHand bool, err error) (*upstream, bool, *pinboard.Refusal) {
	x.obs.Forwards++
	x.dropOut()
	if !inHand {
		x.noteOrigin()
		x.c.consume(len(x.head))
		x.head = nil
		x.startUpload(u)
		return u, false, nil
	}
	if err != nil && len(u.unread()) == 0 {
		// A worker may answer and close before it has read everything.
		if err = u.fill(); err != nil {
			return nil, false, x.lost(u, err)
		}
	}
	return u, false, nil
}

// lost closes an upstream that failed before the worker's head was complete
// and says what the client gets; nothing when the exchange was interrupted.
func (x *exchange) lost(u *upstream, err error) *pinboard.Refusal {
	c := x.c
	if errors.Is(err, os.ErrDeadlineExceeded) && c.cause() == uncut {
		c.interrupt(cutClient) // half-closed and silent beyond the grace
	}
	x.stopUpload(u, 0)
	x.discard(u)
	if c.cause() != uncut {
		return nil
	}
	u.worker.failed(u)
	return pinboard.WorkerBroken
}

// maxInterim bounds the interim answers of one exchange.
const maxInterim = 100

// awaitHead reads up to the final head, which stays unread, and passes interim
// ones on. With any event but Served the upstream has been disposed of; with
// Served and a refusal or no status, too.
func (x *exchange) awaitHead(u *upstream) (directory.Event, *pinboard.Refusal) {
	var scan h1.Scan
	for {
		n, ok := scan.Find(u.unread())
		switch {
		case !ok || n > h1.MaxHead || n == 0 && len(u.unread()) >= h1.MaxHead:
			return x.invalid(u)
		case n == 0:
			if err := u.fill(); err != nil {
				x.res.Status = 0
				return directory.Served, x.lost(u, err)
			}
			x.c.heard()
			continue
		}
		if !h1.ParseResponse(u.unread()[:n], x.obs.Method == "HEAD", &x.res) {
			return x.invalid(u)
		}
		if !x.res.Interim() {
			return x.judge(u, n)
		}
		if x.interim++; x.interim > maxInterim {
			return x.invalid(u)
		}
		if !x.passInterim(u, n) {
			x.res.Status = 0
			x.c.interrupt(cutClient)
			x.stopUpload(u, 0)
			x.discard(u)
			return directory.Served, nil
		}
		u.consume(n)
		scan = h1.Scan{}
	}
}

func (x *exchange) invalid(u *upstream) (directory.Event, *pinboard.Refusal) {
	x.obs.Fault = x.fault(u)
	x.res.Status = 0
	x.stopUpload(u, 0)
	x.discard(u)
	if c := x.c.cause(); c == cutUpload || c == cutClient {
		return directory.Served, nil
	}
	return directory.Served, pinboard.WorkerInvalid
}

// passInterim forwards a 1xx; HTTP/1.0 clients know none (RFC 9110 15.2).
func (x *exchange) passInterim(u *upstream, n int) bool {
	if x.req.Minor == 0 {
		return true
	}
	if x.res.Status == 100 {
		x.up.invited = true
	}
	head := u.unread()[:n]
	x.takeOut(0)
	x.out = append(x.out, "HTTP/1.1 "...)
	x.out = append(x.out, x.res.Line.Of(head)...)
	x.out = append(x.out, "\r\n"...)
	x.out = h1.AppendFields(x.out, head, x.res.Fields, fromWorker|h1.SetOf(h1.ContentLength, h1.TransferEncoding), x.res.Listed)
	x.out = append(x.out, "\r\n"...)
	err := x.writeClient(x.out)
	x.dropOut()
	return err == nil
}

// The exact forms in which a worker says no (docs/protocol.md, "What Pinboard says to workers").
const (
	leaseUnhealthy     = "lease-unhealthy"
	invalidAttestation = `{"detail":"invalid attestation"}`
)

// judge looks at a final head of n bytes for what never reaches a client.
func (x *exchange) judge(u *upstream, n int) (directory.Event, *pinboard.Refusal) {
	u.worker.served(u)
	switch {
	case x.res.Status == 101 && !(x.res.WebSocket && x.req.WebSocket):
		return x.invalid(u)
	case x.res.Status == 503 && x.isRefusal(u.unread()[:n]):
		x.settle(u, n)
		return directory.Refused, nil
	case x.res.Status == 403:
		bad, err := x.isBadAttestation(u, n)
		if err != nil {
			x.res.Status = 0
			return directory.Served, x.lost(u, err)
		}
		if bad {
			x.settle(u, n)
			return directory.BadAttestation, nil
		}
	}
	return directory.Served, nil
}

func (x *exchange) isRefusal(head []byte) bool {
	found := false
	for _, f := range x.res.Fields {
		if f.Kind == h1.Refusal {
			if found || string(f.Value.Of(head)) != leaseUnhealthy {
				return false
			}
			found = true
		}
	}
	return found
}

// isBadAttestation tells this 403 from others by its short body. It waits for a
// body of that length while what has come of it could become it; one in chunks
// may be a stream, and counts only if it came with the head.
func (x *exchange) isBadAttestation(u *upstream, n int) (bool, error) {
	length := int64(len(invalidAttestation))
	switch {
	case x.res.Body == h1.Chunked:
	case x.res.Body != h1.Length:
		return false, nil
	case x.res.ContentLength == 0 && x.req.WebSocket && x.place.Settling:
		return true, nil
	case x.res.ContentLength != length:
		return false, nil
	}
	for {
		body := h1.NewBody(x.res.Body, length)
		var data [len(invalidAttestation) + 1]byte
		m, _, ok := body.Read(data[:], u.unread()[n:])
		switch {
		case !ok || !strings.HasPrefix(invalidAttestation, string(data[:m])):
			return false, nil
		case m == len(invalidAttestation) && (body.Ended() || body.AtLast()):
			return true, nil
		case x.res.Body == h1.Chunked:
			return false, nil
		}
		if err := u.fill(); err != nil {
			if x.c.cause() == uncut {
				return false, nil // relayed as it was cut
			}
			return false, err
		}
	}
}

// settle disposes of an upstream whose answer of n head bytes the client never
// sees: kept when the answer is complete, else closed.
func (x *exchange) settle(u *upstream, n int) {
	whole := x.up.state == uploadNone && !x.res.Close &&
		(x.res.Body == h1.NoBody || x.res.Body == h1.Length) && int64(len(u.unread())-n) == x.bodyLength()
	if !whole {
		x.stopUpload(u, 0)
		x.discard(u)
		return
	}
	u.release()
	x.c.detach()
	x.putBack(u)
}

func (x *exchange) bodyLength() int64 {
	if x.res.Body == h1.Length {
		return x.res.ContentLength
	}
	return 0
}
