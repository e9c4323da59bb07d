package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// A bench holds the woven test binaries and what each test of them reaches.
type bench struct {
	dir   string
	bins  map[string]string // of a directory
	tests []*test           // in the order in which they are tried
	log   func(format string, args ...any)
}

// A test is one top-level test of a suite.
type test struct {
	suite   *suite
	name    string
	took    time.Duration
	reaches map[int]bool
	broken  bool // fails without any mutant
}

const (
	patience = 60 * time.Second // a mutant may slow a test down by this, and tenfold
	outlast  = 10
)

// build compiles the woven tests of every suite that exists and is wanted.
func (b *bench) build(w *weave, wanted func(*suite) bool) error {
	list, err := w.overlay(b.dir)
	if err != nil {
		return err
	}
	b.bins = map[string]string{}
	for i := range suites {
		s := &suites[i]
		if tests, _ := filepath.Glob(filepath.Join(s.dir, "*_test.go")); len(tests) == 0 || !wanted(s) || b.bins[s.dir] != "" {
			continue
		}
		to := filepath.Join(b.dir, strings.ReplaceAll(s.dir, "/", "-")+".test")
		if out, err := exec.Command("go", "test", "-c", "-overlay", list, "-o", to, "./"+s.dir).CombinedOutput(); err != nil {
			return fmt.Errorf("%s does not build with the mutants in it:\n%s", s.dir, out)
		}
		b.bins[s.dir] = to
	}
	return nil
}

// trace runs every test once, without a mutant, and notes which ones it reaches.
func (b *bench) trace(ctx context.Context, wanted func(*suite) bool) error {
	for i := range suites {
		s := &suites[i]
		if b.bins[s.dir] == "" || !wanted(s) {
			continue
		}
		began := time.Now()
		names, err := b.names(s)
		if err != nil {
			return err
		}
		var tests []*test
		for _, name := range names {
			t := &test{suite: s, name: name, reaches: map[int]bool{}}
			if err := b.follow(ctx, t); err != nil {
				return err
			}
			if t.broken {
				b.log("left out: %s fails without any mutant", t.title())
			} else if len(t.reaches) > 0 {
				tests = append(tests, t)
			}
		}
		b.log("%s: %d tests reach a mutant, in %.1fs", s.name, len(tests), time.Since(began).Seconds())
		slices.SortFunc(tests, func(x, y *test) int { return int(x.took - y.took) })
		b.tests = append(b.tests, tests...)
	}
	return nil
}

func (t *test) title() string {
	if t.suite.column == "unit" {
		return t.suite.name + ": " + t.name
	}
	return t.name
}

func (b *bench) names(s *suite) ([]string, error) {
	pattern := s.run
	if pattern == "" {
		pattern = "^(Test|Fuzz)"
	}
	cmd := exec.Command(b.bins[s.dir], "-test.list", pattern)
	cmd.Dir = s.dir
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", s.dir, err)
	}
	var names []string
	for _, name := range strings.Fields(string(out)) {
		if !strings.Contains(name, "Alloc") { // woven code allocates
			names = append(names, name)
		}
	}
	return names, nil
}

func (b *bench) follow(ctx context.Context, t *test) error {
	trace := filepath.Join(b.dir, "trace")
	_ = os.Remove(trace)
	began := time.Now()
	args := t.suite.first
	if args == nil {
		args = t.suite.args
	}
	_, failed := b.run(ctx, t, args, 10*time.Minute, "PINBOARD_MUTANT_TRACE="+trace)
	t.took, t.broken = time.Since(began), failed && ctx.Err() == nil
	text, err := os.ReadFile(trace)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	for _, n := range strings.Fields(string(text)) {
		if n, err := strconv.Atoi(n); err == nil {
			t.reaches[n] = true
		}
	}
	return err
}

// run is one run of one test; failed also for one that did not end in time.
func (b *bench) run(ctx context.Context, t *test, extra []string, limit time.Duration, env ...string) (out string, failed bool) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	args := append([]string{"-test.run", "^(" + t.name + ")$", "-test.failfast", "-test.timeout", (limit - time.Second).String()}, extra...)
	cmd := exec.CommandContext(ctx, b.bins[t.suite.dir], args...)
	cmd.Dir, cmd.Env = t.suite.dir, append(os.Environ(), env...)
	// Whatever the test has started must end with it.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = time.Second
	text, err := cmd.CombinedOutput()
	if cmd.Process != nil {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
	}
	return string(text), err != nil
}

// A result is what became of a mutant.
type result struct {
	ID      string
	Column  string        // of the suite that noticed; "" none
	By      string        // the test
	Took    time.Duration // until it was noticed, or all of it
	Silent  int           // runs of its code that noticed nothing
	Asked   []string      // columns of those
	Cut     bool          // the time for it was over before every test had run
	Reached bool
}

// try runs the tests that reach m until one notices.
func (b *bench) try(ctx context.Context, m *mutant, may []string) result {
	r := result{ID: m.id}
	began := time.Now()
	for _, t := range b.batches(m, may) {
		r.Reached = true
		out, failed := b.mutated(ctx, t, m)
		if failed && t.suite.repeat { // a slow machine is no finding
			_, failed = b.mutated(ctx, t, m)
			if _, always := b.run(ctx, t, t.suite.args, t.limit()); always {
				failed = false
			}
		}
		if ctx.Err() != nil {
			r.Cut = true
			break
		}
		if failed {
			r.Column, r.By = t.suite.column, t.named(out)
			break
		}
		r.Silent++
		if !slices.Contains(r.Asked, t.suite.column) {
			r.Asked = append(r.Asked, t.suite.column)
		}
	}
	r.Took = time.Since(began)
	return r
}

// quick tests of one suite share a process.
const quick = 300 * time.Millisecond

// batches are the tests that may notice m, in the order of suites.
func (b *bench) batches(m *mutant, may []string) (out []*test) {
	for _, name := range may {
		var together *test
		for _, t := range b.tests {
			switch {
			case t.suite.name != name, m.text == "" && !t.reaches[m.n]:
			case t.took > quick:
				out = append(out, t)
			case together == nil:
				c := *t
				together, out = &c, append(out, &c)
			default:
				together.name += "|" + t.name
				together.took += t.took
			}
		}
	}
	return out
}

// limit is how long a run may take before the mutant counts as noticed.
func (t *test) limit() time.Duration { return outlast*t.took + max(patience, t.suite.limit) }

func (b *bench) mutated(ctx context.Context, t *test, m *mutant) (string, bool) {
	env := "PINBOARD_MUTANT=" + strconv.Itoa(m.n)
	if m.text != "" {
		env = "PINBOARD_MUTANT_SCRIPT=" + m.text
	}
	return b.run(ctx, t, t.suite.args, t.limit(), env)
}

var (
	failedTest  = regexp.MustCompile(`--- FAIL: ([^\s/]+)`)
	failedStory = regexp.MustCompile(`--- FAIL: TestStories/(\S+)`)
	failedSeed  = regexp.MustCompile(`seed (\d+)`)
)

// named is the test as the table shows it: the story, not all of them.
func (t *test) named(out string) string {
	pattern := map[string]*regexp.Regexp{"stories": failedStory, "seeds": failedSeed}[t.suite.column]
	if pattern != nil {
		if m := pattern.FindStringSubmatch(out); m != nil {
			return m[1]
		}
		return "(panic or time-out)"
	}
	if m := failedTest.FindStringSubmatch(out); m != nil {
		return t.suite.name + ": " + m[1]
	}
	return t.suite.name + ": (panic or time-out)"
}
