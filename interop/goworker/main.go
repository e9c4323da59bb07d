// Command goworker is worker.py in Go: the same routes, the same settings and
// the same activation log, so that every trial of the real client can be run
// with our own SDK in its place.
package main

import (
	"context"
	"log"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"

	"pinboard/worker"
)

var (
	journal  *activations
	name     = setting("WORKER_NAME", "worker")
	closeFor = seconds("WORKER_CLOSE_SECONDS", 0)
)

func setting(key, or string) string {
	if v, ok := os.LookupEnv(key); ok {
		return v
	}
	return or
}

func number(key string, or float64) float64 {
	n, err := strconv.ParseFloat(setting(key, ""), 64)
	if err != nil {
		return or
	}
	return n
}

func seconds(key string, or float64) time.Duration { return time.Duration(number(key, or) * 1e9) }

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	listener, err := net.Listen("tcp", "127.0.0.1:"+setting("WORKER_PORT", "0"))
	if err != nil {
		log.Fatal(err)
	}
	journal = openJournal(setting("WORKER_LOG", os.DevNull))
	h, err := worker.New(config(listener.Addr().(*net.TCPAddr)))
	if err != nil {
		log.Fatal(err)
	}
	for _, ns := range strings.Split(setting("WORKER_NAMESPACES", "/counters"), ",") {
		h.Handle(ns, worker.Class{Open: open, Idle: seconds("WORKER_IDLE_TIMEOUT", 300)})
	}
	if setting("WORKER_LISTEN_EARLY", "0") == "1" {
		err = h.Serve(ctx, listener)
	} else {
		err = serveLate(ctx, h, listener)
	}
	if err != nil {
		log.Fatal(err)
	}
}

func config(addr *net.TCPAddr) worker.Config {
	return worker.Config{
		Pinboard: setting("PINBOARD_URL", ""), Token: setting("PINBOARD_TOKEN", ""), Advertise: "http://" + addr.String(),
		Hostname: setting("WORKER_HOSTNAME", ""), Env: setting("WORKER_ENV", ""), Takeover: setting("WORKER_TAKEOVER", ""),
		Epoch:    int64(number("WORKER_BINDING_EPOCH", 0)),
		Headroom: func() float64 { return number("WORKER_HEADROOM", 1000) },
		Beat:     seconds("WORKER_HEARTBEAT", 3), Buffer: seconds("WORKER_LEASE_BUFFER", 5), Drain: seconds("WORKER_DRAIN_DEADLINE", 30),
		Transport: &witness{next: &http.Transport{DisableCompression: true}, port: addr.Port},
		Log:       slog.New(slog.NewTextHandler(os.Stderr, nil)),
	}
}

// serveLate registers before it listens: the first challenge is refused.
func serveLate(ctx context.Context, h *worker.Handler, listener net.Listener) error {
	addr := listener.Addr().String()
	listener.Close()
	time.AfterFunc(300*time.Millisecond, func() {
		log.Print(http.ListenAndServe(addr, h))
	})
	return h.Run(ctx)
}
