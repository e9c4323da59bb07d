package proxy

import (
	"sync/atomic"
	"time"

	"pinboard/internal/h1"
)

type uploadState uint8

const (
	uploadNone    uploadState = iota // no body, or sent with the head
	uploadRunning                    // its goroutine may be at work
	uploadWhole                      // the worker has been sent all of it
	uploadBroken                     // stopped early
)

// An upload streams a request body while the answer is read. Until done has
// been received from, the client's side of the connection is read by its
// goroutine.
type upload struct {
	done    chan uploadState // one value per upload
	state   uploadState      // as the exchange's goroutine knows it
	invited bool             // the worker's 100 has been passed on
	bytes   atomic.Int64
}

func (x *exchange) startUpload(u *upstream) {
	if x.up.done == nil {
		x.up.done = make(chan uploadState, 1)
	}
	x.up.state = uploadRunning
	c := x.c
	c.uploadBegins()
	framing, left := x.req.Body, x.req.ContentLength
	go func() {
		end := uploadBroken
		defer func() {
			if v := recover(); v != nil {
				c.p.reportPanic(v)
				c.interrupt(cutUpload)
			}
			c.uploadOver()
			x.up.done <- end
		}()
		c.size = largeBlock
		if x.upload(u, framing, left) {
			end = uploadWhole
			c.uploaded()
		}
		c.size = smallBlock
	}()
}

// upload copies the body: true when the worker was sent all of it.
func (x *exchange) upload(u *upstream, framing h1.Framing, left int64) bool {
	c := x.c
	b := h1.NewBody(framing, left)
	var due time.Time // the trailers have begun and end by then
	for {
		pass, ok := b.Take(c.unread())
		if !ok {
			c.interrupt(cutUpload)
			return false
		}
		if len(pass) > 0 {
			x.up.bytes.Add(int64(len(pass)))
			if _, err := u.send(pass); err != nil {
				return false
			}
			c.consume(len(pass))
		}
		if b.AtLast() {
			if due.IsZero() {
				due = c.trailersBegun()
			}
			trailers, n, ok := b.TakeLast(c.unread(), nil)
			if !ok {
				c.interrupt(cutUpload)
				return false
			}
			if n > 0 {
				x.up.bytes.Add(int64(len(trailers)))
				_, err := u.send(trailers)
				c.consume(n)
				c.trailersEnded()
				return err == nil
			}
		}
		if b.Ended() {
			return true
		}
		c.slim() // what is held back: the start of a last chunk, or trailers
		if err := c.fill(); err != nil {
			switch {
			case !isTimeout(err):
				c.interrupt(cutClient) // FIN or RST inside the request
			case !due.IsZero() && !time.Now().Before(due):
				c.interrupt(cutUpload)
			}
			return false
		}
	}
}

// outlast waits behind a complete answer for the rest of its request: what the
// client sends goes on to the worker until that has all of it, or closes. Only a
// client that was never invited to send its body need not do so at all.
func (x *exchange) outlast(u *upstream) {
	switch {
	case x.up.state != uploadRunning:
	case x.uninvited():
		x.stopUpload(u, uploadGrace)
	default:
		if !x.c.trail() {
			_ = u.fill() // until the worker's FIN, the end of the upload or an interruption
		}
		if x.c.trailed(u) {
			x.takeUpload(u, <-x.up.done)
		}
		x.stopUpload(u, 0)
	}
}

// uninvited reports that the client waits for a 100 and has sent nothing.
func (x *exchange) uninvited() bool {
	return x.req.ExpectContinue && !x.up.invited && x.up.bytes.Load() == 0
}

// uploadGrace is how long a client may take to send a body that it was not
// invited to send before the connections are given up.
const uploadGrace = time.Second

// stopUpload ends the upload, after grace at most, and says how it ended.
func (x *exchange) stopUpload(u *upstream, grace time.Duration) {
	if x.up.state != uploadRunning {
		return
	}
	if grace > 0 {
		t := time.NewTimer(grace)
		defer t.Stop()
		select {
		case end := <-x.up.done:
			x.takeUpload(u, end)
			return
		case <-t.C:
		}
	}
	_ = x.c.nc.SetReadDeadline(past)
	_ = u.nc.SetWriteDeadline(past)
	<-x.up.done
	x.takeUpload(u, uploadBroken) // even if it was whole just now: u cannot be used again
	x.c.mu.Lock()
	if x.c.why != cutClient && x.c.why != cutShutdown {
		_ = x.c.nc.SetReadDeadline(time.Time{})
	}
	x.c.mu.Unlock()
}

// takeUpload notes how the upload ended.
func (x *exchange) takeUpload(u *upstream, end uploadState) {
	x.up.state = end
	x.obs.BytesIn = x.up.bytes.Load()
	u.sent += uint64(x.obs.BytesIn)
}
