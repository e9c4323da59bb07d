//go:build !race

package fieldtest

var raceFlags []string

const raceFactor = 1
