// Package faults is the proof with real processes: three `pinboard` nodes,
// workers of the Go SDK and a real Redis under load, while processes are killed
// and frozen, links cut and stalled, and stores lose what they knew, go back in
// their history or have another clock. What
// clients and workers saw is written down and judged twice afterwards: by a
// checker of the activation log (never two live owners, owners_test.go) and as
// a history that must be linearizable (history_test.go).
//
// `make test` runs each fault once, bounded; with PINBOARD_NIGHTLY=1 each is
// repeated for a minute and a mixture of all of them runs on several seeds.
package faults
