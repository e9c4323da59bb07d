package pinboard

import "strings"

// MaxID is the longest id in bytes.
const MaxID = 256

// An Address is the target of an instance request: namespace, id, and what
// follows. Namespace+"/"+ID+Rest is the request path byte for byte.
type Address struct {
	Namespace string // "/threads" or "/a/b", as registered
	ID        string // [A-Za-z0-9._~-]{1,256}, never decoded; "" when the path names none
	Rest      string // path bytes after the id, "" or beginning with "/"
}

// Path is the path as it was received.
func (a Address) Path() string {
	if a.ID == "" {
		return a.Namespace + a.Rest
	}
	return a.Namespace + "/" + a.ID + a.Rest
}

// InNamespace reports whether path lies in the namespace: they are equal, or
// the path goes on with a new segment.
func InNamespace(path, namespace string) bool {
	return strings.HasPrefix(path, namespace) && (len(path) == len(namespace) || path[len(namespace)] == '/')
}

// A Prefix answers how many bytes of path are a registered namespace that ends
// on a segment boundary, longest first; 0 when none is.
type Prefix func(path string) int

// ParseAddress splits the path of a request target (no query, beginning with
// "/"). A namespace that prefix does not know is the first segment. The id is
// judged before anything else: InvalidID. An absent or empty id is no error
// here, ID is "" and the resolver says UnknownNamespace or InvalidID. A rest
// that climbs above the instance is PathLeavesInstance.
func ParseAddress(path string, prefix Prefix) (Address, *Refusal) {
	if path == "" || path[0] != '/' {
		return Address{}, BadRequest
	}
	n := 0
	if prefix != nil {
		n = prefix(path)
	}
	if n == 0 {
		n = segmentEnd(path, 1)
	}
	a := Address{Namespace: path[:n]}
	if n == len(path) {
		return a, nil
	}
	end := segmentEnd(path, n+1)
	id := path[n+1 : end]
	if id == "" {
		a.Rest = path[n:]
		return a, nil
	}
	if !ValidID(id) {
		return Address{}, InvalidID
	}
	a.ID, a.Rest = id, path[end:]
	if climbs(a.Rest) {
		return Address{}, PathLeavesInstance
	}
	return a, nil
}

// ValidID reports whether s is an id a client may name. "." and ".." are not:
// anything on the way may resolve them.
func ValidID(s string) bool {
	if s == "" || len(s) > MaxID || s == "." || s == ".." {
		return false
	}
	for i := 0; i < len(s); i++ {
		if !idByte[s[i]] {
			return false
		}
	}
	return true
}

var idByte = func() (t [256]bool) {
	for _, c := range "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._~-" {
		t[c] = true
	}
	return t
}()

func segmentEnd(path string, from int) int {
	if i := strings.IndexByte(path[from:], '/'); i >= 0 {
		return from + i
	}
	return len(path)
}

// climbs reports whether a normalising reader of rest would leave the
// instance. Readers differ in what they decode and whether they merge empty
// segments, so the strictest reading counts: separators and dots in literal
// and escaped form, empty segments giving no depth.
func climbs(rest string) bool {
	if strings.IndexByte(rest, '.') < 0 && !strings.Contains(rest, "%2e") && !strings.Contains(rest, "%2E") {
		return false
	}
	depth, dots, other, empty := 0, 0, false, true
	end := func() bool {
		switch {
		case !other && dots == 2:
			depth--
		case !other && dots == 1, empty:
		default:
			depth++
		}
		dots, other, empty = 0, false, true
		return depth < 0
	}
	for i := 0; i < len(rest); {
		c, n := unescape(rest, i)
		i += n
		switch {
		case c == '/' || c == '\\':
			if end() {
				return true
			}
			continue
		case c == '.':
			dots++
		default:
			other = true
		}
		empty = false
	}
	return end()
}

// unescape reads one byte at i, decoding %2e, %2f and %5c only.
func unescape(s string, i int) (c byte, n int) {
	if s[i] == '%' && i+2 < len(s) {
		switch s[i+1 : i+3] {
		case "2e", "2E":
			return '.', 3
		case "2f", "2F":
			return '/', 3
		case "5c", "5C":
			return '\\', 3
		}
	}
	return s[i], 1
}

// reserved are first segments that belong to Pinboard itself.
var reserved = map[string]bool{
	"registry": true, "healthz": true, "readyz": true, "metrics": true, "_pinned": true, "dashboard": true,
}

// ValidNamespace reports whether a worker may register ns: "/" plus one or
// more segments of visible ASCII without "%", "?", "#", `\` and ";", no empty
// or dot segment, the first not one of Pinboard's own names, 256 bytes at most.
func ValidNamespace(ns string) bool {
	if len(ns) < 2 || len(ns) > MaxID || ns[0] != '/' {
		return false
	}
	for i, seg := range strings.Split(ns[1:], "/") {
		if seg == "" || seg == "." || seg == ".." || i == 0 && reserved[strings.ToLower(seg)] {
			return false
		}
		for j := 0; j < len(seg); j++ {
			if c := seg[j]; c <= ' ' || c >= 0x7f || strings.IndexByte(`%?#\;"<>`, c) >= 0 {
				return false
			}
		}
	}
	return true
}

// ReservedWake reports whether rest is exactly the wake route once decoded:
// a client's POST there would skip the app's own authorisation.
func ReservedWake(rest string) bool {
	if rest == "/_wake" {
		return true
	}
	if strings.IndexByte(rest, '%') < 0 {
		return false
	}
	var b strings.Builder
	for i := 0; i < len(rest); i++ {
		if rest[i] == '%' && i+2 < len(rest) {
			if h, l := Unhex(rest[i+1]), Unhex(rest[i+2]); h < 16 && l < 16 {
				b.WriteByte(h<<4 | l)
				i += 2
				continue
			}
		}
		b.WriteByte(rest[i])
	}
	return b.String() == "/_wake"
}

// Unhex is the value of a hexadecimal digit, 255 for any other byte.
func Unhex(c byte) byte { return unhex[c] }

var unhex = func() (t [256]byte) {
	for i := range t {
		t[i] = 255
	}
	for i := byte(0); i < 10; i++ {
		t['0'+i] = i
	}
	for i := byte(0); i < 6; i++ {
		t['a'+i], t['A'+i] = 10+i, 10+i
	}
	return t
}()
