//go:build linux

package faults

import (
	"bytes"
	"encoding/json"
	"os"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"pinboard"
)

// A line of the journal says what one process did or saw. Each is one append
// to a file that all workers of a run share, so lines of a process are in its
// order and times compare across processes.
type line struct {
	Event   string `json:"event"`
	Process string `json:"process"`
	At      int64  `json:"at"` // CLOCK_MONOTONIC of the machine, nanoseconds

	// start, end, epoch and enter: an instance begins, its close has ended, it
	// was addressed with a higher epoch, a request is inside.
	ID         string         `json:"id,omitempty"`
	Activation int64          `json:"activation,omitempty"`
	Epoch      pinboard.Epoch `json:"epoch,omitempty"`
	Op         int64          `json:"op,omitempty"` // enter: the client's number of the request

	// call and answer: what the worker told Pinboard. A call without an answer
	// may have had its effect, or have it later.
	Kind       string                    `json:"kind,omitempty"` // register, heartbeat, release or deregister
	Call       int64                     `json:"call,omitempty"` // pairs an answer with its call
	Listed     []string                  `json:"listed,omitempty"`
	Released   map[string]pinboard.Epoch `json:"released,omitempty"`
	Duplicates []string                  `json:"duplicates,omitempty"`
	OK         bool                      `json:"ok,omitempty"`
	Deadline   int64                     `json:"deadline,omitempty"` // of the lease that the answer granted
}

func monotonic() int64 {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts); err != nil {
		panic(err)
	}
	return ts.Nano()
}

// A journal is one process's end of the file.
type journal struct {
	file    *os.File
	process string
	mu      sync.Mutex // lines are stamped in the order in which they are written
}

func openJournal(path, process string) *journal {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
	if err != nil {
		panic(err)
	}
	return &journal{file: f, process: process}
}

func (j *journal) write(l line) {
	j.mu.Lock()
	defer j.mu.Unlock()
	l.Process, l.At = j.process, monotonic()
	b, err := json.Marshal(l)
	if err != nil {
		panic(err)
	}
	if _, err := j.file.Write(append(b, '\n')); err != nil {
		panic(err) // nothing may happen that is not written down
	}
}

// readJournal reads what is there. A last line that a kill cut short counts
// for nothing: what it would have said had not been said.
func readJournal(t testing.TB, path string) (lines []line) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for raw := range bytes.Lines(text) {
		var l line
		if !bytes.HasSuffix(raw, []byte("\n")) || json.Unmarshal(raw, &l) != nil {
			t.Logf("journal: cut short: %q", raw)
			continue
		}
		lines = append(lines, l)
	}
	return lines
}

func seconds(ns int64) float64 { return time.Duration(ns).Seconds() }
