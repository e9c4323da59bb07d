package rawtest

import (
	"bytes"
	"strconv"
	"strings"
	"time"
)

// A Field is one header or trailer line; Name and Value as they came, without
// the white space around the value.
type Field struct{ Name, Value string }

// A Message is one request or response as it arrived.
type Message struct {
	Raw      []byte // every byte: head, framing, body, trailers
	Head     []byte // through the blank line
	Start    string // first line without its CRLF
	Fields   []Field
	Body     []byte // without chunk framing
	Trailers []Field
	Complete bool // the framing said it was over; a cut message is not
	End      End  // how the connection stood when reading stopped
}

// Get is the first value of a header field, "" without one.
func (m Message) Get(name string) string {
	if v := m.Values(name); len(v) > 0 {
		return v[0]
	}
	return ""
}

// Values are all values of a header field, in order.
func (m Message) Values(name string) []string { return values(m.Fields, name) }

// Trailer are all values of a trailer field, in order.
func (m Message) Trailer(name string) []string { return values(m.Trailers, name) }

// Has reports whether a header field of that name came, even empty.
func (m Message) Has(name string) bool { return len(m.Values(name)) > 0 }

// Method is the first word of a request line.
func (m Message) Method() string { return word(m.Start, 0) }

// Target is the second word of a request line.
func (m Message) Target() string { return word(m.Start, 1) }

// Status is the status code of a response, 0 if nothing readable came.
func (m Message) Status() int {
	n, _ := strconv.Atoi(word(m.Start, 1))
	return n
}

// Reason is what follows the status code.
func (m Message) Reason() string { return word(m.Start, 2) }

func word(line string, i int) string {
	if w := strings.SplitN(line, " ", 3); i < len(w) {
		return w[i]
	}
	return ""
}

func values(fields []Field, name string) (out []string) {
	for _, f := range fields {
		if strings.EqualFold(f.Name, name) {
			out = append(out, f.Value)
		}
	}
	return out
}

// readHead reads through the blank line. A head that never ends is an
// incomplete Message holding what came.
func readHead(w *wire, deadline time.Time) Message {
	head, end := w.through("\r\n\r\n", deadline)
	m := Message{Raw: head, End: end}
	if end != Alive {
		m.Start, _, _ = strings.Cut(string(head), "\r\n")
		return m
	}
	m.Head = bytes.Clone(head)
	start, fields, _ := strings.Cut(strings.TrimSuffix(string(head), "\r\n\r\n"), "\r\n")
	m.Start, m.Fields = start, parseFields(fields)
	return m
}

func parseFields(block string) (out []Field) {
	for line := range strings.SplitSeq(block, "\r\n") {
		if line == "" {
			continue
		}
		name, value, _ := strings.Cut(line, ":")
		out = append(out, Field{name, strings.Trim(value, " \t")})
	}
	return out
}

// framing says how the body behind a head ends.
type framing int

const (
	none framing = iota
	length
	chunked
	untilClose
)

func (m Message) framing(bare framing) (framing, int) {
	te := m.Values("Transfer-Encoding")
	if len(te) > 0 && strings.HasSuffix(strings.ToLower(te[len(te)-1]), "chunked") {
		return chunked, 0
	}
	if n, err := strconv.Atoi(m.Get("Content-Length")); err == nil {
		return length, n
	}
	return bare, 0
}

// requestFraming and responseFraming follow RFC 9112 section 6.3.
func requestFraming(m Message) (framing, int) { return m.framing(none) }

func responseFraming(m Message, method string) (framing, int) {
	s := m.Status()
	if method == "HEAD" || s < 200 || s == 204 || s == 304 {
		return none, 0
	}
	return m.framing(untilClose)
}

// readBody completes m.
func readBody(w *wire, m *Message, f framing, n int, deadline time.Time) {
	switch f {
	case none:
		m.Complete = true
	case length:
		var b []byte
		b, m.End = w.take(n, deadline)
		m.Raw, m.Body = append(m.Raw, b...), b
		m.Complete = len(b) == n
	case chunked:
		readChunks(w, m, deadline)
	case untilClose:
		var b []byte
		b, m.End = w.rest(deadline)
		m.Raw, m.Body = append(m.Raw, b...), b
		m.Complete = m.End == FIN
	}
}

func readChunks(w *wire, m *Message, deadline time.Time) {
	line := func() (string, bool) {
		b, end := w.through("\r\n", deadline)
		m.Raw, m.End = append(m.Raw, b...), end
		return strings.TrimSuffix(string(b), "\r\n"), end == Alive
	}
	for {
		size, ok := line()
		size, _, _ = strings.Cut(size, ";")
		n, err := strconv.ParseUint(strings.TrimSpace(size), 16, 31)
		if !ok || err != nil {
			return
		}
		if n == 0 {
			break
		}
		b, end := w.take(int(n), deadline)
		m.Raw, m.Body, m.End = append(m.Raw, b...), append(m.Body, b...), end
		if uint64(len(b)) < n {
			return
		}
		if crlf, ok := line(); !ok || crlf != "" {
			return
		}
	}
	for {
		t, ok := line()
		if !ok {
			return
		}
		if t == "" {
			m.Complete = true
			return
		}
		m.Trailers = append(m.Trailers, parseFields(t)...)
	}
}
