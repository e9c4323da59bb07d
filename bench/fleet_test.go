package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"pinboard/bench/figures"
)

// The test binary plays the parts that the benchmark plays by starting itself.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && (os.Args[1] == "upstream" || os.Args[1] == "reverseproxy") {
		if err := run(os.Args[1:], os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// A fleet of one peer comes up, is measured in every way that needs no
// Pinboard, and leaves no process behind.
func TestFleetOfOnePeer(t *testing.T) {
	if testing.Short() {
		t.Skip("starts processes")
	}
	if err := requirePrograms("wrk", "redis-server", "redis-cli"); err != nil {
		t.Skip(err)
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	ctx := t.Context()
	f := &Fleet{scratch: t.TempDir(), peers: "peers", only: []string{figures.ReverseProxy}, tries: 1}
	defer f.Stop()
	if err := f.Start(ctx); err != nil {
		t.Fatal(err)
	}
	rounds, err := f.rounds(ctx, io.Discard, "closed", 1, f.closed("wrk.lua", 8, time.Second), f.targets...)
	if err != nil {
		t.Fatal(err)
	}
	proxy, direct := rounds[0][figures.ReverseProxy], rounds[0][figures.Direct]
	if proxy.Rate <= 0 || proxy.CPU <= 0 || proxy.P50 <= 0 || direct.Rate <= 0 || direct.CPU != 0 {
		t.Errorf("proxy %+v, direct %+v", proxy, direct)
	}
	short := func(ctx context.Context, target *Target) (int, figures.Sample, error) {
		return open(100*time.Millisecond)(ctx, target)
	}
	if s, err := f.sample(ctx, f.Target(figures.ReverseProxy), short); err != nil || s.Rate < 1999 {
		t.Errorf("open loop: %+v, %v", s, err)
	}
	if n, err := f.redisMemory(ctx); err != nil || n < peerRows*50 {
		t.Errorf("redis holds %d bytes, %v", n, err)
	}
	pids := []int{f.redis.PID(), f.upstream.PID(), f.Target(figures.ReverseProxy).process.PID()}
	f.Stop()
	for _, pid := range pids {
		if syscall.Kill(pid, 0) == nil {
			t.Errorf("process %d is still there", pid)
		}
	}
}

// A target that dies at once is reported with the end of its log.
func TestAwaitTellsWhyNobodyListens(t *testing.T) {
	p, err := startProcess(t.TempDir(), "broken", nil, "sh", "-c", "echo bad setting >&2; exit 1")
	if err != nil {
		t.Fatal(err)
	}
	err = p.await(t.Context(), 10*time.Second, listening("127.0.0.1:1"))
	if err == nil || !strings.Contains(err.Error(), "bad setting") {
		t.Errorf("got %v", err)
	}
}
