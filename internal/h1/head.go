// Package h1 reads and writes HTTP/1.1 messages as pure functions over byte
// slices: no I/O, no clock, no goroutine. Every message has one reading or is
// rejected (RFC 9112, the strict choice wherever it leaves one), so that the
// hop behind Pinboard can never count bytes differently.
//
// Parsing allocates nothing once the Fields slices have grown: a head is kept
// as offsets into the buffer it was read from, and header lines are passed on
// as the bytes they came in.
package h1

import "bytes"

// MaxHead is the longest head or trailer section either side may send.
const MaxHead = 64 << 10

// A Span is a range of offsets into the buffer that holds the head.
type Span struct{ Start, End uint32 }

// Of is the span's bytes in the buffer it was parsed from.
func (s Span) Of(b []byte) []byte { return b[s.Start:s.End] }

// Empty reports whether the span holds no byte.
func (s Span) Empty() bool { return s.Start == s.End }

// A Field is one header or trailer line. Name.Start is where the line starts.
type Field struct {
	Name  Span
	Value Span   // without the optional white space around it
	End   uint32 // behind the line's CR LF
	Kind  Kind
}

// A Scan finds the end of a head in a growing buffer, looking at each byte
// once. The zero value is ready; one Scan serves one head.
type Scan struct{ pos, line, first int }

// Find returns the length of the head including its blank line, 0 while the
// blank line is missing. ok is false once a line ends in a bare LF.
func (s *Scan) Find(b []byte) (n int, ok bool) {
	for {
		i := bytes.IndexByte(b[s.pos:], '\n')
		if i < 0 {
			s.pos = len(b)
			return 0, true
		}
		i += s.pos
		if i == 0 || b[i-1] != '\r' {
			return 0, false
		}
		if i-s.line == 1 {
			return i + 1, true
		}
		s.pos, s.line = i+1, i+1
		if s.first == 0 {
			s.first = i + 1
		}
	}
}

// FirstLine is how many bytes of the first line have been seen so far.
func (s *Scan) FirstLine() int {
	if s.first == 0 {
		return s.pos
	}
	return s.first
}

// maxListed bounds the names a Connection field may list, since every field
// is compared with each of them.
const maxListed = 64

// parseFields reads the lines of b from at up to its end, which must be the
// blank line that Scan found; spaced as in parseField.
func parseFields(b []byte, at int, fields []Field, spaced bool) ([]Field, bool) {
	fields = fields[:0]
	for {
		if b[at] == '\r' {
			return fields, at+2 == len(b) && b[at+1] == '\n'
		}
		f, ok := parseField(b, at, spaced)
		if !ok {
			return fields, false
		}
		fields = append(fields, f)
		at = int(f.End)
	}
}

// parseField reads one line. A name is a token directly followed by ":" (so
// an obs-fold or a space before the colon fails, RFC 9112 5.1, 5.2), unless
// spaced allows the latter; a value has no control byte but HTAB; a CR stands
// only before the LF.
func parseField(b []byte, at int, spaced bool) (f Field, ok bool) {
	i := at
	for isToken[b[i]] {
		i++
	}
	if i == at {
		return f, false
	}
	f.Name = Span{uint32(at), uint32(i)}
	f.Kind = kindOf(b[at:i])
	for spaced && (b[i] == ' ' || b[i] == '\t') {
		i++
	}
	if b[i] != ':' {
		return f, false
	}
	i++
	for b[i] == ' ' || b[i] == '\t' {
		i++
	}
	start := i
	for isValue[b[i]] {
		i++
	}
	if b[i] != '\r' || b[i+1] != '\n' {
		return f, false
	}
	f.End = uint32(i + 2)
	for i > start && (b[i-1] == ' ' || b[i-1] == '\t') {
		i--
	}
	f.Value = Span{uint32(start), uint32(i)}
	return f, true
}

// isToken are the bytes of a token (RFC 9110 5.6.2).
var isToken = func() (t [256]bool) {
	for c := '0'; c <= '9'; c++ {
		t[c] = true
	}
	for c := 'a'; c <= 'z'; c++ {
		t[c], t[c-32] = true, true
	}
	for _, c := range "!#$%&'*+-.^_`|~" {
		t[c] = true
	}
	return t
}()

// isValue are the bytes of a field value: HTAB, SP, visible ASCII, obs-text.
var isValue = func() (t [256]bool) {
	t['\t'] = true
	for c := 0x20; c < 0x100; c++ {
		t[c] = c != 0x7f
	}
	return t
}()

// ParseTrailers reads a trailer section at the start of b: its length with
// the blank line, 0 while it is incomplete, ok false when it is malformed or
// longer than MaxHead. s has seen nothing, or what b held at the last call.
// spaced allows white space before a colon, as the heads of responses do.
func ParseTrailers(b []byte, s *Scan, fields []Field, spaced bool) (_ []Field, n int, ok bool) {
	if len(b) >= 2 && b[0] == '\r' && b[1] == '\n' {
		return fields[:0], 2, true
	}
	n, ok = s.Find(b)
	switch {
	case !ok || n > MaxHead || n == 0 && len(b) >= MaxHead:
		return fields[:0], 0, false
	case n == 0:
		return fields[:0], 0, true
	}
	fields, ok = parseFields(b[:n], 0, fields, spaced)
	return fields, n, ok
}
