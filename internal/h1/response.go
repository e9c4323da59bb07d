package h1

import "bytes"

// A Response is a parsed response head; reuse one value for many heads.
type Response struct {
	Status int
	Line   Span // from the status code to the end of the status line, without CR LF
	Minor  uint8
	Fields []Field
	Has    Set

	Body          Framing
	ContentLength int64 // of a Length body; also what HEAD and 304 announce

	Close     bool // the worker sends nothing more on this connection
	IdleFor   int  // seconds that the worker says it keeps an idle connection; 0 when it says nothing
	WebSocket bool // a 101 that switches to websocket
	Listed    bool // Connection names fields to be removed
}

// Interim reports a 1xx other than 101: another head follows.
func (r *Response) Interim() bool { return r.Status < 200 && r.Status != 101 }

// ParseResponse reads the head b, which ends in the blank line that Scan
// found. head says that the request was a HEAD, whose answer has no body.
// White space before a field's colon is read over; AppendFields strips it
// (RFC 9112 5.1).
func ParseResponse(b []byte, head bool, r *Response) bool {
	*r = Response{Fields: r.Fields[:0]}
	at, ok := r.parseLine(b)
	if !ok {
		return false
	}
	if r.Fields, ok = parseFields(b, at, r.Fields, true); !ok {
		return false
	}
	return r.readFields(b, head)
}

// parseLine reads "HTTP/1.x SP 3DIGIT [SP reason]". A status line without the
// second space is common enough to be let through (RFC 9112 4 wants it).
func (r *Response) parseLine(b []byte) (at int, ok bool) {
	const prefix = "HTTP/1."
	end := bytes.IndexByte(b, '\r')
	if end < len("HTTP/1.1 200") || b[end+1] != '\n' || string(b[:len(prefix)]) != prefix {
		return 0, false
	}
	if b[7] != '0' && b[7] != '1' || b[8] != ' ' || b[9] < '1' || b[9] > '9' || !digit(b[10]) || !digit(b[11]) {
		return 0, false
	}
	r.Minor = b[7] - '0'
	r.Status = int(b[9]-'0')*100 + int(b[10]-'0')*10 + int(b[11]-'0')
	if end > 12 && b[12] != ' ' {
		return 0, false
	}
	for _, c := range b[12:end] {
		if !isValue[c] {
			return 0, false
		}
	}
	r.Line = Span{9, uint32(end)}
	return end + 2, true
}

// readFields judges what the fields say about framing and connection.
func (r *Response) readFields(b []byte, head bool) bool {
	var c claim
	for _, f := range r.Fields {
		if f.Kind == Other {
			continue
		}
		r.Has |= 1 << f.Kind
		v := f.Value.Of(b)
		if !c.read(f.Kind, v) {
			return false
		}
		if f.Kind == KeepAlive {
			if seconds, ok := idleTimeout(v); ok {
				r.IdleFor = seconds
				c.close = c.close || seconds == 0
			}
		}
	}
	if c.ambiguous(r.Minor) || c.codings > 0 && c.coding != codingChunked {
		return false
	}
	r.ContentLength = c.length
	switch {
	case head || r.Status < 200 || r.Status == 204 || r.Status == 304:
		r.Body = NoBody
	case c.codings > 0:
		r.Body = Chunked
	case c.lengths > 0:
		r.Body = Length
	default:
		r.Body = UntilClose
	}
	r.Close = c.closes(r.Minor) || r.Body == UntilClose
	r.Listed = c.listed > 0
	r.WebSocket = r.Status == 101 && c.toWebSocket(r.Minor)
	return true
}

// idleTimeout reads "timeout=5, max=100" of a Keep-Alive field.
func idleTimeout(v []byte) (seconds int, ok bool) {
	const name = "timeout="
	for len(v) > 0 {
		var e []byte
		if e, v = element(v); len(e) > len(name) && EqualFold(e[:len(name)], name) {
			n, ok := parseLength(e[len(name):])
			return int(min(n, maxIdle)), ok
		}
	}
	return 0, false
}

// maxIdle bounds what a hint may say, in seconds.
const maxIdle = 1 << 20
