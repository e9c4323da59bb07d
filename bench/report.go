package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"runtime"
	"slices"
	"strings"

	"pinboard/bench/figures"
)

// newReport is the results section of docs/performance.md: the machine, the
// goals, the targets.
func newReport(m figures.Measurements, f *Fleet, o Options) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s.\n", machine())
	rounds := slices.Concat(m.Closed, m.Single, m.Open)
	noisy, all := figures.Noisy(rounds, foreignLimit)
	fmt.Fprintf(&b, "%d rounds of %v at 64 connections, %d at one connection and in the open loop; %d idle connections; %d rows. "+
		"%d of %d samples had more than %.0f %% of the machine used by others, after %d tries.\n\n",
		o.Rounds, o.Window, o.Latency, o.Idle, o.Rows, noisy, all, 100*foreignLimit, o.Tries)
	b.WriteString(figures.GoalTable(figures.Results(m)))
	b.WriteString("\n")
	var names []string
	for _, t := range f.targets {
		names = append(names, t.Name)
	}
	value := func(rounds []figures.Round, g figures.Figure) func(string) figures.Spread {
		return func(t string) figures.Spread { return figures.Values(rounds, t, g) }
	}
	toNginx := func(g figures.Figure) func(string) figures.Spread {
		return func(t string) figures.Spread { return figures.Ratio(m.Closed, t, figures.Nginx, g) }
	}
	kib := func(of map[string]figures.Spread) func(string) figures.Spread {
		return func(t string) figures.Spread { return of[t].Scale(1.0 / 1024) }
	}
	b.WriteString(figures.TargetTable(names, []figures.Column{
		{Title: "requests/s", Cell: value(m.Closed, figures.Rate)},
		{Title: "CPU us/request", Cell: value(m.Closed, figures.CPU)},
		{Title: "CPU vs nginx", Cell: toNginx(figures.CPU)},
		{Title: "requests/s vs nginx", Cell: toNginx(figures.Rate)},
		{Title: "Redis CPU us/request", Cell: value(m.Closed, figures.RedisCPU)},
		{Title: "system calls/request", Cell: func(t string) figures.Spread { return m.Syscalls[t] }},
	}))
	b.WriteString("\n")
	b.WriteString(figures.TargetTable(names, []figures.Column{
		{Title: "p50 us, one connection", Cell: value(m.Single, figures.P50)},
		{Title: "p99 us, 2,000/s open loop", Cell: value(m.Open, figures.P99)},
		{Title: "CPU us/request, 2,000/s", Cell: value(m.Open, figures.CPU)},
		{Title: "idle WebSocket KiB", Cell: kib(m.WebSocket)},
		{Title: "idle event stream KiB", Cell: kib(m.EventStream)},
	}))
	if m.RowBytes.N > 0 {
		fmt.Fprintf(&b, "\nRedis memory per row: %s bytes.\n", m.RowBytes)
	}
	return b.String()
}

// machine describes what the figures belong to, without a date or a path.
func machine() string {
	version := func(pattern, name string, args ...string) string {
		out, _ := exec.Command(name, args...).CombinedOutput()
		return string(regexp.MustCompile(pattern).Find(out))
	}
	read := func(path, pattern string) string {
		raw, _ := os.ReadFile(path)
		if m := regexp.MustCompile(pattern).FindSubmatch(raw); m != nil {
			return string(bytes.TrimSpace(m[1]))
		}
		return "?"
	}
	number := `\d+\.\d+(\.\d+)?`
	return fmt.Sprintf("%d cores of %s, Linux %s, Go %s, node %s, nginx %s, haproxy %s, Redis %s; everything shares the cores",
		runtime.NumCPU(), read("/proc/cpuinfo", `model name\s*:(.*)`), read("/proc/sys/kernel/osrelease", `^(\d+\.\d+)`),
		strings.TrimPrefix(runtime.Version(), "go"), version(number, "node", "--version"), version(number, "nginx", "-v"),
		version(number, "haproxy", "-v"), version(number, "redis-server", "--version"))
}

const (
	resultsBegin = "<!-- results: written by bench -write -->"
	resultsEnd   = "<!-- end of results -->"
)

// writeResults replaces the results section of the document.
func writeResults(path, report string) error {
	raw, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	out, err := replaceResults(string(raw), report)
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return os.WriteFile(path, []byte(out), 0o644)
}

func replaceResults(doc, report string) (string, error) {
	head, rest, okBegin := strings.Cut(doc, resultsBegin)
	_, tail, okEnd := strings.Cut(rest, resultsEnd)
	if !okBegin || !okEnd {
		return "", errors.New("no results section")
	}
	return head + resultsBegin + "\n" + report + resultsEnd + tail, nil
}
