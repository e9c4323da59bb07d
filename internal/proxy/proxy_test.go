package proxy_test

import (
	"strings"
	"testing"
)

func TestForwardPassesBytesAndAddsOnlyWhatIsStated(t *testing.T) {
	w := newWorld(t)
	s := newScripted(t, replying("HTTP/1.1 299 Custom Words\r\nx-MiXed: a\r\nDup: 1\r\nDup: 2\r\nContent-Length: 6\r\n\r\n<html>"))
	w.dir.place(s.Worker)
	c := w.dial()
	c.send("GET /t/a//x/%2f?q=%zz;1 HTTP/1.1\r\nhOST: pin.test:80\r\nX-A: 1\r\nCookie: c=d\r\nx-a: 2\r\n\r\n")
	if got, want := c.answer(), (delivery{"HTTP/1.1 299 Custom Words\r\nx-MiXed: a\r\nDup: 1\r\nDup: 2\r\nContent-Length: 6\r\n\r\n", "<html>"}); got != want {
		t.Errorf("client got %q", got)
	}
	want := "GET /t/a//x/%2f?q=%zz;1 HTTP/1.1\r\nhOST: pin.test:80\r\nX-A: 1\r\nCookie: c=d\r\nx-a: 2\r\n" +
		"X-Forwarded-For: 127.0.0.1\r\nX-Forwarded-Host: pin.test:80\r\nX-Forwarded-Proto: http\r\n" +
		"Pinboard-Epoch: 41\r\nPinboard-Attestation: att." + s.Session + "..0\r\n\r\n"
	if got := s.deliveries()[0].head; got != want {
		t.Errorf("worker got\n%q, want\n%q", got, want)
	}
}

func TestKeepAliveReusesBothConnections(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := newScripted(t, replying(okAnswer))
	w.dir.place(s.Worker)
	w.prove()
	c := w.dial()
	for i := range 20 {
		c.send("POST /t/a HTTP/1.1\r\nHost: h\r\nContent-Length: 2\r\n\r\nhi")
		if got := c.answer(); got.body != "ok" {
			t.Fatalf("answer %d: %q", i, got)
		}
	}
	if n := s.connections(); n != 1 {
		t.Errorf("%d upstream connections, want 1", n)
	}
	if n := len(s.deliveries()); n != 22 {
		t.Errorf("%d deliveries, want 22", n)
	}
}

func TestPipelinedRequestsAreAnsweredInOrder(t *testing.T) {
	w := newWorld(t)
	s := newScripted(t, replying(okAnswer))
	w.dir.place(s.Worker)
	c := w.dial()
	c.send(strings.Repeat(get("/t/a"), 50))
	for range 50 {
		if got := c.status(); got != "200 OK" {
			t.Fatal(got)
		}
	}
}
