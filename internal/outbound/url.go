package outbound

import (
	"net/netip"
	"net/url"
	"strconv"
	"strings"

	"pinboard/api"
)

// A Target is an advertise URL in the one form Pinboard stores, compares and
// dials: scheme and host lower-cased, default port dropped, no trailing "/".
type Target struct {
	URL  string // what requests append "/<ns>/<id>..." to
	Host string // name or address literal, without port, brackets and trailing dot
	Path string // base path as sent, "" or "/base"
}

// maxURL is beyond every real advertise URL.
const maxURL = 2048

// ParseURL judges the form of an advertise URL (docs/protocol.md): http or
// https, a host that is a name or a proper address literal, no userinfo,
// query, fragment, control or other stray byte. It resolves nothing; which
// addresses are allowed is Policy's business.
func ParseURL(raw string) (Target, error) {
	if raw == "" || len(raw) > maxURL {
		return Target{}, bad("want 1 to 2048 characters")
	}
	for i := range len(raw) {
		if c := raw[i]; c <= ' ' || c >= 0x7f || strings.IndexByte("\\\"<>^`{|}", c) >= 0 {
			return Target{}, bad("want visible ASCII of a URL only")
		}
	}
	scheme, rest, ok := strings.Cut(raw, "://")
	scheme = strings.ToLower(scheme)
	if !ok || scheme != "http" && scheme != "https" {
		return Target{}, bad("want http:// or https://")
	}
	if strings.ContainsAny(rest, "?#") {
		return Target{}, bad("want no query and no fragment")
	}
	authority, path := rest, ""
	if i := strings.IndexByte(rest, '/'); i >= 0 {
		authority, path = rest[:i], strings.TrimRight(rest[i:], "/")
	}
	if strings.Contains(authority, "@") {
		return Target{}, bad("want no user information")
	}
	if _, err := url.Parse(raw); err != nil {
		return Target{}, bad("want a URL")
	}
	if climbing(path) {
		return Target{}, bad("want no dot segments")
	}
	host, port, err := splitAuthority(authority)
	if err != nil {
		return Target{}, err
	}
	name, err := checkHost(host)
	if err != nil {
		return Target{}, err
	}
	printed := name
	if strings.Contains(name, ":") {
		printed = "[" + strings.Replace(name, "%", "%25", 1) + "]"
	}
	if port != "" && !(scheme == "http" && port == "80" || scheme == "https" && port == "443") {
		printed += ":" + port
	}
	return Target{URL: scheme + "://" + printed + path, Host: strings.TrimSuffix(name, "."), Path: path}, nil
}

func bad(want string) error { return &api.FieldError{Field: "advertiseUrl", Want: want} }

// splitAuthority separates the port, which must be a number a worker can
// listen on when it is given.
func splitAuthority(s string) (host, port string, err error) {
	host = s
	if i := strings.LastIndexByte(s, ':'); i >= 0 && !strings.HasSuffix(s, "]") {
		host, port = s[:i], s[i+1:]
		n, err := strconv.ParseUint(port, 10, 16)
		if err != nil || n == 0 {
			return "", "", bad("want a port from 1 to 65535")
		}
		port = strconv.FormatUint(n, 10)
	}
	return host, port, nil
}

// nameBytes may stand in a label of a lower-cased name.
const nameBytes = "abcdefghijklmnopqrstuvwxyz0123456789-_"

// checkHost answers the host as it is compared: an address literal in its
// canonical form, or a lower-cased name. A name that ends in a number is
// refused unless it is four plain octets: resolvers read 2852039166,
// 0xa9fea9fe and 169.254.43518 as addresses.
func checkHost(host string) (string, error) {
	if strings.HasPrefix(host, "[") && strings.HasSuffix(host, "]") {
		a, err := netip.ParseAddr(strings.Replace(host[1:len(host)-1], "%25", "%", 1))
		if err != nil || !a.Is6() {
			return "", bad("want an IPv6 address in brackets")
		}
		if strings.Trim(a.Zone(), nameBytes+"ABCDEFGHIJKLMNOPQRSTUVWXYZ.~") != "" { // RFC 6874, without its escapes
			return "", bad("want a zone of letters, digits and -._~")
		}
		return a.String(), nil
	}
	name := strings.ToLower(host)
	labels := strings.Split(strings.TrimSuffix(name, "."), ".")
	for _, label := range labels {
		if label == "" || len(label) > 63 || strings.Trim(label, nameBytes) != "" {
			return "", bad("want a host name or address")
		}
	}
	last := labels[len(labels)-1]
	if strings.Trim(last, "0123456789") == "" || strings.HasPrefix(last, "0x") {
		if a, err := netip.ParseAddr(name); err != nil || !a.Is4() {
			return "", bad("want an IPv4 address of four decimal octets")
		}
	}
	if len(name) > 254 {
		return "", bad("want a host name of at most 253 characters")
	}
	return name, nil
}

// climbing reports a dot segment, literal or escaped: the target is this path
// and the request's joined, and something on the way may resolve it.
func climbing(path string) bool {
	plain := strings.NewReplacer("%2e", ".", "%2E", ".", "%2f", "/", "%2F", "/", "%5c", "/", "%5C", "/").Replace(path)
	for _, seg := range strings.Split(plain, "/") {
		if seg == "." || seg == ".." {
			return true
		}
	}
	return false
}
