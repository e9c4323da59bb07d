package outbound

import (
	"net/netip"
	"net/url"
	"strings"
	"testing"
)

// FC-56 and FC-67: what is an advertise URL, and the one form it is kept in.
func TestParseURL(t *testing.T) {
	for raw, want := range map[string]Target{
		"http://w1:8000":               {"http://w1:8000", "w1", ""},
		"http://w1:8000/":              {"http://w1:8000", "w1", ""},
		"http://w1:8000//":             {"http://w1:8000", "w1", ""},
		"http://w1/base":               {"http://w1/base", "w1", "/base"},
		"http://w1/base/":              {"http://w1/base", "w1", "/base"},
		"http://w1/b%2Fx":              {"http://w1/b%2Fx", "w1", "/b%2Fx"},
		"http://w1//b":                 {"http://w1//b", "w1", "//b"},
		"HTTP://W1.Internal:80":        {"http://w1.internal", "w1.internal", ""},
		"https://w1:443":               {"https://w1", "w1", ""},
		"https://w1:80":                {"https://w1:80", "w1", ""},
		"http://w1.svc.cluster.local.": {"http://w1.svc.cluster.local.", "w1.svc.cluster.local", ""},
		"http://localhost:1":           {"http://localhost:1", "localhost", ""},
		"http://127.0.0.1:0080":        {"http://127.0.0.1", "127.0.0.1", ""},
		"http://[::1]:8000":            {"http://[::1]:8000", "::1", ""},
		"http://[::1]":                 {"http://[::1]", "::1", ""},
		"http://[0:0:0:0:0:0:0:1]":     {"http://[::1]", "::1", ""},
		"http://[fe80::1%25lo]:8":      {"http://[fe80::1%25lo]:8", "fe80::1%lo", ""},
		"http://under_score:1":         {"http://under_score:1", "under_score", ""},
		"http://w1:65535":              {"http://w1:65535", "w1", ""},
	} {
		got, err := ParseURL(raw)
		if err != nil || got != want {
			t.Errorf("%s: %+v %v", raw, got, err)
		}
		if again, err := ParseURL(got.URL); err != nil || again != got {
			t.Errorf("%s: the stored form changes when read again: %+v %v", raw, again, err)
		}
	}
	for _, raw := range []string{
		"", " ", "w1", "w1:8000", "//w1", "http:/w1", "http:w1", "http://", "http:///x", "http://:80",
		"file:///etc/passwd", "ftp://w1", "javascript:alert(1)", "unix:/path", "unix:///path", "ws://w1", "gopher://w1",
		"http://u:p@h", "http://u@h", "http://@h", "http://h@", "http://h:1@evil:2",
		"http://h?", "http://h/?", "http://h/a?b", "http://h#", "http://h/a#c", "http://h/a?b#c",
		`http://h\@evil`, `http://h\a`, "http://h/\r\nX: y", "http://h\x00", "http://h\t", "http://h /", "http://h/ä", "http://ä",
		"http://h:", "http://h:0", "http://h:65536", "http://h:-1", "http://h:+1", "http://h:80a", "http://h:1:2", "http://h:99999999999",
		"http://::1", "http://::1:80", "http://[::1", "http://::1]", "http://[]", "http://[w1]", "http://[127.0.0.1]", "http://[::1]x", "http://[::1]:", "http://[::g]",
		"http://[fe80::1%25]", "http://[fe80::1%25%20]", "http://[fe80::1%25a/b]", "http://[fe80::1%25a%25]", "http://[fe80::1%25a:80]",
		"http://2852039166/", "http://0xa9fea9fe/", "http://0xA9.0xFE.0xA9.0xFE/", "http://169.254.43518/", "http://0251.0376.0251.0376/",
		"http://169.254.169.254./", "http://1.2.3.4.5", "http://1.2.3.256", "http://w.1", "http://0x", "http://%31%36%39.254.169.254",
		"http://a..b", "http://.a", "http://a/../b", "http://a/./b", "http://a/%2e%2E/b", "http://a/x%2f..%2fb", "http://a/%5c..", "http://a/..", "http://h/%zz", "http://h/%",
		"http://" + strings.Repeat("a", 64), "http://" + strings.Repeat("a.", 130) + "b", "http://h/" + strings.Repeat("a", 10_000),
	} {
		if got, err := ParseURL(raw); err == nil {
			t.Errorf("%.80q accepted as %+v", raw, got)
		} else if !strings.HasPrefix(err.Error(), "advertiseUrl: ") {
			t.Errorf("%.80q: %v does not name the field", raw, err)
		}
	}
}

func TestPolicy(t *testing.T) {
	def := Policy{}
	private := Policy{Allow: prefixes("10.0.0.0/8", "fd00::/8"), Deny: prefixes("10.9.0.0/16")}
	lifted := Policy{Allow: prefixes("169.254.0.0/16", "fe80::/10")}
	for _, c := range []struct {
		policy Policy
		addr   string
		ok     bool
	}{
		{def, "127.0.0.1", true}, {def, "::1", true}, {def, "10.0.0.7", true}, {def, "192.0.2.1", true}, {def, "2001:db8::1", true}, {def, "fd12::1", true},
		{def, "169.254.169.254", false}, {def, "169.254.0.1", false}, {def, "::ffff:169.254.169.254", false}, {def, "fe80::1", false}, {def, "fe80::1%lo", false},
		{def, "fd00:ec2::254", false}, {def, "100.100.100.200", false}, {def, "64:ff9b::a9fe:a9fe", false}, {def, "2002:a9fe:a9fe::1", false}, {def, "::169.254.169.254", false},
		{def, "168.63.129.16", false}, {def, "168.63.129.17", true}, {def, "::ffff:168.63.129.16", false}, {def, "fd20:ce::254", false}, {def, "fd20:ce::253", true},
		{def, "2001::1", false}, {def, "2001:0:a9fe:a9fe::1", false}, {def, "2001:1::1", true},
		{def, "::ffff:0:169.254.169.254", false}, {def, "::ffff:0:10.0.0.1", true}, {def, "64:ff9b:1::a9fe:a9fe", false}, {def, "64:ff9b:2::1", true},
		{def, "2001:db8::5efe:169.254.1.1", false}, {def, "2001:db8::200:5efe:169.254.1.1", false}, {def, "2001:db8::5efe:10.0.0.1", true}, {def, "2002:a83f:8110::1", false},
		{def, "0.0.0.0", false}, {def, "::", false}, {def, "224.0.0.1", false}, {def, "255.255.255.255", false}, {def, "ff02::1", false},
		{private, "10.1.2.3", true}, {private, "::ffff:10.1.2.3", true}, {private, "fd00::7", true}, {private, "10.9.2.3", false}, {private, "::ffff:10.9.2.3", false},
		{private, "127.0.0.1", false}, {private, "192.0.2.1", false}, {private, "169.254.169.254", false},
		{lifted, "169.254.10.1", true}, {lifted, "fe80::1%eth0", true}, {lifted, "10.0.0.1", false},
	} {
		if err := c.policy.Addr(netip.MustParseAddr(c.addr)); (err == nil) != c.ok {
			t.Errorf("%+v %s: %v", c.policy, c.addr, err)
		}
	}
	for raw, ok := range map[string]bool{
		"http://169.254.169.254/": false, "http://[::ffff:169.254.169.254]/": false, "http://[fe80::1%25lo]:80": false,
		"http://127.0.0.1:1": true, "http://metadata.google.internal": true, // a name is judged when dialled
	} {
		target, err := ParseURL(raw)
		if err != nil {
			t.Fatal(raw, err)
		}
		if err := def.Literal(target); (err == nil) != ok {
			t.Errorf("%s: %v", raw, err)
		}
	}
	for _, bad := range [][2]string{{"unix", "/path"}, {"udp4", "10.0.0.1:1"}, {"tcp", "10.0.0.1"}, {"tcp", "name:80"}, {"tcp6", "[fe80::1%lo]:80"}} {
		if def.Control(t.Context(), bad[0], bad[1], nil) == nil {
			t.Errorf("dialled %v", bad)
		}
	}
}

// Whatever is accepted is a URL that net/url reads the same way, without any
// part that must not be there, and its form is stable.
func FuzzParseURL(f *testing.F) {
	for _, s := range []string{"http://w1:8000/base/", "HTTPS://[::1%25lo]:1/b%2Fx", "http://1.2.3.4", "http://a@b", "http://0x7f.1/", "HTTP://[::%25%20]"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, raw string) {
		got, err := ParseURL(raw)
		if err != nil {
			return
		}
		u, err := url.Parse(got.URL)
		if err != nil || u.User != nil || u.RawQuery != "" || u.ForceQuery || u.Fragment != "" || u.Host == "" || u.EscapedPath() != got.Path {
			t.Fatalf("%q -> %+v, net/url reads %+v %v", raw, got, u, err)
		}
		if strings.TrimSuffix(u.Hostname(), ".") != got.Host {
			t.Fatalf("%q: host %q, net/url says %q", raw, got.Host, u.Hostname())
		}
		if again, err := ParseURL(got.URL); err != nil || again != got {
			t.Fatalf("%q: %+v, read again %+v %v", raw, got, again, err)
		}
	})
}
