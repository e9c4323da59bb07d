package outbound

import (
	"context"
	"errors"
	"net/netip"
	"strings"
	"syscall"
)

// A Policy says which addresses Pinboard connects to on a worker's word. The
// zero Policy refuses link-local and metadata addresses and nothing else:
// workers on loopback and in private networks are the normal case.
type Policy struct {
	Allow []netip.Prefix // when not empty, only these; they lift the default refusal
	Deny  []netip.Prefix // refused before anything else
}

// ErrForbidden is a connection that the policy refuses. The text is fit for
// clients: it names no address.
var ErrForbidden = errors.New("advertise URL leads to a refused address")

// refused by default: link-local, where clouds keep their metadata services;
// the metadata addresses outside it; and what is no worker's address at all.
var refused = prefixes(
	"169.254.0.0/16", "fe80::/10",
	"fd00:ec2::/32", "fd20:ce::254/128", // AWS and Google over IPv6
	"100.100.100.200/32", "192.0.0.192/32", "168.63.129.16/32", // Alibaba, Oracle, Azure
	"2001::/32", "64:ff9b:1::/48", // Teredo (RFC 4380), local NAT64 (RFC 8215): which IPv4 address they lead to is not told
	"0.0.0.0/8", "::/128", "224.0.0.0/4", "255.255.255.255/32", "ff00::/8",
)

func prefixes(list ...string) []netip.Prefix {
	out := make([]netip.Prefix, len(list))
	for i, s := range list {
		out[i] = netip.MustParsePrefix(s)
	}
	return out
}

// Addr judges one address, and every IPv4 address that it may stand for.
func (p Policy) Addr(a netip.Addr) error {
	a = a.WithZone("").Unmap()
	for _, face := range append(embedded(a), a) {
		if within(face, p.Deny) || len(p.Allow) == 0 && within(face, refused) {
			return ErrForbidden
		}
	}
	if len(p.Allow) > 0 && !within(a, p.Allow) {
		return ErrForbidden
	}
	return nil
}

func within(a netip.Addr, list []netip.Prefix) bool {
	for _, p := range list {
		if p.Contains(a) {
			return true
		}
	}
	return false
}

var (
	nat64      = netip.MustParsePrefix("64:ff9b::/96")    // RFC 6052
	sixToFour  = netip.MustParsePrefix("2002::/16")       // RFC 3056
	compatible = netip.MustParsePrefix("::/96")           // RFC 4291 section 2.5.5.1
	translated = netip.MustParsePrefix("::ffff:0:0:0/96") // RFC 2765
)

// embedded are the IPv4 addresses that a translating network would reach.
func embedded(a netip.Addr) (list []netip.Addr) {
	if !a.Is6() {
		return nil
	}
	b := a.As16()
	v4 := func(bytes ...byte) { list = append(list, netip.AddrFrom4([4]byte(bytes))) }
	switch {
	case nat64.Contains(a), translated.Contains(a), compatible.Contains(a) && !a.IsLoopback():
		v4(b[12:]...)
	case sixToFour.Contains(a):
		v4(b[2:6]...)
	}
	if b[8]&^2 == 0 && b[9] == 0 && b[10] == 0x5e && b[11] == 0xfe { // ISATAP, RFC 5214
		v4(b[12:]...)
	}
	return list
}

// Literal judges a target whose host is an address literal; names are judged
// when they are dialled.
func (p Policy) Literal(t Target) error {
	a, err := netip.ParseAddr(t.Host)
	if err != nil {
		return nil
	}
	if p.Addr(a) != nil {
		return bad("this address is refused")
	}
	return nil
}

// Control judges the resolved address of every connection just before it is
// made, so that no name can change its meaning after a check. It goes into
// net.Dialer.ControlContext of whatever dials an advertise URL.
func (p Policy) Control(_ context.Context, network, address string, _ syscall.RawConn) error {
	if !strings.HasPrefix(network, "tcp") {
		return ErrForbidden
	}
	ap, err := netip.ParseAddrPort(address)
	if err != nil {
		return ErrForbidden
	}
	return p.Addr(ap.Addr())
}
