package main

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"pinboard"
	"pinboard/internal/directory"
	"pinboard/internal/metrics"
	"pinboard/internal/ownership"
	"pinboard/internal/proxy"
)

// Every end of an exchange is one result in the metrics.
func TestExchangesAreCountedByResult(t *testing.T) {
	for want, x := range map[string]proxy.Exchange{
		"served":          {Forwards: 1, End: proxy.Complete, Status: 200},
		"client_abort":    {Forwards: 1, End: proxy.ClientGone},
		"worker_abort":    {Forwards: 1, End: proxy.WorkerGone, Status: 200},
		"owner_lost":      {Forwards: 1, End: proxy.OwnerGone, Status: 200},
		"shutdown":        {Forwards: 1, End: proxy.ShutdownCut, Status: 200},
		"refused":         {Forwards: 1, End: proxy.Rejected, Status: 503, Refusal: pinboard.WorkerRefused},
		"unreachable":     {Forwards: 1, End: proxy.Rejected, Status: 502, Refusal: pinboard.WorkerUnreachable},
		"bad_attestation": {Forwards: 1, End: proxy.Rejected, Status: 503, Refusal: pinboard.WorkerNotReady},
		"worker_timeout":  {Forwards: 1, End: proxy.Rejected, Status: 504, Refusal: pinboard.WorkerTimeout},
	} {
		o := &observer{metrics: metrics.New(func() metrics.Snapshot { return metrics.Snapshot{} }), log: slog.New(slog.DiscardHandler)}
		o.exchange(&x)
		text := exposition(o.metrics)
		if !strings.Contains(text, `pinboard_forwards_total{result="`+want+`"} 1`) {
			t.Errorf("%+v is not counted as %s", x, want)
		}
		if x.Refusal != nil && !strings.Contains(text, `pinboard_refusals_total{code="`+x.Refusal.Code+`"} 1`) {
			t.Errorf("%s: the refusal is not counted", want)
		}
	}
}

func TestControlRequestsAreNoForwards(t *testing.T) {
	o := &observer{metrics: metrics.New(func() metrics.Snapshot { return metrics.Snapshot{} }), log: slog.New(slog.DiscardHandler)}
	o.exchange(&proxy.Exchange{Kind: proxy.Control, Path: "/registry/register", Status: 200})
	o.exchange(&proxy.Exchange{Kind: proxy.Control, Path: "/registry/made-up", Status: 404})
	text := exposition(o.metrics)
	for _, line := range []string{`{class="2xx",route="/registry/register"} 1`, `{class="4xx",route="other"} 1`} {
		if !strings.Contains(text, "pinboard_requests_total"+line) {
			t.Errorf("no %s", line)
		}
	}
	if strings.Contains(text, `pinboard_forwards_total{result="other"} 1`) {
		t.Error("counted as a forward")
	}
}

func TestResolutionsAreCountedByOutcome(t *testing.T) {
	o := &observer{metrics: metrics.New(func() metrics.Snapshot { return metrics.Snapshot{} })}
	o.resolved(directory.Placement{}, nil)
	o.resolved(directory.Placement{Fresh: true}, nil)
	o.resolved(directory.Placement{}, pinboard.ColdStart)
	o.resolved(directory.Placement{}, errors.New("anything else"))
	o.resolved(directory.Placement{}, errors.Join(pinboard.StoreUnavailable, context.Canceled))
	text := exposition(o.metrics)
	for _, outcome := range []string{"found", "placed", "cold_start", "store_unavailable", "canceled"} {
		if !strings.Contains(text, `pinboard_resolutions_total{outcome="`+outcome+`"} 1`) {
			t.Errorf("no %s", outcome)
		}
	}
	if n := testing.AllocsPerRun(100, func() { o.resolved(directory.Placement{}, nil) }); n != 0 {
		t.Errorf("%v allocations for a found owner", n)
	}
}

// FC-68: a worker that dies with a thousand streams is one event in the log.
func TestCutAnswersAreLoggedOnceASecond(t *testing.T) {
	var log bytes.Buffer
	o := &observer{metrics: metrics.New(func() metrics.Snapshot { return metrics.Snapshot{} }), log: slog.New(slog.NewJSONHandler(&log, nil))}
	for range 1000 {
		o.exchange(&proxy.Exchange{Kind: proxy.Stream, End: proxy.WorkerGone, Forwards: 1, Status: 200, Worker: &ownership.Worker{Session: "s1"}})
	}
	if n := strings.Count(log.String(), "\n"); n < 1 || n > 5 {
		t.Errorf("%d lines:\n%.500s", n, log.String())
	}
	var e every
	now := time.Now()
	e.allow(now)
	e.allow(now)
	e.allow(now)
	if others, ok := e.allow(now.Add(time.Second)); !ok || others != 2 {
		t.Errorf("the next line counts %d others, %v", others, ok)
	}
}

// An answer that cannot be passed on is the worker's fault, and an operator's
// only way to it is the log: which worker, and why; not once per request.
func TestInvalidAnswersAreLoggedOnceASecond(t *testing.T) {
	var log bytes.Buffer
	o := &observer{metrics: metrics.New(func() metrics.Snapshot { return metrics.Snapshot{} }), log: slog.New(slog.NewJSONHandler(&log, nil))}
	w := &ownership.Worker{Session: "s1", ClientID: "c1", URL: "http://w:1", Secret: secret}
	for range 1000 {
		o.exchange(&proxy.Exchange{End: proxy.Rejected, Forwards: 1, Status: 502, Refusal: pinboard.WorkerInvalid, Worker: w, Fault: "nonsense", RequestID: "r1"})
	}
	if n := strings.Count(log.String(), "\n"); n < 1 || n > 5 {
		t.Errorf("%d lines:\n%.500s", n, log.String())
	}
	want := `"msg":"worker sent an invalid answer","why":"nonsense","session":"s1","client":"c1","url":"http://w:1","requestId":"r1","others":0`
	if text := log.String(); !strings.Contains(text, want) || strings.Contains(text, secret) {
		t.Errorf("no %s in\n%.500s", want, text)
	}
}

func exposition(m *metrics.Metrics) string {
	w := httptest.NewRecorder()
	m.Handler().ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	return w.Body.String()
}
