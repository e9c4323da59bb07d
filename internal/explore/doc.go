// Package explore looks at every state of small worlds: one id, two workers,
// one node, a lease of three ticks, and one fault at any moment. The rules
// (internal/ownership) and the commit (internal/memstore) are those that ship.
// The worker is a model with the rules of internal/sim.
//
// In each state no id has two live owners, epochs grow, and, once faults stop,
// every id is served again in the time that docs/guarantees.md promises. What
// breaks is told as the steps that lead there.
package explore
