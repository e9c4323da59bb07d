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

// systemCalls is how many system calls the target makes per request of the
// loop: counted by perf, which hardly slows it, else by strace.
func (f *Fleet) systemCalls(ctx context.Context, t *Target, run loop) (figures.Spread, error) {
	out := filepath.Join(f.scratch, "syscalls")
	command := []string{"perf", "stat", "-x,", "-e", "raw_syscalls:sys_enter", "-o", out}
	parse := parsePerf
	if exec.Command("perf", "stat", "-e", "raw_syscalls:sys_enter", "true").Run() != nil {
		command, parse = []string{"strace", "-c", "-f", "-o", out}, parseStrace
	}
	for _, pid := range tree(t.process.PID()) {
		command = append(command, "-p", strconv.Itoa(pid))
	}
	if command[0] == "perf" {
		command = perfPIDs(command)
	}
	tracer := exec.CommandContext(ctx, command[0], command[1:]...)
	if err := tracer.Start(); err != nil {
		return figures.Spread{}, err
	}
	time.Sleep(500 * time.Millisecond) // it attaches
	n, _, err := run(ctx, t)
	tracer.Process.Signal(syscall.SIGINT)
	tracer.Wait() // it reports the signal as its failure
	if err != nil {
		return figures.Spread{}, err
	}
	raw, err := os.ReadFile(out)
	if err != nil {
		return figures.Spread{}, err
	}
	calls, err := parse(string(raw))
	return figures.One(calls / float64(n)), err
}

// perfPIDs joins the -p options: perf takes one list.
func perfPIDs(command []string) []string {
	var rest, pids []string
	for i := 0; i < len(command); i++ {
		if command[i] == "-p" {
			i++
			pids = append(pids, command[i])
			continue
		}
		rest = append(rest, command[i])
	}
	return append(rest, "-p", strings.Join(pids, ","))
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
