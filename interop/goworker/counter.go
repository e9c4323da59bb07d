package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/coder/websocket"

	"pinboard/worker"
)

var serial atomic.Int64 // of activations

// A counter is an object with memory, so that a lost or doubled instance
// shows.
type counter struct {
	in         *worker.Instance
	activation int64

	mu    sync.Mutex
	count int
	epoch string // the last one written down
}

func open(in *worker.Instance) (http.Handler, error) {
	c := &counter{in: in, activation: serial.Add(1), epoch: in.Epoch().String()}
	c.write("start")
	in.OnClose(func(context.Context) error {
		c.write("closing")
		time.Sleep(closeFor)
		c.write("end")
		return nil
	})
	mux := http.NewServeMux()
	mux.HandleFunc("GET /value", func(w http.ResponseWriter, r *http.Request) { c.answer(w, 0) })
	mux.HandleFunc("POST /increment", func(w http.ResponseWriter, r *http.Request) { c.answer(w, 1) })
	mux.HandleFunc("POST /echo", c.echo)
	mux.HandleFunc("GET /request", c.request)
	mux.HandleFunc("GET /slow", c.slow)
	mux.HandleFunc("GET /fail", func(w http.ResponseWriter, r *http.Request) {
		reply(w, http.StatusTeapot, map[string]any{"detail": "as the app says"})
	})
	mux.HandleFunc("GET /events", c.events)
	mux.HandleFunc("GET /socket", c.socket)
	mux.HandleFunc("POST /chain", c.chain)
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		reply(w, http.StatusNotFound, map[string]any{"detail": "Not Found"})
	})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c.addressed()
		mux.ServeHTTP(w, r)
	}), nil
}

// addressed writes down a higher epoch.
func (c *counter) addressed() {
	epoch := c.in.Epoch().String()
	c.mu.Lock()
	higher := epoch != c.epoch
	c.epoch = epoch
	c.mu.Unlock()
	if higher {
		c.write("epoch")
	}
}

func (c *counter) write(event string) {
	c.mu.Lock()
	epoch := c.epoch
	c.mu.Unlock()
	journal.write(event, map[string]any{"ns": c.in.Namespace, "id": c.in.ID, "activation": c.activation, "epoch": epoch})
}

func (c *counter) state(add int) map[string]any {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.count += add
	return map[string]any{
		"worker": name, "process": journal.process, "ns": c.in.Namespace, "id": c.in.ID,
		"count": c.count, "activation": c.activation, "epoch": c.epoch,
	}
}

func (c *counter) answer(w http.ResponseWriter, add int) { reply(w, http.StatusOK, c.state(add)) }

func reply(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	json.NewEncoder(w).Encode(body)
}

func (c *counter) slow(w http.ResponseWriter, r *http.Request) {
	s, _ := strconv.ParseFloat(r.URL.Query().Get("seconds"), 64)
	c.state(1)
	select {
	case <-time.After(time.Duration(s * 1e9)):
		c.answer(w, 0)
	case <-r.Context().Done():
	}
}

func (c *counter) events(w http.ResponseWriter, r *http.Request) {
	n, every := 5, 0.05
	fmt.Sscan(r.URL.Query().Get("n"), &n)
	fmt.Sscan(r.URL.Query().Get("every"), &every)
	w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
	for i := range n {
		state := c.state(0)
		state["sent"] = float64(time.Now().UnixNano()) / 1e9
		data, _ := json.Marshal(state)
		fmt.Fprintf(w, "id: %d\ndata: %s\n\n", i, data)
		if http.NewResponseController(w).Flush() != nil {
			return
		}
		select {
		case <-time.After(time.Duration(every * 1e9)):
		case <-r.Context().Done():
			return
		}
	}
}

func (c *counter) socket(w http.ResponseWriter, r *http.Request) {
	conn, err := websocket.Accept(w, r, nil)
	if err != nil {
		return
	}
	defer conn.CloseNow()
	conn.SetReadLimit(1 << 20)
	for {
		_, text, err := conn.Read(r.Context())
		if err != nil {
			return
		}
		state := c.state(1)
		state["echo"] = string(text)
		b, _ := json.Marshal(state)
		if conn.Write(r.Context(), websocket.MessageText, b) != nil {
			return
		}
	}
}

// echo is the body as it came.
func (c *counter) echo(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	w.Header().Set("Content-Type", r.Header.Get("Content-Type"))
	w.Write(body)
}

// request is what reached the worker: target and fields.
func (c *counter) request(w http.ResponseWriter, r *http.Request) {
	fields := [][2]string{{"host", r.Host}}
	for name, values := range r.Header {
		for _, v := range values {
			fields = append(fields, [2]string{strings.ToLower(name), v})
		}
	}
	reply(w, http.StatusOK, map[string]any{"target": r.RequestURI, "headers": fields})
}

// chain calls the first path of the body's list, which calls the rest, and
// returns what each hop knew of its caller.
func (c *counter) chain(w http.ResponseWriter, r *http.Request) {
	var paths []string
	json.NewDecoder(r.Body).Decode(&paths)
	hop := c.state(0)
	hop["caller"], hop["depth"] = nil, 0
	if from, ok := worker.CallerFrom(r.Context()); ok {
		hop["caller"], hop["depth"] = from.Namespace+"/"+from.ID, from.Depth
	}
	hops := []any{hop}
	if len(paths) > 0 {
		status, more := c.next(r.Context(), paths)
		hops = append(hops, more...)
		if status != http.StatusOK {
			reply(w, status, hops)
			return
		}
	}
	reply(w, http.StatusOK, hops)
}

func (c *counter) next(ctx context.Context, paths []string) (int, []any) {
	rest, _ := json.Marshal(paths[1:])
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, paths[0]+"/chain", strings.NewReader(string(rest)))
	if err != nil {
		return http.StatusBadRequest, nil
	}
	res, err := c.in.Call(req)
	if err != nil {
		return http.StatusBadGateway, []any{map[string]any{"status": 0, "body": err.Error()}}
	}
	defer res.Body.Close()
	body, _ := io.ReadAll(res.Body)
	var hops []any
	if res.StatusCode != http.StatusOK || json.Unmarshal(body, &hops) != nil {
		return res.StatusCode, []any{map[string]any{"status": res.StatusCode, "body": string(body)}}
	}
	return http.StatusOK, hops
}
