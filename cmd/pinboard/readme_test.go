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
	"testing"
	"time"
)

// The worker of the README does what the README says, with the real client.
func TestReadmeWorker(t *testing.T) {
	t.Parallel()
	python, err := filepath.Abs("../../.cache/venv/bin/python")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(python); err != nil {
		t.Skip("no virtual environment: scripts/setup.sh makes it")
	}
	text, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(text), "```python\n")
	code, _, ok := strings.Cut(rest, "```")
	if !ok {
		t.Fatal("README.md has no worker")
	}
	p := serve(t, "PINBOARD_TOKEN=change-me").ready()
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
	worker := exec.Command(python, "-m", "uvicorn", "counter:app", "--port", port)
	worker.Dir = dir
	var output bytes.Buffer
	worker.Stdout, worker.Stderr = &output, &output
	if err := worker.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		worker.Process.Kill()
		worker.Wait()
		if t.Failed() {
			t.Logf("the worker:\n%s", output.String())
		}
	}()
	deadline := time.Now().Add(2 * patience)
	for n := 1; n <= 2; n++ {
		want := fmt.Sprintf(`{"id":"c-7","count":%d}`, n)
		for {
			res, err := http.Post(p.url+"/counters/c-7/increment", "", nil)
			if err != nil {
				t.Fatal(err)
			}
			body, _ := io.ReadAll(res.Body)
			res.Body.Close()
			if res.StatusCode == 200 {
				if string(body) != want {
					t.Fatalf("answer %d: %s, want %s", n, body, want)
				}
				break
			}
			if time.Now().After(deadline) {
				t.Fatalf("never served: %d %s", res.StatusCode, body)
			}
			time.Sleep(50 * time.Millisecond)
		}
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
