package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// logOf makes a logger of a pipe's two ends; the reader is the test's.
func logOf(t *testing.T) (*slog.Logger, *logWriter, *io.PipeReader) {
	t.Helper()
	r, w := io.Pipe()
	t.Cleanup(func() { r.Close() })
	log, lines := (&Config{LogLevel: "error", LogFormat: "json"}).newLogger(w)
	return log, lines, r
}

// A reader that stops costs lines, which are counted, and nothing else; when
// it reads again it is told how many are missing.
func TestLogLinesAreDroppedAndCounted(t *testing.T) {
	log, lines, r := logOf(t)
	long := strings.Repeat("x", 1000)
	const sent = 5000 // five times the room
	for i := range sent {
		log.Error(long, "n", i)
	}
	lost := lines.lost()
	if lost < sent/2 || lost >= sent {
		t.Fatalf("%d of %d lines are lost", lost, sent)
	}
	go lines.close()
	text, seen, noted := json.NewDecoder(r), 0, int64(0)
	for noted == 0 {
		var line struct {
			Msg, Level string
			N          int
			Lines      int64
		}
		if err := text.Decode(&line); err != nil {
			t.Fatalf("after %d lines: %v", seen, err)
		}
		switch {
		case line.Msg == long && line.N == seen:
			seen++
		case line.Level == "WARN" && strings.HasPrefix(line.Msg, "log lines were dropped"):
			noted = line.Lines // also at LOG_LEVEL=error
		default:
			t.Fatalf("line %d: %.100v", seen, line)
		}
	}
	if int64(seen)+noted != sent || noted != lost {
		t.Errorf("%d lines came, %d are said to be missing, %d are counted as lost, %d were sent", seen, noted, lost, sent)
	}
}

// Every line arrives, whole and in order, also those of the last moment.
func TestTheLastLinesAreWritten(t *testing.T) {
	var out bytes.Buffer
	log, lines := (&Config{LogLevel: "info", LogFormat: "json"}).newLogger(slow{&out})
	const sent = 3000
	for i := range sent {
		log.Info("line", "n", i)
		if i%50 == 0 { // the writer catches up, and waits for more
			time.Sleep(200 * time.Microsecond)
		}
	}
	lines.close()
	text := json.NewDecoder(&out)
	for i := range sent {
		var line struct{ N int }
		if err := text.Decode(&line); err != nil || line.N != i {
			t.Fatalf("line %d: %+v, %v", i, line, err)
		}
	}
	if lines.lost() != 0 {
		t.Errorf("%d lines are counted as lost", lines.lost())
	}
}

// slow takes its time while it holds what it was given.
type slow struct{ io.Writer }

func (s slow) Write(p []byte) (int, error) {
	runtime.Gosched()
	time.Sleep(100 * time.Microsecond)
	return s.Writer.Write(p)
}

func TestLinesWithoutAReaderAreCounted(t *testing.T) {
	log, lines, r := logOf(t)
	r.Close()
	log.Error("nobody hears this")
	lines.close()
	if lines.lost() != 1 {
		t.Errorf("%d lines are counted as lost", lines.lost())
	}
}

// A full pipe that nobody reads, the usual end of a log collector that hangs:
// the node becomes ready, serves, counts what it cannot say, and ends.
func TestAFullLogPipeStopsNothing(t *testing.T) {
	t.Parallel()
	for _, signal := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT} {
		collector, stdout := fullPipe(t)
		defer collector.Close()
		p := &process{t: t, url: "http://127.0.0.1:" + freePort(t), exited: make(chan struct{})}
		p.cmd = exec.Command("pinboard", "serve")
		p.cmd.Env = []string{"PORT=" + p.url[len("http://127.0.0.1:"):], "PINBOARD_HOST=127.0.0.1", "REDIS_URL=memory:", "PINBOARD_COLD_START=off",
			"PINBOARD_TOKEN=" + secret, "LOG_LEVEL=debug", "PINBOARD_SHUTDOWN_NOTICE_MS=0"}
		p.cmd.Stdout, p.cmd.Stderr = stdout, stdout
		if err := p.cmd.Start(); err != nil {
			t.Fatal(err)
		}
		defer p.cmd.Process.Kill()
		stdout.Close()
		go func() {
			p.cmd.Wait()
			p.code = p.cmd.ProcessState.ExitCode()
			close(p.exited)
		}()
		p.wait("readiness", func() bool {
			status, _ := p.get("/readyz")
			return status == 200
		})
		long := strings.Repeat("x", 250)
		p.wait("lost lines in the metrics", func() bool {
			for range 500 {
				p.get("/none/" + long + "/" + long)
			}
			_, text := p.get("/metrics")
			return metric(text, "pinboard_log_lines_lost_total") > 0
		})
		p.signal(signal)
		if code := p.exit(); code != 0 {
			t.Errorf("%v: exit %d", signal, code)
		}
	}
}

// A fatal end says why on stderr, and ends although nobody reads that either.
func TestAFullPipeHoldsUpNoError(t *testing.T) {
	t.Parallel()
	collector, stderr := fullPipe(t)
	defer collector.Close()
	cmd := exec.Command("pinboard", "serve")
	cmd.Env = []string{"REDIS_URL="}
	cmd.Stdout, cmd.Stderr = stderr, stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	stderr.Close()
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	select {
	case <-ended:
		if code := cmd.ProcessState.ExitCode(); code != 2 {
			t.Errorf("exit %d", code)
		}
	case <-time.After(patience):
		cmd.Process.Kill()
		t.Error("the command waits for a reader of its error")
	}
}

// fullPipe is a pipe without room for one more byte.
func fullPipe(t *testing.T) (r, w *os.File) {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	w.SetWriteDeadline(time.Now().Add(200 * time.Millisecond))
	fill := make([]byte, 4096)
	for err == nil {
		_, err = w.Write(fill)
	}
	for n := 0; n < 4096; n++ { // what is left of the last page
		w.SetWriteDeadline(time.Now().Add(20 * time.Millisecond))
		if _, err := w.Write(fill[:1]); err != nil {
			break
		}
	}
	return r, w
}

// metric is the value of a series without labels; -1 if there is none.
func metric(text, name string) float64 {
	for line := range strings.Lines(text) {
		if rest, ok := strings.CutPrefix(line, name+" "); ok {
			v, err := strconv.ParseFloat(strings.TrimSpace(rest), 64)
			if err != nil {
				panic(fmt.Sprintf("%q: %v", line, err))
			}
			return v
		}
	}
	return -1
}
