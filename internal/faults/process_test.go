//go:build linux

package faults

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// A process is a node or a worker, to be killed and frozen.
type process struct {
	t     testing.TB
	name  string
	start func() *exec.Cmd

	mu     sync.Mutex
	cmd    *exec.Cmd // of its present life
	exited chan struct{}
	out    bytes.Buffer // of all its lives
}

// run starts a process; it dies with the test binary.
func run(t testing.TB, name string, start func() *exec.Cmd) *process {
	p := &process{t: t, name: name, start: start}
	p.again()
	t.Cleanup(func() {
		p.kill()
		if t.Failed() {
			t.Logf("%s said:\n%s", p.name, tail(p.said()))
		}
	})
	return p
}

func (p *process) again() {
	cmd, exited := p.start(), make(chan struct{})
	cmd.Stdout, cmd.Stderr = p, p
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		p.t.Error(err)
		return
	}
	go func() { cmd.Wait(); close(exited) }()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cmd, p.exited = cmd, exited
}

func (p *process) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.out.Write(b)
}

func (p *process) said() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.out.String()
}

func tail(s string) string { return s[max(0, len(s)-6000):] }

func (p *process) pid() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return fmt.Sprint(p.cmd.Process.Pid)
}

// signal returns what is closed at the end of the life that it was sent to.
func (p *process) signal(s syscall.Signal) (exited chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cmd.Process.Signal(s)
	return p.exited
}

// kill is SIGKILL: nothing is released, nothing is said.
func (p *process) kill() {
	<-p.signal(syscall.SIGKILL)
}

// freeze stands the process still for d.
func (p *process) freeze(d time.Duration) {
	p.signal(syscall.SIGSTOP)
	time.Sleep(d)
	p.signal(syscall.SIGCONT)
}

// An edit replaces the only occurrence of old in a file of the repository:
// programs under test are built with a clock that can be stepped, or with a
// fault in their rules, and nothing of it is in the program that ships.
type edit struct{ file, old, new string }

const root = "../.."

var binaries = struct {
	sync.Mutex
	dir   string
	built map[string]string
}{built: map[string]string{}}

// build is `go build ./cmd/pinboard` with edits.
func build(t testing.TB, edits ...edit) string {
	t.Helper()
	binaries.Lock()
	defer binaries.Unlock()
	key := fmt.Sprint(edits)
	if path, ok := binaries.built[key]; ok {
		return path
	}
	path := filepath.Join(binaries.dir, fmt.Sprint("pinboard", len(binaries.built)))
	args := []string{"build", "-o", path}
	if len(edits) > 0 {
		args = append(args, "-overlay", overlay(t, path, edits))
	}
	if text, err := exec.Command("go", append(args, "pinboard/cmd/pinboard")...).CombinedOutput(); err != nil {
		t.Fatalf("building the node: %v\n%s", err, text)
	}
	binaries.built[key] = path
	return path
}

func overlay(t testing.TB, prefix string, edits []edit) string {
	texts := map[string]string{}
	for _, e := range edits {
		file, err := filepath.Abs(filepath.Join(root, e.file))
		if err != nil {
			t.Fatal(err)
		}
		if texts[file] == "" {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			texts[file] = string(text)
		}
		if n := strings.Count(texts[file], e.old); n != 1 {
			t.Fatalf("%s has %q %d times", e.file, e.old, n)
		}
		texts[file] = strings.Replace(texts[file], e.old, e.new, 1)
	}
	replace := map[string]string{}
	for file, text := range texts {
		replace[file] = fmt.Sprint(prefix, ".", len(replace), ".", filepath.Base(file)) // names repeat between packages
		if err := os.WriteFile(replace[file], []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	b, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(prefix+".overlay", b, 0o600); err != nil {
		t.Fatal(err)
	}
	return prefix + ".overlay"
}

// freeAddr is a loopback address nobody listens on, of a port that no outgoing
// connection is given while its process is down.
func freeAddr(t testing.TB) string {
	t.Helper()
	for range 100 {
		if l, err := net.Listen("tcp", fmt.Sprint("127.0.0.1:", 20000+rand.IntN(12000))); err == nil {
			defer l.Close()
			return l.Addr().String()
		}
	}
	t.Fatal("no free port")
	return ""
}

// A node is `pinboard serve` at an address that survives its restart.
type node struct {
	*process
	addr    string
	buckets int // of its next life
}

func startNode(t testing.TB, name, binary, store string) *node {
	return startNodeAt(t, name, binary, store, freeAddr(t), buckets)
}

func startNodeAt(t testing.TB, name, binary, store, addr string, buckets int) *node {
	n := &node{addr: addr, buckets: buckets}
	_, port, _ := strings.Cut(n.addr, ":")
	n.process = run(t, name, func() *exec.Cmd {
		cmd := exec.Command(binary, "serve")
		cmd.Env = []string{
			"PORT=" + port, "PINBOARD_HOST=127.0.0.1", "PINBOARD_TOKEN=" + token, "REDIS_URL=" + store,
			fmt.Sprint("PINBOARD_LEASE_TTL_MS=", lease.Milliseconds()), fmt.Sprint("PINBOARD_BUCKETS=", n.buckets), "PINBOARD_AFFINITY=none",
			fmt.Sprint("PINBOARD_CONNECT_TIMEOUT_MS=", patience.Milliseconds()), "PINBOARD_SHUTDOWN_NOTICE_MS=0", "PINBOARD_SHUTDOWN_BUDGET_MS=500",
			"LOG_FORMAT=json", "LOG_LEVEL=debug",
		}
		return cmd
	})
	t.Cleanup(func() {
		for _, bad := range []string{"panic", `"fatal"`, "goroutine "} {
			if strings.Contains(n.said(), bad) {
				t.Errorf("%s has %q in its log", name, bad)
			}
		}
	})
	return n
}

func (n *node) ready() bool {
	res, err := (&http.Client{Timeout: time.Second}).Get("http://" + n.addr + "/readyz")
	if err != nil {
		return false
	}
	res.Body.Close()
	return res.StatusCode == http.StatusOK
}
