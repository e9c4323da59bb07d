package main

import (
	"net/http"
	"strconv"

	"pinboard"
	"pinboard/internal/h1"
)

// What the proxy drops of a head (internal/proxy, "rewrite"). No peer is
// trusted here, so all forwarding fields are replaced.
var (
	toWorker = h1.HopByHop | h1.FromClient | h1.SetOf(h1.Trailer,
		h1.ForwardedFor, h1.ForwardedHost, h1.ForwardedProto, h1.Forwarded, h1.RealIP)
	fromWorker = h1.HopByHop | h1.FromWorker
)

// appendRequest appends the head for the worker.
func (x *exchange) appendRequest(b []byte) []byte {
	r, head, w := &x.req, x.head, x.worker
	b = append(b, r.Method.Of(head)...)
	b = append(b, ' ')
	b = append(b, w.base...)
	path := r.Path.Of(head)
	if w.PathInURL {
		path = path[len(x.address.Namespace):]
	}
	b = append(b, path...)
	b = append(b, r.Query.Of(head)...)
	b = append(b, " HTTP/1.1\r\n"...)
	drop := toWorker
	if !r.Authority.Empty() || !r.HasHost {
		b = append(b, "Host: "...)
		if site := x.site(); len(site) > 0 {
			b = append(b, site...)
		} else {
			b = append(b, w.site...)
		}
		b = append(b, "\r\n"...)
		drop |= h1.SetOf(h1.Host)
	}
	if r.Minor == 0 {
		drop |= h1.SetOf(h1.Expect)
	}
	b = h1.AppendFields(b, head, r.Fields, drop, r.Listed)
	if r.Trailers {
		b = append(b, "TE: trailers\r\n"...)
	}
	b = append(b, "X-Forwarded-For: "...)
	b = append(b, x.c.peer...)
	if site := x.site(); len(site) > 0 {
		b = append(b, "\r\nX-Forwarded-Host: "...)
		b = append(b, site...)
	}
	b = append(b, "\r\nX-Forwarded-Proto: http\r\nPinboard-Epoch: "...)
	b = strconv.AppendUint(b, uint64(x.epoch), 10)
	b = append(b, "\r\nPinboard-Attestation: "...)
	b = x.c.l.minter.Mint(b, w.Worker, "", 0)
	if w.SendSecret {
		b = append(b, "\r\nX-Pinned-Proxy-Secret: "...)
		b = append(b, w.Secret...)
	}
	return append(b, "\r\n\r\n"...)
}

// site is the authority the request was made for.
func (x *exchange) site() []byte {
	if !x.req.Authority.Empty() {
		return x.req.Authority.Of(x.head)
	}
	return x.req.Host.Of(x.head)
}

// appendAnswer appends the worker's final head for the client.
func (x *exchange) appendAnswer(b, head []byte, closing, plain bool) []byte {
	r := &x.res
	b = append(b, "HTTP/1.1 "...)
	b = append(b, r.Line.Of(head)...)
	b = append(b, "\r\n"...)
	drop := fromWorker
	if r.Status == 204 {
		drop |= h1.SetOf(h1.ContentLength, h1.TransferEncoding)
	}
	if r.Body != h1.Chunked && x.method != http.MethodHead || plain {
		drop |= h1.SetOf(h1.Trailer)
	}
	if x.req.Minor == 0 {
		drop |= h1.SetOf(h1.TransferEncoding)
	}
	b = h1.AppendFields(b, head, r.Fields, drop, r.Listed)
	return append(appendPersistence(b, x.req.Minor, closing), "\r\n"...)
}

// appendInterim appends a 1xx.
func (x *exchange) appendInterim(b, head []byte) []byte {
	b = append(b, "HTTP/1.1 "...)
	b = append(b, x.res.Line.Of(head)...)
	b = append(b, "\r\n"...)
	b = h1.AppendFields(b, head, x.res.Fields, fromWorker|h1.SetOf(h1.ContentLength, h1.TransferEncoding), x.res.Listed)
	return append(b, "\r\n"...)
}

func appendPersistence(b []byte, minor uint8, closing bool) []byte {
	switch {
	case closing:
		return append(b, "Connection: close\r\n"...)
	case minor == 0:
		return append(b, "Connection: keep-alive\r\n"...)
	}
	return b
}

// appendRefusal appends a whole answer of our own.
func appendRefusal(b []byte, r *pinboard.Refusal, minor uint8, head, closing bool) []byte {
	text := `{"error":"` + r.Text + `","code":"` + r.Code + `"}`
	b = append(b, "HTTP/1.1 "...)
	b = strconv.AppendInt(b, int64(r.Status), 10)
	b = append(b, ' ')
	b = append(b, http.StatusText(r.Status)...)
	b = append(b, "\r\nContent-Type: application/json\r\nContent-Length: "...)
	b = strconv.AppendInt(b, int64(len(text)), 10)
	b = append(b, "\r\nPinboard-Error: "...)
	b = append(b, r.Code...)
	b = append(b, "\r\n"...)
	b = append(appendPersistence(b, minor, closing), "\r\n"...)
	if head {
		return b
	}
	return append(b, text...)
}
