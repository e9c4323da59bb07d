package fieldtest

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"pinboard/internal/rawtest"
)

// childVariable holds the URL of a node; with it the test binary is a worker
// process that can be stopped for real.
const childVariable = "FIELDTEST_CHILD"

// childWorker is that worker: the trial itself, in another process.
func childWorker(t *testing.T, url string) {
	w := rawtest.NewWorker(t, func(c *rawtest.Conn) {
		m, ok := c.Head()
		if !ok {
			return
		}
		_, what, _ := strings.Cut(m.Target()[1:], "/")
		switch {
		case strings.HasSuffix(what, "/sse"):
			c.Write(sseHead)
			for c.Write(chunk("data: tick\n\n")) {
				time.Sleep(20 * time.Millisecond)
			}
		case strings.HasSuffix(what, "/ws"):
			c.Write(switching)
			for c.Write("tick") {
				time.Sleep(20 * time.Millisecond)
			}
		case strings.HasSuffix(what, "/hold"):
			c.Body()
			c.AwaitEnd(time.Minute)
		default:
			c.Write(rawtest.Response(200, m.Get("Pinboard-Epoch"), "Connection: close"))
		}
	})
	s := w.Register(url, token, time.Hour, "/t")
	fmt.Println("registered")
	for last := 0; ; time.Sleep(100 * time.Millisecond) {
		status, answer := s.Beat()
		if status != last {
			fmt.Println("beat", status, answer["reregister"])
		}
		last = status
	}
}

// A child is a worker in a process of its own.
type child struct {
	t     *testing.T
	cmd   *exec.Cmd
	lines chan string
}

func (n *node) child() *child {
	n.t.Helper()
	c := &child{t: n.t, cmd: exec.Command(os.Args[0]), lines: make(chan string, 100)}
	c.cmd.Env = append(os.Environ(), childVariable+"="+n.url)
	out, err := c.cmd.StdoutPipe()
	if err != nil {
		n.t.Fatal(err)
	}
	if err := c.cmd.Start(); err != nil {
		n.t.Fatal(err)
	}
	n.t.Cleanup(func() {
		c.cmd.Process.Kill()
		c.cmd.Wait()
	})
	go c.read(out)
	c.hear("registered")
	return c
}

func (c *child) read(out io.Reader) {
	for s := bufio.NewScanner(out); s.Scan(); {
		c.lines <- s.Text()
	}
}

// hear waits for a line.
func (c *child) hear(want string) {
	c.t.Helper()
	for end := time.After(patience); ; {
		select {
		case l := <-c.lines:
			if l == want {
				return
			}
		case <-end:
			c.t.Fatalf("the worker never said %q", want)
		}
	}
}

func (c *child) signal(s syscall.Signal) { c.cmd.Process.Signal(s) }
