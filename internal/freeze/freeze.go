// Package freeze stands processes still for tests. kill(2) returns when
// SIGSTOP is pending, not when it is obeyed: a thread on another processor may
// answer one more request. Whoever goes on needs to know that none will.
package freeze

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

// patience is far beyond what a kernel needs to stop a process.
const patience = 10 * time.Second

// Process sends SIGSTOP and returns when every thread has stopped. A process
// that has ended, or does not stop, is an error. Without /proc it sends the
// signal and waits for nothing.
func Process(p *os.Process) error {
	if err := p.Signal(syscall.SIGSTOP); err != nil {
		return fmt.Errorf("freeze: process %d: %w", p.Pid, err)
	}
	if _, err := os.Stat("/proc/self/stat"); err != nil {
		return nil
	}
	for end := time.Now().Add(patience); !stopped(p.Pid); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			return fmt.Errorf("freeze: process %d still runs", p.Pid)
		}
	}
	return nil
}

// stopped reads the state of every thread: the field behind the name, which is
// in parentheses and may hold anything (proc(5)).
func stopped(pid int) bool {
	stats, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", pid))
	for _, name := range stats {
		b, err := os.ReadFile(name)
		if err != nil {
			return false
		}
		if _, state, ok := bytes.Cut(b[bytes.LastIndexByte(b, ')')+1:], []byte(" ")); !ok || state[0] != 'T' {
			return false
		}
	}
	return len(stats) > 0
}
