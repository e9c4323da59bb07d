package h1

import "bytes"

// A Body says how many of the bytes that arrive belong to a message's body and
// may be passed on as they are. The last chunk and its trailers are held back
// until they are complete: some trailers must go, and a reader that has seen the
// last chunk's line may take a body that is cut there for a whole one.
type Body struct {
	Framing Framing
	Spaced  bool // trailers may have white space before a colon: a response's

	left   int64
	chunks Chunks
	scan   Scan // of the trailer section
	closed bool // it has passed
}

// NewBody starts a body; length counts with the framing Length only.
func NewBody(f Framing, length int64) Body { return Body{Framing: f, left: length} }

// Take is the part of b to pass on; false at a malformed byte.
func (y *Body) Take(b []byte) ([]byte, bool) {
	switch y.Framing {
	case Length:
		n := min(int64(len(b)), y.left)
		y.left -= n
		return b[:n], true
	case Chunked:
		n, ok := y.chunks.Walk(b)
		return b[:n], ok
	case UntilClose:
		return b, true
	}
	return nil, true
}

// Read moves data from b to p, without its framing: used bytes of b were read.
func (y *Body) Read(p, b []byte) (n, used int, ok bool) {
	if y.Framing != Chunked {
		b, ok = y.Take(b[:min(len(b), len(p))])
		return copy(p, b), len(b), ok
	}
	for used < len(b) && !y.chunks.Done() {
		rest := b[used:]
		if y.chunks.state == chunkData {
			if n == len(p) {
				break
			}
			rest = rest[:min(len(rest), len(p)-n)]
		}
		m, data, ok := y.chunks.Step(rest)
		if data {
			n += copy(p[n:], rest[:m])
		}
		if used += m; !ok || m == 0 {
			return n, used, ok
		}
	}
	return n, used, true
}

// Ended reports that nothing of the body is to come; one that ends with the
// connection never says so.
func (y *Body) Ended() bool {
	switch y.Framing {
	case NoBody:
		return true
	case Length:
		return y.left == 0
	case Chunked:
		return y.closed
	}
	return false
}

// AtLast reports that the last chunk is next; TakeLast reads it.
func (y *Body) AtLast() bool { return y.Framing == Chunked && y.chunks.Done() && !y.closed }

// TakeLast reads the last chunk with its trailer section at the start of b:
// what to pass on and how long it was, 0 while it is incomplete. Until then b
// begins at the same byte each time.
func (y *Body) TakeLast(b []byte, fields []Field) (out []byte, n int, ok bool) {
	line := bytes.IndexByte(b, '\n') + 1
	fields, n, ok = ParseTrailers(b[line:], &y.scan, fields, y.Spaced)
	if n == 0 || !ok {
		return nil, 0, ok
	}
	y.closed = true
	if n == 2 { // no trailers
		return b[:line+n], line + n, true
	}
	out = append(out, b[:line]...)
	return AppendTrailers(out, b[line:line+n], fields), line + n, true
}
