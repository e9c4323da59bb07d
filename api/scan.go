package api

// A scan walks over JSON text without copying it. The text is known to be
// well-formed where it matters: json.Unmarshal checks a body before it hands it
// to a type. On any other text a scan ends early; it never reads past the end.
type scan struct {
	b []byte
	i int
}

// next skips white space, and a comma where one may stand, and returns the
// first byte behind them without consuming it; 0 at the end.
func (s *scan) next() byte {
	for ; s.i < len(s.b); s.i++ {
		switch s.b[s.i] {
		case ' ', '\t', '\r', '\n', ',':
		default:
			return s.b[s.i]
		}
	}
	return 0
}

// value consumes one value and returns its text, empty at the end.
func (s *scan) value() []byte {
	s.next()
	start, depth := s.i, 0
	for ; s.i < len(s.b); s.i++ {
		switch s.b[s.i] {
		case '"':
			s.text()
		case '{', '[':
			depth++
		case '}', ']':
			if depth--; depth < 0 {
				return s.b[start:s.i]
			}
		case ',', ':', ' ', '\t', '\r', '\n':
			if depth == 0 {
				return s.b[start:s.i]
			}
			continue
		default:
			continue
		}
		if depth == 0 {
			s.i++
			return s.b[start:s.i]
		}
	}
	return s.b[start:]
}

// text goes to the closing quote of the string that begins here.
func (s *scan) text() {
	for s.i++; s.i < len(s.b) && s.b[s.i] != '"'; s.i++ {
		if s.b[s.i] == '\\' {
			s.i++
		}
	}
	s.i = min(s.i, len(s.b)-1)
}

// members calls f for each member of the object, in order, until f says no. It
// reports whether the text is an object.
func members(b []byte, f func(name, value []byte) (more bool)) bool {
	s := scan{b: b}
	if s.next() != '{' {
		return false
	}
	s.i++
	for s.next() == '"' {
		name := s.value()
		if s.next() != ':' {
			break
		}
		s.i++
		if !f(name, s.value()) {
			break
		}
	}
	return true
}

// elements calls f for each element of the list, in order, until f says no. It
// reports whether the text is a list.
func elements(b []byte, f func(value []byte) (more bool)) bool {
	s := scan{b: b}
	if s.next() != '[' {
		return false
	}
	s.i++
	for c := s.next(); c != 0 && c != ']'; c = s.next() {
		value := s.value()
		if len(value) == 0 || !f(value) {
			break
		}
	}
	return true
}
