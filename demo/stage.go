package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"
)

// A stage owns the processes of the demonstration. close ends all of them;
// until then their pids stand in a file, for run.sh to end them should this
// process be killed.
type stage struct {
	dir       string
	processes []*process
}

// A process is one child with its log file.
type process struct {
	name string
	log  string
	cmd  *exec.Cmd
	done chan struct{}
}

func newStage(dir string) *stage { return &stage{dir: dir} }

// node starts `pinboard dev` on a free port and returns its base URL once it serves.
func (s *stage) node(ctx context.Context, token string) (string, error) {
	port, err := freePort()
	if err != nil {
		return "", err
	}
	_, err = s.start("node", exec.Command("bin/pinboard", "dev"),
		fmt.Sprintf("PORT=%d", port),
		"PINBOARD_TOKEN="+token,
		fmt.Sprintf("PINBOARD_LEASE_TTL_MS=%d", lease.Milliseconds()))
	if err != nil {
		return "", err
	}
	base := fmt.Sprintf("http://127.0.0.1:%d", port)
	return base, s.until(ctx, "the node to be ready", func() bool {
		resp, err := http.Get(base + "/readyz")
		if err != nil {
			return false
		}
		defer resp.Body.Close()
		return resp.StatusCode == http.StatusOK
	})
}

// registered waits until the node lists so many workers.
func (s *stage) registered(ctx context.Context, node, token string, workers int) error {
	return s.until(ctx, "the workers to register", func() bool {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, node+"/registry/workers", nil)
		if err != nil {
			return false
		}
		req.Header.Set("Authorization", "Bearer "+token)
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			return false
		}
		defer resp.Body.Close()
		var list struct{ Workers []json.RawMessage }
		return json.NewDecoder(resp.Body).Decode(&list) == nil && len(list.Workers) == workers
	})
}

// until waits for a condition while every process is alive.
func (s *stage) until(ctx context.Context, what string, condition func() bool) error {
	for range 1500 {
		if condition() {
			return nil
		}
		for _, p := range s.processes {
			select {
			case <-p.done:
				return fmt.Errorf("%s ended\n%s", p.name, s.logs())
			default:
			}
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(20 * time.Millisecond):
		}
	}
	return fmt.Errorf("waited too long for %s\n%s", what, s.logs())
}

// worker starts a worker that registers by itself.
func (s *stage) worker(name, node, token, python string) (*process, error) {
	cmd := exec.Command("bin/pinboard-demo-counters")
	if python != "" {
		cmd = exec.Command(python, "demo/counters/counters.py")
	}
	return s.start(name, cmd,
		"WORKER_NAME="+name, "PINBOARD_URL="+node, "PINBOARD_TOKEN="+token)
}

func (s *stage) start(name string, cmd *exec.Cmd, env ...string) (*process, error) {
	p := &process{name: name, log: filepath.Join(s.dir, name+".log"), cmd: cmd, done: make(chan struct{})}
	log, err := os.Create(p.log)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	cmd.Env = append([]string{"PATH=" + os.Getenv("PATH")}, env...)
	cmd.Stdout, cmd.Stderr = log, log
	// A process group of its own: a Ctrl-C at the terminal ends the stage,
	// and the stage ends them.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		cmd.Wait()
		close(p.done)
	}()
	s.processes = append(s.processes, p)
	return p, s.writePids()
}

func (s *stage) pidFile() string { return filepath.Join(s.dir, "pids") }

func (s *stage) writePids() error {
	var pids bytes.Buffer
	for _, p := range s.processes {
		fmt.Fprintln(&pids, p.cmd.Process.Pid)
	}
	return os.WriteFile(s.pidFile(), pids.Bytes(), 0o600)
}

// kill ends a process without a word, as a crash would.
func (p *process) kill() {
	p.cmd.Process.Kill()
	<-p.done
}

// close ends every process, workers before the node they deregister from.
func (s *stage) close() {
	for i := len(s.processes) - 1; i >= 0; i-- {
		p := s.processes[i]
		p.cmd.Process.Signal(syscall.SIGTERM)
		select {
		case <-p.done:
		case <-time.After(3 * time.Second):
			p.kill()
		}
	}
	os.Remove(s.pidFile())
}

// logs returns the last lines of every process.
func (s *stage) logs() string {
	var all bytes.Buffer
	for _, p := range s.processes {
		text, _ := os.ReadFile(p.log)
		if len(text) > 2000 {
			text = text[len(text)-2000:]
		}
		fmt.Fprintf(&all, "--- %s\n%s\n", p.name, text)
	}
	return all.String()
}

func freePort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port, nil
}
