package main

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// The worker of the README does what the README says, with the real client.
func TestReadmeWorker(t *testing.T) {
	t.Parallel()
	if !strings.Contains(read(t, "../../README.md"), "\nPINBOARD_TOKEN=change-me bin/pinboard dev &") {
		t.Error("README.md starts its node in another way than this test")
	}
	p := launch(t, "dev", "PORT=0", "PINBOARD_TOKEN=change-me").ready()
	runCounter(t, p, pythonOf(t, "../../README.md", "from pinned"))
	for n := 1; n <= 2; n++ {
		if got, want := increment(p), fmt.Sprintf(`{"id":"c-7","count":%d}`, n); got != want {
			t.Fatalf("answer %d: %s, want %s", n, got, want)
		}
	}
}

// A worker that installs the drain as docs/operating.md shows it hands its ids
// over on SIGTERM and ends; one that does not install it only ends.
func TestOperatingDrain(t *testing.T) {
	t.Parallel()
	plain := pythonOf(t, "../../README.md", "from pinned")
	drains := "import asyncio, signal\nfrom contextlib import asynccontextmanager\n" +
		strings.Replace(plain, "app = FastAPI()\n", pythonOf(t, "../../docs/operating.md", "install_sigterm_drain"), 1)
	for code, drained := range map[string]bool{plain: false, drains: true} {
		p := launch(t, "dev", "PORT=0", "PINBOARD_TOKEN=change-me").ready()
		worker := runCounter(t, p, code)
		if got := increment(p); got != `{"id":"c-7","count":1}` {
			t.Fatalf("answer: %s", got)
		}
		worker.Process.Signal(syscall.SIGTERM)
		ended := make(chan struct{})
		go func() { worker.Wait(); close(ended) }()
		select {
		case <-ended:
		case <-time.After(patience):
			t.Fatalf("drained %v: the worker stays", drained)
		}
		p.line("worker left")
		if got := strings.Contains(p.log(), `"msg":"worker drains by itself"`); got != drained {
			t.Errorf("drained %v, want %v", got, drained)
		}
	}
}

func read(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// pythonOf is the block of Python in a page that contains mark.
func pythonOf(t *testing.T, page, mark string) string {
	t.Helper()
	for i, block := range strings.Split(read(t, page), "```python\n") {
		if code, _, ok := strings.Cut(block, "```"); i > 0 && ok && strings.Contains(code, mark) {
			return code
		}
	}
	t.Fatalf("%s shows no %s", page, mark)
	return ""
}

// runCounter runs the README's module counter.py, moved to p and a free port,
// under the real client and uvicorn.
func runCounter(t *testing.T, p *process, code string) *exec.Cmd {
	t.Helper()
	python, err := filepath.Abs("../../.cache/venv/bin/python")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(python); err != nil {
		t.Skip("no virtual environment: scripts/setup.sh makes it")
	}
	port := freePort(t)
	for old, new := range map[string]string{"http://127.0.0.1:8080": p.url, "http://127.0.0.1:8000": "http://127.0.0.1:" + port} {
		if !strings.Contains(code, old) {
			t.Fatalf("the worker does not name %s", old)
		}
		code = strings.ReplaceAll(code, old, new)
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "counter.py"), []byte(code), 0o644); err != nil {
		t.Fatal(err)
	}
	worker := exec.Command(python, "-m", "uvicorn", "counter:app", "--port", port, "--loop", "asyncio")
	worker.Dir = dir
	var output bytes.Buffer
	worker.Stdout, worker.Stderr = &output, &output
	if err := worker.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		worker.Process.Kill()
		worker.Wait()
		if t.Failed() {
			t.Logf("the worker:\n%s", output.String())
		}
	})
	return worker
}

// increment counts c-7 once, as soon as a worker is there.
func increment(p *process) string {
	p.t.Helper()
	deadline := time.Now().Add(2 * patience)
	for {
		res, err := http.Post(p.url+"/counters/c-7/increment", "", nil)
		if err != nil {
			p.t.Fatal(err)
		}
		body, _ := io.ReadAll(res.Body)
		res.Body.Close()
		if res.StatusCode == 200 {
			return string(body)
		}
		if time.Now().After(deadline) {
			p.t.Fatalf("never served: %d %s", res.StatusCode, body)
		}
		time.Sleep(50 * time.Millisecond)
	}
}

func freePort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	_, port, _ := net.SplitHostPort(l.Addr().String())
	return port
}
