package worker_test

import (
	"context"
	"fmt"
	"log"
	"net/http"
	"os/signal"
	"syscall"

	"pinboard/worker"
)

// A counter per id, in memory: every request for one id meets the same n.
func Example() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	h, err := worker.New(worker.Config{
		Pinboard:  "http://pinboard:8080",
		Token:     "worker-token",
		Advertise: "http://this-host:9000",
	})
	if err != nil {
		log.Fatal(err)
	}
	h.Handle("/counter", worker.Class{Open: func(in *worker.Instance) (http.Handler, error) {
		n := 0
		return http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
			n++ // requests of one id may overlap: guard this with a mutex in earnest
			fmt.Fprintln(rw, in.ID, n)
		}), nil
	}})
	log.Fatal(h.ListenAndServe(ctx, ":9000"))
}
