package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestStatLine(t *testing.T) {
	line := "42 (a (b) c) S 7 42 42 0 -1 4194560 1 2 3 4 150 50 30 20 20 0 1 0 100 1 1"
	got, err := parseStat(line)
	want := stat{pid: 42, parent: 7, own: 2 * time.Second, reaped: 500 * time.Millisecond}
	if err != nil || got != want {
		t.Errorf("got %+v, %v", got, err)
	}
	for _, bad := range []string{"", "42", "42 (x) S 1 2"} {
		if _, err := parseStat(bad); err == nil {
			t.Errorf("%q was taken for a stat line", bad)
		}
	}
}

func TestOwnProcessIsSeen(t *testing.T) {
	if self := processes()[os.Getpid()]; self.parent != os.Getppid() {
		t.Errorf("parent %d, want %d", self.parent, os.Getppid())
	}
	if resident(os.Getpid()) < 1<<20 {
		t.Errorf("resident %d", resident(os.Getpid()))
	}
	if got := parseResident([]byte("Name:\tx\nVmRSS:\t  2048 kB\nRssAnon: 1 kB\n")); got != 2<<20 {
		t.Errorf("resident %d", got)
	}
}

// The target forks a worker; a compiler of somebody else runs and ends, its
// time passing to its parent's account; the benchmark runs a load generator.
func TestForeignIsWhatNobodyOfOursUsed(t *testing.T) {
	const self, target, shell = 10, 20, 30
	before := clock{at: time.Unix(0, 0), all: map[int]stat{
		self:   {pid: self, own: time.Second},
		target: {pid: target, parent: self},
		21:     {pid: 21, parent: target},
		shell:  {pid: shell},
		31:     {pid: 31, parent: shell, own: 300 * time.Millisecond},
		40:     {pid: 40, parent: self}, // another target: should be idle
	}}
	after := clock{at: time.Unix(2, 0), all: map[int]stat{
		self:   {pid: self, own: 1100 * time.Millisecond, reaped: 700 * time.Millisecond},
		target: {pid: target, parent: self, own: 200 * time.Millisecond},
		21:     {pid: 21, parent: target, own: 900 * time.Millisecond},
		shell:  {pid: shell, reaped: 500 * time.Millisecond},
		40:     {pid: 40, parent: self, own: 200 * time.Millisecond},
	}}
	if got := foreign(before, after, 2, self, target, target); got < 0.0999 || got > 0.1001 {
		t.Errorf("foreign %v, want 0.4 s of 4 s", got)
	}
	if got := after.of(target) - before.of(target); got != 1100*time.Millisecond {
		t.Errorf("target used %v", got)
	}
}

func TestWrkFigures(t *testing.T) {
	n, s, err := parseWrk("Running 2s test\nFIGURES 5000 2000000 0 61 577\n")
	if err != nil || n != 5000 || s.Rate != 2500 || s.P50 != 61 || s.P99 != 577 {
		t.Errorf("%d %+v %v", n, s, err)
	}
	for _, bad := range []string{"", "unable to connect", "FIGURES 5000 2000000 3 61 577", "FIGURES 1 2", "FIGURES 0 0 0 0 0"} {
		if _, _, err := parseWrk(bad); err == nil {
			t.Errorf("%q is a sample", bad)
		}
	}
}

func TestCountsOfTracers(t *testing.T) {
	perf := "# started\n\n53120,,raw_syscalls:sys_enter,2000000,100.00,,\n"
	if n, err := parsePerf(perf); n != 53120 || err != nil {
		t.Errorf("perf: %v, %v", n, err)
	}
	for _, out := range []string{
		" 50.0 0.1 5 20 read\n------\n100.00    0.012173           3      4057        12 total\n",
		"100.00    0.012173           3      4057           total\n",
	} {
		if n, err := parseStrace(out); n != 4057 || err != nil {
			t.Errorf("strace: %v, %v", n, err)
		}
	}
	if _, err := parsePerf("<not counted>,,cycles"); err == nil {
		t.Error("perf counted nothing, yet no error")
	}
	if _, err := parseStrace(""); err == nil {
		t.Error("strace counted nothing, yet no error")
	}
}

func TestMetric(t *testing.T) {
	text := "# TYPE go_memstats_mallocs_total counter\ngo_memstats_mallocs_total_x 1\ngo_memstats_mallocs_total 1.25e+06\n"
	if v, err := metric(strings.NewReader(text), "go_memstats_mallocs_total"); v != 1.25e6 || err != nil {
		t.Errorf("%v, %v", v, err)
	}
	if _, err := metric(strings.NewReader(text), "absent"); err == nil {
		t.Error("an absent metric has a value")
	}
}

func TestResultsAreReplacedInPlace(t *testing.T) {
	doc := "# Head\n" + resultsBegin + "\nold\n" + resultsEnd + "\ntail\n"
	got, err := replaceResults(doc, "new\n")
	if want := "# Head\n" + resultsBegin + "\nnew\n" + resultsEnd + "\ntail\n"; got != want || err != nil {
		t.Errorf("%q, %v", got, err)
	}
	if _, err := replaceResults("# Head\n", "new\n"); err == nil {
		t.Error("a document without the section was accepted")
	}
	raw, err := os.ReadFile(filepath.Join("..", "docs", "performance.md"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := replaceResults(string(raw), ""); err != nil {
		t.Errorf("docs/performance.md: %v", err)
	}
}

func TestOptions(t *testing.T) {
	for args, ok := range map[string]bool{
		"": true, "-quick": true, "-only nginx": true, "-hold": true, "-write": true, "-write -rounds 8": true,
		"-write -quick": false, "-write -only nginx": false, "-write -rounds 3": false, "x": false, "-nope": false,
	} {
		if _, err := parseOptions(strings.Fields(args)); (err == nil) != ok {
			t.Errorf("%q: %v", args, err)
		}
	}
}

// Every name a peer's configuration asks for is given one.
func TestPeerConfigurationsAreComplete(t *testing.T) {
	f := &Fleet{scratch: t.TempDir(), peers: "peers", worker: "127.0.0.1:1"}
	all := []string{"@PORT@", "2", "@STREAMS@", "3", "@REDIS@", "4", "@SHA@", "x"}
	for _, file := range []string{"nginx.conf", "nginx-lua.conf", "haproxy.cfg", "Caddyfile"} {
		path, err := f.config(file, all...)
		if err != nil {
			t.Fatal(err)
		}
		if raw, _ := os.ReadFile(path); !strings.Contains(string(raw), "127.0.0.1:2") {
			t.Errorf("%s listens elsewhere", file)
		}
		if _, err := f.config(file, "@STREAMS@", "3"); err == nil {
			t.Errorf("%s was written with a name left open", file)
		}
	}
}

func TestPlanHoldsWhoWasAskedFor(t *testing.T) {
	names := func(only ...string) string {
		var b strings.Builder
		for _, target := range (&Fleet{only: only}).plan(make([]int, 24)) {
			b.WriteString(target.Name + ",")
		}
		return b.String()
	}
	if got := names("pinboard", "nginx"); got != "direct,nginx,pinboard," {
		t.Error(got)
	}
	if got := names(); !strings.Contains(got, ",pinboard,pinboard memory:,") || !strings.Contains(got, ",nginx + Lua,") {
		t.Error(got)
	}
}
