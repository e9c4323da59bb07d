package figures

import "fmt"

// Slack is how far a gated figure may miss its must before the gate fails.
const Slack = 0.15

// None is the Aim of a goal that states none.
const None = -1

// A Goal is one promise about cost.
type Goal struct {
	ID      string // number in docs/performance.md
	Measure string
	Must    float64
	Aim     float64 // None: none stated
	Unit    string  // "x" for ratios
	AtLeast bool    // larger is better
	Gated   bool    // missing Must by more than Slack fails the run
}

// A Verdict is how a measured figure stands to its goal.
type Verdict string

// The verdicts, best first.
const (
	MeetsAim    Verdict = "aim"
	MeetsMust   Verdict = "must"
	WithinSlack Verdict = "within slack"
	Missed      Verdict = "missed"
	Unmeasured  Verdict = "not measured"
)

// Judge holds a measured figure against the goal.
func (g Goal) Judge(s Spread) Verdict {
	switch {
	case s.N == 0:
		return Unmeasured
	case g.Aim != None && g.reaches(s.Median, g.Aim):
		return MeetsAim
	case g.reaches(s.Median, g.Must):
		return MeetsMust
	case g.Gated && g.reaches(s.Median, g.limit()):
		return WithinSlack
	}
	return Missed
}

func (g Goal) reaches(v, bound float64) bool {
	if g.AtLeast {
		return v >= bound
	}
	return v <= bound
}

func (g Goal) limit() float64 {
	if g.AtLeast {
		return g.Must * (1 - Slack)
	}
	return g.Must * (1 + Slack)
}

func (g Goal) bound(v float64) string {
	sign := "<="
	if g.AtLeast {
		sign = ">="
	}
	return fmt.Sprintf("%s %s%s", sign, number(v), g.Unit)
}

// A Result is a goal with what was measured.
type Result struct {
	Goal
	Measured Spread
}

// Failures lists the gates that do not hold. A gate whose figure is missing
// does not hold either: a run that measured nothing proves nothing.
func Failures(results []Result) []string {
	var out []string
	for _, r := range results {
		switch v := r.Judge(r.Measured); {
		case !r.Gated:
		case v == Unmeasured:
			out = append(out, fmt.Sprintf("%s %s: not measured", r.ID, r.Measure))
		case v == Missed:
			out = append(out, fmt.Sprintf("%s %s: %s%s, want %s", r.ID, r.Measure,
				number(r.Measured.Median), r.Unit, r.bound(r.Must)))
		}
	}
	return out
}
