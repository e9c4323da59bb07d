package figures

import (
	"math"
	"strings"
	"testing"
)

func TestSpreadOfValues(t *testing.T) {
	for _, c := range []struct {
		name   string
		values []float64
		want   Spread
	}{
		{"nothing measured", nil, Spread{}},
		{"one value", []float64{3}, Spread{3, 3, 3, 1}},
		{"odd count takes the middle", []float64{9, 1, 4}, Spread{4, 1, 9, 3}},
		{"even count takes the mean of the middle two", []float64{8, 1, 2, 4}, Spread{3, 1, 8, 4}},
	} {
		if got := Of(c.values); got != c.want {
			t.Errorf("%s: got %+v, want %+v", c.name, got, c.want)
		}
	}
}

func TestSpreadLeavesItsInputAlone(t *testing.T) {
	v := []float64{3, 1, 2}
	Of(v)
	if v[0] != 3 || v[1] != 1 || v[2] != 2 {
		t.Errorf("input became %v", v)
	}
}

// The machine halves its speed in the second round: the ratio stays 2, while
// the quotient of the medians would not.
func TestRatiosAreTakenWithinARound(t *testing.T) {
	rounds := []Round{
		{"a": {CPU: 20}, "b": {CPU: 10}},
		{"a": {CPU: 40}, "b": {CPU: 20}},
		{"a": {CPU: 18}, "b": {CPU: 9}},
	}
	if got := Ratio(rounds, "a", "b", CPU); got != (Spread{2, 2, 2, 3}) {
		t.Errorf("got %+v", got)
	}
}

func TestRatioSkipsRoundsWithoutBoth(t *testing.T) {
	rounds := []Round{
		{"a": {Rate: 30}},
		{"a": {Rate: 30}, "b": {Rate: 10}},
		{"a": {Rate: 30}, "b": {}},
	}
	if got := Ratio(rounds, "a", "b", Rate); got.N != 1 || got.Median != 3 {
		t.Errorf("got %+v", got)
	}
}

func TestAddedRatioTakesTheDirectWayOff(t *testing.T) {
	rounds := []Round{
		{"direct": {P50: 40}, "a": {P50: 160}, "b": {P50: 100}},
		{"direct": {P50: 50}, "a": {P50: 45}, "b": {P50: 100}}, // faster than direct adds nothing
		{"direct": {P50: 50}, "a": {P50: 90}, "b": {P50: 50}},  // no base to compare with
	}
	if got := AddedRatio(rounds, "a", "b", "direct", P50); got != (Spread{1, 0, 2, 2}) {
		t.Errorf("got %+v", got)
	}
}

func TestNoisyCountsKeptSamples(t *testing.T) {
	rounds := []Round{{"a": {Foreign: 0.07}, "b": {Foreign: 0.06}}, {"a": {Foreign: 0.5}}}
	if noisy, all := Noisy(rounds, 0.06); noisy != 2 || all != 3 {
		t.Errorf("got %d of %d", noisy, all)
	}
}

func TestVerdicts(t *testing.T) {
	cost := Goal{Must: 2, Aim: 1, Gated: true}
	gain := Goal{Must: 2, Aim: 4, AtLeast: true, Gated: true}
	report := Goal{Must: 2, Aim: None}
	for _, c := range []struct {
		name string
		goal Goal
		v    float64
		want Verdict
	}{
		{"cost at the aim", cost, 1, MeetsAim},
		{"cost at the must", cost, 2, MeetsMust},
		{"cost inside the slack", cost, 2.3, WithinSlack},
		{"cost beyond the slack", cost, 2.31, Missed},
		{"gain at the aim", gain, 4, MeetsAim},
		{"gain at the must", gain, 2, MeetsMust},
		{"gain inside the slack", gain, 1.7, WithinSlack},
		{"gain beyond the slack", gain, 1.69, Missed},
		{"a report has no slack", report, 2.1, Missed},
		{"a report without an aim", report, 0.1, MeetsMust},
	} {
		if got := c.goal.Judge(One(c.v)); got != c.want {
			t.Errorf("%s: got %q, want %q", c.name, got, c.want)
		}
	}
	if got := cost.Judge(Spread{}); got != Unmeasured {
		t.Errorf("nothing measured: got %q", got)
	}
}

func TestOnlyGatesFailTheRun(t *testing.T) {
	got := Failures([]Result{
		{Goal{ID: "A", Must: 2, Gated: true}, One(2.3)},
		{Goal{ID: "B", Measure: "cost", Must: 2, Unit: "x", Gated: true}, One(2.4)},
		{Goal{ID: "C", Must: 2}, One(99)},
		{Goal{ID: "D", Measure: "cost", Must: 2, Gated: true}, Spread{}},
	})
	want := []string{"B cost: 2.40x, want <= 2x", "D cost: not measured"}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("got %q", got)
	}
}

// A run in which Pinboard costs exactly what its goals allow passes every
// gate; 16 % more of any gated figure fails exactly that gate.
func TestEveryGateFiresOnItsOwnFigure(t *testing.T) {
	at := func() Measurements {
		return Measurements{
			Closed: []Round{{
				Pinboard: {CPU: 33, Rate: 25}, Nginx: {CPU: 33 / 1.6, Rate: 30}, NginxLua: {CPU: 44}, NodeRequest: {CPU: 100, Rate: 10},
			}},
			Allocs: One(3), Syscalls: map[string]Spread{Pinboard: One(7)}, RowBytes: One(0.6 * SeedRowBytes),
			WebSocket:   map[string]Spread{Pinboard: One(15 * 1024), ReverseProxy: One(50 * 1024)},
			EventStream: map[string]Spread{Pinboard: One(24 * 1024)},
		}
	}
	if f := Failures(Results(at())); len(f) != 0 {
		t.Fatalf("at the bounds: %q", f)
	}
	const over = 1.16
	for name, change := range map[string]func(*Measurements){
		"T1 ":                  func(m *Measurements) { m.Closed[0][Nginx] = Sample{CPU: 33 / 1.6 / over} },
		"T13":                  func(m *Measurements) { m.Closed[0][NginxLua] = Sample{CPU: 44 / over} },
		"T14":                  func(m *Measurements) { m.Closed[0][NodeRequest] = Sample{CPU: 100 / over} },
		"T8 allocations":       func(m *Measurements) { m.Allocs = One(3 * over) },
		"T8 system calls":      func(m *Measurements) { m.Syscalls[Pinboard] = One(7 * over) },
		"T10 idle WebSocket v": func(m *Measurements) { m.WebSocket[ReverseProxy] = One(50 * 1024 / over) },
		"T10 idle WebSocket:": func(m *Measurements) {
			m.WebSocket = map[string]Spread{Pinboard: One(16 * 1024 * over), ReverseProxy: One(99 * 1024)}
		},
		"T11": func(m *Measurements) { m.EventStream[Pinboard] = One(24 * 1024 * over) },
		"T12": func(m *Measurements) { m.RowBytes = One(0.6 * SeedRowBytes * over) },
	} {
		m := at()
		change(&m)
		if f := Failures(Results(m)); len(f) != 1 || !strings.HasPrefix(f[0], name) {
			t.Errorf("%s: failures %q", name, f)
		}
	}
}

func TestNumbersKeepThreeDigits(t *testing.T) {
	for v, want := range map[float64]string{29283.4: "29283", 28.84: "28.8", 1.349: "1.35", 0.251: "0.25", 0.0204: "0.020", 3: "3", 0: "0"} {
		if got := number(v); got != want {
			t.Errorf("%v: got %s, want %s", v, got, want)
		}
	}
	if got := (Spread{1.351, 1.1, 1.5, 10}).String(); got != "1.35 [1.10-1.50]" {
		t.Errorf("got %s", got)
	}
}

func TestTables(t *testing.T) {
	got := GoalTable([]Result{{Goal{"T1", "CPU", 1.6, 1.1, "x", false, true}, Spread{1.35, 1.1, 1.5, 8}}, {Goal{"T9", "other", 0.5, None, "x", false, false}, Spread{}}})
	want := "| # | measure | must | aim | measured | verdict |\n|---|---|---|---|---|---|\n" +
		"| T1 | CPU (gate) | <= 1.60x | <= 1.10x | 1.35x [1.10-1.50] | must |\n" +
		"| T9 | other | <= 0.50x |  | - | not measured |\n"
	if got != want {
		t.Errorf("got\n%s", got)
	}
	got = TargetTable([]string{"a"}, []Column{{"CPU", func(string) Spread { return One(2) }}})
	if want := "| target | CPU |\n|---|---|\n| a | 2 |\n"; got != want {
		t.Errorf("got\n%s", got)
	}
}

func TestGoalsAreStatedOnce(t *testing.T) {
	seen := map[string]bool{}
	for _, r := range Results(Measurements{}) {
		key := r.ID + r.Measure
		if seen[key] || r.Measure == "" || math.IsNaN(r.Must) || r.Must <= 0 {
			t.Errorf("goal %s %q", r.ID, r.Measure)
		}
		seen[key] = true
		if v := r.Judge(r.Measured); v != Unmeasured {
			t.Errorf("%s %s: an empty run measured %q", r.ID, r.Measure, v)
		}
	}
}
