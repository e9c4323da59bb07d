package h1

import "bytes"

// A Framing says where a message's body ends (RFC 9112 6.3).
type Framing uint8

// The ways a body may end.
const (
	NoBody     Framing = iota
	Length             // after ContentLength bytes
	Chunked            // after the trailer section
	UntilClose         // with the connection; responses only
)

// A claim is what the fields of a head say about where its body ends and what
// becomes of the connection. Requests and responses collect it alike and then
// judge it differently.
type claim struct {
	options
	lengths, codings, upgrades int   // fields of that name
	length                     int64 // of the last Content-Length
	coding                     coding
	websocket                  bool // said by the last Upgrade
}

// read adds a field of kind; false when it is ill-formed. Kinds that claim
// nothing are passed over.
func (c *claim) read(kind Kind, v []byte) (ok bool) {
	switch kind {
	case ContentLength:
		c.lengths++
		c.length, ok = parseLength(v)
		return ok
	case TransferEncoding:
		c.codings++
		c.coding = parseCoding(v)
	case Connection:
		return c.options.read(v)
	case Upgrade:
		c.upgrades++
		c.websocket = EqualFold(v, "websocket")
	}
	return true
}

// ambiguous reports a body that could be read in two ways: both fields, a
// repeated one, or a coding in HTTP/1.0 (RFC 9112 6.1, 6.3, 11.2).
func (c *claim) ambiguous(minor uint8) bool {
	return c.lengths > 1 || c.codings > 1 || c.lengths > 0 && c.codings > 0 || c.codings > 0 && minor == 0
}

// closes reports that the connection ends with this message.
func (c *claim) closes(minor uint8) bool { return c.close || minor == 0 && !c.keepAlive }

// toWebSocket reports one wish to switch to websocket and to nothing else.
func (c *claim) toWebSocket(minor uint8) bool {
	return c.websocket && c.upgrades == 1 && c.upgrade && minor == 1
}

// options is what the Connection fields of a head say.
type options struct {
	close, keepAlive, upgrade, te bool
	listed                        int // names that are none of the well-known options
}

// read adds the elements of one Connection field; false when one is no
// token.
func (o *options) read(v []byte) bool {
	for len(v) > 0 {
		var e []byte
		e, v = element(v)
		if len(e) == 0 {
			continue
		}
		for _, c := range e {
			if !isToken[c] {
				return false
			}
		}
		switch {
		case EqualFold(e, "close"):
			o.close = true
		case EqualFold(e, "keep-alive"):
			o.keepAlive = true
		case EqualFold(e, "upgrade"):
			o.upgrade = true
		case EqualFold(e, "te"):
			o.te = true
		default:
			o.listed++
		}
	}
	return o.listed <= maxListed
}

// element cuts the first element off a comma-separated list.
func element(v []byte) (e, rest []byte) {
	i := 0
	for i < len(v) && v[i] != ',' {
		i++
	}
	e = v[:i]
	if i < len(v) {
		i++
	}
	for len(e) > 0 && (e[0] == ' ' || e[0] == '\t') {
		e = e[1:]
	}
	for len(e) > 0 && (e[len(e)-1] == ' ' || e[len(e)-1] == '\t') {
		e = e[:len(e)-1]
	}
	return e, v[i:]
}

// parseLength reads a Content-Length: digits only, below 10^18.
func parseLength(v []byte) (int64, bool) {
	if len(v) == 0 || len(v) > 18 {
		return 0, false
	}
	var n int64
	for _, c := range v {
		if c < '0' || c > '9' {
			return 0, false
		}
		n = n*10 + int64(c-'0')
	}
	return n, true
}

// A coding is what a Transfer-Encoding field asks for.
type coding uint8

const (
	codingBad         coding = iota // no list, chunked not last or twice
	codingChunked                   // exactly chunked
	codingUnsupported               // others before a final chunked
)

// isCoding reports the name of a coding and, if it has any, parameters without
// quotes: behind those a comma has two readings.
func isCoding(e []byte) bool {
	i := 0
	for i < len(e) && isToken[e[i]] {
		i++
	}
	return i > 0 && bytes.IndexByte(e, '"') < 0 && (i == len(e) || e[i] == ';' || e[i] == ' ' || e[i] == '\t')
}

func parseCoding(v []byte) coding {
	if EqualFold(v, "chunked") {
		return codingChunked
	}
	chunked := false
	for {
		e, rest := element(v)
		switch {
		case chunked:
			return codingBad
		case EqualFold(e, "chunked"):
			chunked = true
		case !isCoding(e):
			return codingBad
		}
		if len(e) == len(v) || len(rest) == 0 {
			// A comma at the very end leaves an empty element behind it.
			if !chunked || v[len(v)-1] == ',' {
				return codingBad
			}
			return codingUnsupported
		}
		v = rest
	}
}
