package worker

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"sync/atomic"
)

// An answer is the response to one admitted request. It knows whether the
// application has said anything yet, and it counts the request as a stream
// from the moment the application flushes or takes the connection over: an
// event stream or a WebSocket keeps nothing alive that winds down. Once the
// lease has lapsed it says nothing more: a connection that the application took
// over is its own.
type answer struct {
	http.ResponseWriter
	in     *Instance
	cancel context.CancelCauseFunc // of the request's context
	began  atomic.Bool
	cut    atomic.Bool // something was not said
	stream bool        // guarded by in.h.mu
}

// enter ties the request to its instance: closing ends its context.
func (a *answer) enter() {
	h := a.in.h
	h.mu.Lock()
	defer h.mu.Unlock()
	a.in.inside[a] = struct{}{}
	if a.in.closing {
		a.cancel(ErrStopped)
	}
}

// speak is asked before anything is said.
func (a *answer) speak() error {
	if l, now := a.in.h.look(); l.lapsed(now) {
		a.cut.Store(true)
		return ErrStopped
	}
	a.began.Store(true)
	return nil
}

// Unwrap serves http.ResponseController.
func (a *answer) Unwrap() http.ResponseWriter { return a.ResponseWriter }

// WriteHeader notes final statuses; interim ones are no answer yet.
func (a *answer) WriteHeader(status int) {
	if (status >= 200 || status == http.StatusSwitchingProtocols) && a.speak() != nil {
		return
	}
	a.ResponseWriter.WriteHeader(status)
}

func (a *answer) Write(b []byte) (int, error) {
	if err := a.speak(); err != nil {
		return 0, err
	}
	return a.ResponseWriter.Write(b)
}

// ReadFrom keeps the server's own way of copying files.
func (a *answer) ReadFrom(r io.Reader) (int64, error) {
	if err := a.speak(); err != nil {
		return 0, err
	}
	return io.Copy(a.ResponseWriter, r)
}

// Flush is for those who assert http.Flusher.
func (a *answer) Flush() { a.FlushError() }

// FlushError is for http.ResponseController.
func (a *answer) FlushError() error {
	if err := a.streams(); err != nil {
		return err
	}
	return http.NewResponseController(a.ResponseWriter).Flush()
}

// Hijack takes the connection over.
func (a *answer) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	if err := a.streams(); err != nil {
		return nil, nil, err
	}
	return http.NewResponseController(a.ResponseWriter).Hijack()
}

func (a *answer) streams() error {
	if err := a.speak(); err != nil {
		return err
	}
	h := a.in.h
	h.mu.Lock()
	defer h.mu.Unlock()
	if !a.stream {
		a.stream = true
		a.in.requests--
		a.in.streams++
		h.settleLocked(a.in)
	}
	return nil
}

// over ends the stay of the request.
func (a *answer) over() {
	a.in.leave(func() {
		delete(a.in.inside, a)
		if a.stream {
			a.in.streams--
		} else {
			a.in.requests--
		}
	})
}
