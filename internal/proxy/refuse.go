package proxy

import (
	"net/http"
	"runtime/debug"
	"strconv"
	"time"

	"pinboard"
	"pinboard/internal/h1"
)

// Answers of our own that a client may repeat say when: once their reason ends,
// if that is known, else soon. Jittered, so that clients refused together do not
// come back together; upwards by a fifth at most, so that it is not too early.
const (
	retryFloor  = 500  // ms
	retrySpread = 1500 // ms
)

// refuse answers with a refusal. The connection goes on only behind a head that
// is beyond doubt and a body that has arrived whole.
func (x *exchange) refuse(r *pinboard.Refusal) next {
	c := x.c
	x.obs.End, x.obs.Refusal, x.obs.Status = Rejected, r, r.Status
	switch c.cause() {
	case uncut:
	case cutClient: // nobody is told
		x.obs.End, x.obs.Refusal, x.obs.Status = ClientGone, nil, 0
		return hangUp
	default:
		_ = c.nc.SetDeadline(time.Time{})
	}
	x.noteOrigin()
	if x.preflight() {
		return x.answerPreflight()
	}
	keep := x.obs.Method != "" && x.head != nil && x.bodyInHand() && !x.req.Close && !c.p.draining.Load() && c.cause() == uncut
	if keep {
		x.finishRequest()
	}
	x.takeOut(0)
	x.out = x.appendRefusal(x.out, r, !keep)
	return behind(keep, x.flush(nil))
}

// behind an answer of our own the connection goes on or is closed in stages.
func behind(keep bool, err error) next {
	switch {
	case err != nil:
		return hangUp
	case keep:
		return again
	}
	return partWell
}

// broken ends an exchange that was interrupted before it had an answer.
func (x *exchange) broken() next {
	switch x.c.cause() {
	case cutOwner:
		return x.refuse(pinboard.OwnerLost)
	case cutTimeout:
		return x.refuse(pinboard.WorkerTimeout)
	case cutUpload:
		return x.refuse(pinboard.BadRequest)
	case cutShutdown:
		x.obs.End = ShutdownCut
	default:
		x.obs.End = ClientGone
	}
	return hangUp
}

// answerOptions answers an OPTIONS that may go no further (RFC 9110 7.6.2).
func (x *exchange) answerOptions() next {
	x.obs.Status = 204
	keep := x.bodyInHand() && !x.req.Close && !x.c.p.draining.Load()
	if keep {
		x.finishRequest()
	}
	x.takeOut(0)
	x.out = append(x.c.p.appendDate(appendStatus(x.out, x.obs.Status)), allowLine...)
	x.out = append(x.appendPersistence(x.out, !keep), "\r\n"...)
	return behind(keep, x.flush(nil))
}

// preflight reports a browser's question whether it may send a request, from an
// origin that may read our errors. Where its worker cannot answer it, we allow
// it: so the browser sends the request and reads why that is refused.
func (x *exchange) preflight() bool {
	return x.origin != "" && x.head != nil && x.obs.Method == "OPTIONS" && len(x.field("access-control-request-method")) > 0
}

// field is the value of the first field with a lower-case name.
func (x *exchange) field(name string) []byte {
	for _, f := range x.req.Fields {
		if h1.EqualFold(f.Name.Of(x.head), name) {
			return f.Value.Of(x.head)
		}
	}
	return nil
}

// answerPreflight allows what is asked for, this once: a max age of 0 has the
// browser ask the worker next time.
func (x *exchange) answerPreflight() next {
	x.obs.End, x.obs.Refusal, x.obs.Status = Complete, nil, http.StatusNoContent
	b := x.c.p.appendDate(appendStatus(nil, x.obs.Status))
	b = append(append(b, "Access-Control-Allow-Methods: "...), x.field("access-control-request-method")...)
	b = append(b, "\r\n"...)
	if names := x.field("access-control-request-headers"); len(names) > 0 {
		b = append(append(b, "Access-Control-Allow-Headers: "...), names...)
		b = append(b, "\r\n"...)
	}
	b = append(b, "Access-Control-Max-Age: 0\r\n"...)
	keep := x.bodyInHand() && !x.req.Close && !x.c.p.draining.Load() && x.c.cause() == uncut
	b = x.appendPersistence(x.appendCORS(b), !keep)
	b = append(b, "\r\n"...)
	if keep {
		x.finishRequest()
	}
	return behind(keep, x.writeClient(b))
}

const allowLine = "Allow: GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS\r\n"

// appendPersistence says whether the connection goes on, where it must be said.
func (x *exchange) appendPersistence(b []byte, closing bool) []byte {
	switch {
	case closing:
		return append(b, "Connection: close\r\n"...)
	case x.req.Minor == 0:
		return append(b, "Connection: keep-alive\r\n"...)
	}
	return b
}

func (x *exchange) appendRefusal(b []byte, r *pinboard.Refusal, closing bool) []byte {
	p := x.c.p
	var body [256]byte
	text := append(body[:0], `{"error":"`...)
	text = append(text, r.Text...)
	text = append(text, '"')
	if !r.Bare {
		text = append(text, `,"code":"`...)
		text = append(text, r.Code...)
		text = append(text, '"')
	}
	ms := 0
	if r.Retry {
		ms = retryFloor + p.cfg.Rand(retrySpread)
		if x.after > 0 {
			left := int((x.after + time.Millisecond - 1) / time.Millisecond)
			ms = left + p.cfg.Rand(left/5+1)
		}
		text = append(text, `,"retryAfterMs":`...)
		text = strconv.AppendInt(text, int64(ms), 10)
	}
	text = append(text, '}')

	b = p.appendDate(appendStatus(b, r.Status))
	b = append(b, "Content-Type: application/json\r\nContent-Length: "...)
	b = strconv.AppendInt(b, int64(len(text)), 10)
	b = append(b, "\r\nPinboard-Error: "...)
	b = append(b, r.Code...)
	b = append(b, "\r\n"...)
	b = x.appendRequestID(b)
	if r.Retry {
		b = append(b, "Retry-After: "...)
		b = strconv.AppendInt(b, int64(ms+999)/1000, 10)
		b = append(b, "\r\n"...)
	}
	if r == pinboard.MethodNotAllowed {
		b = append(b, allowLine...)
	}
	b = x.appendPersistence(x.appendCORS(b), closing)
	b = append(b, "\r\n"...)
	if x.obs.Method != "HEAD" {
		b = append(b, text...)
	}
	return b
}

func appendStatus(b []byte, status int) []byte {
	b = append(b, "HTTP/1.1 "...)
	b = strconv.AppendInt(b, int64(status), 10)
	b = append(b, ' ')
	b = append(b, http.StatusText(status)...)
	return append(b, "\r\n"...)
}

// appendDate says when an answer of our own was made (RFC 9110 6.6.1); those of
// workers pass as they came.
func (p *Proxy) appendDate(b []byte) []byte {
	b = append(b, "Date: "...)
	b = p.cfg.Now().UTC().AppendFormat(b, http.TimeFormat)
	return append(b, "\r\n"...)
}

// noteOrigin remembers who may read our errors, and what the client calls the
// request, while the head is there.
func (x *exchange) noteOrigin() {
	x.noteRequestID()
	p := x.c.p
	if len(p.origins) == 0 || x.head == nil || x.origin != "" || !x.req.Has.Has(h1.Origin) {
		return
	}
	for _, f := range x.req.Fields {
		if f.Kind != h1.Origin {
			continue
		}
		if v := f.Value.Of(x.head); p.origins[string(v)] || p.origins["*"] {
			x.origin = string(v)
		}
		return
	}
}

func (x *exchange) appendCORS(b []byte) []byte {
	if len(x.c.p.origins) == 0 {
		return b
	}
	b = append(b, "Vary: Origin\r\n"...)
	if x.origin == "" {
		return b
	}
	b = append(b, "Access-Control-Allow-Origin: "...)
	b = append(b, x.origin...)
	b = append(b, "\r\nAccess-Control-Allow-Credentials: true\r\n"+
		"Access-Control-Expose-Headers: Pinboard-Error, Retry-After, X-Request-Id\r\n"...)
	return b
}

// shedAnswer is all that a full process says.
func (p *Proxy) shedAnswer() []byte {
	b := p.appendDate(appendStatus(make([]byte, 0, 512), pinboard.Overloaded.Status))
	return append(b, "Content-Type: application/json\r\nContent-Length: "+strconv.Itoa(len(shedBody))+
		"\r\nPinboard-Error: "+pinboard.Overloaded.Code+"\r\nRetry-After: 1\r\nConnection: close\r\n\r\n"+shedBody...)
}

var shedBody = `{"error":"` + pinboard.Overloaded.Text + `","code":"` + pinboard.Overloaded.Code + `","retryAfterMs":1000}`

// reportPanic tells of a panic, unless a handler used it to abort on purpose.
func (p *Proxy) reportPanic(v any) {
	if v != http.ErrAbortHandler {
		p.cfg.Panic(v, debug.Stack())
	}
}
