package figures

import (
	"fmt"
	"math"
	"strings"
)

// GoalTable is the Markdown table of goals and what was measured.
func GoalTable(results []Result) string {
	var b strings.Builder
	b.WriteString("| # | measure | must | aim | measured | verdict |\n|---|---|---|---|---|---|\n")
	for _, r := range results {
		aim := ""
		if r.Aim != None {
			aim = r.bound(r.Aim)
		}
		gate := ""
		if r.Gated {
			gate = " (gate)"
		}
		fmt.Fprintf(&b, "| %s | %s%s | %s | %s | %s | %s |\n", r.ID, r.Measure, gate, r.bound(r.Must), aim,
			r.Measured.format(r.Unit), r.Judge(r.Measured))
	}
	return b.String()
}

// A Column is one figure of a target table.
type Column struct {
	Title string
	Cell  func(target string) Spread
}

// TargetTable is a Markdown table with a row for every target.
func TargetTable(targets []string, columns []Column) string {
	var b strings.Builder
	b.WriteString("| target |")
	for _, c := range columns {
		fmt.Fprintf(&b, " %s |", c.Title)
	}
	b.WriteString("\n|" + strings.Repeat("---|", len(columns)+1) + "\n")
	for _, t := range targets {
		fmt.Fprintf(&b, "| %s |", t)
		for _, c := range columns {
			fmt.Fprintf(&b, " %s |", c.Cell(t).format(""))
		}
		b.WriteString("\n")
	}
	return b.String()
}

// String is "median [min-max]", without the range for a single measurement.
func (s Spread) String() string { return s.format("") }

func (s Spread) format(unit string) string {
	switch s.N {
	case 0:
		return "-"
	case 1:
		return number(s.Median) + unit
	}
	return fmt.Sprintf("%s%s [%s-%s]", number(s.Median), unit, number(s.Min), number(s.Max))
}

// number prints three significant digits.
func number(v float64) string {
	switch a := math.Abs(v); {
	case a >= 100 || v == math.Trunc(v):
		return fmt.Sprintf("%.0f", v)
	case a >= 10:
		return fmt.Sprintf("%.1f", v)
	case a >= 0.095:
		return fmt.Sprintf("%.2f", v)
	}
	return fmt.Sprintf("%.3f", v)
}
