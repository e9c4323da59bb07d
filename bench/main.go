// Command bench measures Pinboard beside its peers on this machine and holds
// the figures against the goals of docs/performance.md. See README.md.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"

	"pinboard/bench/figures"
	"pinboard/bench/upstream"
)

func main() {
	runtime.LockOSThread() // see startProcess
	if err := run(os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// run dispatches: the benchmark starts itself again as upstream and as peer.
func run(args []string, stdout io.Writer) error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	switch {
	case len(args) > 1 && args[0] == "upstream":
		return runUpstream(ctx, args[1], args[2:])
	case len(args) == 3 && args[0] == "reverseproxy":
		return runReverseProxy(args[1], args[2])
	}
	o, err := parseOptions(args)
	if err != nil {
		return err
	}
	return bench(ctx, o, stdout)
}

// runUpstream answers at the address and is a member of every Pinboard named.
func runUpstream(ctx context.Context, listen string, pinboards []string) error {
	l, err := net.Listen("tcp", listen)
	if err != nil {
		return err
	}
	var members []*upstream.Member
	for _, p := range pinboards {
		m := upstream.NewMember(p, token, "http://"+listen, "/threads")
		members = append(members, m)
		go m.Run(ctx)
	}
	r := &upstream.Responder{Challenge: func(challenge, secret string) (string, bool) {
		for _, m := range members {
			if v, ok := m.Challenge(challenge, secret); ok {
				return v, true
			}
		}
		return "", false
	}}
	context.AfterFunc(ctx, func() { l.Close() })
	if err := r.Serve(l); ctx.Err() == nil {
		return err
	}
	return nil
}

// Options say how long a run takes and what it leaves behind.
type Options struct {
	Rounds   int           // closed-loop rounds
	Latency  int           // rounds at one connection and in the open loop
	Window   time.Duration // length of one closed loop
	Open     time.Duration // length of one open loop
	Tries    int           // measurements of one sample while others use the machine
	Idle     int           // idle connections
	Rows     int           // ids placed for the memory of a row
	Write    bool          // put the results into docs/performance.md
	Only     []string      // names of the targets that take part; none: all
	Hold     bool          // start everything and wait, for measuring by hand
	Binary   string        // measured instead of a fresh build
	Patience time.Duration // how long each sample waits for others to leave the machine
	KeepLogs bool
}

// Row counts fill 95 % of a Redis hash table, where a row is cheapest: the
// quick run's is the same share of a smaller table.
const (
	fullRows  = 1_000_000
	quickRows = 1_000_000 / 8
)

func parseOptions(args []string) (Options, error) {
	o := Options{Rounds: 8, Latency: 4, Window: 3 * time.Second, Open: 3 * time.Second, Tries: 4, Idle: 5000, Rows: fullRows}
	fs := flag.NewFlagSet("bench", flag.ContinueOnError)
	quick := fs.Bool("quick", false, "few and short rounds: a first look, not a result")
	fs.BoolVar(&o.Write, "write", false, "write the results into docs/performance.md")
	only := fs.String("only", "", "comma-separated targets to measure; gates are judged on full runs only")
	fs.BoolVar(&o.Hold, "hold", false, "start the targets, print where they are, wait for an interrupt")
	fs.BoolVar(&o.KeepLogs, "keep", false, "keep the scratch folder")
	fs.StringVar(&o.Binary, "binary", "", "a built pinboard to measure, instead of building this tree")
	fs.DurationVar(&o.Patience, "patience", 0, "how long each sample waits until nobody else uses the machine")
	rounds := fs.Int("rounds", 0, "closed-loop rounds")
	if err := fs.Parse(args); err != nil {
		return o, err
	}
	if fs.NArg() > 0 {
		return o, fmt.Errorf("unexpected argument %q", fs.Arg(0))
	}
	if *quick {
		o.Rounds, o.Latency, o.Tries, o.Idle, o.Rows = 3, 2, 2, 2500, quickRows
		o.Window, o.Open = 2*time.Second, 2*time.Second
	}
	if *rounds > 0 {
		o.Rounds = *rounds
	}
	if *only != "" {
		o.Only = strings.Split(*only, ",")
	}
	if o.Write && (*quick || o.Only != nil || o.Rounds < 8) {
		return o, errors.New("-write takes a full run: no -quick, no -only, 8 rounds or more")
	}
	return o, nil
}

func bench(ctx context.Context, o Options, stdout io.Writer) error {
	if err := requirePrograms("nginx", "haproxy", "node", "wrk", "redis-server", "redis-cli", "go"); err != nil {
		return err
	}
	scratch, err := os.MkdirTemp("", "pinboard-bench-")
	if err != nil {
		return err
	}
	if !o.KeepLogs {
		defer os.RemoveAll(scratch)
	}
	if err := os.Chmod(scratch, 0o755); err != nil { // nginx workers are another user
		return err
	}
	fleet := &Fleet{scratch: scratch, peers: filepath.Join("bench", "peers"), only: o.Only, tries: o.Tries, patience: o.Patience}
	fleet.pinboard = o.Binary
	if o.Binary == "" && (fleet.takesPart(figures.Pinboard) || fleet.takesPart(figures.PinboardMem)) {
		fleet.pinboard = filepath.Join(scratch, "pinboard")
		if out, err := exec.CommandContext(ctx, "go", "build", "-o", fleet.pinboard, "./cmd/pinboard").CombinedOutput(); err != nil {
			return fmt.Errorf("build: %w: %s", err, out)
		}
	}
	defer fleet.Stop()
	if err := fleet.Start(ctx); err != nil {
		return err
	}
	if o.Hold {
		fleet.list(stdout)
		<-ctx.Done()
		return nil
	}
	m, err := fleet.measureAll(ctx, o, stdout)
	report := newReport(m, fleet, o)
	fmt.Fprint(stdout, "\n", report) // also what was measured before an error
	if err != nil {
		return err
	}
	if o.Write {
		if err := writeResults(filepath.Join("docs", "performance.md"), report); err != nil {
			return err
		}
	}
	if o.Only != nil {
		return nil
	}
	if failed := figures.Failures(figures.Results(m)); failed != nil {
		return errors.New("gates missed:\n  " + strings.Join(failed, "\n  "))
	}
	fmt.Fprintln(stdout, "all gates hold")
	return nil
}
