package metrics

import (
	"strconv"

	"github.com/prometheus/client_golang/prometheus"
)

// gauges turns a Snapshot into samples at each scrape: nothing is kept, so
// nothing of a worker that is gone can stay behind.
type gauges struct{ read func() Snapshot }

var (
	connectionsDesc = desc(connections)
	workersDesc     = desc(workers)
	placementsDesc  = desc(placements)
	readyDesc       = desc(ready)
	lagDesc         = desc(lag)
	storeSafeDesc   = desc(storeSafe)
	logLostDesc     = desc(logLost)
	buildDesc       = desc(build)
	storeStateDesc  = desc(storeState)
	disagreesDesc   = desc(storeDisagrees)
	nodesDesc       = desc(nodes)
	differingDesc   = desc(differing)
)

func desc(f Family) *prometheus.Desc {
	return prometheus.NewDesc("pinboard_"+f.Name, f.Help, names(f), nil)
}

// Describe implements prometheus.Collector.
func (gauges) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{connectionsDesc, workersDesc, placementsDesc, readyDesc, lagDesc, storeSafeDesc, storeStateDesc, disagreesDesc, nodesDesc, differingDesc, logLostDesc, buildDesc} {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (g gauges) Collect(ch chan<- prometheus.Metric) {
	s := g.read()
	send := func(d *prometheus.Desc, v float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	for _, kind := range ConnectionKinds {
		send(connectionsDesc, float64(s.Connections[kind]), kind)
	}
	byState := map[string]int{}
	for state, n := range s.Workers {
		byState[known(WorkerStates, state)] += n
	}
	for _, state := range WorkerStates {
		send(workersDesc, float64(byState[state]), state)
	}
	send(placementsDesc, float64(s.Placements))
	send(nodesDesc, float64(s.Nodes))
	for _, setting := range NodeSettings {
		send(differingDesc, float64(s.Differing[setting]), setting)
	}
	send(readyDesc, number(s.Ready))
	send(lagDesc, s.Lag.Seconds())
	send(storeSafeDesc, number(s.StoreSafe))
	send(disagreesDesc, number(s.StoreDisagrees))
	send(buildDesc, 1, s.Version, strconv.Itoa(s.StoreFormat))
	ch <- prometheus.MustNewConstMetric(logLostDesc, prometheus.CounterValue, float64(s.LogLost))
	for _, state := range StoreStates {
		send(storeStateDesc, number(s.StoreState == state), state)
	}
}

func known(list []string, value string) string {
	for _, v := range list {
		if v == value {
			return v
		}
	}
	return Other
}

func number(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
