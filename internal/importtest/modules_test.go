package importtest

// A module from outside, what for, and who may use it.
type module struct {
	path  string
	tests bool     // in tests only
	only  []string // outside tests, only here; empty: anywhere
	why   string
}

var modules = []module{
	{"github.com/redis/rueidis", false, []string{"internal/redisstore"}, "one place speaks Redis"},
	{"github.com/prometheus", false, []string{"internal/metrics"}, "one place speaks Prometheus"},
	{"github.com/alecthomas/kong", false, []string{"cmd/pinboard"}, "the command line"},
	{"github.com/cespare/xxhash/v2", false, nil, "buckets and rendezvous"},
	{"github.com/KimMachineGun/automemlimit", false, []string{"cmd/pinboard"}, "the container's memory limit"},
	{"golang.org/x/sync", false, []string{"internal/registry"}, "the budget of bodies and answers"},
	{"github.com/go-jose/go-jose/v4", false, []string{"internal/passport"}, "one place judges signed tokens"},
	{"golang.org/x/sys", false, []string{"internal/proxy", "internal/rawsock", "internal/h1", "internal/redisstore"}, "socket options and calls; clocks that nobody sets"},

	{"github.com/rogpeppe/go-internal", true, nil, "testscript"},
	{"go.uber.org/goleak", true, nil, "goroutine leaks"},
	{"github.com/google/go-cmp", true, nil, "differences"},
	{"github.com/anishathalye/porcupine", true, nil, "linearizability of histories"},
	{"pgregory.net/rapid", true, nil, "random traces"},
	{"github.com/alicebob/miniredis/v2", true, nil, "where a fake Redis adds something"},
	{"github.com/coder/websocket", true, nil, "a WebSocket client that is not ours"},
}
