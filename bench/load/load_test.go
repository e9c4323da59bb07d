package load

import (
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"pinboard/bench/upstream"
)

func worker(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go (&upstream.Responder{}).Serve(l)
	t.Cleanup(func() { l.Close() })
	return l.Addr().String()
}

func TestQuantiles(t *testing.T) {
	var l Latencies
	for i := range 100 {
		l = append(l, time.Duration(i+1))
	}
	for q, want := range map[float64]time.Duration{0: 1, 0.5: 51, 0.99: 100, 1: 100} {
		if got := l.Quantile(q); got != want {
			t.Errorf("%v: got %d, want %d", q, got, want)
		}
	}
	if got := (Latencies{}).Quantile(0.5); got != 0 {
		t.Errorf("nothing measured: %v", got)
	}
}

func TestOpenLoopSendsItsWholeSchedule(t *testing.T) {
	l, err := Open{Address: worker(t), Conns: 8, Rate: 1000, For: 200 * time.Millisecond, IDs: 10}.Run(t.Context())
	if err != nil || len(l) != 200 {
		t.Errorf("%d latencies, %v", len(l), err)
	}
}

// One slow answer delays the requests due behind it on its connection; their
// latency counts from when they were due.
func TestOpenLoopChargesAStallToWhoeverWaited(t *testing.T) {
	const stall = 100 * time.Millisecond
	var first sync.Once
	slow := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		first.Do(func() { time.Sleep(stall) })
	}))
	defer slow.Close()
	l, err := Open{Address: slow.Listener.Addr().String(), Conns: 1, Rate: 100, For: 100 * time.Millisecond, IDs: 1}.Run(t.Context())
	if err != nil || len(l) != 10 {
		t.Fatalf("%d latencies, %v", len(l), err)
	}
	if half := l.Quantile(0.5); half < stall/4 {
		t.Errorf("the median request waited %v only", half)
	}
}

func TestRefusalsAreNoThroughput(t *testing.T) {
	refusing := httptest.NewServer(http.NotFoundHandler())
	defer refusing.Close()
	_, err := Open{Address: refusing.Listener.Addr().String(), Conns: 1, Rate: 100, For: 50 * time.Millisecond, IDs: 1}.Run(t.Context())
	if !errors.Is(err, ErrAnswer) {
		t.Errorf("got %v", err)
	}
}

func TestWalkVisitsEveryIDOnce(t *testing.T) {
	var seen sync.Map
	var visits atomic.Int32
	s := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		seen.Store(r.URL.Path, true)
		visits.Add(1)
	}))
	defer s.Close()
	if err := Walk(t.Context(), s.Listener.Addr().String(), "r_", 50, 4); err != nil {
		t.Fatal(err)
	}
	for i := range 50 {
		if _, ok := seen.Load(Path("r_", i, "ok")); !ok {
			t.Errorf("id %d not visited", i)
		}
	}
	if visits.Load() != 50 {
		t.Errorf("%d visits", visits.Load())
	}
}

func TestIdleConnectionsOpenAndEnd(t *testing.T) {
	address := worker(t)
	for _, kind := range []Kind{WebSocket, EventStream} {
		end, err := Idle(t.Context(), address, kind, 40, 10)
		if err != nil {
			t.Fatalf("%s: %v", kind, err)
		}
		end()
	}
	refusing := httptest.NewServer(http.NotFoundHandler())
	defer refusing.Close()
	if _, err := Idle(t.Context(), refusing.Listener.Addr().String(), EventStream, 4, 1); err == nil {
		t.Error("a refused stream counted as idle")
	}
}
