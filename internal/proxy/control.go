package proxy

import (
	"bufio"
	"bytes"
	"io"
	"net/http"
	"strconv"
	"time"

	"pinboard"
	"pinboard/internal/h1"
)

// controlPatience bounds how long a request body of the control plane may take.
const controlPatience = 30 * time.Second

// control runs the control handler on this connection, keeping its framing
// and reuse in the engine's hands.
func (x *exchange) control() next {
	c := x.c
	r, err := http.ReadRequest(bufio.NewReader(bytes.NewReader(x.head)))
	if err != nil {
		return x.refuse(pinboard.BadRequest)
	}
	if !c.begin(handling, x.bodyInHand()) {
		x.obs.End = ClientGone
		return hangUp
	}
	x.noteOrigin()
	r.Header.Set(requestIDName, x.requestID()) // for lines that the handler logs
	c.consume(len(x.head))
	x.head = nil
	if x.req.HasBody() {
		_ = c.nc.SetReadDeadline(time.Now().Add(controlPatience))
		defer func() {
			if c.cause() == uncut {
				_ = c.nc.SetReadDeadline(time.Time{})
			}
		}()
	}
	in := &controlBody{x: x, body: h1.NewBody(x.req.Body, x.req.ContentLength), left: c.p.cfg.ControlBody}
	r.RemoteAddr = c.nc.RemoteAddr().String()
	r.Body, r.ContentLength = io.NopCloser(in), x.req.ContentLength
	switch {
	case !x.req.HasBody():
		r.Body, r.ContentLength = http.NoBody, 0
	case x.req.Body == h1.Chunked:
		r.ContentLength = -1
	}
	w := &controlWriter{x: x, in: in, header: make(http.Header)}
	c.p.cfg.Control.ServeHTTP(w, r.WithContext(c.ctx))
	w.finish()
	x.obs.Status = w.status
	if w.err != nil || c.cause() != uncut {
		x.obs.End = x.endOf(ClientGone)
		return hangUp
	}
	return behind(!w.closing, nil)
}

// A controlBody reads a request body for the handler.
type controlBody struct {
	x       *exchange
	body    h1.Body
	left    int64 // of what the handler may read
	invited bool
	err     error
}

// Read gives *http.MaxBytesError beyond the limit, as http.MaxBytesReader does.
func (r *controlBody) Read(p []byte) (int, error) {
	c := r.x.c
	for r.err == nil {
		n := r.take(p)
		switch {
		case n > 0:
			return n, nil
		case r.err != nil:
			return 0, r.err
		case r.body.Ended():
			c.uploaded()
			return 0, io.EOF
		case len(p) == 0:
			return 0, nil
		}
		if r.x.req.ExpectContinue && !r.invited {
			r.invited = true
			if r.err = r.x.writeClient([]byte("HTTP/1.1 100 Continue\r\n\r\n")); r.err != nil {
				break
			}
		}
		if err := c.fill(); err != nil {
			r.err = io.ErrUnexpectedEOF
			if !isTimeout(err) {
				c.interrupt(cutClient)
			}
		}
	}
	return 0, r.err
}

// take moves data that has been read into p.
func (r *controlBody) take(p []byte) (n int) {
	c := r.x.c
	n, used, ok := r.body.Read(p, c.unread())
	c.consume(used)
	if ok && r.body.AtLast() {
		_, used, ok = r.body.TakeLast(c.unread(), nil)
		c.consume(used)
	}
	if !ok {
		r.err = io.ErrUnexpectedEOF
	}
	if r.left -= int64(n); r.left < 0 {
		r.err = &http.MaxBytesError{Limit: r.x.c.p.cfg.ControlBody}
		return 0
	}
	return n
}

// drained discards what has arrived and reports that nothing is to come, so
// that the connection can be used again.
func (r *controlBody) drained() bool {
	if r.err != nil {
		return false
	}
	var b [512]byte
	for n := r.take(b[:]); n > 0; n = r.take(b[:]) {
	}
	return r.err == nil && r.body.Ended()
}

// controlBuffer is how much of an answer is held to give it a Content-Length.
const controlBuffer = 64 << 10

// A controlWriter is the handler's http.ResponseWriter and http.Flusher.
type controlWriter struct {
	x       *exchange
	in      *controlBody
	header  http.Header
	status  int
	buf     []byte
	started bool
	chunked bool
	closing bool
	err     error
}

func (w *controlWriter) Header() http.Header { return w.header }

func (w *controlWriter) WriteHeader(status int) {
	if w.status == 0 && status >= 200 {
		w.status = status
	}
}

func (w *controlWriter) Write(p []byte) (int, error) {
	w.WriteHeader(http.StatusOK)
	if w.bodiless() {
		return len(p), nil
	}
	w.buf = append(w.buf, p...)
	if w.started || len(w.buf) > controlBuffer {
		w.Flush()
	}
	return len(p), w.err
}

func (w *controlWriter) bodiless() bool {
	return w.x.obs.Method == "HEAD" || w.status == http.StatusNoContent || w.status == http.StatusNotModified
}

// Flush sends what there is; the first one makes the answer chunked.
func (w *controlWriter) Flush() {
	w.WriteHeader(http.StatusOK)
	var out []byte
	if !w.started {
		w.chunked = !w.bodiless() && w.x.req.Minor == 1 && w.header.Get("Content-Length") == ""
		w.closing = w.x.req.Minor == 0
		out = w.head()
	}
	w.send(out, false)
}

func (w *controlWriter) finish() {
	w.WriteHeader(http.StatusOK)
	var out []byte
	if !w.started {
		if w.header.Get("Content-Length") == "" && (!w.bodiless() || w.x.obs.Method == "HEAD" && len(w.buf) > 0) {
			w.header.Set("Content-Length", strconv.Itoa(len(w.buf)))
		}
		out = w.head()
	}
	w.send(out, w.chunked)
}

func (w *controlWriter) send(out []byte, last bool) {
	if len(w.buf) > 0 && w.chunked {
		out = strconv.AppendInt(out, int64(len(w.buf)), 16)
		out = append(out, "\r\n"...)
		out = append(out, w.buf...)
		out = append(out, "\r\n"...)
	} else {
		out = append(out, w.buf...)
	}
	w.buf = w.buf[:0]
	if last {
		out = append(out, "0\r\n\r\n"...)
	}
	if w.err == nil && len(out) > 0 {
		w.err = w.x.writeClient(out)
	}
}

// head decides how the connection goes on and renders the head.
func (w *controlWriter) head() []byte {
	w.started = true
	x := w.x
	w.closing = w.closing || x.req.Close || x.c.p.draining.Load() || !w.in.drained()
	h := w.header
	for _, name := range []string{"Connection", "Transfer-Encoding"} {
		h.Del(name)
	}
	if h.Get("Date") == "" {
		h.Set("Date", x.c.p.cfg.Now().UTC().Format(http.TimeFormat))
	}
	if w.status >= http.StatusBadRequest {
		h.Set(requestIDName, x.requestID())
	}
	b := bytes.NewBuffer(appendStatus(nil, w.status))
	_ = h.Write(b)
	out := x.appendCORS(b.Bytes())
	out = x.appendPersistence(out, w.closing)
	if w.chunked {
		out = append(out, "Transfer-Encoding: chunked\r\n"...)
	}
	return append(out, "\r\n"...)
}

// SetWriteDeadline lets http.ResponseController bound a slow reader.
func (w *controlWriter) SetWriteDeadline(t time.Time) error { return w.x.c.nc.SetWriteDeadline(t) }
