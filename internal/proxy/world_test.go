package proxy_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"pinboard"
	"pinboard/internal/directory"
	"pinboard/internal/ownership"
	"pinboard/internal/proxy"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience bounds every wait of a test; nothing normally comes near it.
const patience = 10 * time.Second

// A world is one proxy with a scripted directory; workers and clients are raw.
type world struct {
	t    *testing.T
	dir  *fakeDirectory
	p    *proxy.Proxy
	addr string

	mu   sync.Mutex
	seen []proxy.Exchange
}

// newWorld starts a proxy; change may edit its configuration.
func newWorld(t *testing.T, change ...func(*proxy.Config)) *world {
	t.Helper()
	w := &world{t: t, dir: newDirectory()}
	cfg := proxy.Config{
		Directory: w.dir,
		Control:   http.NotFoundHandler(),
		Mint: func(dst []byte, k *ownership.Worker, caller string, depth int) []byte {
			return fmt.Appendf(dst, "att.%s.%s.%d", k.Session, caller, depth)
		},
		Minted:  func(token []byte) bool { return strings.HasPrefix(string(token), "att.") },
		Observe: w.observe,
		Panic:   func(v any, stack []byte) { t.Errorf("panic: %v\n%s", v, stack) },
	}
	for _, f := range change {
		f(&cfg)
	}
	var err error
	if w.p, err = proxy.New(cfg); err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	w.addr = l.Addr().String()
	served := make(chan error, 1)
	go func() { served <- w.p.Serve(l) }()
	t.Cleanup(func() {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		w.p.Shutdown(ctx)
		if err := <-served; err != nil {
			t.Errorf("Serve: %v", err)
		}
	})
	return w
}

func (w *world) observe(x *proxy.Exchange) {
	w.mu.Lock()
	w.seen = append(w.seen, *x)
	w.mu.Unlock()
}

// exchange waits for the i-th finished exchange.
func (w *world) exchange(i int) proxy.Exchange {
	w.t.Helper()
	var x proxy.Exchange
	w.eventually("exchange observed", func() bool {
		w.mu.Lock()
		defer w.mu.Unlock()
		if len(w.seen) <= i {
			return false
		}
		x = w.seen[i]
		return true
	})
	return x
}

func (w *world) eventually(what string, ok func() bool) {
	w.t.Helper()
	for end := time.Now().Add(patience); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			w.t.Fatalf("never: %s", what)
		}
	}
}

// A fakeDirectory places every id on one worker until told otherwise.
type fakeDirectory struct {
	mu       sync.Mutex
	worker   *ownership.Worker
	resolve  func(n int, r directory.Request) (directory.Placement, error)
	report   func(p directory.Placement, e directory.Event) directory.Verdict
	recheck  func(w []*directory.Watch) error
	caller   func(c directory.CallerClaim) (string, error)
	lease    time.Duration
	requests []directory.Request
	events   []directory.Event
}

func newDirectory() *fakeDirectory { return &fakeDirectory{lease: time.Hour} }

// place makes w the worker of every id from now on.
func (d *fakeDirectory) place(w *ownership.Worker) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.worker = w
}

func (d *fakeDirectory) placement(w *ownership.Worker, r directory.Request) directory.Placement {
	now := time.Now()
	return directory.Placement{
		Key:    ownership.Key{Env: ownership.World, Namespace: r.Address.Namespace, ID: r.Address.ID},
		Worker: w, Epoch: 41, Sent: now, Deadline: now.Add(d.lease),
	}
}

func (d *fakeDirectory) Resolve(_ context.Context, r directory.Request) (directory.Placement, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.requests = append(d.requests, r)
	if d.resolve != nil {
		return d.resolve(len(d.requests), r)
	}
	if d.worker == nil {
		return directory.Placement{}, pinboard.UnknownNamespace
	}
	return d.placement(d.worker, r), nil
}

func (d *fakeDirectory) Report(_ context.Context, p directory.Placement, e directory.Event) directory.Verdict {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.events = append(d.events, e)
	if d.report != nil {
		return d.report(p, e)
	}
	return directory.Verdict{}
}

func (d *fakeDirectory) Recheck(_ context.Context, w []*directory.Watch) error {
	d.mu.Lock()
	f := d.recheck
	d.mu.Unlock()
	if f == nil {
		for _, x := range w {
			x.Deadline = time.Now().Add(d.lease)
		}
		return nil
	}
	return f(w)
}

func (d *fakeDirectory) Caller(_ context.Context, c directory.CallerClaim) (string, error) {
	if d.caller == nil {
		return "", pinboard.InvalidSessionSecret
	}
	return d.caller(c)
}

func (d *fakeDirectory) reported() []directory.Event {
	d.mu.Lock()
	defer d.mu.Unlock()
	return append([]directory.Event(nil), d.events...)
}

func (d *fakeDirectory) resolved() []directory.Request {
	d.mu.Lock()
	defer d.mu.Unlock()
	return append([]directory.Request(nil), d.requests...)
}

// A delivery is one request as a worker received it.
type delivery struct {
	head string // with the blank line
	body string // as on the wire
}

// line returns the value of the first field called name, "" when missing.
func (d delivery) line(name string) string {
	for _, l := range strings.Split(d.head, "\r\n")[1:] {
		if n, v, ok := strings.Cut(l, ":"); ok && strings.EqualFold(n, name) {
			return strings.TrimSpace(v)
		}
	}
	return ""
}

// A scripted worker answers raw bytes and counts what it was sent.
type scripted struct {
	*ownership.Worker
	t    *testing.T
	l    net.Listener
	wg   sync.WaitGroup
	mu   sync.Mutex
	open map[net.Conn]bool
	got  []delivery
}

// A script serves one connection of a worker; returning closes it.
type script func(s *scripted, c net.Conn, r *bufio.Reader)

func newScripted(t *testing.T, f script) *scripted {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &scripted{t: t, l: l, open: map[net.Conn]bool{}}
	s.Worker = &ownership.Worker{
		Session: "s-" + l.Addr().String(), Process: "p-" + l.Addr().String(),
		URL: "http://" + l.Addr().String(), Secret: "hush",
	}
	s.wg.Add(1)
	go func() {
		defer s.wg.Done()
		for {
			c, err := l.Accept()
			if errors.Is(err, net.ErrClosed) {
				return
			}
			if err != nil { // out of descriptors
				time.Sleep(time.Millisecond)
				continue
			}
			s.mu.Lock()
			s.open[c] = true
			s.mu.Unlock()
			s.wg.Add(1)
			go func() {
				defer s.wg.Done()
				f(s, c, bufio.NewReader(c))
				c.Close()
				s.mu.Lock()
				delete(s.open, c)
				s.mu.Unlock()
			}()
		}
	}()
	t.Cleanup(s.close)
	return s
}

func (s *scripted) close() {
	s.l.Close()
	s.mu.Lock()
	for c := range s.open {
		c.Close()
	}
	s.mu.Unlock()
	s.wg.Wait()
}

func (s *scripted) connections() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.open)
}

func (s *scripted) deliveries() []delivery {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]delivery(nil), s.got...)
}

// receive reads one request and records it.
func (s *scripted) receive(r *bufio.Reader) (delivery, bool) {
	d, err := readMessage(r)
	if err != nil {
		return d, false
	}
	s.mu.Lock()
	s.got = append(s.got, d)
	s.mu.Unlock()
	return d, true
}

// replying answers every request on every connection with the same bytes.
func replying(answer string) script {
	return func(s *scripted, c net.Conn, r *bufio.Reader) {
		for {
			if _, ok := s.receive(r); !ok {
				return
			}
			io.WriteString(c, answer)
		}
	}
}

// proven is how long a connection must have been idle to show that its worker
// keeps connections; before that another one is opened.
const proven = 70 * time.Millisecond

// prove shows that the worker keeps its connections; it gets two requests, the
// first of this world.
func (w *world) prove() {
	w.t.Helper()
	w.ask(bodyless)
	w.exchange(0)
	time.Sleep(proven)
	w.ask(bodyless)
	w.exchange(1)
}

const okAnswer = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"

func readHead(r *bufio.Reader) (string, error) {
	var b strings.Builder
	for {
		line, err := r.ReadString('\n')
		b.WriteString(line)
		if err != nil {
			return b.String(), err
		}
		if line == "\r\n" {
			return b.String(), nil
		}
	}
}

// readMessage reads a head and its body, framing included.
func readMessage(r *bufio.Reader) (delivery, error) {
	head, err := readHead(r)
	d := delivery{head: head}
	if err != nil {
		return d, err
	}
	if n := d.line("Content-Length"); n != "" {
		size, _ := strconv.Atoi(n)
		b := make([]byte, size)
		m, err := io.ReadFull(r, b)
		d.body = string(b[:m])
		return d, err
	}
	if d.line("Transfer-Encoding") == "" {
		return d, nil
	}
	var b strings.Builder
	for trailers := false; ; {
		line, err := r.ReadString('\n')
		b.WriteString(line)
		d.body = b.String()
		if err != nil || trailers && line == "\r\n" {
			return d, err
		}
		if trailers {
			continue
		}
		size, err := strconv.ParseInt(strings.TrimSpace(strings.Split(line, ";")[0]), 16, 64)
		if err != nil {
			return d, err
		}
		if size == 0 {
			trailers = true
			continue
		}
		if _, err := io.CopyN(&b, r, size+2); err != nil {
			return d, err
		}
	}
}

// A rawClient speaks bytes.
type rawClient struct {
	net.Conn
	t *testing.T
	r *bufio.Reader
}

func (w *world) dial() *rawClient {
	w.t.Helper()
	c, err := net.Dial("tcp", w.addr)
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { c.Close() })
	c.SetDeadline(time.Now().Add(patience))
	return &rawClient{Conn: c, t: w.t, r: bufio.NewReader(c)}
}

func (c *rawClient) send(s string) {
	c.t.Helper()
	if _, err := io.WriteString(c, s); err != nil {
		c.t.Fatalf("write: %v", err)
	}
}

// answer reads one final answer with its body; HEAD and 204 are the caller's care.
func (c *rawClient) answer() delivery {
	c.t.Helper()
	d, err := readMessage(c.r)
	if err != nil {
		c.t.Fatalf("read: %v after %q", err, d.head+d.body)
	}
	return d
}

func (c *rawClient) status() string {
	c.t.Helper()
	d := c.answer()
	return strings.TrimPrefix(strings.SplitN(d.head, "\r\n", 2)[0], "HTTP/1.1 ")
}

// rest reads until the connection ends.
func (c *rawClient) rest() (string, error) {
	b, err := io.ReadAll(c.r)
	return string(b), err
}

// ask sends one request on a connection of its own and returns the answer.
func (w *world) ask(request string) delivery {
	w.t.Helper()
	c := w.dial()
	defer c.Close()
	c.send(request)
	return c.answer()
}

func get(path string) string { return "GET " + path + " HTTP/1.1\r\nHost: pin.test\r\n\r\n" }
