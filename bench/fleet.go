package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"pinboard/bench/figures"
	"pinboard/bench/load"
)

const (
	token = "bench-token" // of a fleet that lives for one run on loopback
	ids   = 1000          // ids the closed and open loops cycle over
)

// A Fleet is everything that runs during a benchmark: Redis, the upstream and
// all targets at once, idle but the one under test.
type Fleet struct {
	scratch   string        // logs, configurations, pid files
	peers     string        // folder of the peers' configurations
	pinboard  string        // path of the binary under test
	only      []string      // targets that take part; none: all
	tries     int           // measurements of one sample while others use the machine
	patience  time.Duration // how long one sample waits for others to leave the machine
	redisPort int
	script    string // SHA of the peers' look-up, loaded into Redis
	redis     *Process
	upstream  *Process
	worker    string // host:port of the upstream
	targets   []*Target
}

// A Target is one way to the upstream.
type Target struct {
	Name    string
	Address string // host:port
	Streams string // host:port for upgrades and event streams
	start   func() (*Process, error)
	process *Process
}

// Start brings up the process behind the target and waits for its port.
func (t *Target) Start(ctx context.Context) (err error) {
	if t.process, err = t.start(); err != nil {
		return err
	}
	if err := t.process.await(ctx, 10*time.Second, listening(t.Address)); err != nil {
		return fmt.Errorf("%s: %w", t.Name, err)
	}
	return nil
}

// Restart makes the target fresh, so that its memory holds no past.
func (t *Target) Restart(ctx context.Context) error {
	t.process.Stop()
	return t.Start(ctx)
}

// Warm sends every id through the target three times, which places it,
// confirms it and then finds it as all later requests will.
func (t *Target) Warm(ctx context.Context) error {
	for range 3 {
		if err := load.Walk(ctx, t.Address, "t_", ids, 8); err != nil {
			return fmt.Errorf("warm %s: %w; its log ends:\n%s", t.Name, err, t.process.Tail())
		}
	}
	return nil
}

// Start starts everything and warms every target. Stop follows, also after
// an error.
func (f *Fleet) Start(ctx context.Context) error {
	ports, err := freePorts(24)
	if err != nil {
		return err
	}
	f.worker, f.redisPort = address(ports[0]), ports[1]
	f.targets = f.plan(ports[2:])
	if err := f.startRedis(ctx); err != nil {
		return err
	}
	if err := f.startUpstream(ctx); err != nil {
		return err
	}
	for _, t := range f.targets {
		if t.Name == figures.Direct {
			t.process = f.upstream
			continue
		}
		if err := t.Start(ctx); err != nil {
			return err
		}
	}
	for _, t := range f.targets {
		if strings.HasPrefix(t.Name, figures.Pinboard) {
			if err := f.awaitPlacing(ctx, t); err != nil {
				return err
			}
		}
		if err := t.Warm(ctx); err != nil {
			return err
		}
	}
	return nil
}

// Stop ends every process.
func (f *Fleet) Stop() {
	for _, t := range f.targets {
		if t.process != nil && t.process != f.upstream {
			t.process.Stop()
		}
	}
	for _, p := range []*Process{f.upstream, f.redis} {
		if p != nil {
			p.Stop()
		}
	}
}

// takesPart reports whether a target was asked for.
func (f *Fleet) takesPart(name string) bool {
	return f.only == nil || slices.Contains(f.only, name)
}

// list says where everything is.
func (f *Fleet) list(out io.Writer) {
	fmt.Fprintf(out, "redis %s pid %d\n", address(f.redisPort), f.redis.PID())
	for _, t := range f.targets {
		fmt.Fprintf(out, "%s %s pid %d\n", t.Name, t.Address, t.process.PID())
	}
}

// Target is the target of that name, nil if it takes no part.
func (f *Fleet) Target(name string) *Target {
	for _, t := range f.targets {
		if t.Name == name {
			return t
		}
	}
	return nil
}

func (f *Fleet) startUpstream(ctx context.Context) (err error) {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	command := []string{self, "upstream", f.worker}
	for _, t := range f.targets {
		if strings.HasPrefix(t.Name, figures.Pinboard) {
			command = append(command, "http://"+t.Address)
		}
	}
	if f.upstream, err = startProcess(f.scratch, "upstream", nil, command...); err != nil {
		return err
	}
	return f.upstream.await(ctx, 5*time.Second, listening(f.worker))
}

// awaitPlacing waits until the node places a new id: its worker has
// registered and the buckets of a new store are warm (one lease).
func (f *Fleet) awaitPlacing(ctx context.Context, t *Target) error {
	err := t.process.await(ctx, 60*time.Second, func() error {
		return load.Walk(ctx, t.Address, "first_", 1, 1)
	})
	if err != nil {
		return fmt.Errorf("%s places nothing: %w", t.Name, err)
	}
	return nil
}

// config writes a peer's configuration with its names filled in.
func (f *Fleet) config(file string, names ...string) (string, error) {
	raw, err := os.ReadFile(filepath.Join(f.peers, file))
	if err != nil {
		return "", err
	}
	text := strings.NewReplacer(append(names, "@DIR@", f.scratch, "@UPSTREAM@", f.worker)...).Replace(string(raw))
	if i := strings.IndexByte(text, '@'); i >= 0 {
		return "", fmt.Errorf("%s: no value for %.12q", file, text[i:])
	}
	path := filepath.Join(f.scratch, file)
	return path, os.WriteFile(path, []byte(text), 0o644)
}

func address(port int) string { return fmt.Sprintf("127.0.0.1:%d", port) }

func freePorts(n int) ([]int, error) {
	ports := make([]int, n)
	for i := range ports {
		p, err := freePort()
		if err != nil {
			return nil, err
		}
		ports[i] = p
	}
	return ports, nil
}

// requirePrograms names what is missing on this machine.
func requirePrograms(names ...string) error {
	var missing []string
	for _, n := range names {
		if _, err := exec.LookPath(n); err != nil {
			missing = append(missing, n)
		}
	}
	if missing != nil {
		return errors.New("missing " + strings.Join(missing, ", ") + ": run bench/setup.sh")
	}
	return nil
}
