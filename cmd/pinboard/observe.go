package main

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"pinboard"
	"pinboard/internal/directory"
	"pinboard/internal/metrics"
	"pinboard/internal/proxy"
)

// observer turns what the parts of a node report into metrics and, rarely,
// into log lines.
type observer struct {
	metrics *metrics.Metrics
	log     *slog.Logger
	cuts    every
	faults  every
}

// exchange is told of each finished request, on its own goroutine.
func (o *observer) exchange(x *proxy.Exchange) {
	route, took := metrics.RouteInstance, x.Total
	switch x.Kind {
	case proxy.Control:
		route = x.Path
	case proxy.Stream, proxy.Tunnel:
		took = x.Head
	}
	o.metrics.Request(route, x.Status, took)
	if x.Kind != proxy.Control {
		if x.Refusal != nil {
			o.metrics.Refused(x.Refusal.Code)
		}
		if x.Forwards > 0 {
			o.metrics.Forwarded(result(x))
		}
	}
	if o.log.Enabled(context.Background(), slog.LevelDebug) {
		o.log.Debug("request", "requestId", x.RequestID, "method", x.Method, "path", x.Path, "status", x.Status, "kind", x.Kind.String(),
			"end", x.End.String(), "epoch", x.Epoch.String(), "fresh", x.Fresh, "forwards", x.Forwards,
			"totalMs", x.Total.Milliseconds(), "bytesOut", x.BytesOut)
	}
	if x.Refusal == pinboard.WorkerInvalid {
		o.fault(x)
	}
	if x.End == proxy.WorkerGone || x.End == proxy.OwnerGone {
		o.cut(x)
	}
}

// cut logs answers that were cut short, one line a second at most: a dying
// worker with a thousand streams is one event, not a thousand lines.
func (o *observer) cut(x *proxy.Exchange) {
	others, ok := o.cuts.allow(time.Now())
	if !ok {
		return
	}
	session := ""
	if x.Worker != nil {
		session = x.Worker.Session
	}
	o.log.Info("response cut short", "cause", x.End.String(), "session", session, "kind", x.Kind.String(),
		"status", x.Status, "bytesOut", x.BytesOut, "others", others)
}

// fault logs a worker whose answer could not be passed on, one line a second at
// most.
func (o *observer) fault(x *proxy.Exchange) {
	others, ok := o.faults.allow(time.Now())
	if !ok || x.Worker == nil {
		return
	}
	o.log.Warn("worker sent an invalid answer", "why", x.Fault, "session", x.Worker.Session, "client", x.Worker.ClientID,
		"url", x.Worker.URL, "requestId", x.RequestID, "others", others)
}

// result names what became of an exchange with a worker (metrics.Results).
func result(x *proxy.Exchange) string {
	switch x.Refusal {
	case pinboard.WorkerRefused:
		return "refused"
	case pinboard.WorkerUnreachable, pinboard.WorkerDraining:
		return "unreachable"
	case pinboard.WorkerNotReady:
		return "bad_attestation"
	case pinboard.WorkerTimeout:
		return "worker_timeout"
	case pinboard.WorkerBroken, pinboard.WorkerInvalid:
		return "worker_abort"
	case pinboard.OwnerLost:
		return "owner_lost"
	}
	switch x.End {
	case proxy.Complete:
		return "served"
	case proxy.ClientGone:
		return "client_abort"
	case proxy.WorkerGone:
		return "worker_abort"
	case proxy.OwnerGone:
		return "owner_lost"
	case proxy.ShutdownCut:
		return "shutdown"
	}
	return metrics.Other
}

// every lets one event through per second and counts the others.
type every struct {
	mu     sync.Mutex
	last   time.Time
	others int
}

func (e *every) allow(now time.Time) (others int, ok bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if now.Sub(e.last) < time.Second {
		e.others++
		return 0, false
	}
	others, e.last, e.others = e.others, now, 0
	return others, true
}

// panicked is told of a panic that ended one exchange; the node lives on.
func (o *observer) panicked(v any, stack []byte) {
	o.log.Error("panic in an exchange", "panic", v, "stack", string(stack))
}

// resolved counts one resolution. It runs for every request: a found owner
// costs no allocation.
func (o *observer) resolved(p directory.Placement, err error) {
	switch {
	case err != nil:
		o.metrics.Resolved(failure(err))
	case p.Fresh:
		o.metrics.Resolved("placed")
	default:
		o.metrics.Resolved("found")
	}
}

// failure names why nothing was resolved.
func failure(err error) string {
	var refusal *pinboard.Refusal
	switch {
	case errors.Is(err, context.Canceled): // also when it is why the store gave no answer
		return "canceled"
	case errors.As(err, &refusal):
		return refusal.Code
	}
	return pinboard.StoreUnavailable.Code
}
