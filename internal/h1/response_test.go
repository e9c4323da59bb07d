package h1

import "testing"

func TestKeepAliveHints(t *testing.T) {
	for _, test := range []struct {
		field   string
		idleFor int
		close   bool
	}{
		{"timeout=5, max=100", 5, false}, {"max=100 , TIMEOUT=2 ", 2, false}, {"timeout=0", 0, true}, {"timeout=", 0, false},
		{"timeout=-1", 0, false}, {"timeout=x", 0, false}, {"timeout", 0, false}, {"xtimeout=3", 0, false}, {"", 0, false}, {"timeout=999999999999", maxIdle, false},
	} {
		in := []byte("HTTP/1.1 200 OK\r\nKeep-Alive: " + test.field + "\r\nContent-Length: 0\r\n\r\n")
		var r Response
		if !ParseResponse(in, false, &r) || r.IdleFor != test.idleFor || r.Close != test.close {
			t.Errorf("%q: %d, close %v", test.field, r.IdleFor, r.Close)
		}
	}
}
