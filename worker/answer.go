package worker

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"sync/atomic"
)

// An answer is the response to one admitted request. It knows whether the
// application has said anything yet, and it counts the request as a stream
// from the moment the application flushes or takes the connection over: an
// event stream or a WebSocket keeps nothing alive that winds down.
type answer struct {
	http.ResponseWriter
	in     *Instance
	began  atomic.Bool
	stream bool // guarded by in.h.mu
}

// Unwrap serves http.ResponseController.
func (a *answer) Unwrap() http.ResponseWriter { return a.ResponseWriter }

// WriteHeader notes final statuses; interim ones are no answer yet.
func (a *answer) WriteHeader(status int) {
	if status >= 200 || status == http.StatusSwitchingProtocols {
		a.began.Store(true)
	}
	a.ResponseWriter.WriteHeader(status)
}

func (a *answer) Write(b []byte) (int, error) {
	a.began.Store(true)
	return a.ResponseWriter.Write(b)
}

// ReadFrom keeps the server's own way of copying files.
func (a *answer) ReadFrom(r io.Reader) (int64, error) {
	a.began.Store(true)
	return io.Copy(a.ResponseWriter, r)
}

// Flush is for those who assert http.Flusher.
func (a *answer) Flush() { a.FlushError() }

// FlushError is for http.ResponseController.
func (a *answer) FlushError() error {
	a.streams()
	return http.NewResponseController(a.ResponseWriter).Flush()
}

// Hijack takes the connection over.
func (a *answer) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	a.streams()
	return http.NewResponseController(a.ResponseWriter).Hijack()
}

func (a *answer) streams() {
	a.began.Store(true)
	h := a.in.h
	h.mu.Lock()
	defer h.mu.Unlock()
	if !a.stream {
		a.stream = true
		a.in.requests--
		a.in.streams++
		h.settleLocked(a.in)
	}
}

// over ends the stay of the request.
func (a *answer) over() {
	a.in.leave(func() {
		if a.stream {
			a.in.streams--
		} else {
			a.in.requests--
		}
	})
}
