package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"time"

	"pinboard/bench/figures"
	"pinboard/bench/load"
)

const (
	foreignLimit = 0.06 // more of the machine used by others: measure again
)

// A loop puts one target under load and says how many requests were
// answered, and their latencies in microseconds.
type loop func(ctx context.Context, t *Target) (requests int, s figures.Sample, err error)

// rounds measures all targets in turn, n times over; each round starts with
// another target, so that none always follows the same one.
func (f *Fleet) rounds(ctx context.Context, progress io.Writer, title string, n int, run loop, targets ...*Target) ([]figures.Round, error) {
	var out []figures.Round
	for i := range n {
		r := figures.Round{}
		for k := range targets {
			t := targets[(i+k)%len(targets)]
			s, err := f.measure(ctx, t, run)
			if err != nil {
				return nil, fmt.Errorf("%s, round %d, %s: %w", title, i+1, t.Name, err)
			}
			r[t.Name] = s
			fmt.Fprintf(progress, "%s %d/%d %-17s %7.0f req/s  %6.1f us CPU  p50 %6.0f us  p99 %6.0f us  foreign %4.1f %%\n",
				title, i+1, n, t.Name, s.Rate, s.CPU, s.P50, s.P99, 100*s.Foreign)
		}
		out = append(out, r)
	}
	return out, nil
}

// measure takes one sample and takes it again while others use too much of
// the machine; of several it keeps the one least disturbed.
func (f *Fleet) measure(ctx context.Context, t *Target, run loop) (figures.Sample, error) {
	f.awaitCalm(ctx)
	var best figures.Sample
	for try := range f.tries {
		time.Sleep(200 * time.Millisecond) // the last target's connections close
		s, err := f.sample(ctx, t, run)
		if err != nil {
			return s, err
		}
		if try == 0 || s.Foreign < best.Foreign {
			best = s
		}
		if best.Foreign <= foreignLimit {
			break
		}
	}
	return best, nil
}

// awaitCalm waits until others leave the machine, as long as patience lasts.
func (f *Fleet) awaitCalm(ctx context.Context) {
	for end := time.Now().Add(f.patience); time.Now().Before(end) && ctx.Err() == nil; {
		before := readClock()
		time.Sleep(500 * time.Millisecond)
		if foreign(before, readClock(), runtime.NumCPU(), os.Getpid()) <= foreignLimit {
			return
		}
	}
}

func (f *Fleet) sample(ctx context.Context, t *Target, run loop) (figures.Sample, error) {
	before := readClock()
	n, s, err := run(ctx, t)
	after := readClock()
	if err != nil {
		return s, err
	}
	if n == 0 {
		return s, fmt.Errorf("no request was answered")
	}
	proxy, redis := t.process.PID(), f.redis.PID()
	perRequest := func(pid int) float64 {
		return float64((after.of(pid) - before.of(pid)).Microseconds()) / float64(n)
	}
	s.RedisCPU = perRequest(redis)
	if proxy != f.upstream.PID() { // the direct way has no proxy
		s.CPU = perRequest(proxy)
	}
	s.Foreign = foreign(before, after, runtime.NumCPU(), os.Getpid(), proxy, redis, f.upstream.PID())
	return s, nil
}

// closed is wrk: as many requests as conns connections carry.
func (f *Fleet) closed(script string, conns int, d time.Duration) loop {
	return func(ctx context.Context, t *Target) (int, figures.Sample, error) {
		out, err := exec.CommandContext(ctx, "wrk", "-t1", "-c"+strconv.Itoa(conns), "-d"+wrkDuration(d),
			"-s", script, "http://"+t.Address).CombinedOutput()
		if err != nil {
			return 0, figures.Sample{}, fmt.Errorf("wrk: %w: %s", err, out)
		}
		return parseWrk(string(out))
	}
}

// wrkDuration is d in whole seconds, which is all wrk takes.
func wrkDuration(d time.Duration) string {
	return strconv.Itoa(int(max(1, d.Round(time.Second).Seconds()))) + "s"
}

// parseWrk reads the line wrk.lua prints. Any failed request voids the
// sample: refusals are cheap.
func parseWrk(out string) (requests int, s figures.Sample, err error) {
	_, line, found := strings.Cut(out, "FIGURES ")
	var us, failed int
	if found {
		_, err = fmt.Sscan(line, &requests, &us, &failed, &s.P50, &s.P99)
	}
	switch {
	case !found || err != nil || us == 0:
		return 0, s, fmt.Errorf("wrk printed no figures: %s", out)
	case failed > 0:
		return 0, s, fmt.Errorf("%d of %d requests failed", failed, requests)
	}
	s.Rate = float64(requests) / (float64(us) / 1e6)
	return requests, s, nil
}

// open is an open loop of 2,000 requests/s over 64 connections.
func open(d time.Duration) loop {
	return func(ctx context.Context, t *Target) (int, figures.Sample, error) {
		l, err := load.Open{Address: t.Address, Conns: 64, Rate: 2000, For: d, IDs: ids}.Run(ctx)
		us := func(q float64) float64 { return float64(l.Quantile(q).Nanoseconds()) / 1e3 }
		return len(l), figures.Sample{Rate: float64(len(l)) / d.Seconds(), P50: us(0.5), P99: us(0.99)}, err
	}
}
