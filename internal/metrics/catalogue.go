package metrics

import "pinboard"

// A Family is one metric as operators know it. Every label's values are listed
// here: nothing a client, worker or path contains ever becomes a series.
type Family struct {
	Name   string // without the prefix pinboard_
	Kind   string // counter, gauge or histogram
	Help   string
	Labels []Label
}

// A Label is the closed list of one label's values; what is not in it counts
// as Other. Without a list it has the one value that the program was built with.
type Label struct {
	Name   string
	Values []string
}

// Other stands for every value that a label's list does not know.
const Other = "other"

// Families of Pinboard's own; the Go and process collectors come on top.
var (
	requests = Family{"requests_total", "counter",
		"Requests answered, by normalised route and status class; none is a request that got no answer.",
		[]Label{{"route", Routes}, {"class", classes}}}
	requestSeconds = Family{"request_duration_seconds", "histogram",
		"Time from the request head to the end of the answer; for streams and tunnels to the answer's head.",
		[]Label{{"route", Routes}}}
	resolutions = Family{"resolutions_total", "counter",
		"Resolutions of an id to its owner: the owner was found (found), this request placed the id (placed), the client left meanwhile (canceled), or the code of the refusal.",
		[]Label{{"outcome", outcomes()}}}
	forwards = Family{"forwards_total", "counter",
		"What became of the exchanges handed to workers.",
		[]Label{{"result", Results}}}
	refusals = Family{"refusals_total", "counter",
		"Answers of Pinboard's own making on the data plane, by code (docs/protocol.md).",
		[]Label{{"code", codes()}}}
	storeSeconds = Family{"store_duration_seconds", "histogram",
		"Time of one call of the store, all its round trips.",
		[]Label{{"op", StoreOps}}}
	storeErrors = Family{"store_errors_total", "counter",
		"Calls of the store that failed or timed out; an unknown row is no failure.",
		[]Label{{"op", StoreOps}}}
	proofs = Family{"proofs_total", "counter",
		"Challenges of workers that register or beat: proved (ok), no proof to be had (missing), answered by somebody else (refused).",
		[]Label{{"result", Proofs}}}
	loopFailures = Family{"loop_failures_total", "counter",
		"Runs of a background loop that ended in an error.",
		[]Label{{"loop", Loops}}}

	connections = Family{"connections", "gauge",
		"Exchanges open on data-plane connections, by kind: finite, stream (a body without announced length), tunnel (WebSocket).",
		[]Label{{"kind", ConnectionKinds}}}
	workers = Family{"workers", "gauge",
		"Registered workers by state, as this node last read them; those draining or degraded count as live too.",
		[]Label{{"state", WorkerStates}}}
	placements = Family{"placements", "gauge", "Placed ids, as this node last counted them.", nil}
	nodes      = Family{"nodes", "gauge", "Nodes that run on this store, this one included, as it last read their list.", nil}
	differing  = Family{"nodes_differing", "gauge",
		"Nodes of this store that run otherwise than this one, by the setting that differs.",
		[]Label{{"setting", NodeSettings}}}
	ready = Family{"ready", "gauge", "1 while /readyz answers 200.", nil}
	lag   = Family{"scheduler_lag_seconds", "gauge",
		"Worst delay of a due timer since the last heartbeat line: what the machine withholds from this process.", nil}
	build = Family{"build_info", "gauge",
		"Always 1; the labels say what runs: the version of the node and the format of the store that it speaks.",
		[]Label{{"version", nil}, {"store_format", nil}}}
	logLost = Family{"log_lines_lost_total", "counter",
		"Log lines that were dropped because nobody read them in time, or could not be written.", nil}
	storeSafe = Family{"store_safe", "gauge",
		"1 while the store's replication keeps single ownership through partitions of the store itself (docs/guarantees.md).", nil}
	storeState = Family{"store_guarantee", "gauge",
		"1 for the state of the store's own guarantee (docs/guarantees.md): safe; one_server, where single ownership holds as well; lax, where a failover may break it; unknown; in_process.",
		[]Label{{"state", StoreStates}}}
	storeDisagrees = Family{"store_disagrees", "gauge",
		"1 while the store was set up otherwise than this node (bucket count, mode, format): the node serves no id until they agree.", nil}
	generations = Family{"generations_total", "counter",
		"Generations of buckets that this node began, by cause: a server that the bucket had not seen (generation), a stepped clock, a history that went back. Each is cold for a lease.",
		[]Label{{"cause", Generations}}}
)

// Catalogue lists every family in the order of docs/metrics.md.
var Catalogue = []Family{requests, requestSeconds, resolutions, forwards, refusals, connections,
	workers, placements, nodes, differing, proofs, storeSeconds, storeErrors, storeSafe, storeState, storeDisagrees, generations, ready, lag, loopFailures, logLost, build}

// Closed lists of label values.
var (
	// Routes are the normalised routes; the data plane is one of them.
	Routes = []string{RouteInstance, "/healthz", "/readyz", "/metrics",
		"/registry/register", "/registry/heartbeat", "/registry/release", "/registry/deregister", "/registry/tag",
		"/registry/durability/mark", "/registry/durability/unmark",
		"/registry/workers", "/registry/overview", "/registry/health", "/registry/stats", "/registry/events",
		"/registry/wind_down", "/registry/drain", "/registry/undrain", "/registry/push", "/registry/eject",
		"/registry/binding/delete", Other}
	classes = []string{"1xx", "2xx", "3xx", "4xx", "5xx", "none"}
	// Results of a forward.
	Results = []string{"served", "refused", "unreachable", "bad_attestation", "client_abort", "worker_abort", "worker_timeout", "owner_lost", "shutdown", Other}
	// ConnectionKinds of the data plane.
	ConnectionKinds = []string{"finite", "stream", "tunnel"}
	// WorkerStates are the directory's; draining and degraded ones are live too.
	WorkerStates = []string{"live", "draining", "degraded", "restating", "replaced", "succeeded", "superseded", "ejected", "lapsed", "ended", Other}
	// StoreOps are the store's methods.
	StoreOps = []string{"peek", "update", "walk", Other}
	// StoreStates are those of redisstore.States.
	StoreStates = []string{"safe", "one_server", "lax", "unknown", "in_process"}
	// NodeSettings are those of internal/ownership.
	NodeSettings = []string{"version", "storeFormat", "leaseMs", "slackMs", "hostnameAware", "coldStart"}
	// Generations are the causes of internal/ownership that begin one.
	Generations = []string{"generation", "clock stepped", "history lost", Other}
	// Proofs of a worker's advertise URL.
	Proofs = []string{"ok", "missing", "refused", Other}
	// Loops run in the background of a node.
	Loops = []string{"housekeeping", "census", Other}
)

// RouteInstance is the data plane: every namespace and id.
const RouteInstance = "/{namespace}/{id}"

func codes() []string {
	list := []string{Other}
	for _, r := range pinboard.Refusals {
		list = append(list, r.Code)
	}
	return list
}

func outcomes() []string { return append([]string{"found", "placed", "canceled"}, codes()...) }
