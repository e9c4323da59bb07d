// Command loop is an experiment: the data plane's hit path driven by one epoll
// loop per core instead of one goroutine per connection, so that the two can
// be measured beside each other (docs/performance.md, "Goroutines or loops").
//
// It reads heads with the same codec, rewrites them alike, makes the same
// look-up and counts the same things, but serves only GET and HEAD without a
// body from plain http workers at numeric addresses, retries nothing and places
// nothing: its Redis must hold what a real node has placed.
package main

import (
	"context"
	"flag"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/signal"
	"runtime"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/redis/rueidis"

	"pinboard/internal/metrics"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "loop:", err)
		os.Exit(1)
	}
}

// settings are shared by all loops.
type settings struct {
	redis   string // host:port
	prefix  string
	buckets int
	look    bool // make sure, before each request, that a kept connection has not been closed
	metrics *metrics.Metrics
	workers *roster
	open    atomic.Int64 // exchanges
}

func run(args []string) error {
	fs := flag.NewFlagSet("loop", flag.ContinueOnError)
	listen := fs.String("listen", "127.0.0.1:8080", "where to serve")
	scrape := fs.String("metrics", "", "where to serve /metrics")
	loops := fs.Int("loops", runtime.NumCPU(), "how many loops")
	s := &settings{metrics: metrics.New(func() metrics.Snapshot { return metrics.Snapshot{} })}
	fs.StringVar(&s.redis, "redis", "127.0.0.1:6379", "the server that a node has placed ids on")
	fs.StringVar(&s.prefix, "prefix", "pb", "of that node's keys")
	fs.IntVar(&s.buckets, "buckets", 16, "of that node's store")
	fs.BoolVar(&s.look, "look", true, "look for a close before each request on a kept connection, as the proxy does")
	if err := fs.Parse(args); err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	client, err := rueidis.NewClient(rueidis.ClientOption{
		InitAddress: []string{s.redis}, ForceSingleClient: true, DisableCache: true, AlwaysRESP2: true,
	})
	if err != nil {
		return err
	}
	defer client.Close()
	s.workers = newRoster(client, s.prefix)
	go s.workers.follow(ctx)
	for s.workers.now.Load().newest == nil && ctx.Err() == nil { // a port that listens can serve
		time.Sleep(20 * time.Millisecond)
	}
	if *scrape != "" {
		l, err := net.Listen("tcp", *scrape)
		if err != nil {
			return err
		}
		mux := http.NewServeMux()
		mux.Handle("/metrics", s.metrics.Handler())
		go func() { _ = http.Serve(l, mux) }()
	}
	failed := make(chan error, *loops)
	for range *loops {
		l, err := newLoop(s, *listen)
		if err != nil {
			return err
		}
		go func() { failed <- l.run() }()
	}
	select {
	case err := <-failed:
		return err
	case <-ctx.Done():
		return nil
	}
}
