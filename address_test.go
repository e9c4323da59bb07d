package pinboard

import (
	"encoding/hex"
	"testing"
)

func TestInNamespace(t *testing.T) {
	for _, c := range []struct {
		path, namespace string
		want            bool
	}{
		{"/a/b", "/a/b", true}, {"/a/b/", "/a/b", true}, {"/a/b/id", "/a/b", true}, {"/a/b//x", "/a/b", true},
		{"/a/bc", "/a/b", false}, {"/a/bc/id", "/a/b", false}, {"/a", "/a/b", false}, {"/A/b/id", "/a/b", false}, {"", "/a", false},
	} {
		if got := InNamespace(c.path, c.namespace); got != c.want {
			t.Errorf("%q in %q: %v", c.path, c.namespace, got)
		}
	}
}

func TestUnhex(t *testing.T) {
	for i := range 256 {
		want := byte(255)
		if b, err := hex.DecodeString("0" + string([]byte{byte(i)})); err == nil {
			want = b[0]
		}
		if got := Unhex(byte(i)); got != want {
			t.Errorf("%q: %d, want %d", byte(i), got, want)
		}
	}
}
