package redisstore_test

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"pinboard"
	"pinboard/internal/directory"
	"pinboard/internal/ownership"
	"pinboard/internal/redisstore"
	"pinboard/internal/redistest"
)

// fill writes n confirmed rows of a running worker.
func fill(t testing.TB, s *redisstore.Store, session string, n int) {
	t.Helper()
	byBucket := make([][]ownership.Key, s.Buckets())
	for i := range n {
		k := key(fmt.Sprint("t_", i))
		byBucket[k.Bucket(s.Buckets())] = append(byBucket[k.Bucket(s.Buckets())], k)
	}
	for b, keys := range byBucket {
		for part := range slices.Chunk(keys, 1000) {
			err := s.Update(context.Background(), b, ownership.Select{Rows: part}, func(tx *ownership.Tx) error {
				for _, k := range part {
					tx.MintRow(k, ownership.Row{Kind: ownership.Placed, Session: session}, 0)
				}
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
		}
	}
}

// fleet is a node with one worker that takes ids.
func fleet(t testing.TB, s *redisstore.Store) (*directory.Directory, string) {
	t.Helper()
	d := directory.New(directory.Options{Store: s, Lease: time.Minute, NoCold: true})
	if err := d.Touch(context.Background()); err != nil {
		t.Fatal(err)
	}
	g, err := d.Register(context.Background(), &directory.Registration{Headroom: 1, Worker: ownership.Worker{
		ClientID: "w", Secret: "s", URL: "http://w", Namespaces: []string{"/threads"}, Owner: "o", Proven: true}})
	if err != nil {
		t.Fatal(err)
	}
	return d, g.Session
}

var called = regexp.MustCompile(`cmdstat_([a-z|]+):calls=(\d+)`)

// calls counts what the server was asked since the last RESETSTAT, scripts'
// own commands included.
func calls(srv *redistest.Server) map[string]int {
	out := map[string]int{}
	for _, m := range called.FindAllStringSubmatch(fmt.Sprint(srv.Do("INFO", "commandstats")), -1) {
		out[m[1]], _ = strconv.Atoi(m[2])
	}
	return out
}

// FC-54: an overview reads counters and workers. However many rows there are
// it asks the server the same few things, and never for all keys.
func TestOverviewCostsTheSameHoweverManyRows(t *testing.T) {
	srv := redistest.Start(t)
	s := open(t, srv.URL())
	d, session := fleet(t, s)
	cost := func(rows int) map[string]int {
		t.Helper()
		srv.Do("CONFIG", "RESETSTAT")
		o, err := d.Overview(context.Background(), "", 100)
		if err != nil || len(o.Placed) != 1 || o.Placed[0].Placed != int64(rows) {
			t.Fatalf("%+v %v, want %d rows", o, err, rows)
		}
		return calls(srv)
	}
	fill(t, s, session, 100)
	few := cost(100)
	fill(t, s, session, 20_000) // the first hundred stay
	many := cost(20_000)
	for _, name := range []string{"keys", "scan", "sscan", "hscan"} {
		if many[name] > 0 {
			t.Errorf("%d %s", many[name], strings.ToUpper(name))
		}
	}
	sum := func(m map[string]int) (n int) {
		for name, k := range m {
			if name != "info" && name != "time" && name != "ping" { // of the loops beside it
				n += k
			}
		}
		return n
	}
	if a, b := sum(few), sum(many); b > a+a/4 {
		t.Errorf("%d commands with 100 rows, %d with 20,000: %v %v", a, b, few, many)
	}
}

// BenchmarkResolveBesideOverviews prints the p99 of resolving placed ids among
// 1,000,000 rows, alone and with five overviews after each other beside it.
// The goal is at most twice as long.
func BenchmarkResolveBesideOverviews(b *testing.B) {
	srv := redistest.Start(b)
	s := open(b, srv.URL(), func(o *redisstore.Options) { o.Buckets = 16 })
	d, session := fleet(b, s)
	const rows = 1_000_000
	fill(b, s, session, rows)
	ctx := context.Background()
	p99 := func(n int) time.Duration {
		took := make([]time.Duration, n)
		for i := range took {
			r := directory.Request{Address: pinboard.Address{Namespace: "/threads", ID: fmt.Sprint("t_", i*7919%rows)}}
			begun := time.Now()
			if _, err := d.Resolve(ctx, r); err != nil {
				b.Fatal(err)
			}
			took[i] = time.Since(begun)
		}
		slices.Sort(took)
		return took[n*99/100]
	}
	p99(5000)
	for range b.N {
		alone := p99(20_000)
		done := make(chan error, 1)
		go func() {
			for range 5 {
				if _, err := d.Overview(ctx, "", 1000); err != nil {
					done <- err
					return
				}
			}
			done <- nil
		}()
		beside := p99(20_000)
		if err := <-done; err != nil {
			b.Fatal(err)
		}
		b.ReportMetric(float64(alone.Microseconds()), "us-alone")
		b.ReportMetric(float64(beside.Microseconds()), "us-beside")
		b.ReportMetric(float64(beside)/float64(alone), "ratio")
	}
}
