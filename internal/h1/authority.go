package h1

import (
	"bytes"

	"pinboard"
)

// isAuthority reports whether b is uri-host [":" port] (RFC 9110 7.2, RFC 3986
// 3.2.2): a name, an IPv4 address or a literal in brackets. A name may be empty
// and hold sub-delimiters such as "," and whole escapes.
func isAuthority(b []byte) bool {
	if len(b) > 0 && b[0] == '[' {
		end := bytes.IndexByte(b, ']')
		return end > 0 && isLiteral(b[1:end]) && isPort(b[end+1:])
	}
	for i := 0; i < len(b); i++ {
		switch c := b[i]; {
		case isName[c]:
		case c == '%' && i+2 < len(b) && pinboard.Unhex(b[i+1]) < 16 && pinboard.Unhex(b[i+2]) < 16:
			i += 2
		default:
			return isPort(b[i:])
		}
	}
	return true
}

// isPort reports nothing, or a colon and digits, of which there may be none.
func isPort(b []byte) bool {
	if len(b) == 0 {
		return true
	}
	for _, c := range b[1:] {
		if !digit(c) {
			return false
		}
	}
	return b[0] == ':'
}

// isName are the bytes of a reg-name that stand for themselves.
var isName = func() (t [256]bool) {
	for c := '0'; c <= '9'; c++ {
		t[c] = true
	}
	for c := 'a'; c <= 'z'; c++ {
		t[c], t[c-32] = true, true
	}
	for _, c := range "-._~!$&'()*+,;=" {
		t[c] = true
	}
	return t
}()

// isLiteral reports an IPv6 address, or an address of a later version: "v", its
// number, ".", and what may stand in a name or is a colon.
func isLiteral(b []byte) bool {
	if len(b) == 0 || b[0]|0x20 != 'v' {
		return isIPv6(b)
	}
	i := 1
	for i < len(b) && pinboard.Unhex(b[i]) < 16 {
		i++
	}
	if i == 1 || i+1 >= len(b) || b[i] != '.' {
		return false
	}
	for _, c := range b[i+1:] {
		if !isName[c] && c != ':' {
			return false
		}
	}
	return true
}

// isIPv6 reports eight groups of one to four digits, one run of which may be
// left out, and the last two of which may be an IPv4 address.
func isIPv6(b []byte) bool {
	groups, gap := 0, false
	for i := 0; i < len(b); {
		if b[i] == ':' {
			if gap || i+1 == len(b) || b[i+1] != ':' {
				return false
			}
			gap, i = true, i+2
			continue
		}
		end := i
		for end < len(b) && pinboard.Unhex(b[end]) < 16 {
			end++
		}
		if end < len(b) && b[end] == '.' {
			if !isIPv4(b[i:]) {
				return false
			}
			groups += 2 // and it is the last part
			break
		}
		if end == i || end-i > 4 {
			return false
		}
		groups++
		switch i = end; {
		case i == len(b):
		case b[i] != ':' || i+1 == len(b):
			return false
		case b[i+1] != ':':
			i++
		}
	}
	return groups == 8 && !gap || gap && groups < 8
}

// isIPv4 reports four numbers of up to 255 without leading zeros.
func isIPv4(b []byte) bool {
	for part := 0; ; part++ {
		n, i := 0, 0
		for i < len(b) && i < 3 && digit(b[i]) {
			n = n*10 + int(b[i]-'0')
			i++
		}
		if i == 0 || n > 255 || i > 1 && b[0] == '0' {
			return false
		}
		if i == len(b) {
			return part == 3
		}
		if b[i] != '.' || part == 3 {
			return false
		}
		b = b[i+1:]
	}
}
