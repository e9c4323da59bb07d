package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// A Process is a child of the benchmark with whatever it forked. Its output
// goes to a log in the scratch folder.
type Process struct {
	cmd  *exec.Cmd
	log  string
	done chan struct{} // closed when the child has been reaped
}

// startProcess starts a command. The child is told to end when the benchmark
// dies; that signal is bound to the starting thread, so only the main
// goroutine, which main locks to its thread, may start processes.
func startProcess(scratch, name string, env []string, command ...string) (*Process, error) {
	log := filepath.Join(scratch, strings.NewReplacer(" ", "-", ":", "", "+", "").Replace(name)+".log")
	out, err := os.OpenFile(log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, err
	}
	defer out.Close()
	cmd := exec.Command(command[0], command[1:]...)
	cmd.Env = append(os.Environ(), env...)
	cmd.Stdout, cmd.Stderr = out, out
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	p := &Process{cmd: cmd, log: log, done: make(chan struct{})}
	go func() {
		cmd.Wait()
		close(p.done)
	}()
	return p, nil
}

// PID is the child's process id.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Stop ends the child: asked first, then killed.
func (p *Process) Stop() {
	p.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-p.done:
	case <-time.After(3 * time.Second):
		for _, pid := range tree(p.PID()) {
			syscall.Kill(pid, syscall.SIGKILL)
		}
		<-p.done
	}
}

// Tail is the end of the child's log.
func (p *Process) Tail() string {
	raw, _ := os.ReadFile(p.log)
	if len(raw) > 1500 {
		raw = raw[len(raw)-1500:]
	}
	return string(raw)
}

// await polls until ready says so, the child ends or the time is over.
func (p *Process) await(ctx context.Context, limit time.Duration, ready func() error) error {
	deadline := time.Now().Add(limit)
	for {
		err := ready()
		if err == nil {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("not ready after %v: %w; its log ends:\n%s", limit, err, p.Tail())
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-p.done:
			return fmt.Errorf("ended; its log:\n%s", p.Tail())
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// listening is ready once something accepts at the address.
func listening(address string) func() error {
	return func() error {
		c, err := net.DialTimeout("tcp", address, time.Second)
		if err != nil {
			return errors.New("nobody listens")
		}
		return c.Close()
	}
}

// freePort is a loopback port nobody uses now.
func freePort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port, nil
}
