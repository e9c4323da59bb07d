// Command mutants finds the guards of the shipped code by itself and takes each
// away: conditions, comparisons, returns they lead to, arguments of time and
// order. It shows which test notices, and fails if none does and no line of
// equivalent.txt says why nothing can.
//
//	go run ./internal/mutants [-target rules] [-match Lookup] [-since main] [-for 3m] [-write docs/mutations.md]
//
// All mutants are woven into one build of the tests; the environment of a run
// says which one is active. Nothing is changed in the tree.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"
	"time"
)

type options struct {
	target, match, since, write, keep, skip string
	limit                                   time.Duration
	list, again                             bool
}

func main() {
	var o options
	flag.StringVar(&o.target, "target", "", "only this target")
	flag.StringVar(&o.match, "match", "", "only mutants whose name contains this")
	flag.StringVar(&o.since, "since", "", "only lines changed since this commit; \"auto\": since the branch left main")
	flag.StringVar(&o.write, "write", "", "the page whose table of found guards is rewritten")
	flag.StringVar(&o.keep, "keep", "", "a file of results: what is in it is not run again")
	flag.StringVar(&o.skip, "skip", "", "suites that are not asked, a comma between")
	flag.DurationVar(&o.limit, "for", 0, "stop after this time and name what was left out; 0: no limit")
	flag.BoolVar(&o.list, "list", false, "list the mutants and run nothing")
	flag.BoolVar(&o.again, "again", false, "with -keep: run what nothing noticed again")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, &o); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context, o *options) error {
	w, err := find(targets)
	if err != nil {
		return err
	}
	explained, err := explanations(w)
	if err != nil {
		return err
	}
	chosen, err := choose(w, o)
	if err != nil {
		return err
	}
	if o.list {
		for _, m := range chosen {
			fmt.Printf("%s:%d: %s\n", m.file, m.line, m.id)
		}
		return nil
	}
	j, err := openJournal(o.keep)
	if err != nil {
		return err
	}
	left, err := j.settle(ctx, w, chosen, explained, o)
	if err != nil {
		return err
	}
	if o.write != "" {
		if err := j.page(o.write, w, explained); err != nil {
			return err
		}
	}
	return summary(j, chosen, explained, left)
}

// choose applies the flags.
func choose(w *weave, o *options) ([]*mutant, error) {
	changed, err := changes(o.since)
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(slices.Clone(w.mutants), func(m *mutant) bool {
		return o.target != "" && m.group != o.target || !strings.Contains(m.id, o.match) || o.since != "" && !changed[place{m.file, m.line}]
	}), nil
}

// summary names what nobody noticed; it is an error if anything is.
func summary(j *journal, chosen []*mutant, explained map[string]string, left []*mutant) error {
	caught, equivalent, silent := 0, 0, 0
	for _, m := range chosen {
		r, ran := j.results[m.id]
		switch {
		case explained[m.id] != "":
			equivalent++
		case !ran || r.Cut:
		case r.Column != "":
			caught++
		default:
			silent++
			fmt.Printf("NOT NOTICED %s:%d: %s (%s)\n", m.file, m.line, m.id, r.silence())
		}
	}
	fmt.Printf("%d mutants: %d noticed, %d cannot be, %d not noticed, %d not tried\n", len(chosen), caught, equivalent, silent, len(left))
	for _, m := range left {
		fmt.Println("not tried:", m.id)
	}
	if silent > 0 {
		return fmt.Errorf("%d guards may go without a test noticing", silent)
	}
	return nil
}
