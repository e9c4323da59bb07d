package main

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"time"
)

// heading begins the part of the page that this command writes; the rest is
// the hand-written list's (internal/sim/mutate).
const heading = "## Guards found by a script"

const preface = heading + `

Written by ` + "`go run ./internal/mutants -write docs/mutations.md`" + `; ` + "`make nightly`" + ` runs it and fails if a guard can go unnoticed.
` + "`make test`" + ` tries those in changed lines, for three minutes at most. A program finds every condition, comparison and argument of
time and order, and takes each away. The cheapest suite is asked first, and the first that notices ends it: "–" means asked and
silent, an empty field not asked. What no test can notice is explained in internal/mutants/equivalent.txt.

`

// page rewrites the command's part of a page.
func (j *journal) page(name string, w *weave, explained map[string]string) error {
	old, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	before, _, _ := strings.Cut(string(old), heading)
	return os.WriteFile(name, []byte(before+preface+j.totals(w, explained)+j.tables(w, explained)), 0o644)
}

var columns = []string{"stories", "unit", "search", "seeds"}

// totals counts the outcomes of each target.
func (j *journal) totals(w *weave, explained map[string]string) string {
	var b strings.Builder
	b.WriteString("| Code | Guards | Stories | Unit tests | Search | Seeds | Cannot be noticed | Not noticed | Not tried | Minutes |\n|---|---|---|---|---|---|---|---|---|---|\n")
	for _, t := range targets {
		n := map[string]int{}
		var took time.Duration
		for _, m := range w.mutants {
			if m.group != t.name {
				continue
			}
			n["all"]++
			n[j.outcome(m, explained)]++
			took += j.results[m.id].Took
		}
		fmt.Fprintf(&b, "| %s, `%s` | %d | %d | %d | %d | %d | %d | %d | %d | %.1f |\n", t.name, t.dir, n["all"],
			n["stories"], n["unit"], n["search"], n["seeds"], n["explained"], n["silent"], n["untried"], took.Minutes())
	}
	return b.String()
}

// outcome is the column that noticed m, or what else became of it.
func (j *journal) outcome(m *mutant, explained map[string]string) string {
	r, ran := j.results[m.id]
	switch {
	case explained[m.id] != "":
		return "explained"
	case !ran:
		return "untried"
	case r.Column == "":
		return "silent"
	}
	return r.Column
}

// tables list every mutant below the function it is in.
func (j *journal) tables(w *weave, explained map[string]string) string {
	var b strings.Builder
	last := ""
	for _, m := range w.mutants {
		where, what, _ := strings.Cut(m.id, ": ")
		if where != last {
			fmt.Fprintf(&b, "\n**%s**\n\n| Guard → without it | Stories | Unit tests | Search | Seeds | Seconds |\n|---|---|---|---|---|---|\n", where)
			last = where
		}
		r := j.results[m.id]
		row := fmt.Sprintf("| %s |", code(strings.Replace(what, " -> ", " → ", 1)))
		switch j.outcome(m, explained) {
		case "explained":
			row += " cannot be noticed: " + explained[m.id] + " | | | | |"
		case "untried":
			row += " not tried yet | | | | |"
		default:
			row += r.cells() + fmt.Sprintf(" %.1f |", r.Took.Seconds())
		}
		b.WriteString(row + "\n")
	}
	return b.String()
}

// cells are the four columns of suites.
func (r *result) cells() string {
	var b strings.Builder
	for _, c := range columns {
		switch {
		case c == r.Column:
			b.WriteString(" " + r.By + " |")
		case slices.Contains(r.Asked, c):
			b.WriteString(" – |")
		default:
			b.WriteString(" |")
		}
	}
	return b.String()
}

// code is text of a program in a cell of a table.
func code(text string) string {
	return "`" + strings.ReplaceAll(strings.ReplaceAll(text, "`", "'"), "|", "\\|") + "`"
}
