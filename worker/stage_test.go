package worker

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// A diary notes when instances opened and closed, in seconds of the bubble.
type diary struct {
	mu    sync.Mutex
	begin time.Time
	lines []string
}

func newDiary() *diary { return &diary{begin: time.Now()} }

func (d *diary) note(format string, args ...any) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.lines = append(d.lines, fmt.Sprintf("%g ", time.Since(d.begin).Seconds())+fmt.Sprintf(format, args...))
}

func (d *diary) take() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	lines := d.lines
	d.lines = nil
	return lines
}

func (d *diary) want(t *testing.T, lines ...string) {
	t.Helper()
	if got := d.take(); !slices.Equal(got, lines) {
		t.Errorf("diary:\n  %s\nwant:\n  %s", strings.Join(got, "\n  "), strings.Join(lines, "\n  "))
	}
}

// class counts requests per instance; ?hold waits for that long or the end of
// the context, ?stream flushes first.
func (d *diary) class() Class {
	return Class{Open: func(in *Instance) (http.Handler, error) {
		d.note("open %s", in.ID)
		in.OnClose(func(context.Context) error {
			d.note("close %s", in.ID)
			return nil
		})
		n := 0
		var mu sync.Mutex
		return http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
			mu.Lock()
			n++
			fmt.Fprintf(rw, "%s %d", in.ID, n)
			mu.Unlock()
			if hold := r.URL.Query().Get("hold"); hold != "" {
				wait, _ := time.ParseDuration(hold)
				select {
				case <-time.After(wait):
				case <-r.Context().Done():
					d.note("cut %s: %v", in.ID, context.Cause(r.Context()))
				}
			}
		}), nil
	}}
}

// start runs a worker until stop, which waits for the end of Run.
func start(t *testing.T, h *Handler) (stop func() error) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- h.Run(ctx) }()
	synctest.Wait()
	var once sync.Once
	var err error
	stop = func() error {
		once.Do(func() { cancel(); err = <-done })
		return err
	}
	t.Cleanup(func() { stop() })
	return stop
}

// bubble runs a story on a clock of its own with a registry of 15 s leases and
// one worker "w1" of namespace /t, running.
func bubble(t *testing.T, story func(t *testing.T, g *registry, h *Handler, d *diary), change ...func(*Config)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		g, d := newRegistry(t, 15*time.Second), newDiary()
		h := g.newWorker("w1", d.class(), change...)
		start(t, h)
		story(t, g, h, d)
	})
}

func expect(t *testing.T, what string, rec *httptest.ResponseRecorder, status int, body string) {
	t.Helper()
	if rec.Code != status || !strings.Contains(rec.Body.String(), body) {
		t.Errorf("%s: got %d %s, want %d %s", what, rec.Code, rec.Body, status, body)
	}
}
