// Command testsum shows the results of test runners briefly and counts them:
//
//	testsum go FILE            reads `go test -json` from standard input
//	testsum junit FILE XML     reads a JUnit report
//	testsum step FILE COMMAND  runs a command as one test
//	testsum total DIRECTORY    prints the closing line for all FILEs in it
//
// The first three write their counts to FILE; all exit 1 if anything failed.
package main

import (
	"encoding/json"
	"encoding/xml"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// counts of one runner, as its report says.
type counts struct{ Passed, Failed, Skipped int }

func main() {
	c, err := do(os.Args[1:], os.Stdin, os.Stdout)
	if err != nil {
		fmt.Fprintln(os.Stderr, "testsum:", err)
	}
	if err != nil || c.Failed > 0 {
		os.Exit(1)
	}
}

func do(args []string, in io.Reader, out io.Writer) (counts, error) {
	if len(args) < 2 {
		return counts{}, fmt.Errorf("want go, junit, step or total")
	}
	var c counts
	var err error
	switch args[0] {
	case "go":
		c, err = readGo(in, out)
	case "junit":
		var f *os.File
		if f, err = os.Open(args[2]); err == nil {
			c, err = readJUnit(f)
			f.Close()
		}
	case "step":
		cmd := exec.Command(args[2], args[3:]...)
		cmd.Stdout, cmd.Stderr = out, out
		c.Passed = 1
		if cmd.Run() != nil {
			c = counts{Failed: 1}
		}
	case "total":
		return total(args[1], out)
	default:
		return c, fmt.Errorf("unknown command %q", args[0])
	}
	if err != nil {
		c.Failed++ // a report that cannot be read is no success
	}
	text, _ := json.Marshal(c)
	if werr := os.WriteFile(args[1]+".counts", text, 0o644); err == nil {
		err = werr
	}
	return c, err
}

// event is one line of `go test -json` (see `go doc test2json`).
type event struct {
	Action, Package, Test, Output, ImportPath string
	Elapsed                                   float64
}

// readGo counts tests and subtests, prints a line per package and the output
// of what failed. A package that fails without a failed test (it did not
// build, or died) counts as one failure.
func readGo(in io.Reader, out io.Writer) (counts, error) {
	var c counts
	output := map[string]*strings.Builder{} // by package and test
	failures := map[string]int{}            // failed tests by package
	key := func(e event) string { return e.Package + e.ImportPath + " " + e.Test }
	for dec := json.NewDecoder(in); ; {
		var e event
		if err := dec.Decode(&e); err == io.EOF {
			return c, nil
		} else if err != nil {
			return c, err
		}
		switch e.Action {
		case "output", "build-output":
			b := output[key(e)]
			if b == nil {
				b = &strings.Builder{}
				output[key(e)] = b
			}
			b.WriteString(e.Output)
			continue
		case "build-fail":
			fmt.Fprint(out, output[key(e)])
			continue
		case "pass", "skip":
			if e.Test == "" && e.Action == "pass" {
				fmt.Fprintf(out, "ok    %s  %.1fs\n", e.Package, e.Elapsed)
			}
		case "fail":
			if b := output[key(e)]; b != nil {
				fmt.Fprint(out, b)
			}
			if e.Test == "" {
				unfinished(out, output, e.Package)
				fmt.Fprintf(out, "FAIL  %s  %.1fs\n", e.Package, e.Elapsed)
			}
		default:
			continue
		}
		delete(output, key(e))
		switch {
		case e.Test != "" && e.Action == "pass":
			c.Passed++
		case e.Test != "" && e.Action == "skip":
			c.Skipped++
		case e.Test != "":
			c.Failed++
			failures[e.Package]++
		case e.Action == "fail" && failures[e.Package] == 0:
			c.Failed++
		}
	}
}

// unfinished prints what tests without a result had said: a process that dies
// takes its reason there.
func unfinished(out io.Writer, output map[string]*strings.Builder, pkg string) {
	for _, k := range slices.Sorted(maps.Keys(output)) {
		if strings.HasPrefix(k, pkg+" Test") || strings.HasPrefix(k, pkg+" Fuzz") {
			fmt.Fprint(out, output[k])
			delete(output, k)
		}
	}
}

func readJUnit(in io.Reader) (counts, error) {
	var report struct {
		Suites []struct {
			Tests    int `xml:"tests,attr"`
			Failures int `xml:"failures,attr"`
			Errors   int `xml:"errors,attr"`
			Skipped  int `xml:"skipped,attr"`
		} `xml:"testsuite"`
	}
	var c counts
	if err := xml.NewDecoder(in).Decode(&report); err != nil {
		return c, err
	}
	for _, s := range report.Suites {
		bad := s.Failures + s.Errors
		c.Failed += bad
		c.Skipped += s.Skipped
		c.Passed += s.Tests - bad - s.Skipped
	}
	if c.Passed+c.Failed+c.Skipped == 0 {
		return c, fmt.Errorf("no test ran")
	}
	return c, nil
}

// total sums up and prints the closing line.
func total(dir string, out io.Writer) (counts, error) {
	var sum counts
	files, err := filepath.Glob(filepath.Join(dir, "*.counts"))
	if err != nil {
		return sum, err
	}
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err != nil {
			return sum, err
		}
		var c counts
		if err := json.Unmarshal(text, &c); err != nil {
			return sum, err
		}
		sum.Passed += c.Passed
		sum.Failed += c.Failed
		sum.Skipped += c.Skipped
	}
	fmt.Fprintf(out, "\n%d passed, %d failed", sum.Passed, sum.Failed)
	if sum.Skipped > 0 {
		fmt.Fprintf(out, ", %d skipped", sum.Skipped)
	}
	fmt.Fprintln(out)
	return sum, nil
}
