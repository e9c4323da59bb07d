package proxy_test

import (
	"bytes"
	"context"
	"net"
	"strings"
	"testing"
	"time"

	"pinboard/internal/directory"
	"pinboard/internal/ownership"
	"pinboard/internal/proxy"
)

// maxAllocs is what the proxy's part of the hit path spends of the three that
// docs/performance.md allows (T8).
const maxAllocs = 0

// A lean directory allocates nothing, so that what is counted is the proxy's.
type leanDirectory struct{ worker *ownership.Worker }

func (d leanDirectory) Resolve(_ context.Context, r directory.Request) (directory.Placement, error) {
	now := time.Now()
	return directory.Placement{
		Key:    ownership.Key{Env: ownership.World, Namespace: r.Address.Namespace, ID: r.Address.ID},
		Worker: d.worker, Epoch: 1 << 60, Sent: now, Deadline: now.Add(time.Hour),
	}, nil
}

func (leanDirectory) Report(context.Context, directory.Placement, directory.Event) directory.Verdict {
	return directory.Verdict{}
}
func (leanDirectory) Recheck(context.Context, []*directory.Watch) error { return nil }
func (leanDirectory) Caller(context.Context, directory.CallerClaim) (string, error) {
	return "", nil
}

// leanWorker answers each request that ends in a blank line, allocating
// nothing once it has accepted.
func leanWorker(tb testing.TB) *ownership.Worker {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		var open []net.Conn
		for {
			c, err := l.Accept()
			if err != nil {
				for _, c := range open {
					c.Close()
				}
				return
			}
			open = append(open, c)
			go func() {
				b, answer := make([]byte, 4096), []byte(okAnswer)
				for {
					n, err := c.Read(b)
					if err != nil {
						return
					}
					if bytes.HasSuffix(b[:n], []byte("\r\n\r\n")) {
						c.Write(answer)
					}
				}
			}()
		}
	}()
	tb.Cleanup(func() { l.Close(); <-ended })
	return &ownership.Worker{Session: "s", Process: "p", URL: "http://" + l.Addr().String()}
}

func leanWorld(tb testing.TB) (addr string) {
	p, err := proxy.New(proxy.Config{
		Directory: leanDirectory{leanWorker(tb)},
		Mint: func(dst []byte, _ *ownership.Worker, _ string, _ int) []byte {
			return append(dst, "eyJhbGciOiJIUzI1NiIsInR5cCI6InBpbmJvYXJkK2p3dCJ9"...)
		},
	})
	if err != nil {
		tb.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	go p.Serve(l)
	tb.Cleanup(func() {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		p.Shutdown(ctx)
	})
	return l.Addr().String()
}

const browserRequest = "GET /threads/t_123456/ok?x=1 HTTP/1.1\r\nHost: pin.test\r\nUser-Agent: Mozilla/5.0 (X11; Linux x86_64)\r\n" +
	"Accept: text/html,application/xhtml+xml\r\nAccept-Language: en-US,en;q=0.5\r\nAccept-Encoding: gzip, deflate\r\n" +
	"Cookie: session=0123456789abcdef0123456789abcdef\r\nCache-Control: no-cache\r\n\r\n"

// hitter returns a func that does one request on a connection of its own.
func hitter(tb testing.TB, addr string) func() { return hitterOf(tb, addr, browserRequest) }

func hitterOf(tb testing.TB, addr, text string) func() {
	c, err := net.Dial("tcp", addr)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { c.Close() })
	request, b := []byte(text), make([]byte, 4096)
	return func() {
		if _, err := c.Write(request); err != nil {
			tb.Fatal(err)
		}
		for n := 0; n < len(okAnswer); {
			m, err := c.Read(b)
			if err != nil {
				tb.Fatal(err)
			}
			n += m
		}
	}
}

func TestHitPathAllocations(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	for _, request := range []string{
		browserRequest,
		strings.Replace(browserRequest, "\r\n\r\n", "\r\nX-Request-Id: 2f1c0e9a-8d1f-4c57-9a0b-1f3d5e7a9c11\r\n\r\n", 1), // of a balancer
	} {
		hit := hitterOf(t, leanWorld(t), request)
		hit()
		time.Sleep(proven)
		for range 100 {
			hit()
		}
		allocs := testing.AllocsPerRun(2000, hit)
		t.Logf("%.2f allocations per request", allocs)
		if allocs > maxAllocs {
			t.Errorf("%.2f allocations per request, want at most %d", allocs, maxAllocs)
		}
	}
}

func BenchmarkHit(b *testing.B) {
	addr := leanWorld(b)
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		hit := hitter(b, addr)
		for pb.Next() {
			hit()
		}
	})
}
