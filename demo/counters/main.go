// Command counters is demo/counters/counters.py in Go, for a machine without
// Python: counters that live in memory, one live instance per id.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"log"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/coder/websocket"

	"pinboard/worker"
)

var name = os.Getenv("WORKER_NAME")

// A counter is the object. Pinboard sees to it that an id has one of them.
type counter struct {
	instance *worker.Instance
	mu       sync.Mutex
	count    int
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	h, err := worker.New(worker.Config{
		Pinboard:  os.Getenv("PINBOARD_URL"),
		Token:     os.Getenv("PINBOARD_TOKEN"),
		Advertise: "http://" + listener.Addr().String(),
		Headroom:  func() float64 { return 1000 },
		// Shorter than usual: the demo runs leases of 8 s.
		Beat: time.Second, Buffer: 2 * time.Second, Drain: time.Second,
	})
	if err != nil {
		log.Fatal(err)
	}
	h.Handle("/counters", worker.Class{Open: open})
	if err := h.Serve(ctx, listener); err != nil && ctx.Err() == nil {
		log.Fatal(err)
	}
}

func open(in *worker.Instance) (http.Handler, error) {
	c := &counter{instance: in}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /value", func(w http.ResponseWriter, r *http.Request) { c.answer(w, 0) })
	mux.HandleFunc("POST /increment", func(w http.ResponseWriter, r *http.Request) { c.answer(w, 1) })
	mux.HandleFunc("GET /events", c.events)
	mux.HandleFunc("GET /socket", c.talk)
	return mux, nil
}

func (c *counter) add(n int) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.count += n
	return c.count
}

func (c *counter) answer(w http.ResponseWriter, n int) {
	w.Header().Set("Content-Type", "application/json")
	json.NewEncoder(w).Encode(map[string]any{
		"worker": name, "count": c.add(n), "epoch": c.instance.Epoch().String(),
	})
}

func (c *counter) events(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "text/event-stream")
	for range 4 {
		fmt.Fprintf(w, "data: %s counts %d\n\n", name, c.add(1))
		if http.NewResponseController(w).Flush() != nil {
			return
		}
		select {
		case <-r.Context().Done():
			return
		case <-time.After(250 * time.Millisecond):
		}
	}
}

func (c *counter) talk(w http.ResponseWriter, r *http.Request) {
	conn, err := websocket.Accept(w, r, nil)
	if err != nil {
		return
	}
	defer conn.CloseNow()
	for {
		kind, text, err := conn.Read(r.Context())
		if err != nil {
			return
		}
		answer := fmt.Sprintf("%s heard %s, counts %d", name, strings.TrimSpace(string(text)), c.add(1))
		if conn.Write(r.Context(), kind, []byte(answer)) != nil {
			return
		}
	}
}
