// Package rawtest holds the two ends of a black-box trial: Worker, a scripted
// TCP server that records exactly what it was sent and answers exactly what
// its script says, and Client, which writes bytes in the pieces a test chooses
// and reads back what came. Neither shares a line with the code under test:
// the message reader here is a second opinion, small and plain.
//
// Only tests import it. Everything listens on loopback, every read has a
// deadline, and everything ends with the test that started it.
package rawtest
