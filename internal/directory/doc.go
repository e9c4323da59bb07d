// Package directory decides who owns an id.
//
// The state of one bucket (rows, sessions, bindings, orders) is changed only by
// the rules in this package, each a pure function of a Tx: a consistent view of
// the bucket with the store's own time. A Store runs a rule atomically; it adds
// guards of its own (server generation, clock, not-after) and decides nothing.
// The Directory on top picks workers, fans sessions out to every bucket and
// turns states into answers. ownership.md names every rule (L, R, G, F, H).
package directory
