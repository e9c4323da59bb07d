// Command mutate removes the guards of the shipped rules one by one and shows
// which test notices. Nothing is changed in the tree: each fault is an overlay
// of the build. It fails if a fault goes unnoticed.
//
//	go run ./internal/sim/mutate [-only L3] [-write docs/mutations.md]
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"
)

// A fault is a guard removed: texts of shipped files replaced.
type fault struct {
	rule  string // as in docs/rules.md
	what  string // what the code does without the guard
	edits []edit
}

// An edit replaces the only occurrence of old in file.
type edit struct{ file, old, new string }

// A suite is a test run that may notice a fault; they are tried in turn.
type suite struct {
	name string
	args []string
}

var suites = []suite{
	{"story", []string{"-run", "TestStories", "./internal/sim"}},
	{"test", []string{"./internal/directory", "./internal/ownership/...", "./internal/memstore", "./internal/guard"}},
	{"seeds", []string{"-run", "TestSeeds$", "./internal/sim", "-sim.seeds=400", "-sim.noshrink"}},
	{"redis", []string{"-run", "TestStore$|Epoch|Commit|Changed|Clock|Late|Forgotten|Disagree", "./internal/redisstore"}},
}

func main() {
	only := flag.String("only", "", "faults of this rule alone")
	write := flag.String("write", "", "file for the table")
	flag.Parse()
	if err := run(context.Background(), *only, *write); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context, only, write string) error {
	var table strings.Builder
	table.WriteString(header)
	unseen, n := 0, 0
	for _, f := range faults {
		if only != "" && f.rule != only {
			continue
		}
		n++
		began := time.Now()
		by, err := f.caught(ctx)
		if err != nil {
			return fmt.Errorf("%s, %s: %w", f.rule, f.what, err)
		}
		if by == "" {
			unseen++
			by = "**nothing**"
		}
		fmt.Printf("%-4s %-75s %s (%.0fs)\n", f.rule, f.what, by, time.Since(began).Seconds())
		fmt.Fprintf(&table, "| %s | %s | `%s` | %s |\n", f.rule, f.what, filepath.Base(f.edits[0].file), by)
	}
	fmt.Printf("%d faults, %d caught, %d not\n", n, n-unseen, unseen)
	if write != "" {
		old, err := os.ReadFile(write)
		if err != nil && !os.IsNotExist(err) {
			return err
		}
		// What follows is internal/mutants' part of the page.
		if at := strings.Index(string(old), foundGuards); at >= 0 {
			table.WriteString("\n" + string(old[at:]))
		}
		if err := os.WriteFile(write, []byte(table.String()), 0o644); err != nil {
			return err
		}
	}
	if unseen > 0 {
		return errors.New("a fault went unnoticed")
	}
	return nil
}

const foundGuards = "## Guards found by a script"

const header = `# Faults put into the shipped code, and who notices

Written by ` + "`go run ./internal/sim/mutate -write docs/mutations.md`" + `; ` + "`make nightly`" + ` runs it and fails
if a fault goes unnoticed. Each removes one guard of a rule of ownership ([rules.md](rules.md)). "story" is a file of
internal/sim/testdata, "seeds" are the random runs of internal/sim, "test" is a test of the directory or of the
stores' common suite, "redis" one of the store on a real server.

| Rule | Without the guard | File | Caught by |
|---|---|---|---|
`

// caught runs the suites against the changed code until one fails.
func (f *fault) caught(ctx context.Context) (by string, err error) {
	dir, err := os.MkdirTemp("", "mutate")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(dir)
	overlay, err := f.overlay(dir)
	if err != nil {
		return "", err
	}
	for _, s := range f.suites() {
		args := append([]string{"test", "-overlay", overlay, "-timeout", "5m"}, s.args...)
		out, err := exec.CommandContext(ctx, "go", args...).CombinedOutput()
		if err == nil {
			continue
		}
		if strings.Contains(string(out), "[build failed]") || strings.Contains(string(out), "[setup failed]") {
			fmt.Fprintf(os.Stderr, "%s, %s: does not build:\n%s", f.rule, f.what, out)
			return "", nil
		}
		return s.name + " " + failing(string(out), f.rule), nil
	}
	return "", nil
}

// suites leaves out what cannot notice a fault in one of the stores.
func (f *fault) suites() []suite {
	if strings.Contains(f.edits[0].file, "redisstore") {
		return suites[3:]
	}
	return suites[:3]
}

var failure = regexp.MustCompile(`--- FAIL: (\S+)|(seed \d+):`)

// failing names one test that failed, of the same rule if there is one, and
// how many more did.
func failing(out, rule string) string {
	var names []string
	for _, m := range failure.FindAllStringSubmatch(out, -1) {
		name := strings.TrimPrefix(m[1], "TestStories/") + m[2]
		if name != "TestStories" && name != "TestSeeds" && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	slices.SortFunc(names, func(a, b string) int {
		if x, y := strings.Contains(a, rule+"-"), strings.Contains(b, rule+"-"); x != y {
			return map[bool]int{true: -1, false: 1}[x]
		}
		return strings.Compare(a, b)
	})
	switch len(names) {
	case 0:
		return "(panic or time-out)"
	case 1:
		return names[0]
	}
	return fmt.Sprintf("%s and %d more", names[0], len(names)-1)
}

// overlay writes the changed files and the list of them for the go command.
func (f *fault) overlay(dir string) (string, error) {
	replace, texts := map[string]string{}, map[string]string{}
	for _, e := range f.edits {
		path, err := filepath.Abs(e.file)
		if err != nil {
			return "", err
		}
		if texts[path] == "" {
			b, err := os.ReadFile(path)
			if err != nil {
				return "", err
			}
			texts[path] = string(b)
		}
		if n := strings.Count(texts[path], e.old); n != 1 {
			return "", fmt.Errorf("%s has %d times\n%s", e.file, n, e.old)
		}
		texts[path] = strings.Replace(texts[path], e.old, e.new, 1)
	}
	for path, text := range texts {
		to := filepath.Join(dir, fmt.Sprint(len(replace))+filepath.Ext(path))
		if err := os.WriteFile(to, []byte(text), 0o644); err != nil {
			return "", err
		}
		replace[path] = to
	}
	b, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return "", err
	}
	list := filepath.Join(dir, "overlay.json")
	return list, os.WriteFile(list, b, 0o644)
}
