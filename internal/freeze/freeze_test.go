package freeze

import (
	"bufio"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"
)

// What Process returned for writes nothing more until it goes on.
func TestFrozenMeansSilent(t *testing.T) {
	cmd := exec.Command("sh", "-c", "while echo tick; do :; done")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
	})
	ticks := make(chan struct{}, 1<<20)
	go func() {
		for s := bufio.NewScanner(out); s.Scan(); {
			select {
			case ticks <- struct{}{}:
			default:
			}
		}
	}()
	<-ticks
	for range 20 {
		if err := Process(cmd.Process); err != nil {
			t.Fatal(err)
		}
		for quiet := false; !quiet; { // what the pipe still held
			select {
			case <-ticks:
			case <-time.After(20 * time.Millisecond):
				quiet = true
			}
		}
		if !stopped(cmd.Process.Pid) {
			t.Fatal("running")
		}
		cmd.Process.Signal(syscall.SIGCONT)
		<-ticks
	}
	cmd.Process.Kill()
	cmd.Wait()
	if err := Process(cmd.Process); err == nil || !strings.Contains(err.Error(), "freeze: process") {
		t.Errorf("an ended process: %v", err)
	}
}
