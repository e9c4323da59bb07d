// Command pinboard-demo tells the story of Pinboard in half a minute: one node
// (pinboard dev), two workers, a crash. demo/run.sh builds and starts it.
package main

import (
	"context"
	"crypto/rand"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"
)

// lease is short, so that waiting one out fits into a demonstration.
const lease = 8 * time.Second

func main() {
	dir := flag.String("dir", os.TempDir(), "where logs and pids go")
	python := flag.String("python", "", "interpreter with the worker client; Go workers without it")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	stage := newStage(*dir)
	err := run(ctx, stage, *python)
	stage.close()
	if err != nil {
		if errors.Is(err, context.Canceled) {
			fmt.Println("\ninterrupted; nothing is left running")
			os.Exit(130)
		}
		fmt.Fprintln(os.Stderr, "demo:", err)
		os.Exit(1)
	}
}

// run starts everything and plays the acts in order.
func run(ctx context.Context, stage *stage, python string) error {
	token := rand.Text()
	node, err := stage.node(ctx, token)
	if err != nil {
		return err
	}
	workers := map[string]*process{}
	for _, name := range []string{"anna", "bert"} {
		if workers[name], err = stage.worker(name, node, token, python); err != nil {
			return err
		}
	}
	if err := stage.registered(ctx, node, token, len(workers)); err != nil {
		return err
	}
	s := &story{ctx: ctx, say: newVoice(os.Stdout), visitor: visitor{base: node}, workers: workers}
	s.cast(python)
	for _, act := range []func() error{
		s.spread, s.sticky, s.events, s.socket, s.crash,
	} {
		if err := act(); err != nil {
			return fmt.Errorf("%w (logs of the processes below)\n%s", err, stage.logs())
		}
	}
	s.byHand(python)
	return nil
}
