package rawtest

import (
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"
	"time"
)

// Patience bounds every wait of this package that names no time of its own.
const Patience = 10 * time.Second

// A Script plays one connection. It runs on a goroutine of its own; when it
// returns the connection is closed (FIN).
type Script func(*Conn)

// A Worker is a scripted TCP server on a loopback port.
type Worker struct {
	tb   testing.TB
	addr string
	wg   sync.WaitGroup

	mu       sync.Mutex
	changed  *sync.Cond
	ln       net.Listener // nil while connects are refused
	script   Script
	conns    map[*Conn]bool
	accepted int
	requests []*Message
	pairs    map[string]string // challenge -> value
	done     bool
}

// NewWorker starts a worker that plays script on every connection and ends
// with the test.
func NewWorker(tb testing.TB, script Script) *Worker {
	tb.Helper()
	w := &Worker{tb: tb, script: script, conns: map[*Conn]bool{}, pairs: map[string]string{}}
	w.changed = sync.NewCond(&w.mu)
	w.listen("127.0.0.1:0")
	tb.Cleanup(w.stop)
	return w
}

// Addr is host:port, the same for the life of the worker.
func (w *Worker) Addr() string { return w.addr }

// URL is the advertise URL, without a trailing slash.
func (w *Worker) URL() string { return "http://" + w.addr }

// Play replaces the script for connections accepted from now on.
func (w *Worker) Play(script Script) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.script = script
}

// Requests are the requests received so far, in order of their heads;
// challenges of a registration are not among them.
func (w *Worker) Requests() []Message {
	w.mu.Lock()
	defer w.mu.Unlock()
	out := make([]Message, len(w.requests))
	for i, m := range w.requests {
		out[i] = *m
	}
	return out
}

// Deliveries is how many request heads arrived whole.
func (w *Worker) Deliveries() int { return len(w.Requests()) }

// Accepted is how many connections were accepted so far.
func (w *Worker) Accepted() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.accepted
}

// Open is how many connections have a script still running.
func (w *Worker) Open() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.conns)
}

// AwaitDeliveries waits for the nth request head and returns all so far; the
// test fails if it does not come.
func (w *Worker) AwaitDeliveries(n int) []Message {
	w.tb.Helper()
	w.await(fmt.Sprintf("%d deliveries", n), func() bool { return len(w.requests) >= n })
	return w.Requests()
}

// AwaitOpen waits until exactly n connections have a running script.
func (w *Worker) AwaitOpen(n int) {
	w.tb.Helper()
	w.await(fmt.Sprintf("%d open connections", n), func() bool { return len(w.conns) == n })
}

// Prove makes the worker answer a registration's challenge with value, on any
// connection, instead of handing it to the script.
func (w *Worker) Prove(challenge, value string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.pairs[challenge] = value
}

// Refuse closes the listener: connects are refused, open connections live on.
func (w *Worker) Refuse() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.ln != nil {
		w.ln.Close()
		w.ln = nil
	}
}

// Accept listens again at the same address after Refuse.
func (w *Worker) Accept() {
	w.tb.Helper()
	w.listen(w.addr)
}

func (w *Worker) listen(addr string) {
	w.tb.Helper()
	ln, err := net.Listen("tcp", addr)
	if err != nil {
		w.tb.Fatalf("rawtest: %v", err)
	}
	w.mu.Lock()
	w.ln, w.addr = ln, ln.Addr().String()
	w.mu.Unlock()
	w.wg.Go(func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			w.wg.Go(func() { w.serve(c) })
		}
	})
}

func (w *Worker) serve(nc net.Conn) {
	w.mu.Lock()
	w.accepted++
	c := &Conn{N: w.accepted, worker: w, wire: wire{conn: nc}, Patience: Patience}
	script := w.script
	if w.done {
		script = func(*Conn) {}
	}
	w.conns[c] = true
	w.changed.Broadcast()
	w.mu.Unlock()

	script(c)
	nc.Close()

	w.mu.Lock()
	delete(w.conns, c)
	w.changed.Broadcast()
	w.mu.Unlock()
}

func (w *Worker) stop() {
	w.Refuse()
	w.mu.Lock()
	w.done = true
	w.changed.Broadcast()
	for c := range w.conns {
		reset(c.wire.conn)
	}
	w.mu.Unlock()
	w.wg.Wait()
}

func (w *Worker) await(what string, ok func() bool) {
	w.tb.Helper()
	late := false
	t := time.AfterFunc(Patience, func() {
		w.mu.Lock()
		late = true
		w.changed.Broadcast()
		w.mu.Unlock()
	})
	defer t.Stop()
	w.mu.Lock()
	defer w.mu.Unlock()
	for !ok() {
		if late {
			w.tb.Fatalf("rawtest: no %s: accepted %d, open %d, deliveries %d", what, w.accepted, len(w.conns), len(w.requests))
		}
		w.changed.Wait()
	}
}

// challenged answers a request for /_pinned/challenge whose pair was given to
// Prove.
func (w *Worker) challenged(m Message) (string, bool) {
	i := strings.Index(m.Target(), "/_pinned/challenge?challenge=")
	if i < 0 {
		return "", false
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	v, ok := w.pairs[m.Target()[i+len("/_pinned/challenge?challenge="):]]
	return Response(200, `{"value":"`+v+`"}`, "Content-Type: application/json"), ok
}
