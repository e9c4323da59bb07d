package main

import (
	"bufio"
	"encoding/json"
	"io"
	"net/http"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// A process is the command run as a process of its own, with the log it wrote.
type process struct {
	t   *testing.T
	cmd *exec.Cmd
	url string

	mu     sync.Mutex
	lines  []map[string]any
	text   strings.Builder
	stderr lockedText
	exited chan struct{}
	code   int
}

// lockedText is read while the process still writes it.
type lockedText struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *lockedText) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *lockedText) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// patience bounds every wait of these tests; none of them needs it.
const patience = 30 * time.Second

// serve starts `pinboard serve` on a free loopback port. The variables come on
// top of a token, a warm store and no notice.
func serve(t *testing.T, variables ...string) *process {
	t.Helper()
	return launch(t, "serve", append([]string{
		"PORT=0", "PINBOARD_HOST=127.0.0.1", "REDIS_URL=memory:", "PINBOARD_TOKEN=" + secret, "PINBOARD_COLD_START=off",
		"PINBOARD_SHUTDOWN_NOTICE_MS=0", "PINBOARD_SHUTDOWN_BUDGET_MS=5000",
	}, variables...)...)
}

// launch starts a subcommand with exactly these variables.
func launch(t *testing.T, subcommand string, variables ...string) *process {
	t.Helper()
	p := &process{t: t, cmd: exec.Command("pinboard", subcommand), exited: make(chan struct{})}
	p.cmd.Env = variables
	p.cmd.Stderr = &p.stderr
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go p.read(out)
	t.Cleanup(func() {
		p.cmd.Process.Kill()
		<-p.exited
		if t.Failed() {
			log := p.log()
			t.Logf("log of the node:\n%s%s", log[max(0, len(log)-5000):], p.stderr.String())
		}
	})
	return p
}

// listening waits for the port and returns p.
func (p *process) listening() *process {
	p.t.Helper()
	p.url = "http://" + p.line("listening")["address"].(string)
	return p
}

// ready waits until the node is.
func (p *process) ready() *process {
	p.t.Helper()
	p.listening().line("ready")
	return p
}

func (p *process) read(out io.Reader) {
	for s := bufio.NewScanner(out); s.Scan(); {
		var line map[string]any
		p.mu.Lock()
		p.text.WriteString(s.Text() + "\n")
		if json.Unmarshal(s.Bytes(), &line) == nil {
			p.lines = append(p.lines, line)
		}
		p.mu.Unlock()
	}
	p.cmd.Wait()
	p.code = p.cmd.ProcessState.ExitCode()
	close(p.exited)
}

func (p *process) log() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.text.String()
}

// line waits for the first log line with that message.
func (p *process) line(msg string) map[string]any {
	p.t.Helper()
	var found map[string]any
	p.wait("a log line "+msg, func() bool {
		p.mu.Lock()
		defer p.mu.Unlock()
		for _, l := range p.lines {
			if l["msg"] == msg {
				found = l
				return true
			}
		}
		return false
	})
	return found
}

func (p *process) wait(what string, ok func() bool) {
	p.t.Helper()
	for end := time.Now().Add(patience); !ok(); time.Sleep(5 * time.Millisecond) {
		select {
		case <-p.exited:
			if !ok() {
				p.t.Fatalf("exit %d while waiting for %s\n%s%s", p.code, what, p.log(), p.stderr.String())
			}
			return
		default:
		}
		if time.Now().After(end) {
			p.t.Fatalf("no %s\n%s", what, p.log())
		}
	}
}

// exit waits for the end and returns the exit status.
func (p *process) exit() int {
	p.t.Helper()
	select {
	case <-p.exited:
	case <-time.After(patience):
		p.t.Fatalf("still running\n%s", p.log())
	}
	return p.code
}

func (p *process) signal(s syscall.Signal) { p.cmd.Process.Signal(s) }

// get is one request on a connection of its own; status 0 is no answer.
func (p *process) get(path string) (status int, body string) { return p.getAs("", path) }

// getAs is get with a bearer token; "" is none.
func (p *process) getAs(token, path string) (status int, body string) {
	req, err := http.NewRequest("GET", p.url+path, nil)
	if err != nil {
		p.t.Fatal(err)
	}
	req.Close = true
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	res, err := (&http.Client{Timeout: patience}).Do(req)
	if err != nil {
		return 0, err.Error()
	}
	defer res.Body.Close()
	b, _ := io.ReadAll(res.Body)
	return res.StatusCode, string(b)
}
