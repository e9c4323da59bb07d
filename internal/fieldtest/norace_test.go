//go:build !race

package fieldtest

var raceFlags []string
