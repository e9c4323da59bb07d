package h1

import (
	"fmt"
	"strings"
	"testing"
)

// Data comes out of a body whole, however the body arrives and however little
// of it is asked for.
func TestBodyReadInPieces(t *testing.T) {
	const chunked = "5\r\nhello\r\n1;a=b\r\n \r\n05\r\nworld\r\n00;c\r\nX-Sum: 1\r\nHost: h\r\n\r\n"
	for _, test := range []struct {
		in, last string
		body     Body
	}{
		{chunked, "00;c\r\nX-Sum: 1\r\n\r\n", NewBody(Chunked, 0)},
		{"hello world", "", NewBody(Length, 11)},
	} {
		for arrive := 1; arrive <= len(test.in); arrive++ {
			for ask := 1; ask <= 12; ask++ {
				body, in, n, arrived := test.body, test.in+"next", 0, 0
				var data, last strings.Builder
				for p := make([]byte, ask); !body.Ended(); {
					m, used, ok := body.Read(p, []byte(in[n:arrived]))
					data.Write(p[:m])
					if n += used; !ok {
						t.Fatalf("%d/%d: refused at %q", arrive, ask, in[n:])
					}
					if body.AtLast() {
						out, k, ok := body.TakeLast([]byte(in[n:arrived]), nil)
						last.Write(out)
						if n += k; !ok {
							t.Fatalf("%d/%d: trailers refused", arrive, ask)
						}
					}
					if used == 0 && !body.Ended() {
						if arrived == len(in) {
							t.Fatalf("%d/%d: stuck at %q", arrive, ask, in[n:])
						}
						arrived = min(arrived+arrive, len(in))
					}
				}
				if got := fmt.Sprint(data.String(), last.String(), in[n:]); got != "hello world"+test.last+"next" {
					t.Fatalf("%d/%d: %q", arrive, ask, got)
				}
			}
		}
	}
}

// A trailer section that comes in pieces is searched once, not once a piece.
func TestTrailersAreSearchedOnce(t *testing.T) {
	body, in := NewBody(Chunked, 0), "0\r\nX: a long trailer\r\n\r\n"
	if n, _, ok := body.Read(nil, []byte(in)); n != 0 || !ok || !body.AtLast() {
		t.Fatalf("%d, %v", n, ok)
	}
	for n := len("0\r\n"); n < len(in); n++ {
		if _, m, ok := body.TakeLast([]byte(in[:n]), nil); m != 0 || !ok {
			t.Fatalf("%q: %d, %v", in[:n], m, ok)
		}
		if body.scan.pos != n-len("0\r\n") {
			t.Errorf("%q: searched up to %d", in[:n], body.scan.pos)
		}
	}
	if out, _, ok := body.TakeLast([]byte(in), nil); !ok || string(out) != in || !body.Ended() {
		t.Errorf("%q, %v", out, ok)
	}
}
