package proxy_test

import (
	"bufio"
	"context"
	"io"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"pinboard"
	"pinboard/internal/directory"
	"pinboard/internal/ownership"
	"pinboard/internal/proxy"
)

var errandTo = pinboard.Address{Namespace: "/t", ID: "a", Rest: "/_wake"}

func (w *world) errand() *proxy.Errand { return proxy.NewErrand(w.p, errandTo, patience) }

// The retry table holds for a delivery behind which there is no client.
func TestRetryTableWithoutAClient(t *testing.T) {
	t.Parallel()
	const cut = "" // the worker closes without an answer
	unavailable := directory.Verdict{Again: true, Refusal: pinboard.WorkerRefused}
	settling := directory.Verdict{Again: true, Refusal: pinboard.WorkerNotReady}
	for _, test := range []struct {
		name, first, second string // what the workers of the first and of later resolves answer
		verdict             directory.Verdict
		old                 int // resolves that are too old
		status              int
		refusal             *pinboard.Refusal
		deliveries          [2]int
		events              []directory.Event
	}{
		{"served", okAnswer, okAnswer, unavailable, 0, 200, nil, [2]int{1, 0}, []directory.Event{directory.Served}},
		{"served behind a 102", "HTTP/1.1 102 Wait\r\n\r\n" + okAnswer, okAnswer, unavailable, 0, 200, nil, [2]int{1, 0},
			[]directory.Event{directory.Served}},
		{"a worker's own 503", "HTTP/1.1 503 Busy\r\nContent-Length: 0\r\n\r\n", okAnswer, unavailable, 0, 503, nil, [2]int{1, 0},
			[]directory.Event{directory.Served}},
		{"refused, placed once more", refused, okAnswer, unavailable, 0, 200, nil, [2]int{1, 1},
			[]directory.Event{directory.Refused, directory.Served}},
		{"refused twice", refused, refused, unavailable, 0, 0, pinboard.WorkerRefused, [2]int{1, 1},
			[]directory.Event{directory.Refused, directory.Refused}},
		{"refused on a confirmed row", refused, okAnswer, directory.Verdict{Refusal: pinboard.WorkerRefused}, 0, 0, pinboard.WorkerRefused,
			[2]int{1, 0}, []directory.Event{directory.Refused}},
		{"attestation refused while settling", badAttestation, okAnswer, settling, 0, 200, nil, [2]int{1, 1},
			[]directory.Event{directory.BadAttestation, directory.Served}},
		{"attestation refused twice", badAttestation, badAttestation, settling, 0, 0, pinboard.WorkerNotReady, [2]int{1, 1},
			[]directory.Event{directory.BadAttestation, directory.BadAttestation}},
		{"attestation refused for good", badAttestation, okAnswer, directory.Verdict{Refusal: pinboard.WorkerNotReady}, 0, 0, pinboard.WorkerNotReady,
			[2]int{1, 0}, []directory.Event{directory.BadAttestation}},
		{"late twice", okAnswer, okAnswer, unavailable, 2, 200, nil, [2]int{0, 1}, []directory.Event{directory.Served}},
		{"late three times", okAnswer, okAnswer, unavailable, 3, 0, pinboard.ResolveTooSlow, [2]int{0, 0}, nil},
		{"settling, then late", badAttestation, okAnswer, settling, -2, 0, pinboard.ResolveTooSlow, [2]int{1, 0},
			[]directory.Event{directory.BadAttestation}},
		{"broken off", cut, okAnswer, unavailable, 0, 0, pinboard.WorkerBroken, [2]int{1, 0}, nil},
		{"no HTTP", "nonsense\n", okAnswer, unavailable, 0, 0, pinboard.WorkerInvalid, [2]int{1, 0}, nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := newWorld(t)
			first, second := newScripted(t, once(test.first)), newScripted(t, once(test.second))
			w.dir.resolve = func(n int, r directory.Request) (directory.Placement, error) {
				k := second
				if n == 1 {
					k = first
				}
				p := w.dir.placement(k.Worker, r)
				if n <= test.old || n == -test.old {
					p.Sent = p.Sent.Add(-time.Minute)
				}
				return p, nil
			}
			w.dir.report = func(_ directory.Placement, e directory.Event) directory.Verdict { return test.verdict }
			status, refusal, forwards := w.errand().Deliver(t.Context())
			if status != test.status || refusal != test.refusal {
				t.Errorf("status %d, refusal %v", status, refusal)
			}
			got := [2]int{len(first.deliveries()), len(second.deliveries())}
			if got != test.deliveries || forwards != got[0]+got[1] {
				t.Errorf("%v deliveries, %d counted, want %v", got, forwards, test.deliveries)
			}
			if e := w.dir.reported(); !slices.Equal(e, test.events) {
				t.Errorf("reported %v, want %v", e, test.events)
			}
			for _, k := range []*scripted{first, second} {
				for _, d := range k.deliveries() {
					if !strings.HasPrefix(d.head, "POST /t/a/_wake HTTP/1.1\r\n") || d.line("Pinboard-Epoch") != "41" ||
						d.line("Pinboard-Attestation") != "att."+k.Session+"..0" {
						t.Errorf("delivered %q", d.head)
					}
				}
			}
			if r := w.dir.resolved(); len(r) > 1 && test.first == refused && r[1].Avoid != first.Session {
				t.Errorf("the second resolve avoids %q", r[1].Avoid)
			}
		})
	}
}

// once answers one request of each connection.
func once(answer string) script {
	return func(s *scripted, c net.Conn, r *bufio.Reader) {
		if _, ok := s.receive(r); ok {
			io.WriteString(c, answer)
		}
	}
}

func TestUnreachableWithoutAClient(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l.Close() // nobody listens there now
	w := newWorld(t)
	w.dir.place(&ownership.Worker{Session: "s", URL: "http://" + l.Addr().String()})
	w.dir.report = func(directory.Placement, directory.Event) directory.Verdict {
		return directory.Verdict{Again: true, Refusal: pinboard.WorkerDraining}
	}
	if status, refusal, forwards := w.errand().Deliver(t.Context()); status != 0 || refusal != pinboard.WorkerDraining || forwards != 0 {
		t.Errorf("status %d, refusal %v, %d forwards", status, refusal, forwards)
	}
	if e := w.dir.reported(); !slices.Equal(e, []directory.Event{directory.Unreachable}) {
		t.Errorf("reported %v", e)
	}
}

// Clients and errands share a worker's connections and places.
func TestErrandsKeepConnections(t *testing.T) {
	w := newWorld(t, func(c *proxy.Config) { c.WorkerMaxConns = 1; c.WorkerQueue = time.Millisecond })
	s := newScripted(t, replying(okAnswer))
	w.dir.place(s.Worker)
	w.prove()
	for range 3 {
		if status, refusal, _ := w.errand().Deliver(t.Context()); status != 200 {
			t.Fatalf("status %d, refusal %v", status, refusal)
		}
	}
	if n := s.connections(); n != 1 || len(s.deliveries()) != 5 {
		t.Errorf("%d connections, %d deliveries", n, len(s.deliveries()))
	}
}

// Nobody but the sender ends the wait for a silent worker, and that leaves
// neither the place nor the connection taken.
func TestErrandIsInterrupted(t *testing.T) {
	w := newWorld(t, func(c *proxy.Config) { c.WorkerMaxConns = 1; c.WorkerQueue = time.Millisecond })
	asked := make(chan struct{})
	s := newScripted(t, func(s *scripted, c net.Conn, r *bufio.Reader) {
		if d, _ := s.receive(r); strings.HasPrefix(d.head, "GET") {
			io.WriteString(c, okAnswer)
			return
		}
		close(asked)
		s.receive(r)
	})
	w.dir.place(s.Worker)
	ctx, cancel := context.WithCancel(t.Context())
	go func() { <-asked; cancel() }()
	if status, refusal, forwards := w.errand().Deliver(ctx); status != 0 || refusal != nil || forwards != 1 {
		t.Errorf("status %d, refusal %v, %d forwards", status, refusal, forwards)
	}
	if got := w.ask(bodyless); got.body != "ok" {
		t.Errorf("behind it: %q", got)
	}
}
