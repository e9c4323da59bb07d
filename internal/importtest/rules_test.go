package importtest

// A rule names the packages of ours that a package may import.
type rule struct {
	may []string
	why string
}

// rules, from the inside out. "." is the vocabulary at the root.
var rules = map[string]rule{
	".": {nil, "the vocabulary knows nobody"},

	"api":             {[]string{"."}, "bodies and header names of the wire"},
	"internal/pick":   {[]string{"."}, "a pure choice among candidates"},
	"internal/attest": {[]string{"."}, "signatures over plain values"},
	"internal/h1":     {[]string{"."}, "a codec over byte slices"},

	"internal/ownership": {[]string{"."}, "the rules know the vocabulary alone: no store, no node, no wire"},
	"internal/guard":     {[]string{"internal/ownership"}, "a node's doubt about clocks and histories; every time is handed in"},
	"internal/directory": {[]string{".", "internal/ownership", "internal/pick"}, "a node's shell around the rules; knows neither stores nor the wire"},
	"client":             {[]string{".", "api", "internal/seam"}, "public: must not drag the server in"},

	"internal/ownership/storetest": {[]string{".", "internal/ownership", "internal/directory"}, "the suite that every store runs"},
	"internal/memstore":            {[]string{".", "internal/ownership"}, "an adapter of the store port"},
	"internal/redisstore":          {[]string{".", "internal/ownership", "internal/guard", "internal/rawsock", "internal/wait"}, "an adapter of the store port"},

	"internal/passport": {[]string{"."}, "who may do what, from the operator's document alone"},
	"internal/outbound": {[]string{".", "api", "internal/wait"}, "requests to workers besides forwards"},
	"internal/registry": {[]string{".", "api", "internal/ownership", "internal/directory", "internal/passport", "internal/outbound", "internal/seldom"},
		"the one sideways import among adapters is registry -> outbound"},
	"internal/seldom":  {nil, "which warnings are worth a line"},
	"internal/rawsock": {nil, "system calls, of nobody in particular"},
	"internal/wait":    {nil, "waits, for nobody in particular"},
	"internal/proxy": {[]string{".", "internal/h1", "internal/ownership", "internal/directory", "internal/attest", "internal/rawsock", "internal/wait"},
		"the data plane declares its own resolver and holds no store"},
	"worker": {[]string{".", "api", "client", "internal/attest", "internal/seam"}, "public SDK: never the directory"},

	"internal/metrics": {[]string{"."}, "observers are plain functions; only codes come from the vocabulary"},
	"internal/server":  {[]string{"internal/wait"}, "runs whatever it is given: front, boot, loops"},
	"cmd/pinboard": {[]string{".", "api", "client", "internal/ownership", "internal/directory", "internal/memstore", "internal/redisstore",
		"internal/passport", "internal/outbound", "internal/registry", "internal/attest", "internal/proxy",
		"internal/metrics", "internal/server", "internal/seldom", "internal/wait"}, "wiring"},

	"internal/sim": {[]string{".", "api", "worker", "internal/ownership", "internal/guard", "internal/directory", "internal/memstore", "internal/pick",
		"internal/registry", "internal/outbound", "internal/passport", "internal/attest", "internal/seam"}, "the rules and the SDK under one fake clock"},
	"internal/explore":    {[]string{".", "internal/ownership", "internal/memstore"}, "every state of small worlds, over the rules and the commit that ship"},
	"internal/sim/mutate": {nil, "breaks rules on purpose and runs the tests that must notice"},
	"internal/mutants":    {nil, "takes guards away by itself and runs the tests that must notice"},
	"internal/importtest": {nil, "reads source files"},
	"internal/rawtest":    {nil, "a second opinion on the wire shares no line with what it judges"},
	"internal/seam":       {nil, "the clock and waits of the SDK, no matter what for"},
	"internal/freeze":     {nil, "stops processes, for sure"},
	"internal/redistest":  {[]string{"internal/freeze"}, "starts servers"},
	"internal/faults":     {[]string{"api", "worker"}, "real processes under faults; workers of the public SDK"},
	"internal/fieldtest":  {nil, "black-box trials of the command"},
	"scripts/testsum":     {nil, "counts test reports"},
}

// outside the house: tools that stand beside it and may use anything.
var outside = map[string]bool{"bench": true, "demo": true, "interop": true}

// pure packages decide; time, chance and the network come from outside.
var pure = []string{".", "api", "internal/pick", "internal/h1", "internal/ownership", "internal/guard", "internal/directory"}

// defaultsOfSeams: where a pure package names the real thing as the default of
// a seam, so that callers need not.
var defaultsOfSeams = map[string]bool{"internal/directory/hints.go crypto/rand": true}

// mayInTests: any test may use the test kits and what stands below everything.
func mayInTests(pkg string) bool {
	switch pkg {
	case ".", "internal/ownership", "internal/directory", "internal/ownership/storetest", "internal/memstore", "internal/attest", "api":
		return true
	}
	return testSupport(pkg)
}

// testSupport packages exist for tests only.
func testSupport(pkg string) bool {
	switch pkg {
	case "internal/rawtest", "internal/freeze", "internal/redistest", "internal/ownership/storetest", "internal/sim", "internal/sim/mutate", "internal/explore", "internal/mutants", "internal/importtest", "internal/fieldtest", "internal/faults":
		return true
	}
	return false
}

// mayReadEnvironment: main hands it over, config.go knows the names.
var mayReadEnvironment = []string{"cmd/pinboard/main.go"}
