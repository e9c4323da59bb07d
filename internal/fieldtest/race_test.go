//go:build race

package fieldtest

// raceFlags builds the node like the tests, so that a race in it ends it.
var raceFlags = []string{"-race"}

// raceFactor is what the race detector costs in memory.
const raceFactor = 10
