// Package fieldtest is the suite of field cases: bugs that hit people who run
// reverse proxies, tried on the real command from outside. A test starts
// `pinboard serve` as a process, registers scripted raw-TCP workers through
// the real registry and speaks raw bytes to the port; nothing of the code
// under test is linked in. docs/field-cases.md says which test tries which
// case.
package fieldtest
