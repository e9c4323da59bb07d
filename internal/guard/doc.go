// Package guard is a node's doubt about its store: of each server's clock and
// of each bucket's history (rules G1 and G4 in docs/rules.md). A store asks it
// at every reading, and tells a rule what it answers; the rule then begins a
// new generation. Redis and the simulation run the same guard.
//
// The guard compares a server's clock with the node's own, which must neither
// be set nor slewed and may stand still while the host sleeps. It has no clock
// itself: every time is handed in.
package guard
