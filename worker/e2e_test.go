package worker_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coder/websocket"
	"go.uber.org/goleak"

	"pinboard/api"
	"pinboard/client"
	"pinboard/worker"
)

const (
	token    = "e2e-token"
	leaseTTL = 2 * time.Second
	patience = 20 * time.Second
)

// builds is where the binary goes; set by TestMain.
var builds string

func TestMain(m *testing.M) {
	if os.Getenv("E2E_ADVERTISE") != "" {
		child()
		return
	}
	var err error
	if builds, err = os.MkdirTemp("", "pinboard-e2e"); err != nil {
		panic(err)
	}
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		os.RemoveAll(builds)
		os.Exit(code)
	}))
}

var binary = sync.OnceValues(func() (string, error) {
	file := filepath.Join(builds, "pinboard")
	out, err := exec.Command("go", "build", "-o", file, "pinboard/cmd/pinboard").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%w: %s", err, out)
	}
	return file, nil
})

// A node is a real pinboard process on memory: at an address it keeps over
// restarts.
type node struct {
	t    *testing.T
	addr string
	cmd  *exec.Cmd
	log  bytes.Buffer
}

func startNode(t *testing.T) *node {
	t.Helper()
	if testing.Short() {
		t.Skip("starts processes")
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	n := &node{t: t, addr: ln.Addr().String()}
	ln.Close()
	n.start()
	t.Cleanup(func() {
		n.stop()
		if t.Failed() {
			t.Logf("node: %s", n.log.String())
		}
	})
	return n
}

func (n *node) start() {
	n.t.Helper()
	file, err := binary()
	if err != nil {
		n.t.Fatal(err)
	}
	host, port, _ := net.SplitHostPort(n.addr)
	n.cmd = exec.Command(file, "serve")
	n.cmd.Env = []string{
		"PORT=" + port, "PINBOARD_HOST=" + host, "REDIS_URL=memory:", "PINBOARD_TOKEN=" + token,
		fmt.Sprintf("PINBOARD_LEASE_TTL_MS=%d", leaseTTL.Milliseconds()), "PINBOARD_SHUTDOWN_NOTICE_MS=0",
		"PINBOARD_AFFINITY=none", // else all ids of this one client prefer one worker
	}
	n.cmd.Stdout, n.cmd.Stderr = &n.log, &n.log
	if err := n.cmd.Start(); err != nil {
		n.t.Fatal(err)
	}
	eventually(n.t, "the node is ready", func() bool {
		status, _ := fetch(n.url("/readyz"))
		return status == 200
	})
}

// stop kills the node and with it everything memory: held.
func (n *node) stop() {
	n.cmd.Process.Kill()
	n.cmd.Wait()
}

func (n *node) url(path string) string { return "http://" + n.addr + path }

func (n *node) registry(t *testing.T) *client.Client {
	c := client.New(n.url(""), token, nil)
	t.Cleanup(c.Close)
	return c
}

var plain = &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: patience}

func fetch(url string) (int, string) {
	res, err := plain.Get(url)
	if err != nil {
		return 0, err.Error()
	}
	defer res.Body.Close()
	b, _ := io.ReadAll(res.Body)
	return res.StatusCode, string(b)
}

// served asks until the answer is 200 and returns it.
func served(t *testing.T, url string) (body string) {
	t.Helper()
	eventually(t, url+" is served", func() bool {
		var status int
		status, body = fetch(url)
		return status == 200
	})
	return body
}

func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !ok(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not within %v: %s", patience, what)
		}
	}
}

// A record is what the instances of all workers of a test did. Live is from
// the start of Open to the return of the close hook.
type record struct {
	mu     sync.Mutex
	live   map[string]string // id -> worker
	opens  map[string]int    // id -> how often
	double []string
}

func newRecord() *record { return &record{live: map[string]string{}, opens: map[string]int{}} }

func (r *record) open(name string, in *worker.Instance) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if other, ok := r.live[in.ID]; ok {
		r.double = append(r.double, in.ID+" on "+other+" and "+name)
	}
	r.live[in.ID] = name
	r.opens[in.ID]++
	in.OnClose(func(context.Context) error {
		r.mu.Lock()
		defer r.mu.Unlock()
		delete(r.live, in.ID)
		return nil
	})
}

func (r *record) check(t *testing.T) {
	t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.double) > 0 {
		t.Errorf("two live owners: %v", r.double)
	}
}

// A wire is the way from a worker to Pinboard; it can be cut.
type wire struct {
	http.Transport
	cut atomic.Bool
}

func (w *wire) RoundTrip(r *http.Request) (*http.Response, error) {
	if w.cut.Load() {
		return nil, errors.New("cut")
	}
	return w.Transport.RoundTrip(r)
}

func config(pinboard, advertise string, transport http.RoundTripper) worker.Config {
	return worker.Config{
		Pinboard: pinboard, Token: token, Advertise: advertise,
		Headroom: func() float64 { return 1000 },
		Beat:     leaseTTL / 10, Buffer: leaseTTL / 4, Drain: time.Second,
		Transport: transport, Log: slog.New(slog.DiscardHandler),
	}
}

type peer struct {
	name string
	h    *worker.Handler
	wire *wire
	stop func() error
}

// startWorker runs a Go worker of namespace /t with what a story needs: a
// counter, an event stream, a WebSocket and a call to another instance.
func startWorker(t *testing.T, n *node, name string, r *record) *peer {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &peer{name: name, wire: &wire{}}
	p.h, err = worker.New(config(n.url(""), "http://"+ln.Addr().String(), p.wire))
	if err != nil {
		t.Fatal(err)
	}
	p.h.Handle("/t", worker.Class{Open: func(in *worker.Instance) (http.Handler, error) {
		r.open(name, in)
		return instance(name, in), nil
	}})
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- p.h.Serve(ctx, ln) }()
	p.stop = sync.OnceValue(func() error { cancel(); return <-done })
	t.Cleanup(func() { p.stop(); p.wire.CloseIdleConnections() })
	eventually(t, name+" is registered", p.h.Session().Ready)
	return p
}

func instance(name string, in *worker.Instance) http.Handler {
	var n atomic.Int64
	mux := http.NewServeMux()
	mux.HandleFunc("/", func(rw http.ResponseWriter, r *http.Request) {
		c, _ := worker.CallerFrom(r.Context())
		fmt.Fprintf(rw, "%s %s %v %d %s", name, in.ID, in.Epoch(), n.Add(1), c.ID)
	})
	mux.HandleFunc("/events", func(rw http.ResponseWriter, r *http.Request) {
		rw.Header().Set("Content-Type", "text/event-stream")
		fmt.Fprintf(rw, "data: %s\n\n", name)
		rw.(http.Flusher).Flush()
		<-r.Context().Done()
	})
	mux.HandleFunc("/ws", func(rw http.ResponseWriter, r *http.Request) {
		ws, err := websocket.Accept(rw, r, nil)
		if err != nil {
			return
		}
		defer ws.CloseNow()
		for {
			kind, b, err := ws.Read(r.Context())
			if err != nil || ws.Write(r.Context(), kind, append([]byte(name+" "), b...)) != nil {
				return
			}
		}
	})
	mux.HandleFunc("/call/{id}", func(rw http.ResponseWriter, r *http.Request) {
		req, _ := http.NewRequestWithContext(r.Context(), "GET", "/t/"+r.PathValue("id"), nil)
		res, err := in.Call(req)
		if err != nil {
			http.Error(rw, err.Error(), http.StatusBadGateway)
			return
		}
		defer res.Body.Close()
		rw.WriteHeader(res.StatusCode)
		io.Copy(rw, res.Body)
	})
	return mux
}

// owner is the worker named in an answer of the counter.
func owner(body string) string { return strings.Fields(body)[0] }

// A real node and two Go workers: the whole path.
func TestEndToEnd(t *testing.T) {
	n, r := startNode(t), newRecord()
	w1, w2 := startWorker(t, n, "w1", r), startWorker(t, n, "w2", r)
	served(t, n.url("/t/first")) // the cold start is over

	owners := map[string]int{}
	for i := range 20 {
		id := fmt.Sprintf("id%d", i)
		first := served(t, n.url("/t/"+id+"?x="+id))
		for range 3 {
			if again := served(t, n.url("/t/"+id)); owner(again) != owner(first) || strings.Fields(again)[2] != strings.Fields(first)[2] {
				t.Fatalf("%s moved: %s, %s", id, first, again)
			}
		}
		owners[owner(first)]++
	}
	if len(owners) != 2 {
		t.Errorf("20 ids, all on one worker: %v", owners)
	}

	t.Run("many first requests, one instance", func(t *testing.T) {
		var wg sync.WaitGroup
		var ok atomic.Int64
		for range 200 {
			wg.Go(func() {
				if status, _ := fetch(n.url("/t/crowd")); status == 200 {
					ok.Add(1)
				}
			})
		}
		wg.Wait()
		r.mu.Lock()
		defer r.mu.Unlock()
		if r.opens["crowd"] != 1 || ok.Load() != 200 {
			t.Errorf("opened %d times, served %d of 200", r.opens["crowd"], ok.Load())
		}
	})
	t.Run("events, cut by a wind-down", func(t *testing.T) { events(t, n, r) })
	t.Run("websocket", func(t *testing.T) { echo(t, n) })
	t.Run("instance calls", func(t *testing.T) {
		if body := served(t, n.url("/t/alice/call/bob")); !strings.HasPrefix(body, "w") || !strings.HasSuffix(body, " alice") || !strings.Contains(body, " bob ") {
			t.Errorf("bob saw %q", body)
		}
	})
	t.Run("a worker ends", func(t *testing.T) {
		gone, left := w1, w2
		if owner(served(t, n.url("/t/id0"))) == "w2" {
			gone, left = w2, w1
		}
		if err := gone.stop(); err != nil {
			t.Error(err)
		}
		begin := time.Now()
		if got := owner(served(t, n.url("/t/id0"))); got != left.name {
			t.Errorf("served by %s", got)
		}
		if d := time.Since(begin); d > leaseTTL {
			t.Errorf("ids of a worker that deregistered came back after %v", d)
		}
	})
	r.check(t)
}

// events reads a stream, has its instance wound down, and finds the id free
// when the stream ends.
func events(t *testing.T, n *node, r *record) {
	res, err := plain.Get(n.url("/t/feed/events"))
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	lines := bufio.NewReader(res.Body)
	if line, err := lines.ReadString('\n'); !strings.HasPrefix(line, "data: w") {
		t.Fatal(line, err)
	}
	now := time.Duration(0)
	if err := n.registry(t).WindDown(context.Background(), api.WindDown{Namespace: "/t", ID: "feed", Deadline: &now}); err != nil {
		t.Fatal(err)
	}
	io.Copy(io.Discard, lines)
	r.mu.Lock()
	at, alive := r.live["feed"]
	r.mu.Unlock()
	if alive {
		t.Errorf("the stream ended while the instance lives on %s", at)
	}
	served(t, n.url("/t/feed"))
}

func echo(t *testing.T, n *node) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	ws, _, err := websocket.Dial(ctx, n.url("/t/chat/ws"), &websocket.DialOptions{HTTPClient: plain})
	if err != nil {
		t.Fatal(err)
	}
	defer ws.CloseNow()
	if err := ws.Write(ctx, websocket.MessageText, []byte("hello")); err != nil {
		t.Fatal(err)
	}
	if _, b, err := ws.Read(ctx); err != nil || !strings.HasSuffix(string(b), " hello") {
		t.Errorf("%q %v", b, err)
	}
	ws.Close(websocket.StatusNormalClosure, "")
}

// A worker that loses Pinboard closes its instances before their ids live
// elsewhere, although clients keep asking; and comes back as a full member.
func TestCutOffWorker(t *testing.T) {
	n, r := startNode(t), newRecord()
	w1 := startWorker(t, n, "w1", r)
	before := served(t, n.url("/t/a"))
	w2 := startWorker(t, n, "w2", r)
	w1.wire.cut.Store(true)
	w1.wire.CloseIdleConnections()
	begin := time.Now()
	eventually(t, "a lives on w2", func() bool {
		_, body := fetch(n.url("/t/a"))
		return strings.HasPrefix(body, "w2 ")
	})
	after := served(t, n.url("/t/a"))
	if d := time.Since(begin); d < leaseTTL/2 || strings.Fields(after)[2] <= strings.Fields(before)[2] {
		t.Errorf("after %v: %q, before %q", d, after, before)
	}
	if w1.h.Session().Ready() {
		t.Error("w1 thinks it may serve")
	}
	w1.wire.cut.Store(false)
	eventually(t, "w1 is back", w1.h.Session().Ready)
	if err := w2.stop(); err != nil {
		t.Error(err)
	}
	if got := owner(served(t, n.url("/t/a"))); got != "w1" {
		t.Errorf("served by %s", got)
	}
	r.check(t)
}

// A node on memory: that restarts has forgotten everything: the workers come
// back by themselves and every id has one owner again.
func TestNodeRestart(t *testing.T) {
	n, r := startNode(t), newRecord()
	startWorker(t, n, "w1", r)
	startWorker(t, n, "w2", r)
	ids := []string{"a", "b", "c", "d", "e"}
	for _, id := range ids {
		served(t, n.url("/t/"+id))
	}
	n.stop()
	n.start()
	var epochs []string
	for _, id := range ids {
		epochs = append(epochs, strings.Fields(served(t, n.url("/t/"+id)))[2])
	}
	if slices.Contains(epochs, "0") {
		t.Errorf("epochs %v", epochs)
	}
	r.check(t)
}

// An operator drains a worker: new ids go to the other one.
func TestDrainedWorker(t *testing.T) {
	n, r := startNode(t), newRecord()
	w1 := startWorker(t, n, "w1", r)
	served(t, n.url("/t/old"))
	startWorker(t, n, "w2", r)
	if err := n.registry(t).Drain(context.Background(), api.Drain{Select: api.Select{SessionID: w1.h.Session().ID()}}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the idle id has left", func() bool {
		_, body := fetch(n.url("/t/old"))
		return strings.HasPrefix(body, "w2 ")
	})
	for i := range 10 {
		if got := owner(served(t, n.url(fmt.Sprintf("/t/new%d", i)))); got != "w2" {
			t.Errorf("placed on %s", got)
		}
	}
	r.check(t)
}
