// Package directory is a node's shell around the rules of ownership: it fans
// sessions out to every bucket, picks workers for new ids, remembers hints,
// and turns states into answers. It decides nothing that matters: every
// decision is a rule of package ownership, run by the store.
package directory
