//go:build linux

package faults

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"pinboard"
	"pinboard/api"
	"pinboard/worker"
)

// With workerVariable in its environment the test binary is a worker process:
// our own SDK, with a journal of everything that matters.
const workerVariable = "FAULTS_WORKER"

// orders are what a worker process is started with.
type orders struct {
	Name      string
	Journal   string
	Pinboard  string // base URL of the nodes
	Listen    string
	Slow      time.Duration // what a close takes beyond the usual
	Advertise string
}

func workerProcess() {
	var o orders
	if err := json.Unmarshal([]byte(os.Getenv(workerVariable)), &o); err != nil {
		panic(err)
	}
	process := fmt.Sprintf("%s/%d", o.Name, os.Getpid())
	w := &hive{journal: openJournal(o.Journal, process), process: process, slow: o.Slow}
	h, err := worker.New(worker.Config{
		Pinboard: o.Pinboard, Token: token, Advertise: o.Advertise,
		Headroom: func() float64 { return 1000 },
		Beat:     beat, Buffer: buffer, Drain: lease / 2,
		Transport: &witness{journal: w.journal, next: &http.Transport{DisableCompression: true, ResponseHeaderTimeout: patience}},
		Log:       slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelInfo})),
	})
	if err != nil {
		panic(err)
	}
	h.Handle(namespace, worker.Class{Open: w.open, Idle: time.Minute})
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	if err := h.ListenAndServe(ctx, o.Listen); err != nil {
		fmt.Fprintln(os.Stderr, "the worker ended:", err)
	}
}

// A hive holds the instances of a worker process.
type hive struct {
	journal *journal
	process string
	slow    time.Duration // what a close takes beyond the usual
	serial  atomic.Int64
}

// open begins an instance: POST /hit answers who served it, ?close asks the
// instance to end, ?hold keeps the request inside for a while.
func (w *hive) open(in *worker.Instance) (http.Handler, error) {
	n, at := w.serial.Add(1), in.Epoch()
	w.journal.write(line{Event: "start", ID: in.ID, Activation: n, Epoch: at})
	var mu sync.Mutex // guards at, the last epoch written down
	in.OnClose(func(context.Context) error {
		time.Sleep(10*time.Millisecond + w.slow) // flushing
		w.journal.write(line{Event: "end", ID: in.ID, Activation: n})
		return nil
	})
	return http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		var op int64
		fmt.Sscan(r.Header.Get("X-Op"), &op)
		e, err := pinboard.ParseEpoch(r.Header.Get(api.HeaderEpoch))
		if err != nil {
			panic(err)
		}
		mu.Lock()
		w.journal.write(line{Event: "enter", ID: in.ID, Activation: n, Epoch: e, Op: op})
		if e > at {
			w.journal.write(line{Event: "epoch", ID: in.ID, Activation: n, Epoch: e})
			at = e
		}
		mu.Unlock()
		hold, _ := time.ParseDuration(r.URL.Query().Get("hold"))
		select {
		case <-time.After(hold):
		case <-r.Context().Done():
			return
		}
		if r.URL.Query().Has("close") {
			in.Close()
		}
		fmt.Fprint(rw, w.process, " ", e)
	}), nil
}

// A witness writes down what the worker tells Pinboard, before it is sent, and
// what it is told, before the worker knows.
type witness struct {
	journal *journal
	next    http.RoundTripper
	serial  atomic.Int64
}

func (w *witness) RoundTrip(r *http.Request) (*http.Response, error) {
	kind := r.URL.Path[strings.LastIndexByte(r.URL.Path, '/')+1:]
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	call := line{Event: "call", Kind: kind, Call: w.serial.Add(1)}
	call.Listed, call.Released = idsOf(kind, body)
	w.journal.write(call)
	sent := monotonic()
	res, err := w.next.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	answer, err := io.ReadAll(res.Body)
	res.Body.Close()
	if err != nil {
		return nil, err
	}
	res.Body = io.NopCloser(bytes.NewReader(answer))
	heard := line{Event: "answer", Kind: kind, Call: call.Call, OK: res.StatusCode == http.StatusOK}
	var got api.RegisterAnswer
	if heard.OK && json.Unmarshal(answer, &got) == nil {
		if got.ExpiresInMs != 0 {
			heard.Deadline = sent + got.ExpiresInMs*int64(time.Millisecond)
		}
		for _, d := range got.Duplicates {
			heard.Duplicates = append(heard.Duplicates, d.ID)
		}
	}
	w.journal.write(heard)
	return res, nil
}

// idsOf reads which ids a call lists or releases.
func idsOf(kind string, body []byte) (listed []string, released map[string]pinboard.Epoch) {
	switch kind {
	case "register":
		var r api.Register
		if json.Unmarshal(body, &r) == nil {
			listed = r.Instances[namespace]
		}
	case "release":
		var list api.Releases
		if json.Unmarshal(body, &list) == nil {
			released = map[string]pinboard.Epoch{}
			for _, r := range list {
				released[r.ID] = r.Epoch.Value
			}
		}
	}
	return listed, released
}
