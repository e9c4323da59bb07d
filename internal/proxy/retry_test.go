package proxy_test

import (
	"bufio"
	"io"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"pinboard"
	"pinboard/internal/directory"
	"pinboard/internal/ownership"
)

const refused = "HTTP/1.1 503 Service Unavailable\r\nRetry-After: 1\r\nPinned-Refusal: lease-unhealthy\r\nContent-Length: 2\r\n\r\nno"

const badAttestation = "HTTP/1.1 403 Forbidden\r\nContent-Type: application/json\r\nContent-Length: 32\r\n\r\n" +
	`{"detail":"invalid attestation"}`

const bodyless, withBody, emptyBody = "GET /t/a HTTP/1.1\r\nHost: h\r\n\r\n",
	"POST /t/a HTTP/1.1\r\nHost: h\r\nContent-Length: 2\r\n\r\nhi",
	"POST /t/a HTTP/1.1\r\nHost: h\r\nContent-Length: 0\r\n\r\n"

const chunkedBody = "POST /t/a HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\n\r\n"

// chunkedBad is a 403 whose body comes in the chunks given.
func chunkedBad(chunks string) string {
	return "HTTP/1.1 403 Forbidden\r\nTransfer-Encoding: chunked\r\n\r\n" + chunks + "0\r\n\r\n"
}

// What is tried again and what is not, row by row; deliveries are counted
// at both workers. Report answers what the directory would.
func TestRetryTable(t *testing.T) {
	t.Parallel()
	again := directory.Verdict{Again: true, Refusal: pinboard.WorkerRefused}
	never := directory.Verdict{Refusal: pinboard.WorkerRefused}
	settling := directory.Verdict{Again: true, Refusal: pinboard.WorkerNotReady}
	for _, test := range []struct {
		name, request, first string // what the first worker answers
		verdict              directory.Verdict
		status, code         string
		deliveries           [2]int // at the first worker and at the second
		events               []directory.Event
	}{
		{"refusal of a new placement", bodyless, refused, again, "200 OK", "",
			[2]int{1, 1}, []directory.Event{directory.Refused, directory.Served}},
		{"Content-Length: 0 is no body", emptyBody, refused, again, "200 OK", "",
			[2]int{1, 1}, []directory.Event{directory.Refused, directory.Served}},
		{"never for a body", withBody, refused, again, "503 Service Unavailable", "worker_refused",
			[2]int{1, 0}, []directory.Event{directory.Refused}},
		{"chunked counts as a body", chunkedBody, refused, again, "503 Service Unavailable", "worker_refused",
			[2]int{1, 0}, []directory.Event{directory.Refused}},
		{"refusal of a confirmed row", bodyless, refused, never, "503 Service Unavailable", "worker_refused",
			[2]int{1, 0}, []directory.Event{directory.Refused}},
		{"an upgrade may be placed again", handshake, refused, again, "200 OK", "",
			[2]int{1, 1}, []directory.Event{directory.Refused, directory.Served}},
		{"the marker on another status", bodyless, strings.Replace(refused, "503", "500", 1), again, "500 Service Unavailable", "",
			[2]int{1, 0}, []directory.Event{directory.Served}},
		{"the marker on 200", bodyless, strings.Replace(refused, "503", "200", 1), again, "200 Service Unavailable", "",
			[2]int{1, 0}, []directory.Event{directory.Served}},
		{"another value", bodyless, strings.Replace(refused, "lease-unhealthy", "Lease-Unhealthy", 1), again, "503 Service Unavailable", "",
			[2]int{1, 0}, []directory.Event{directory.Served}},
		{"the marker twice", bodyless, strings.Replace(refused, "\r\n\r\n", "\r\nPinned-Refusal: lease-unhealthy\r\n\r\n", 1), again,
			"503 Service Unavailable", "", [2]int{1, 0}, []directory.Event{directory.Served}},
		{"503 without the marker", bodyless, "HTTP/1.1 503 Busy\r\nRetry-After: 1\r\nContent-Length: 0\r\n\r\n", again, "503 Busy", "",
			[2]int{1, 0}, []directory.Event{directory.Served}},
		{"403 of a young session", bodyless, badAttestation, settling, "200 OK", "",
			[2]int{1, 1}, []directory.Event{directory.BadAttestation, directory.Served}},
		{"403 of a young session, body", withBody, badAttestation, settling, "503 Service Unavailable", "worker_not_ready",
			[2]int{1, 0}, []directory.Event{directory.BadAttestation}},
		{"403 of a settled session", bodyless, badAttestation, directory.Verdict{Refusal: pinboard.WorkerNotReady},
			"503 Service Unavailable", "worker_not_ready", [2]int{1, 0}, []directory.Event{directory.BadAttestation}},
		{"403 of a settled session, chunked", bodyless, chunkedBad("20\r\n{\"detail\":\"invalid attestation\"}\r\n"),
			directory.Verdict{Refusal: pinboard.WorkerNotReady},
			"503 Service Unavailable", "worker_not_ready", [2]int{1, 0}, []directory.Event{directory.BadAttestation}},
		{"the same in two chunks", bodyless, chunkedBad("9\r\n{\"detail\"\r\n17\r\n:\"invalid attestation\"}\r\n"),
			directory.Verdict{Refusal: pinboard.WorkerNotReady},
			"503 Service Unavailable", "worker_not_ready", [2]int{1, 0}, []directory.Event{directory.BadAttestation}},
		{"a chunked 403 that begins alike", bodyless, chunkedBad("9\r\n{\"detail\"\r\n"), again, "403 Forbidden", "",
			[2]int{1, 0}, []directory.Event{directory.Served}},
		{"a chunked 403 that goes on", bodyless, chunkedBad("21\r\n{\"detail\":\"invalid attestation\"} \r\n"), again, "403 Forbidden", "",
			[2]int{1, 0}, []directory.Event{directory.Served}},
		{"another 403", bodyless, strings.Replace(badAttestation, "invalid", "INVALID", 1), again, "403 Forbidden", "",
			[2]int{1, 0}, []directory.Event{directory.Served}},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := newWorld(t)
			first, second := newScripted(t, replying(test.first)), newScripted(t, replying(okAnswer))
			w.dir.resolve = func(n int, r directory.Request) (directory.Placement, error) {
				if n == 1 {
					return w.dir.placement(first.Worker, r), nil
				}
				return w.dir.placement(second.Worker, r), nil
			}
			w.dir.report = func(_ directory.Placement, e directory.Event) directory.Verdict {
				if e == directory.Served {
					return directory.Verdict{}
				}
				return test.verdict
			}
			got := w.ask(test.request)
			if !strings.HasPrefix(got.head, "HTTP/1.1 "+test.status+"\r\n") || got.line("Pinboard-Error") != test.code {
				t.Errorf("client got %q", got.head)
			}
			if got.line("Pinned-Refusal") != "" {
				t.Error("the marker reached the client")
			}
			if n := [2]int{len(first.deliveries()), len(second.deliveries())}; n != test.deliveries {
				t.Errorf("%v deliveries, want %v", n, test.deliveries)
			}
			if e := w.dir.reported(); !slices.Equal(e, test.events) {
				t.Errorf("reported %v, want %v", e, test.events)
			}
			if test.deliveries[1] > 0 && test.events[0] == directory.Refused {
				if avoid := w.dir.resolved()[1].Avoid; avoid != first.Session {
					t.Errorf("the second resolve avoids %q", avoid)
				}
			}
		})
	}
}

// A 403 that streams is not held back.
func TestA403ThatStreamsPassesAtOnce(t *testing.T) {
	t.Parallel()
	const head = "HTTP/1.1 403 Forbidden\r\nTransfer-Encoding: chunked\r\n\r\n"
	for name, first := range map[string]string{
		"a head alone":      head,
		"the text begins":   head + "5\r\n{\"det\r\n",
		"the text is whole": head + "20\r\n{\"detail\":\"invalid attestation\"}\r\n",
		"another text":      head + "5\r\nhello\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			seen := make(chan struct{})
			s := newScripted(t, func(s *scripted, c net.Conn, r *bufio.Reader) {
				s.receive(r)
				io.WriteString(c, first)
				<-seen
				io.WriteString(c, "1\r\n!\r\n0\r\n\r\n")
			})
			w.dir.place(s.Worker)
			c := w.dial()
			c.send(bodyless)
			c.readExactly(first)
			close(seen)
			c.readExactly("1\r\n!\r\n0\r\n\r\n")
		})
	}
}

func TestAnotherRefusalIsNotPlacedAThirdTime(t *testing.T) {
	w := newWorld(t)
	s := newScripted(t, replying(refused))
	w.dir.place(s.Worker)
	w.dir.report = func(directory.Placement, directory.Event) directory.Verdict { return directory.Verdict{Again: true} }
	if got := w.ask(bodyless); got.line("Pinboard-Error") != "worker_refused" {
		t.Errorf("client got %q", got.head)
	}
	if n := len(s.deliveries()); n != 2 {
		t.Errorf("%d deliveries, want 2", n)
	}
}

func TestEmpty403OfASettlingUpgradeIsAskedOnceMore(t *testing.T) {
	t.Parallel()
	const empty = "HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n"
	for _, settling := range []bool{true, false} {
		w := newWorld(t)
		s := newScripted(t, replying(empty))
		w.dir.resolve = func(_ int, r directory.Request) (directory.Placement, error) {
			p := w.dir.placement(s.Worker, r)
			p.Settling = settling
			return p, nil
		}
		w.dir.report = func(_ directory.Placement, e directory.Event) directory.Verdict {
			return directory.Verdict{Again: e == directory.BadAttestation}
		}
		got, deliveries, code := w.ask(handshake), 1, ""
		if settling {
			deliveries, code = 2, "worker_not_ready"
		}
		if n := len(s.deliveries()); n != deliveries || got.line("Pinboard-Error") != code {
			t.Errorf("settling %v: %d deliveries, %q", settling, n, got.head)
		}
	}
}

func TestOldResolvesAreMadeAgainAtMostTwice(t *testing.T) {
	for _, test := range []struct {
		old        int // resolves that are too old when the request could be sent
		resolves   int
		deliveries int
		code       string
	}{{0, 1, 1, ""}, {1, 2, 1, ""}, {2, 3, 1, ""}, {3, 3, 0, "resolve_too_slow"}} {
		w := newWorld(t)
		s := newScripted(t, replying(okAnswer))
		w.dir.resolve = func(n int, r directory.Request) (directory.Placement, error) {
			p := w.dir.placement(s.Worker, r)
			if n <= test.old {
				p.Sent = p.Sent.Add(-5100 * time.Millisecond)
			}
			return p, nil
		}
		got := w.ask(withBody)
		if n := len(w.dir.resolved()); n != test.resolves || got.line("Pinboard-Error") != test.code {
			t.Errorf("%d old: %d resolves, %q", test.old, n, got.head)
		}
		if n := len(s.deliveries()); n != test.deliveries {
			t.Errorf("%d old: %d deliveries", test.old, n)
		}
	}
}

func TestFailedConnectIsReportedAndAnswered(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l.Close() // nobody listens there now
	for _, test := range []struct {
		verdict      directory.Verdict
		status, code string
	}{
		{directory.Verdict{}, "502", "worker_unreachable"},
		{directory.Verdict{Again: true, Refusal: pinboard.WorkerUnreachable}, "502", "worker_unreachable"},
		{directory.Verdict{Refusal: pinboard.WorkerDraining}, "503", "worker_draining"},
	} {
		w := newWorld(t)
		w.dir.place(&ownership.Worker{Session: "s", URL: "http://" + l.Addr().String()})
		w.dir.report = func(directory.Placement, directory.Event) directory.Verdict { return test.verdict }
		got := w.ask(bodyless)
		if !strings.HasPrefix(got.head, "HTTP/1.1 "+test.status) || got.line("Pinboard-Error") != test.code {
			t.Errorf("client got %q", got.head)
		}
		if e := w.dir.reported(); !slices.Equal(e, []directory.Event{directory.Unreachable}) {
			t.Errorf("reported %v", e)
		}
		if strings.Contains(got.body+got.head, l.Addr().String()) || strings.Contains(got.body, "dial") {
			t.Errorf("the answer tells too much: %q", got.body)
		}
	}
}

// FC-17: whatever a worker does with a request it has received, the request
// is delivered once.
func TestEveryOtherFailureIsOneDelivery(t *testing.T) {
	t.Parallel()
	requests := map[string]string{
		"GET":                  bodyless,
		"HEAD":                 strings.Replace(bodyless, "GET", "HEAD", 1),
		"DELETE":               strings.Replace(bodyless, "GET", "DELETE", 1),
		"GET keyed":            strings.Replace(bodyless, "\r\n\r\n", "\r\nIdempotency-Key: 1\r\n\r\n", 1),
		"PUT body":             strings.Replace(withBody, "POST", "PUT", 1),
		"POST empty":           emptyBody,
		"POST empty and keyed": strings.Replace(emptyBody, "\r\n\r\n", "\r\nIdempotency-Key: 1\r\n\r\n", 1),
		"POST body and keyed":  strings.Replace(withBody, "\r\n\r\n", "\r\nX-Idempotency-Key: 1\r\n\r\n", 1),
		"POST chunked":         chunkedBody,
		"upgrade":              handshake,
	}
	ends := map[string]func(c net.Conn){
		"FIN":                 func(net.Conn) {},
		"RST":                 func(c net.Conn) { c.(*net.TCPConn).SetLinger(0) },
		"half a head and FIN": func(c net.Conn) { io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-") },
	}
	for endName, end := range ends {
		for name, request := range requests {
			t.Run(name+"/"+endName, func(t *testing.T) {
				w := newWorld(t)
				s := newScripted(t, func(s *scripted, c net.Conn, r *bufio.Reader) {
					if d, ok := s.receive(r); !ok || !strings.HasPrefix(d.head, "GET /t/warm ") {
						end(c)
						return
					}
					io.WriteString(c, okAnswer)
					if _, ok := s.receive(r); ok {
						end(c)
					}
				})
				w.dir.place(s.Worker)
				c := w.dial()
				c.send(get("/t/warm"))
				c.answer()
				c.send(request)
				head, err := readHead(c.r)
				if err != nil || !strings.HasPrefix(head, "HTTP/1.1 502 ") || !strings.Contains(head, "Pinboard-Error: worker_broken") {
					t.Errorf("client got %q, %v", head, err)
				}
				if n := len(s.deliveries()); n != 2 {
					t.Errorf("%d deliveries, want 2 with the first", n)
				}
			})
		}
	}
}
