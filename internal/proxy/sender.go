package proxy

import (
	"errors"
	"os"
	"time"

	"pinboard/internal/directory"
	"pinboard/internal/h1"
)

// What a client's exchange does for its delivery, besides compose.

// lend implements sender.
func (x *exchange) lend(u *upstream) bool {
	var headBy time.Time
	if limit := x.c.p.cfg.ResponseTimeout; x.whole && limit > 0 {
		headBy = u.taken.Add(limit)
	}
	watch := directory.Watch{Key: x.place.Key, Process: x.place.Worker.Process, Deadline: x.place.Deadline}
	return x.c.attach(u, watch, x.place.Sent, headBy)
}

// back implements sender.
func (x *exchange) back(u *upstream) {
	x.stopUpload(u, 0)
	x.c.detach()
}

// again implements sender.
func (x *exchange) again() bool { return x.c.begin(resolving, x.whole) }

// follow implements sender: the body streams in a goroutine of its own.
func (x *exchange) follow(u *upstream) {
	x.noteOrigin()
	x.c.consume(len(x.head))
	x.head = nil
	x.startUpload(u)
}

// heard implements sender.
func (x *exchange) heard() { x.c.heard() }

// pass implements sender: HTTP/1.0 clients know no 1xx (RFC 9110 15.2).
func (x *exchange) pass(head []byte) bool {
	if x.req.Minor == 0 {
		return true
	}
	if x.res.Status == 100 {
		x.up.invited = true
	}
	x.takeOut(0)
	x.out = append(x.out, "HTTP/1.1 "...)
	x.out = append(x.out, x.res.Line.Of(head)...)
	x.out = append(x.out, "\r\n"...)
	x.out = h1.AppendFields(x.out, head, x.res.Fields, fromWorker|h1.SetOf(h1.ContentLength, h1.TransferEncoding), x.res.Listed)
	x.out = append(x.out, "\r\n"...)
	err := x.writeClient(x.out)
	x.dropOut()
	if err != nil {
		x.c.interrupt(cutClient)
	}
	return err == nil
}

// cut implements sender. The deadline of a wait for the worker's head is that
// of a client that is half-closed.
func (x *exchange) cut(err error) bool {
	if errors.Is(err, os.ErrDeadlineExceeded) && x.c.cause() == uncut {
		x.c.interrupt(cutClient)
	}
	return x.c.cause() != uncut
}
