package fieldtest

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"pinboard/internal/rawtest"
)

const token = "field-token-d41d8cd9"

// patience bounds every wait; nothing that works comes near it.
const patience = 30 * time.Second

var binary string

func TestMain(m *testing.M) { os.Exit(build(m)) }

// build makes the node and runs the tests, or is a worker process.
func build(m *testing.M) int {
	flag.Parse()
	if os.Getenv(childVariable) != "" {
		flag.Set("test.run", "^TestFC47TheFrozenWorker$")
		return m.Run()
	}
	dir, err := os.MkdirTemp("", "fieldtest")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	binary = filepath.Join(dir, "pinboard")
	compile := exec.Command("go", append(append([]string{"build"}, raceFlags...), "-o", binary, "pinboard/cmd/pinboard")...)
	compile.Stderr = os.Stderr
	if err := compile.Run(); err != nil {
		fmt.Fprintln(os.Stderr, "building the node:", err)
		return 1
	}
	// These tests wait much and compute little: more of them at a time than
	// processors.
	flag.Set("test.parallel", "12")
	return m.Run()
}

// A node is `pinboard serve` as a process of its own.
type node struct {
	t      *testing.T
	cmd    *exec.Cmd
	addr   string
	url    string
	exited chan struct{}

	mu     sync.Mutex
	log    bytes.Buffer
	stderr bytes.Buffer
}

// start runs a node on memory:, warm, on a free port; the variables come on top.
func start(t *testing.T, variables ...string) *node {
	t.Helper()
	return run(t, exec.Command(binary, "serve"), variables...)
}

// run is start with a command line of its own.
func run(t *testing.T, cmd *exec.Cmd, variables ...string) *node {
	t.Helper()
	n := &node{t: t, cmd: cmd, exited: make(chan struct{})}
	n.cmd.Env = append([]string{
		"PORT=0", "PINBOARD_HOST=127.0.0.1", "REDIS_URL=memory:", "PINBOARD_TOKEN=" + token, "PINBOARD_COLD_START=off",
		"PINBOARD_SHUTDOWN_NOTICE_MS=0", "LOG_LEVEL=info", "GORACE=halt_on_error=1",
	}, variables...)
	n.cmd.Stdout, n.cmd.Stderr = lockedWriter{n, &n.log}, lockedWriter{n, &n.stderr}
	if err := n.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		n.cmd.Wait()
		close(n.exited)
	}()
	t.Cleanup(n.end)
	n.addr = fmt.Sprint(n.line("listening")["address"])
	n.url = "http://" + n.addr
	n.line("ready")
	return n
}

type lockedWriter struct {
	n *node
	w io.Writer
}

func (l lockedWriter) Write(b []byte) (int, error) {
	l.n.mu.Lock()
	defer l.n.mu.Unlock()
	return l.w.Write(b)
}

// end kills the node; one that ended before, panicked or raced fails the test.
func (n *node) end() {
	select {
	case <-n.exited:
		n.t.Errorf("the node ended by itself: %v", n.cmd.ProcessState)
	default:
	}
	n.cmd.Process.Kill()
	<-n.exited
	log := n.text()
	for _, bad := range []string{"panic", "DATA RACE", `"fatal"`, "goroutine "} {
		if strings.Contains(log, bad) {
			n.t.Errorf("the node's log has %q", bad)
		}
	}
	if n.t.Failed() {
		n.t.Logf("log of the node:\n%s", log[max(0, len(log)-8000):])
	}
}

func (n *node) text() string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.log.String() + n.stderr.String()
}

// line waits for the first log line with that message.
func (n *node) line(msg string) map[string]any {
	n.t.Helper()
	var found map[string]any
	eventually(n.t, "log line "+msg, func() bool {
		select {
		case <-n.exited:
			n.t.Fatalf("the node ended: %s", n.text())
		default:
		}
		for l := range strings.Lines(n.text()) {
			var fields map[string]any
			if json.Unmarshal([]byte(l), &fields) == nil && fields["msg"] == msg {
				found = fields
				return true
			}
		}
		return false
	})
	return found
}

// metric is the sum of all series with that prefix, for instance
// `pinboard_forwards_total{result="served"}`.
func (n *node) metric(prefix string) float64 {
	n.t.Helper()
	sum := 0.0
	for l := range strings.Lines(n.metrics()) {
		if name, value, ok := strings.Cut(strings.TrimSpace(l), "} "); ok && strings.HasPrefix(l, prefix) {
			_ = name
			v, _ := strconv.ParseFloat(value, 64)
			sum += v
		} else if name, value, ok := strings.Cut(strings.TrimSpace(l), " "); ok && name == prefix {
			v, _ := strconv.ParseFloat(value, 64)
			sum += v
		}
	}
	return sum
}

func (n *node) metrics() string {
	n.t.Helper()
	m := rawtest.Do(n.t, n.addr, "GET /metrics HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n")
	if m.Status() != 200 {
		n.t.Fatalf("/metrics: %s", m.Raw)
	}
	return string(m.Body)
}

// A census counts what a node must give back.
type census struct {
	goroutines, fds int
}

func (n *node) census() census {
	return census{int(n.metric("go_goroutines")), int(n.metric("process_open_fds"))}
}

// quietly waits until no exchange is open and goroutines and descriptors are
// back at what they were, pooled connections included.
func (n *node) quietly(before census) {
	n.t.Helper()
	const slack = 3 // a scrape, a beat's probe
	var now census
	for end := time.Now().Add(patience); ; time.Sleep(50 * time.Millisecond) {
		now = n.census()
		open := n.metric("pinboard_connections")
		if open == 0 && now.goroutines <= before.goroutines+slack && now.fds <= before.fds+slack {
			return
		}
		if time.Now().After(end) {
			n.t.Fatalf("%v exchanges open, %+v where %+v was", open, now, before)
		}
	}
}

func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("never: %s", what)
		}
	}
}

// A worker is a raw worker that the node places ids on.
type worker struct {
	*rawtest.Worker
	*rawtest.Session
	skip int // requests before the trial
}

// worker registers a raw worker for the namespaces ("/t" when none is named),
// waits until it gets ids, and hands the stage to script.
func (n *node) worker(script rawtest.Script, namespaces ...string) *worker {
	n.t.Helper()
	if len(namespaces) == 0 {
		namespaces = []string{"/t"}
	}
	return n.workerBeating(script, 500*time.Millisecond, namespaces...)
}

func (n *node) workerBeating(script rawtest.Script, beat time.Duration, namespaces ...string) *worker {
	n.t.Helper()
	w := &worker{Worker: rawtest.NewWorker(n.t, rawtest.Always(rawtest.Response(200, "warm", "Connection: close")))}
	w.Session = w.Worker.Register(n.url, token, beat, namespaces...)
	tried := 0
	eventually(n.t, "an id for the worker", func() bool {
		tried++
		m := rawtest.Do(n.t, n.addr, get(fmt.Sprintf("%s/warm-%s-%d", namespaces[0], w.ID, tried)))
		return m.Status() == 200 && w.Deliveries() > 0
	})
	w.skip = w.Deliveries()
	w.Play(script)
	return w
}

// got are the requests of the trial.
func (w *worker) got() []rawtest.Message { return w.Requests()[w.skip:] }

// awaitGot waits for the nth request of the trial.
func (w *worker) awaitGot(n int) []rawtest.Message { return w.AwaitDeliveries(w.skip + n)[w.skip:] }

// last is the latest request.
func (w *worker) last() rawtest.Message {
	g := w.got()
	if len(g) == 0 {
		return rawtest.Message{}
	}
	return g[len(g)-1]
}

// post is a call of the registry without a worker behind it; status 0 is no
// answer.
func (n *node) post(path string, body any) (int, map[string]any) {
	b, _ := json.Marshal(body)
	req, err := http.NewRequest("POST", n.url+path, bytes.NewReader(b))
	if err != nil {
		return 0, nil
	}
	req.Close = true
	req.Header.Set("Authorization", "Bearer "+token)
	res, err := (&http.Client{Timeout: patience}).Do(req)
	if err != nil {
		return 0, nil
	}
	defer res.Body.Close()
	var answer map[string]any
	json.NewDecoder(res.Body).Decode(&answer)
	return res.StatusCode, answer
}

// enrol registers a worker that knows no challenge and keeps it registered
// until the test ends, anew whenever it is told to.
func (n *node) enrol(clientID, url string, namespaces ...string) {
	n.t.Helper()
	body := map[string]any{
		"clientId": clientID, "secret": strings.Repeat(clientID, 2), "namespaces": namespaces,
		"advertiseUrl": url, "headroom": 1024, "draining": false,
	}
	register := func() string {
		_, answer := n.post("/registry/register", body)
		session, _ := answer["sessionId"].(string)
		return session
	}
	session := register()
	if session == "" {
		n.t.Fatal("not registered")
	}
	stop, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for {
			select {
			case <-stop:
				return
			case <-time.After(500 * time.Millisecond):
			}
			status, _ := n.post("/registry/heartbeat", map[string]any{"sessionId": session, "headroom": 1024, "draining": false})
			if status == 409 {
				session = register()
			}
		}
	}()
	n.t.Cleanup(func() {
		close(stop)
		<-done
	})
}

// do is one request on a connection of its own.
func (n *node) do(request string) rawtest.Message {
	n.t.Helper()
	return rawtest.Do(n.t, n.addr, request)
}

func (n *node) dial() *rawtest.Client {
	n.t.Helper()
	return rawtest.Dial(n.t, n.addr)
}

func get(path string) string { return "GET " + path + " HTTP/1.1\r\nHost: h\r\n\r\n" }

func post(path, body string) string {
	return fmt.Sprintf("POST %s HTTP/1.1\r\nHost: h\r\nContent-Length: %d\r\n\r\n%s", path, len(body), body)
}

// ask builds a request from whole field lines.
func ask(method, path string, fields ...string) string {
	return method + " " + path + " HTTP/1.1\r\n" + strings.Join(append([]string{"Host: h"}, fields...), "\r\n") + "\r\n\r\n"
}

const handshake = "GET /t/a/ws HTTP/1.1\r\nHost: h\r\n" +
	"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n" +
	"Connection: Upgrade\r\nUpgrade: websocket\r\n\r\n"

const switching = "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n" +
	"Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n"

const chunkedHead = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"

const sseHead = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"

func chunk(s string) string { return fmt.Sprintf("%x\r\n%s\r\n", len(s), s) }

// ours reports whether Pinboard itself answered, with that code.
func ours(m rawtest.Message, status int, code string) bool {
	return m.Status() == status && m.Get("Pinboard-Error") == code
}

var added = regexp.MustCompile(`(?m)^(Pinboard-Epoch: \d+|Pinboard-Attestation: [^\r]+|X-Forwarded-(For: 127\.0\.0\.1|Host: [^\r]*|Proto: http))\r\n`)

// received is a request as the worker got it, without what a forward adds
// (docs/protocol.md); whether exactly that was added is for FC-33 and FC-57.
func received(m rawtest.Message) string { return added.ReplaceAllString(string(m.Raw), "") }
