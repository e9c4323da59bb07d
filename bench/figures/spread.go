// Package figures is the arithmetic of the benchmark: samples become ratios
// within a round, rounds become a median and a range, and these are held
// against the goals of docs/performance.md. It is pure.
package figures

import "slices"

// A Sample is what one target did in one measurement. A figure that was not
// measured is zero.
type Sample struct {
	Rate     float64 // requests per second
	CPU      float64 // microseconds of proxy CPU (user and system) per request
	RedisCPU float64 // microseconds of Redis CPU per request
	P50, P99 float64 // latency in microseconds
	Foreign  float64 // share of the machine's CPU spent outside the measurement, 0..1
}

// A Round holds one sample of every target. Ratios are taken within a round
// only: the machine drifts more between rounds than the targets differ.
type Round map[string]Sample

// A Figure picks one figure of a sample.
type Figure func(Sample) float64

// The figures goals are stated in.
var (
	Rate     Figure = func(s Sample) float64 { return s.Rate }
	CPU      Figure = func(s Sample) float64 { return s.CPU }
	RedisCPU Figure = func(s Sample) float64 { return s.RedisCPU }
	P50      Figure = func(s Sample) float64 { return s.P50 }
	P99      Figure = func(s Sample) float64 { return s.P99 }
)

// A Spread is a median and the range around it. N is 0 when nothing was
// measured.
type Spread struct {
	Median, Min, Max float64
	N                int
}

// One is the spread of a single measurement.
func One(v float64) Spread { return Of([]float64{v}) }

// Of is the spread of values; the median of an even number is the mean of the
// middle two.
func Of(values []float64) Spread {
	n := len(values)
	if n == 0 {
		return Spread{}
	}
	v := slices.Clone(values)
	slices.Sort(v)
	return Spread{Median: (v[(n-1)/2] + v[n/2]) / 2, Min: v[0], Max: v[n-1], N: n}
}

// Values is the spread of one figure of one target.
func Values(rounds []Round, target string, f Figure) Spread {
	var v []float64
	for _, r := range rounds {
		if s, ok := r[target]; ok && f(s) > 0 {
			v = append(v, f(s))
		}
	}
	return Of(v)
}

// Ratio is the spread of target/base, taken within each round that has both.
func Ratio(rounds []Round, target, base string, f Figure) Spread {
	var v []float64
	for _, r := range rounds {
		t, okT := r[target]
		b, okB := r[base]
		if okT && okB && f(t) > 0 && f(b) > 0 {
			v = append(v, f(t)/f(b))
		}
	}
	return Of(v)
}

// AddedRatio compares what two targets add to the direct way: (target -
// direct) / (base - direct), within each round that has all three and in which
// the base adds anything.
func AddedRatio(rounds []Round, target, base, direct string, f Figure) Spread {
	var v []float64
	for _, r := range rounds {
		t, okT := r[target]
		b, okB := r[base]
		d, okD := r[direct]
		if okT && okB && okD && f(t) > 0 && f(b) > f(d) {
			v = append(v, max(0, f(t)-f(d))/(f(b)-f(d)))
		}
	}
	return Of(v)
}

// Noisy counts the samples kept although more than limit of the machine was
// busy with something else.
func Noisy(rounds []Round, limit float64) (noisy, all int) {
	for _, r := range rounds {
		for _, s := range r {
			all++
			if s.Foreign > limit {
				noisy++
			}
		}
	}
	return noisy, all
}
