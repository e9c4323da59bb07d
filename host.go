package pinboard

import "strings"

// maxHostname is the longest name DNS can carry (RFC 1035 2.3.4), also enough
// for an IPv6 literal.
const maxHostname = 253

// Hostname is the canonical hostname of an authority (a Host field, or the
// authority of an absolute-form target) and of what workers register: lower
// case, port stripped, brackets of an IPv6 literal kept, one trailing dot
// folded. ok is false for an empty or invalid one.
func Hostname(authority string) (name string, ok bool) {
	name, port := authority, ""
	if strings.HasPrefix(authority, "[") {
		end := strings.IndexByte(authority, ']')
		if end < 0 {
			return "", false
		}
		name, port = authority[:end+1], authority[end+1:]
		if !literal(name[1:end]) || port != "" && port[0] != ':' {
			return "", false
		}
	} else if i := strings.IndexByte(authority, ':'); i >= 0 {
		name, port = authority[:i], authority[i:]
	}
	if !digits(strings.TrimPrefix(port, ":")) {
		return "", false
	}
	if name[:min(1, len(name))] != "[" {
		name = strings.TrimSuffix(name, ".")
		if !labels(name) {
			return "", false
		}
	}
	return strings.ToLower(name), true
}

// labels reports a name of non-empty labels of letters, digits, "-" and "_".
func labels(name string) bool {
	if name == "" || len(name) > maxHostname {
		return false
	}
	last := byte('.')
	for i := 0; i < len(name); i++ {
		c := name[i]
		if c == '.' && last == '.' || c != '.' && c != '-' && c != '_' && !alphanumeric(c) {
			return false
		}
		last = c
	}
	return last != '.'
}

// literal reports the bytes of an IPv6 address, whose form is not ours to judge.
func literal(s string) bool {
	if s == "" || len(s) > 45 {
		return false
	}
	for i := 0; i < len(s); i++ {
		if c := s[i]; c != ':' && c != '.' && Unhex(c) > 15 {
			return false
		}
	}
	return true
}

func digits(s string) bool {
	for i := 0; i < len(s); i++ {
		if s[i] < '0' || s[i] > '9' {
			return false
		}
	}
	return len(s) <= 5
}

func alphanumeric(c byte) bool {
	return '0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
}
