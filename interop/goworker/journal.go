package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net/http"
	"os"
	"strings"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"
)

// activations is the log that checker.py reads: one JSON object per line, each
// written by a single append.
type activations struct {
	file    *os.File
	process string
	env     string
}

func openJournal(path string) *activations {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o644)
	if err != nil {
		log.Fatal(err)
	}
	env := setting("WORKER_ENV", "")
	if env == "" {
		env = "*"
	}
	return &activations{file: f, process: fmt.Sprintf("%s/%d", name, os.Getpid()), env: env}
}

func (a *activations) write(event string, fields map[string]any) {
	line := map[string]any{
		"event": event, "process": a.process, "env": a.env,
		"mono": monotonic(), "wall": float64(time.Now().UnixNano()) / 1e9,
	}
	for k, v := range fields {
		line[k] = v
	}
	b, _ := json.Marshal(line)
	a.file.Write(append(b, '\n'))
}

// monotonic is CLOCK_MONOTONIC in seconds, which all processes of one machine
// share; package time keeps its reading to itself.
func monotonic() float64 {
	var ts syscall.Timespec
	syscall.Syscall(syscall.SYS_CLOCK_GETTIME, 1, uintptr(unsafe.Pointer(&ts)), 0)
	return float64(ts.Nano()) / 1e9
}

// A witness is the transport to Pinboard that writes down what the worker was
// granted and told to quit, and who it is.
type witness struct {
	next http.RoundTripper
	port int
	told atomic.Bool
}

func (w *witness) RoundTrip(r *http.Request) (*http.Response, error) {
	kind := r.URL.Path[strings.LastIndexByte(r.URL.Path, '/')+1:]
	if !strings.Contains(r.URL.Path, "/registry/") || kind != "register" && kind != "heartbeat" {
		return w.next.RoundTrip(r)
	}
	body, _ := io.ReadAll(r.Body)
	r.Body = io.NopCloser(bytes.NewReader(body))
	var asked struct{ ClientID, Secret, SessionID string }
	json.Unmarshal(body, &asked)
	if kind == "register" && !w.told.Swap(true) {
		w.identify(asked.ClientID, asked.Secret)
	}
	sent := monotonic()
	res, err := w.next.RoundTrip(r)
	if err != nil || res.StatusCode != http.StatusOK {
		return res, err
	}
	answer, err := io.ReadAll(res.Body)
	res.Body.Close()
	res.Body = io.NopCloser(bytes.NewReader(answer))
	var got struct {
		SessionID   string
		ExpiresInMs float64
		Duplicates  []struct{ NS, ID string }
	}
	if err != nil || json.Unmarshal(answer, &got) != nil || got.ExpiresInMs == 0 {
		return res, err
	}
	for _, d := range got.Duplicates {
		journal.write("duplicate", map[string]any{"ns": d.NS, "id": d.ID})
	}
	if got.SessionID == "" {
		got.SessionID = asked.SessionID
	}
	journal.write("lease", map[string]any{"deadline": sent + got.ExpiresInMs/1000, "session": got.SessionID})
	return res, nil
}

// identify tells the harness where this worker listens and who it is.
func (w *witness) identify(clientID, secret string) {
	file := setting("WORKER_IDENTITY_FILE", "")
	if file == "" {
		return
	}
	b, _ := json.Marshal(map[string]any{
		"port": w.port, "process": journal.process, "clientId": clientID, "secret": secret, "release": "go",
	})
	if os.WriteFile(file+".part", b, 0o600) == nil {
		os.Rename(file+".part", file)
	}
}
