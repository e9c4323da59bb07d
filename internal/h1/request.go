package h1

import (
	"bytes"

	"pinboard"
)

// A Request is a parsed request head. Reuse one value for many heads: Fields
// keeps its capacity.
type Request struct {
	Method    Span
	Target    Span // as received
	Path      Span // of the target, without the query; empty only in "http://host"
	Query     Span // with its "?", empty when there is none
	Authority Span // of an absolute-form target, else empty
	Host      Span // of the Host field
	HasHost   bool
	Minor     uint8 // HTTP/1.Minor
	Fields    []Field
	Has       Set // kinds among Fields

	Body          Framing // NoBody, Length or Chunked
	ContentLength int64   // of a Length body

	Close          bool // no request follows on this connection
	WebSocket      bool // a handshake that may become a tunnel
	ExpectContinue bool // the client may wait for a 100 before its body
	Trailers       bool // TE lists trailers, and Connection lists TE (RFC 9110 10.1.4)
	Listed         bool // Connection names fields to be removed
}

// HasBody reports whether a body follows: Content-Length: 0 is none, chunked
// always is one.
func (r *Request) HasBody() bool {
	return r.Body == Chunked || r.Body == Length && r.ContentLength > 0
}

// ParseRequest reads the head b, which ends in the blank line that Scan found.
func ParseRequest(b []byte, r *Request) *pinboard.Refusal {
	*r = Request{Fields: r.Fields[:0]}
	at, refusal := r.parseLine(b)
	if refusal != nil {
		return refusal
	}
	var ok bool
	if r.Fields, ok = parseFields(b, at, r.Fields, false); !ok {
		return pinboard.BadRequest
	}
	if refusal := r.readFields(b); refusal != nil {
		return refusal
	}
	// TRACE would echo what Pinboard adds, CONNECT is no gateway's business;
	// both are judged after the framing so that the connection may live on.
	if m := r.Method.Of(b); string(m) == "CONNECT" || string(m) == "TRACE" {
		return pinboard.MethodNotAllowed
	}
	return nil
}

// maxMethod is longer than any registered method.
const maxMethod = 64

// parseLine reads the request line; at is where the fields start.
func (r *Request) parseLine(b []byte) (at int, _ *pinboard.Refusal) {
	i := 0
	for isToken[b[i]] {
		i++
	}
	if i == 0 || i > maxMethod || b[i] != ' ' {
		return 0, pinboard.BadRequest
	}
	r.Method = Span{0, uint32(i)}
	i++
	start := i
	for isTarget[b[i]] {
		i++
	}
	if i == start || b[i] != ' ' {
		return 0, pinboard.BadRequest
	}
	r.Target = Span{uint32(start), uint32(i)}
	i++
	end := i + bytes.IndexByte(b[i:], '\r')
	if refusal := r.parseVersion(b[i:end]); refusal != nil {
		return 0, refusal
	}
	if b[end+1] != '\n' {
		return 0, pinboard.BadRequest
	}
	if !r.splitTarget(b) {
		return 0, pinboard.BadRequest
	}
	return end + 2, nil
}

func (r *Request) parseVersion(v []byte) *pinboard.Refusal {
	const prefix = "HTTP/"
	if len(v) != len("HTTP/1.1") || string(v[:len(prefix)]) != prefix || v[6] != '.' || !digit(v[5]) || !digit(v[7]) {
		return pinboard.BadRequest
	}
	if v[5] == '2' && string(v[5:]) == "2.0" {
		return pinboard.BadRequest // the HTTP/2 preface on this port
	}
	if v[5] != '1' || v[7] > '1' {
		return pinboard.VersionUnknown
	}
	r.Minor = v[7] - '0'
	return nil
}

func digit(c byte) bool { return '0' <= c && c <= '9' }

// splitTarget accepts origin-form and absolute-form (RFC 9112 3.2); the other
// two belong to methods that are refused anyway.
func (r *Request) splitTarget(b []byte) bool {
	t := r.Target.Of(b)
	base := r.Target.Start
	path := 0
	if t[0] != '/' {
		if string(r.Method.Of(b)) == "CONNECT" {
			return true
		}
		scheme := bytes.Index(t, []byte("://"))
		if scheme < 0 || !EqualFold(t[:scheme], "http") && !EqualFold(t[:scheme], "https") {
			return false
		}
		start := scheme + 3
		path = start
		for path < len(t) && t[path] != '/' && t[path] != '?' {
			path++
		}
		// An escape here has two readings: some decode it, as in a path, some do not.
		if a := t[start:path]; len(a) == 0 || a[0] == ':' || !isAuthority(a) || bytes.IndexByte(a, '%') >= 0 {
			return false
		}
		r.Authority = Span{base + uint32(start), base + uint32(path)}
	}
	query := len(t)
	if i := bytes.IndexByte(t[path:], '?'); i >= 0 {
		query = path + i
	}
	r.Path = Span{base + uint32(path), base + uint32(query)}
	r.Query = Span{base + uint32(query), r.Target.End}
	return true
}

// isTarget are the bytes of a request target: everything visible but "#",
// and raw bytes above ASCII, which pass as they came.
var isTarget = func() (t [256]bool) {
	for c := 0x21; c < 0x100; c++ {
		t[c] = c != 0x7f && c != '#'
	}
	return t
}()

// readFields judges what the fields say about framing and connection.
func (r *Request) readFields(b []byte) *pinboard.Refusal {
	var c claim
	hosts := 0
	for _, f := range r.Fields {
		if f.Kind == Other {
			continue
		}
		r.Has |= 1 << f.Kind
		v := f.Value.Of(b)
		switch f.Kind {
		case Host:
			hosts++
			r.Host, r.HasHost = f.Value, true
			if !isAuthority(v) {
				return pinboard.MissingHost
			}
		case Expect:
			r.ExpectContinue = EqualFold(v, "100-continue")
		case TE:
			r.Trailers = r.Trailers || listsTrailers(v)
		default:
			if !c.read(f.Kind, v) {
				return pinboard.BadRequest
			}
		}
	}
	if hosts > 1 || hosts == 0 && r.Minor == 1 {
		return pinboard.MissingHost
	}
	if refusal := r.frame(&c); refusal != nil {
		return refusal
	}
	r.Close = c.closes(r.Minor)
	r.Listed = c.listed > 0
	r.Trailers = r.Trailers && c.te
	r.ExpectContinue = r.ExpectContinue && r.Minor == 1
	// RFC 6455 4.1: a GET of HTTP/1.1 without a body; some fronts say its length.
	r.WebSocket = c.toWebSocket(r.Minor) && !r.HasBody() && string(r.Method.Of(b)) == "GET"
	return nil
}

// frame decides where the body ends.
func (r *Request) frame(c *claim) *pinboard.Refusal {
	switch {
	case c.ambiguous(r.Minor):
		return pinboard.BadRequest
	case c.codings > 0 && c.coding == codingUnsupported:
		return pinboard.Unimplemented
	case c.codings > 0 && c.coding == codingBad:
		return pinboard.BadRequest
	case c.codings > 0:
		r.Body = Chunked
	case c.lengths > 0:
		r.Body, r.ContentLength = Length, c.length
	}
	return nil
}

func listsTrailers(v []byte) bool {
	for len(v) > 0 {
		var e []byte
		if e, v = element(v); EqualFold(e, "trailers") {
			return true
		}
	}
	return false
}
