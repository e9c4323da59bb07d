package pinboard

import (
	"strings"
	"testing"
)

var hostnames = []struct{ authority, want string }{
	{"a.test", "a.test"}, {"A.Test:8080", "a.test"}, {"a.test.", "a.test"}, {"a.test.:80", "a.test"}, {"a.test:", "a.test"},
	{"localhost", "localhost"}, {"127.0.0.1:1", "127.0.0.1"}, {"[::1]", "[::1]"}, {"[2001:DB8::1]:443", "[2001:db8::1]"}, {"a_b.test", "a_b.test"},
	{"", ""}, {".", ""}, {":80", ""}, {"a..test", ""}, {".a", ""}, {"a.test..", ""}, {"a b", ""}, {"a,b", ""}, {"a.test:80:90", ""}, {"a.test:x", ""},
	{"a.test:123456", ""}, {"[::1", ""}, {"[]", ""}, {"[::1]x", ""}, {"::1", ""}, {"[fe80::1%25lo]", ""}, {"u@h", ""}, {"a%2etest", ""}, {"é.test", ""},
	{strings.Repeat("a", 254), ""},
}

func TestHostname(t *testing.T) {
	for _, c := range hostnames {
		if got, ok := Hostname(c.authority); got != c.want || ok != (c.want != "") {
			t.Errorf("%q: %q %v, want %q", c.authority, got, ok, c.want)
		}
	}
}

// A canonical hostname is its own canonical form, whatever it came from, and
// holds nothing that another reader could take for a port, a path or a case.
func FuzzHostname(f *testing.F) {
	for _, c := range hostnames {
		f.Add(c.authority)
	}
	f.Fuzz(func(t *testing.T, authority string) {
		name, ok := Hostname(authority)
		if !ok {
			if name != "" {
				t.Fatalf("%q: refused and %q", authority, name)
			}
			return
		}
		if again, ok := Hostname(name); !ok || again != name {
			t.Errorf("%q: %q, again %q %v", authority, name, again, ok)
		}
		if same, ok := Hostname(strings.ToUpper(name) + ":80"); !ok || same != name {
			t.Errorf("%q: %q in capitals with a port: %q %v", authority, name, same, ok)
		}
		if name == "" || strings.ContainsAny(name, "/@?#%, \t\r\n\\") || name != strings.ToLower(name) || !strings.Contains(strings.ToLower(authority), name) {
			t.Errorf("%q: %q", authority, name)
		}
	})
}
