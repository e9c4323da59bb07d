package h1

import "pinboard"

// maxChunkLine bounds a chunk-size line with its extensions.
const maxChunkLine = 4 << 10

type chunkState uint8

const (
	chunkSize chunkState = iota // at the first digit
	chunkDigits
	chunkBlank // white space before an extension
	chunkExt
	chunkLineLF
	chunkData
	chunkDataCR
	chunkDataLF
	chunkEnd
)

// Chunks walks a chunked body (RFC 9112 7.1) as it arrives in pieces, up to
// the last chunk, which Body.TakeLast reads. The zero value is ready. A body
// that it has walked may be passed on byte for byte: sizes are 1 to 15
// hexadecimal digits, every line ends in CR LF, data is followed by CR LF.
//
// The line of the last chunk is never walked, nor is the start of a line that
// may become it: whoever has seen it may take a body cut right behind it for a
// whole one.
type Chunks struct {
	left  int64
	line  int
	state chunkState
}

// Done reports whether the last chunk is next and its line complete.
func (c *Chunks) Done() bool { return c.state == chunkEnd }

// Walk consumes as much of b as belongs to chunks. What it leaves wants more
// bytes behind it, or is the last chunk. ok is false at the first byte that no
// chunked body may hold there.
func (c *Chunks) Walk(b []byte) (n int, ok bool) {
	for n < len(b) && c.state != chunkEnd {
		m, _, ok := c.Step(b[n:])
		if n += m; !ok {
			return n, false
		}
		if m == 0 {
			break
		}
	}
	return n, true
}

// Step consumes the next run of b, either framing or data, as Walk does; n is 0
// at a line that must be whole first.
func (c *Chunks) Step(b []byte) (n int, data, ok bool) {
	if c.state == chunkData {
		n = len(b)
		if int64(n) >= c.left {
			n, c.state = int(c.left), chunkDataCR
		}
		c.left -= int64(n)
		return n, true, true
	}
	line := 0 // where the line begins that may be the last chunk's
	for n < len(b) && c.state != chunkData && c.state != chunkEnd {
		if c.state == chunkSize {
			line = n
		}
		if !c.frame(b[n]) {
			if c.mayBeLast() {
				n = line
			}
			return n, false, false
		}
		n++
	}
	if c.mayBeLast() {
		c.state, c.line, n = chunkSize, 0, line
	} else if c.state == chunkEnd {
		n = line
	}
	return n, false, true
}

// mayBeLast reports that a line has begun whose digits so far are zeros.
func (c *Chunks) mayBeLast() bool {
	switch c.state {
	case chunkDigits, chunkBlank, chunkExt, chunkLineLF:
		return c.left == 0
	}
	return false
}

// frame consumes one byte of framing; c stays within the line at one that is refused.
func (c *Chunks) frame(b byte) bool {
	switch c.state {
	case chunkSize, chunkDigits:
		d := pinboard.Unhex(b)
		if d < 16 {
			if c.line++; c.line > 15 {
				return false
			}
			c.left, c.state = c.left<<4|int64(d), chunkDigits
			return true
		}
		if c.state == chunkSize {
			return false
		}
		return c.behindSize(b)
	case chunkBlank:
		return (b == ';' || b == ' ' || b == '\t') && c.behindSize(b)
	case chunkExt:
		if b == '\r' {
			c.state = chunkLineLF
			return true
		}
		c.line++
		return isValue[b] && c.line <= maxChunkLine
	case chunkLineLF:
		if b != '\n' {
			return false
		}
		c.state, c.line = chunkData, 0
		if c.left == 0 {
			c.state = chunkEnd
		}
		return true
	case chunkDataCR:
		c.state = chunkDataLF
		return b == '\r'
	case chunkDataLF:
		c.state = chunkSize
		return b == '\n'
	}
	return false
}

// behindSize takes the byte behind the digits: white space is allowed only
// before an extension (RFC 9112 7.1.1).
func (c *Chunks) behindSize(b byte) bool {
	switch b {
	case '\r':
		c.state = chunkLineLF
	case ';':
		c.state = chunkExt
	case ' ', '\t':
		c.state = chunkBlank
	default:
		return false
	}
	c.line++
	return c.line <= maxChunkLine
}
