package h1

import (
	"net/netip"
	"strings"
	"testing"
)

func TestAuthorities(t *testing.T) {
	for _, good := range []string{
		"", "h", "h:", "h:80", ":80", "a,b", "a;b=c", "a!$&'()*+,;=b", "_x.Y-z~", "%41%7a.b", "%e2%82%ac:1", "1.2.3.4:5",
		"[::1]", "[::1]:80", "[::]", "[1:2:3:4:5:6:7:8]:", "[::ffff:1.2.3.4]", "[v1.a:b]", "[vF0.~]:1", "999.999.999.999",
	} {
		if !isAuthority([]byte(good)) {
			t.Errorf("%q was refused", good)
		}
	}
	for _, bad := range []string{
		"[", "]", "[]", "[::1", "::1", "a:b:c", "a:b", "a:8b", "a:1:2", "%zz", "%", "%4", "%4g", "a%", "a b", "a@b", "a/b", "a?b", "a#b", `a\b`, "a[::1]",
		"[::1]a", "[::1]:b", "[::1]:1:2", "[1:2]", "[:::]", "[1::2::3]", "[12345::]", "[fe80::1%25lo]", "[::1.2.3]", "[::1.2.3.256]", "[::1.2.3.4:1]",
		"[v.a]", "[v1.]", "[v1a]", "[g::]", "[h]", "é", "a\x00b", "a\tb", "<a>", "{a}", "a|b", "a^b", "a`b", "\"a\"",
	} {
		if isAuthority([]byte(bad)) {
			t.Errorf("%q was taken", bad)
		}
	}
}

// FuzzIPv6 holds the reading of addresses against net/netip.
func FuzzIPv6(f *testing.F) {
	for _, s := range []string{
		"::", "::1", "1::", "1::8", "1:2:3:4:5:6:7:8", "1:2:3:4:5:6:7::", "::2:3:4:5:6:7:8", "1:2:3:4::5:6:7:8", "1:2:3:4:5:6:1.2.3.4", "::1.2.3.4", "1:2:3:4:5:6:7:1.2.3.4",
		":1", "1:", ":", ":::", "1:::2", "1::2::3", "::01.2.3.4", "::1.2.3.4.5", "1.2.3.4", "00001::", "ABCD::", "::.1", "1:2:3:4:5:6:7", "1:2:3:4:5:6:7:8:9",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		a, err := netip.ParseAddr(s)
		want := err == nil && a.Is6() && !strings.Contains(s, "%")
		if got := isIPv6([]byte(s)); got != want {
			t.Errorf("%q: %v, net/netip %v (%v)", s, got, want, err)
		}
	})
}
