package worker_test

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"pinboard/internal/freeze"
	"pinboard/worker"
)

// slowOpen is how long some instances take to open: long enough to be stopped
// in, much shorter than the lease.
const slowOpen = leaseTTL / 4

// child is the test binary as a worker process of its own, to be killed and
// frozen. It tells what its instances do on standard output.
func child() {
	addr := os.Getenv("E2E_ADVERTISE")
	h, err := worker.New(config(os.Getenv("E2E_PINBOARD"), "http://"+addr, nil))
	if err != nil {
		panic(err)
	}
	h.Handle("/t", worker.Class{Open: func(in *worker.Instance) (http.Handler, error) {
		fmt.Println("open", in.ID)
		in.OnClose(func(context.Context) error { fmt.Println("close", in.ID); return nil })
		if strings.HasPrefix(in.ID, "slow") {
			time.Sleep(slowOpen)
		}
		serve := instance("child", in)
		return http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
			fmt.Println("serve", in.ID)
			serve.ServeHTTP(rw, r)
		}), nil
	}})
	h.ListenAndServe(context.Background(), addr)
}

// A process is a child and what it has said.
type process struct {
	cmd  *exec.Cmd
	addr string
	mu   sync.Mutex
	said []string
}

func startChild(t *testing.T, n *node) *process {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ln.Close()
	p := &process{cmd: exec.Command(os.Args[0]), addr: ln.Addr().String()}
	p.cmd.Env = []string{"E2E_ADVERTISE=" + p.addr, "E2E_PINBOARD=" + n.url("")}
	p.cmd.Stderr = os.Stderr
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var reading sync.WaitGroup
	reading.Go(func() {
		for s := bufio.NewScanner(out); s.Scan(); {
			p.mu.Lock()
			p.said = append(p.said, s.Text())
			p.mu.Unlock()
		}
	})
	t.Cleanup(func() { p.cmd.Process.Kill(); reading.Wait(); p.cmd.Wait() })
	return p
}

func (p *process) story() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return strings.Join(p.said, ", ")
}

// A worker that is killed takes its ids with it for one lease, not longer and
// not shorter.
func TestKilledWorker(t *testing.T) {
	n := startNode(t)
	p := startChild(t, n)
	before := served(t, n.url("/t/a"))
	startWorker(t, n, "w2", newRecord())
	last := time.Now() // a beat may have gone out since, none goes out later
	p.cmd.Process.Kill()
	after := ""
	eventually(t, "a lives on w2", func() bool {
		_, after = fetch(n.url("/t/a"))
		return strings.HasPrefix(after, "w2 ")
	})
	away := time.Since(last)
	if least := leaseTTL - leaseTTL/10 - 100*time.Millisecond; away < least {
		t.Errorf("back after %v, the lease ran %v", away, least)
	}
	if strings.Fields(after)[2] <= strings.Fields(before)[2] {
		t.Errorf("epoch %q after %q", after, before)
	}
}

// A worker frozen past its lease wakes up with the memory of an id that lives
// elsewhere. It serves nobody, closes what it had, and is a worker again.
func TestFrozenWorker(t *testing.T) {
	n := startNode(t)
	p := startChild(t, n)
	served(t, n.url("/t/a"))
	w2 := startWorker(t, n, "w2", newRecord())
	if err := freeze.Process(p.cmd.Process); err != nil {
		t.Fatal(err)
	}
	eventually(t, "a lives on w2", func() bool {
		_, body := fetch(n.url("/t/a"))
		return strings.HasPrefix(body, "w2 ")
	})
	p.cmd.Process.Signal(syscall.SIGCONT)
	for end := time.Now().Add(leaseTTL); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		if status, body := fetch(n.url("/t/a")); status != 200 || !strings.HasPrefix(body, "w2 ") {
			t.Fatalf("after the thaw: %d %q", status, body)
		}
	}
	if got := p.story(); got != "open a, serve a, close a" {
		t.Errorf("the thawed worker: %s", got)
	}
	if err := w2.stop(); err != nil {
		t.Error(err)
	}
	if got := owner(served(t, n.url("/t/a"))); got != "child" {
		t.Errorf("served by %s", got)
	}
}

// A worker that is stopped while instances open, and continued when their ids
// live elsewhere: it begins no handler for those who still wait. Many instances
// wake up at once, so that some of them are ahead of the timers of the lease.
func TestStoppedDuringOpen(t *testing.T) {
	n := startNode(t)
	p := startChild(t, n)
	served(t, n.url("/t/a")) // registered
	const ids = 20
	id := func(i int) string { return fmt.Sprintf("slow%d", i) }
	var asking sync.WaitGroup
	for i := range ids {
		asking.Go(func() { fetch(n.url("/t/" + id(i))) })
	}
	eventually(t, "all open", func() bool { return strings.Count(p.story(), "open slow") == ids })
	if err := freeze.Process(p.cmd.Process); err != nil {
		t.Fatal(err)
	}
	startWorker(t, n, "w2", newRecord())
	for i := range ids {
		eventually(t, id(i)+" lives on w2", func() bool {
			_, body := fetch(n.url("/t/" + id(i)))
			return strings.HasPrefix(body, "w2 ")
		})
	}
	p.cmd.Process.Signal(syscall.SIGCONT)
	eventually(t, "the stopped worker has closed what it opened", func() bool { return strings.Count(p.story(), "close slow") == ids })
	asking.Wait()
	if got := p.story(); strings.Contains(got, "serve slow") {
		t.Errorf("began behind its lease: %s", got)
	}
}
