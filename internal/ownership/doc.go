// Package ownership holds the rules that decide who owns an id, and nothing
// else.
//
// The state of one bucket (rows, sessions, bindings, orders) is changed only by
// the rules in this package. Each is a pure function of a Tx: a consistent view
// of the bucket at one instant of the store's own clock. A Store runs a rule
// atomically; it adds guards of its own (generation, clock, not-after) and
// decides nothing. docs/rules.md explains every rule (L, R, G, F, H).
package ownership
