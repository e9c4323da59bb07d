package main

import (
	"bufio"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"
)

// equivalent.txt explains what no test can notice, one mutant a line: its name,
// " = ", the reason.
//
//go:embed equivalent.txt
var equivalent string

// explanations reads them; every one must name a mutant that still exists.
func explanations(w *weave) (map[string]string, error) {
	known := map[string]bool{}
	for _, m := range w.mutants {
		known[m.id] = true
	}
	out := map[string]string{}
	for line := range strings.Lines(equivalent) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		at := strings.LastIndex(line, " = ")
		switch {
		case at < 0:
			return nil, fmt.Errorf("equivalent.txt: no reason in %q", line)
		case !known[line[:at]]:
			return nil, fmt.Errorf("equivalent.txt explains what is not there: %s", line[:at])
		}
		out[line[:at]] = line[at+3:]
	}
	return out, nil
}

// A journal is what is known of the mutants; with a file, runs add to it.
type journal struct {
	results map[string]result
	file    *os.File
}

func openJournal(name string) (*journal, error) {
	j := &journal{results: map[string]result{}}
	if name == "" {
		return j, nil
	}
	var err error
	if j.file, err = os.OpenFile(name, os.O_RDWR|os.O_APPEND|os.O_CREATE, 0o644); err != nil {
		return nil, err
	}
	lines := bufio.NewScanner(j.file)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var r result
		if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		j.results[r.ID] = r
	}
	return j, lines.Err()
}

func (j *journal) add(r result) error {
	j.results[r.ID] = r
	if j.file == nil {
		return nil
	}
	b, err := json.Marshal(r)
	if err != nil {
		return err
	}
	_, err = j.file.Write(append(b, '\n'))
	return err
}

// settle runs what is not known yet and returns what there was no time for.
func (j *journal) settle(ctx context.Context, w *weave, chosen []*mutant, explained map[string]string, o *options) (left []*mutant, err error) {
	todo := slices.DeleteFunc(slices.Clone(chosen), func(m *mutant) bool {
		r, ran := j.results[m.id]
		return explained[m.id] != "" || ran && !r.Cut && (r.Column != "" || !o.again)
	})
	if len(todo) == 0 {
		return nil, nil
	}
	if o.limit > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, o.limit)
		defer cancel()
	}
	dir, err := os.MkdirTemp("", "mutants")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	b := &bench{dir: dir, log: func(format string, args ...any) { fmt.Printf(format+"\n", args...) }}
	may := map[string][]string{}
	for _, t := range targets {
		may[t.name] = slices.DeleteFunc(slices.Clone(t.suites), func(s string) bool { return slices.Contains(strings.Split(o.skip, ","), s) })
	}
	wanted := func(s *suite) bool {
		return slices.ContainsFunc(todo, func(m *mutant) bool { return slices.Contains(may[m.group], s.name) })
	}
	began := time.Now()
	if err := errors.Join(b.build(w, wanted), b.trace(ctx, wanted)); err != nil {
		return nil, err
	}
	b.log("%d mutants, %d tests that reach some; built and traced in %.0fs", len(todo), len(b.tests), time.Since(began).Seconds())
	for i, m := range todo {
		if ctx.Err() != nil {
			return todo[i:], nil
		}
		r := b.try(ctx, m, may[m.group])
		if r.Cut {
			return todo[i:], nil
		}
		if err := j.add(r); err != nil {
			return nil, err
		}
		b.log("%d/%d %s: %s (%.1fs)", i+1, len(todo), m.id, r.verdict(), r.Took.Seconds())
	}
	return nil, nil
}

func (r *result) verdict() string {
	if r.Column == "" {
		return "NOT NOTICED, " + r.silence()
	}
	return r.Column + ", " + r.By
}

func (r *result) silence() string {
	if !r.Reached {
		return "no test runs it"
	}
	return fmt.Sprintf("%d runs of it", r.Silent)
}
