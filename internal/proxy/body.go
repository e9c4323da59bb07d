package proxy

import (
	"pinboard/internal/h1"
)

// A body says how many of the bytes that arrive belong to a message's body
// and may be passed on as they are. The last chunk and its trailers are held
// back until they are complete: some trailers must go, and a reader that has
// seen the last chunk's line may take a body that is cut there for a whole one.
type body struct {
	framing h1.Framing
	left    int64
	chunks  h1.Chunks
	closed  bool // the trailers have passed
}

// take is the part of b to pass on; false at a malformed byte.
func (y *body) take(b []byte) ([]byte, bool) {
	switch y.framing {
	case h1.Length:
		n := min(int64(len(b)), y.left)
		y.left -= n
		return b[:n], true
	case h1.Chunked:
		n, ok := y.chunks.Walk(b)
		return b[:n], ok
	case h1.UntilClose:
		return b, true
	}
	return nil, true
}

// data appends the data of a chunked body to dst without its framing; n bytes
// of b were read.
func (y *body) data(dst, b []byte) (_ []byte, n int, ok bool) {
	for n < len(b) && !y.chunks.Done() {
		m, data, ok := y.chunks.Step(b[n:])
		if !ok || m == 0 {
			return dst, n, ok
		}
		if data {
			dst = append(dst, b[n:n+m]...)
		}
		n += m
	}
	return dst, n, true
}

// ended reports that nothing of the body is to come; one that ends with the
// connection never says so.
func (y *body) ended() bool {
	switch y.framing {
	case h1.NoBody:
		return true
	case h1.Length:
		return y.left == 0
	case h1.Chunked:
		return y.closed
	}
	return false
}

// atLast reports that the last chunk is next; trailers reads it.
func (y *body) atLast() bool { return y.framing == h1.Chunked && y.chunks.Done() && !y.closed }

// trailers reads the last chunk with its trailer section at the start of b:
// what to pass on and how long it was, 0 while it is incomplete.
func (y *body) trailers(b []byte, fields []h1.Field) (out []byte, n int, ok bool) {
	fields, line, n, ok := h1.ParseLastChunk(b, fields)
	if n == 0 || !ok {
		return nil, 0, ok
	}
	y.closed = true
	if n == line+2 { // none
		return b[:n], n, true
	}
	out = append(out, b[:line]...)
	return h1.AppendTrailers(out, b[line:n], fields), n, true
}
