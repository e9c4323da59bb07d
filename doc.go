// Package pinboard holds the vocabulary that every other package speaks:
// an Address names an instance, an Epoch orders its placements, a Refusal is
// one entry of the closed list of answers Pinboard gives on its own account.
//
// The package is pure: no I/O, no clock, no randomness.
package pinboard
