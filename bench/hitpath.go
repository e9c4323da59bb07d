package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"pinboard/bench/figures"
	"pinboard/bench/load"
)

// allocations is how many heap objects the node allocates per request of the
// loop, from its own collector; what two scrapes cost on their own is taken off.
func allocations(ctx context.Context, t *Target, run loop) (figures.Spread, error) {
	mallocs := func() (float64, error) { return scrape(ctx, t.Address, "go_memstats_mallocs_total") }
	var v [3]float64
	var err error
	for i := range 2 {
		if v[i], err = mallocs(); err != nil {
			return figures.Spread{}, err
		}
	}
	n, _, err := run(ctx, t)
	if err != nil {
		return figures.Spread{}, err
	}
	if v[2], err = mallocs(); err != nil {
		return figures.Spread{}, err
	}
	perScrape := v[1] - v[0]
	return figures.One(max(0, v[2]-v[1]-perScrape) / float64(n)), nil
}

// scrape reads one unlabelled metric.
func scrape(ctx context.Context, address, name string) (float64, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+"/metrics", nil)
	if err != nil {
		return 0, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	return metric(resp.Body, name)
}

func metric(in io.Reader, name string) (float64, error) {
	lines := bufio.NewScanner(in)
	for lines.Scan() {
		if v, ok := strings.CutPrefix(lines.Text(), name+" "); ok {
			return strconv.ParseFloat(v, 64)
		}
	}
	return 0, fmt.Errorf("no metric %s", name)
}

// systemCalls is how many system calls each target makes per request of the
// loop: counted by perf, which hardly slows it, else by strace.
func (f *Fleet) systemCalls(ctx context.Context, run loop, targets ...*Target) (map[string]figures.Spread, error) {
	out := map[string]figures.Spread{}
	tracer := perfTracer
	if exec.Command("perf", "stat", "-e", "raw_syscalls:sys_enter", "true").Run() != nil {
		tracer = straceTracer
	}
	for _, t := range targets {
		calls, err := tracer.count(ctx, filepath.Join(f.scratch, "syscalls"), t, run)
		if err != nil {
			return nil, fmt.Errorf("system calls of %s: %w", t.Name, err)
		}
		out[t.Name] = figures.One(calls)
	}
	return out, nil
}

// A tracer counts the system calls of processes until it is interrupted, and
// leaves its count in a file.
type tracer struct {
	command func(file string, pids []string) []string
	parse   func(report string) (float64, error)
}

var (
	perfTracer = tracer{func(file string, pids []string) []string {
		return []string{"perf", "stat", "-x,", "-e", "raw_syscalls:sys_enter", "-o", file, "-p", strings.Join(pids, ",")}
	}, parsePerf}
	straceTracer = tracer{func(file string, pids []string) []string {
		return []string{"strace", "-c", "-f", "-o", file, "-p", strings.Join(pids, ",")}
	}, parseStrace}
)

func (c tracer) count(ctx context.Context, file string, t *Target, run loop) (perRequest float64, err error) {
	var pids []string
	for _, pid := range tree(t.process.PID()) {
		pids = append(pids, strconv.Itoa(pid))
	}
	command := c.command(file, pids)
	cmd := exec.CommandContext(ctx, command[0], command[1:]...)
	if err := cmd.Start(); err != nil {
		return 0, err
	}
	time.Sleep(500 * time.Millisecond) // it attaches
	n, _, err := run(ctx, t)
	cmd.Process.Signal(syscall.SIGINT)
	cmd.Wait() // it reports the signal as its failure
	if err != nil {
		return 0, err
	}
	report, err := os.ReadFile(file)
	if err != nil {
		return 0, err
	}
	calls, err := c.parse(string(report))
	return calls / float64(n), err
}

// parsePerf reads "count,,event,..." (perf stat -x,).
func parsePerf(out string) (float64, error) {
	for line := range strings.Lines(out) {
		if f := strings.Split(line, ","); len(f) > 2 && strings.HasPrefix(f[2], "raw_syscalls") {
			return strconv.ParseFloat(f[0], 64)
		}
	}
	return 0, fmt.Errorf("perf counted nothing: %q", out)
}

// parseStrace reads the total line of strace -c: calls are its fourth column,
// followed by the errors if there were any.
func parseStrace(out string) (float64, error) {
	for line := range strings.Lines(out) {
		if f := strings.Fields(line); len(f) >= 5 && f[len(f)-1] == "total" {
			return strconv.ParseFloat(f[3], 64)
		}
	}
	return 0, fmt.Errorf("strace counted nothing: %q", out)
}

// rowBytes is the growth of Redis per id placed through the target, each
// requested twice, so that its row is confirmed.
func (f *Fleet) rowBytes(ctx context.Context, t *Target, n int) (figures.Spread, error) {
	before, err := f.redisMemory(ctx)
	if err != nil {
		return figures.Spread{}, err
	}
	for range 2 {
		if err := load.Walk(ctx, t.Address, "row_10000000", n, 64); err != nil {
			return figures.Spread{}, err
		}
	}
	after, err := f.redisMemory(ctx)
	return figures.One(float64(after-before) / float64(n)), err
}
