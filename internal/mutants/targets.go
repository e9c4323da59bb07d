package main

import "time"

// A target is code whose guards must each be noticed.
type target struct {
	name    string
	dir     string
	only    map[string][]string // files, and functions of them (nil: all); nil: the whole package
	without []string            // files and functions that are no guards
	scripts []string            // Lua
	suites  []string            // who may notice, cheapest first
}

var targets = []target{
	{name: "rules", dir: "internal/ownership",
		// Audit and what it asks are checks of the tests; the rest is how things are called.
		without: []string{"audit.go", "legal", "check", "String"},
		suites:  []string{"ownership", "stories", "directory", "guard", "memstore", "search", "seeds"}},
	{name: "clock guard", dir: "internal/guard",
		suites: []string{"guard", "stories", "redisstore", "search", "seeds"}},
	{name: "memory commit", dir: "internal/memstore",
		only:   map[string][]string{"memstore.go": {"Update", "commit", "putRow", "put", "Peek"}},
		suites: []string{"stories", "directory", "memstore", "search", "seeds"}},
	{name: "redis commit", dir: "internal/redisstore", scripts: []string{"commit.lua"},
		only:   map[string][]string{"commit.go": nil, "store.go": nil},
		suites: []string{"redisstore"}},
	{name: "sdk", dir: "worker",
		only: map[string][]string{"lease.go": nil, "fence.go": nil,
			"handler.go": nil, "instance.go": {"settleLocked", "closeLocked", "fenceOff", "unusable", "serve"}},
		suites: []string{"worker", "stories", "seeds"}},
	{name: "streams", dir: "internal/proxy",
		only:   map[string][]string{"sweep.go": nil, "watch.go": nil},
		suites: []string{"proxy"}},
}

// A suite is a set of tests of one package.
type suite struct {
	name   string
	dir    string
	run    string        // which tests; "" all
	args   []string      // further ones for every run
	first  []string      // ... and for the run that finds out what a test reaches
	column string        // of docs/mutations.md
	limit  time.Duration // how long it may take at least, beyond ten times its first run
	repeat bool          // measures time: only what fails twice has noticed
}

var suites = []suite{
	{name: "stories", dir: "internal/sim", run: "^TestStories$", column: "stories"},
	{name: "memstore", dir: "internal/memstore", column: "unit"},
	{name: "directory", dir: "internal/directory", column: "unit"},
	{name: "ownership", dir: "internal/ownership", column: "unit"},
	{name: "guard", dir: "internal/guard", column: "unit", args: []string{"-rapid.nofailfile", "-rapid.seed=1"}},
	{name: "redisstore", dir: "internal/redisstore", column: "unit", repeat: true},
	{name: "worker", dir: "worker", column: "unit", repeat: true},
	{name: "proxy", dir: "internal/proxy", column: "unit", repeat: true},
	{name: "search", dir: "internal/explore", column: "search"},
	{name: "seeds", dir: "internal/sim", run: "^TestSeeds$", first: []string{"-sim.seeds=10"}, args: []string{"-sim.seeds=200", "-sim.noshrink"}, column: "seeds", limit: 10 * time.Minute},
}
