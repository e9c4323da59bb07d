// Package metrics counts what a node does, for Prometheus. It alone imports
// the Prometheus client; the parts of a node get plain functions to call.
//
// Invariant: the set of series is fixed at construction. Callers pass words;
// a word that is not in the closed list of its label counts as Other.
package metrics

import (
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	dto "github.com/prometheus/client_model/go"
)

// A Snapshot is what is true now rather than counted; read at each scrape.
type Snapshot struct {
	Connections    map[string]int // by ConnectionKinds
	Workers        map[string]int // by WorkerStates
	Placements     int
	Nodes          int            // of the store
	Differing      map[string]int // nodes that run otherwise than this one, by NodeSettings
	Ready          bool
	Lag            time.Duration
	StoreSafe      bool
	StoreDisagrees bool
	LogLost        int64
	Version        string // of the node; the same in every snapshot
	StoreFormat    int    // likewise
	StoreState     string // one of StoreStates; "" while the store is not reached
}

// Metrics of one node.
type Metrics struct {
	registry *prometheus.Registry

	requests       map[string][]prometheus.Counter // by route, then in the order of classes
	requestSeconds map[string]prometheus.Observer
	resolutions    map[string]prometheus.Counter
	forwards       map[string]prometheus.Counter
	refusals       map[string]prometheus.Counter
	storeSeconds   map[string]prometheus.Observer
	storeErrors    map[string]prometheus.Counter
	loopFailures   map[string]prometheus.Counter
	proofs         map[string]prometheus.Counter
	generations    map[string]prometheus.Counter
}

// Buckets of the histograms, in seconds.
var (
	requestBuckets = []float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30}
	storeBuckets   = []float64{.0001, .00025, .0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2}
)

// New registers every family of the Catalogue and the Go and process
// collectors. snapshot is called at each scrape and must do no I/O.
func New(snapshot func() Snapshot) *Metrics {
	m := &Metrics{registry: prometheus.NewRegistry(), requests: map[string][]prometheus.Counter{}}
	vec := prometheus.NewCounterVec(prometheus.CounterOpts(opts(requests)), names(requests))
	m.registry.MustRegister(vec)
	for _, route := range Routes {
		for _, class := range classes {
			m.requests[route] = append(m.requests[route], vec.WithLabelValues(route, class))
		}
	}
	m.requestSeconds = m.histograms(requestSeconds, requestBuckets)
	m.resolutions = m.counters(resolutions)
	m.forwards = m.counters(forwards)
	m.refusals = m.counters(refusals)
	m.storeSeconds = m.histograms(storeSeconds, storeBuckets)
	m.storeErrors = m.counters(storeErrors)
	m.loopFailures = m.counters(loopFailures)
	m.proofs = m.counters(proofs)
	m.generations = m.counters(generations)
	m.registry.MustRegister(gauges{snapshot},
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return m
}

// Request counts one request by route (Routes). status 0 means that no answer
// was sent.
func (m *Metrics) Request(route string, status int, took time.Duration) {
	if m.requests[route] == nil {
		route = Other
	}
	m.requests[route][class(status)].Inc()
	m.requestSeconds[route].Observe(took.Seconds())
}

// Resolved counts one resolution: "found", "placed" or a refusal's code.
func (m *Metrics) Resolved(outcome string) { count(m.resolutions, outcome) }

// Forwarded counts one exchange with a worker by its result.
func (m *Metrics) Forwarded(result string) { count(m.forwards, result) }

// Refused counts one answer of Pinboard's own making by its code.
func (m *Metrics) Refused(code string) { count(m.refusals, code) }

// Stored counts one call of the store.
func (m *Metrics) Stored(op string, took time.Duration, err error) {
	o := m.storeSeconds[op]
	if o == nil {
		o = m.storeSeconds[Other]
	}
	o.Observe(took.Seconds())
	if err != nil {
		count(m.storeErrors, op)
	}
}

// Proved counts one challenge by its result.
func (m *Metrics) Proved(result string) { count(m.proofs, result) }

// Began counts one generation of a bucket by its cause.
func (m *Metrics) Began(cause string) { count(m.generations, cause) }

// LoopFailed counts one failed run of a background loop.
func (m *Metrics) LoopFailed(loop string) { count(m.loopFailures, loop) }

// Handler serves the exposition.
func (m *Metrics) Handler() http.Handler {
	return promhttp.HandlerFor(withoutVersion{m.registry}, promhttp.HandlerOpts{})
}

// withoutVersion drops go_info: the endpoint is open, and a version tells an
// attacker what to try (FC-59).
type withoutVersion struct{ prometheus.Gatherer }

// Gather filters what the registry gathers.
func (g withoutVersion) Gather() ([]*dto.MetricFamily, error) {
	families, err := g.Gatherer.Gather()
	kept := families[:0]
	for _, f := range families {
		if f.GetName() != "go_info" {
			kept = append(kept, f)
		}
	}
	return kept, err
}

// class is the index into classes of a status.
func class(status int) int {
	if status < 100 || status > 599 {
		return len(classes) - 1
	}
	return status/100 - 1
}

func count(m map[string]prometheus.Counter, value string) {
	c := m[value]
	if c == nil {
		c = m[Other]
	}
	c.Inc()
}

func (m *Metrics) counters(f Family) map[string]prometheus.Counter {
	vec := prometheus.NewCounterVec(prometheus.CounterOpts(opts(f)), names(f))
	m.registry.MustRegister(vec)
	out := map[string]prometheus.Counter{}
	for _, v := range f.Labels[0].Values {
		out[v] = vec.WithLabelValues(v)
	}
	return out
}

func (m *Metrics) histograms(f Family, buckets []float64) map[string]prometheus.Observer {
	o := opts(f)
	vec := prometheus.NewHistogramVec(prometheus.HistogramOpts{Namespace: o.Namespace, Name: o.Name, Help: o.Help, Buckets: buckets}, names(f))
	m.registry.MustRegister(vec)
	out := map[string]prometheus.Observer{}
	for _, v := range f.Labels[0].Values {
		out[v] = vec.WithLabelValues(v)
	}
	return out
}

func opts(f Family) prometheus.Opts {
	return prometheus.Opts{Namespace: "pinboard", Name: f.Name, Help: f.Help}
}

func names(f Family) []string {
	out := make([]string, len(f.Labels))
	for i, l := range f.Labels {
		out[i] = l.Name
	}
	return out
}
