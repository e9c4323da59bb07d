// Package importtest keeps the house in order: which package may import which,
// who may use which outside module, and who may read the environment. Each
// rule says why. It holds tests only.
package importtest
