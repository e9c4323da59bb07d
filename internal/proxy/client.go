package proxy

import (
	"bytes"
	"fmt"
	"net/netip"
	"strings"

	"pinboard/internal/h1"
)

// An Affinity is what makes one worker preferred for a client's new ids.
type Affinity struct {
	by   affinityBy
	name string
}

type affinityBy uint8

const (
	byIP affinityBy = iota // the zero Affinity
	byHeader
	byCookie
	byQuery
	byNothing
)

// ParseAffinity reads "ip", "none", "header:Name", "cookie:name" or
// "query:name".
func ParseAffinity(s string) (Affinity, error) {
	kind, name, _ := strings.Cut(s, ":")
	a := Affinity{name: name}
	switch kind {
	case "ip", "":
		a.by = byIP
	case "none":
		a.by = byNothing
	case "header":
		a.by, a.name = byHeader, strings.ToLower(name)
	case "cookie":
		a.by = byCookie
	case "query":
		a.by = byQuery
	default:
		return Affinity{}, fmt.Errorf("affinity %q: want ip, header:Name, cookie:name, query:name or none", s)
	}
	if (a.by == byIP || a.by == byNothing) != (name == "") {
		return Affinity{}, fmt.Errorf("affinity %q: want ip, header:Name, cookie:name, query:name or none", s)
	}
	return a, nil
}

// A client is the peer of a connection as the forwarding headers need it.
type client struct {
	addr    netip.Addr
	text    string // "" when the peer has no IP address
	trusted bool
	last    string // the affinity key used last: most requests repeat it
}

func (c *client) init(addr netip.Addr, trusted []netip.Prefix) {
	c.addr = addr
	if addr.IsValid() {
		c.text = addr.String()
	}
	c.trusted = isTrusted(addr, trusted)
}

func isTrusted(a netip.Addr, trusted []netip.Prefix) bool {
	for _, p := range trusted {
		if p.Contains(a) {
			return true
		}
	}
	return false
}

// keep returns b as a string, the one of the last request if it is the same.
func (c *client) keep(b []byte) string {
	if string(b) != c.last {
		c.last = string(b)
	}
	return c.last
}

// affinity is the key of one request; "" when it bears none.
func (x *exchange) affinity(a Affinity) string {
	c := &x.c.peer
	switch a.by {
	case byIP:
		return x.clientIP()
	case byHeader:
		for _, f := range x.req.Fields {
			if h1.EqualFold(f.Name.Of(x.head), a.name) {
				return c.keep(f.Value.Of(x.head))
			}
		}
	case byCookie:
		for _, f := range x.req.Fields {
			if h1.EqualFold(f.Name.Of(x.head), "cookie") {
				if v, ok := pair(f.Value.Of(x.head), ';', a.name); ok {
					return c.keep(v)
				}
			}
		}
	case byQuery:
		if q := x.req.Query.Of(x.head); len(q) > 0 {
			if v, ok := pair(q[1:], '&', a.name); ok {
				return c.keep(v)
			}
		}
	}
	return ""
}

// pair finds name=value in a list; the bytes are compared as they came.
func pair(list []byte, sep byte, name string) ([]byte, bool) {
	for len(list) > 0 {
		e := list
		if i := bytes.IndexByte(list, sep); i >= 0 {
			e, list = list[:i], list[i+1:]
		} else {
			list = nil
		}
		e = bytes.TrimLeft(e, " \t")
		if len(e) > len(name) && e[len(name)] == '=' && string(e[:len(name)]) == name {
			return e[len(name)+1:], true
		}
	}
	return nil, false
}

// clientIP is the rightmost hop that no trusted proxy vouches for. Only a
// trusted peer's X-Forwarded-For is read at all.
func (x *exchange) clientIP() string {
	c := &x.c.peer
	if !c.trusted || !x.req.Has.Has(h1.ForwardedFor) {
		return c.text
	}
	hop, found := c.addr, false
	for i := len(x.req.Fields) - 1; i >= 0; i-- {
		f := &x.req.Fields[i]
		if f.Kind != h1.ForwardedFor {
			continue
		}
		v := f.Value.Of(x.head)
		for len(v) > 0 {
			var e []byte
			if j := bytes.LastIndexByte(v, ','); j >= 0 {
				e, v = v[j+1:], v[:j]
			} else {
				e, v = v, nil
			}
			a, ok := parseHop(bytes.TrimSpace(e))
			if !ok {
				return x.hopText(hop, found)
			}
			hop, found = a, true
			if !isTrusted(a, x.c.p.cfg.Trusted) {
				return x.hopText(hop, found)
			}
		}
	}
	return x.hopText(hop, found)
}

func (x *exchange) hopText(hop netip.Addr, found bool) string {
	if !found {
		return x.c.peer.text
	}
	var b [64]byte
	return x.c.peer.keep(hop.AppendTo(b[:0]))
}

// parseHop reads an element of X-Forwarded-For: an address, maybe with a port.
func parseHop(e []byte) (netip.Addr, bool) {
	if len(e) == 0 || len(e) > 64 {
		return netip.Addr{}, false
	}
	s := string(e) // does not escape: no allocation
	if s[0] == '[' || strings.Count(s, ":") == 1 {
		if ap, err := netip.ParseAddrPort(s); err == nil {
			return ap.Addr().Unmap().WithZone(""), true
		}
		s = strings.Trim(s, "[]")
	}
	a, err := netip.ParseAddr(s)
	return a.Unmap().WithZone(""), err == nil
}

// appendForwarded appends X-Forwarded-For, -Host and -Proto by the stated
// trust policy. The lines it replaces are in forwardedKinds.
func (x *exchange) appendForwarded(dst []byte) []byte {
	c := &x.c.peer
	if c.text != "" || c.trusted {
		dst = append(dst, "X-Forwarded-For: "...)
		if c.trusted && x.req.Has.Has(h1.ForwardedFor) {
			for _, f := range x.req.Fields {
				if f.Kind == h1.ForwardedFor && !f.Value.Empty() {
					dst = append(dst, f.Value.Of(x.head)...)
					dst = append(dst, ", "...)
				}
			}
		}
		dst = append(dst, c.text...)
		dst = append(dst, "\r\n"...)
	}
	if !c.trusted || !x.req.Has.Has(h1.ForwardedHost) {
		if site := x.site(); len(site) > 0 {
			dst = append(dst, "X-Forwarded-Host: "...)
			dst = append(dst, site...)
			dst = append(dst, "\r\n"...)
		}
	}
	if !c.trusted || !x.req.Has.Has(h1.ForwardedProto) {
		dst = append(dst, "X-Forwarded-Proto: http\r\n"...)
	}
	return dst
}

var (
	replacedIfTrusted   = h1.SetOf(h1.ForwardedFor)
	replacedIfUntrusted = h1.SetOf(h1.ForwardedFor, h1.ForwardedHost, h1.ForwardedProto, h1.Forwarded, h1.RealIP)
)

func (c *client) replaced() h1.Set {
	if c.trusted {
		return replacedIfTrusted
	}
	return replacedIfUntrusted
}

// site is the authority the request was made for (RFC 9112 3.2.2, 3.2.1).
func (x *exchange) site() []byte {
	if !x.req.Authority.Empty() {
		return x.req.Authority.Of(x.head)
	}
	return x.req.Host.Of(x.head)
}
