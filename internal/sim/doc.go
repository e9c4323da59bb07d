// Package sim runs whole clusters under one fake clock and one seed: real
// directories on a store that fails, models of the real worker client, the real
// code of the Go SDK behind the real control plane of a node (gosdk.go), a
// network that loses, delays, repeats and cuts, and operators who interfere.
// A checker looks after every step whether the rules of docs/rules.md hold.
//
// Everything happens in one loop. Activities are coroutines that hand over to
// each other and never run at once, so the same seed gives the same trace.
package sim
