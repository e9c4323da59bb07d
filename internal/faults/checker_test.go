//go:build linux

package faults

import (
	"strings"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"pinboard"
)

// at makes journal lines of a story in milliseconds.
func at(ms int64, process string, l line) line {
	l.At, l.Process = ms*1e6, process
	return l
}

func grant(ms int64, process string, until int64) line {
	return at(ms, process, line{Event: "answer", Kind: "heartbeat", OK: true, Deadline: until * 1e6})
}

func start(ms int64, process string, n int64, e pinboard.Epoch) line {
	return at(ms, process, line{Event: "start", ID: "a", Activation: n, Epoch: e})
}

func epoch(ms int64, process string, n int64, e pinboard.Epoch) line {
	return at(ms, process, line{Event: "epoch", ID: "a", Activation: n, Epoch: e})
}

func end(ms int64, process string, n int64) line {
	return at(ms, process, line{Event: "end", ID: "a", Activation: n})
}

// The checker of activations sees what it is there for, and nothing else.
func TestOwnersChecker(t *testing.T) {
	for name, c := range map[string]struct {
		lines []line
		want  string // of the only violation; "" none
	}{
		"an owner after the other":      {[]line{grant(0, "w1", 900), start(10, "w1", 1, 5), end(20, "w1", 1), grant(0, "w2", 900), start(20, "w2", 1, 6)}, ""},
		"after the lapse of the first":  {[]line{grant(0, "w1", 900), start(10, "w1", 1, 5), grant(0, "w2", 2000), start(900, "w2", 1, 6)}, ""},
		"renewals are one lease":        {[]line{grant(0, "w1", 900), start(10, "w1", 1, 5), grant(500, "w1", 1400), grant(0, "w2", 2000), start(1000, "w2", 1, 6)}, "two live owners"},
		"before the lapse of the first": {[]line{grant(0, "w1", 900), start(10, "w1", 1, 5), grant(0, "w2", 2000), start(899, "w2", 1, 6)}, "two live owners"},
		"before the close has ended":    {[]line{grant(0, "w1", 900), start(10, "w1", 1, 5), grant(0, "w2", 2000), start(400, "w2", 1, 6), end(401, "w1", 1)}, "two live owners"},
		"back to life with a new lease": {[]line{grant(0, "w1", 100), start(10, "w1", 1, 5), grant(0, "w2", 2000), start(200, "w2", 1, 6), grant(300, "w1", 900)}, "two live owners"},
		"back to life, told to quit": {[]line{grant(0, "w1", 100), start(10, "w1", 1, 5), grant(0, "w2", 2000), start(200, "w2", 1, 6),
			at(300, "w1", line{Event: "answer", OK: true, Deadline: 900e6, Duplicates: []string{"a"}})}, ""},
		"the same epoch again": {[]line{grant(0, "w1", 900), start(10, "w1", 1, 5), end(20, "w1", 1), grant(0, "w2", 900), start(20, "w2", 1, 5)}, "epoch not above"},
		"below a raised epoch": {[]line{grant(0, "w1", 900), start(10, "w1", 1, 5), epoch(15, "w1", 1, 9), end(20, "w1", 1), start(20, "w1", 2, 7)}, "epoch not above"},
		"rule R":               {[]line{grant(0, "w1", 100), start(10, "w1", 1, 5), grant(0, "w2", 2000), start(200, "w2", 1, 6), end(300, "w2", 1), grant(400, "w1", 900), epoch(400, "w1", 1, 7)}, "old memory adopted"},
		"its own fresh epoch":  {[]line{grant(0, "w1", 900), start(10, "w1", 1, 5), epoch(100, "w1", 1, 7)}, ""},
	} {
		o := readOwners(c.lines)
		if got := strings.Join(o.violations(), "; "); c.want == "" && got != "" || !strings.Contains(got, c.want) || strings.Contains(got, ";") {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

func op(from, to int64, v verb, process string, e pinboard.Epoch) porcupine.Operation {
	return porcupine.Operation{Input: action{v, "a", process, e}, Call: from, Return: to}
}

// The model of the register, one broken history for each promise.
func TestHistoryChecker(t *testing.T) {
	for name, c := range map[string]struct {
		ops  []porcupine.Operation
		fits bool
	}{
		"served, released, served elsewhere":   {[]porcupine.Operation{op(0, 1, served, "w1", 5), op(2, 3, released, "w1", 5), op(4, 5, served, "w2", 6)}, true},
		"two owners":                           {[]porcupine.Operation{op(0, 1, served, "w1", 5), op(2, 3, served, "w2", 6)}, false},
		"two owners at once, in either order":  {[]porcupine.Operation{op(0, 9, served, "w1", 5), op(0, 9, served, "w2", 6)}, false},
		"a repeated epoch":                     {[]porcupine.Operation{op(0, 1, served, "w1", 5), op(2, 3, released, "w1", 5), op(4, 5, served, "w2", 5)}, false},
		"an epoch that falls":                  {[]porcupine.Operation{op(0, 1, served, "w1", 5), op(2, 3, released, "w1", 5), op(4, 5, served, "w2", 4)}, false},
		"a lost release":                       {[]porcupine.Operation{op(0, 1, served, "w1", 5), op(2, 3, released, "w1", 5), op(4, 5, served, "w1", 5)}, false},
		"a release under way":                  {[]porcupine.Operation{op(0, 1, served, "w1", 5), op(2, 9, released, "w1", 5), op(4, 5, served, "w1", 5)}, true},
		"a release of another epoch":           {[]porcupine.Operation{op(0, 1, served, "w1", 5), op(2, 3, released, "w1", 4), op(4, 5, served, "w2", 6)}, false},
		"a release by another":                 {[]porcupine.Operation{op(0, 1, served, "w1", 5), op(2, 3, released, "w2", 5), op(4, 5, served, "w2", 6)}, false},
		"a release whose outcome nobody knows": {[]porcupine.Operation{op(0, 1, served, "w1", 5), op(2, 2, loosened, "w1", 0), op(4, 5, served, "w1", 5), op(6, 7, served, "w2", 6)}, true},
		"a lapse, later elsewhere":             {[]porcupine.Operation{op(0, 1, served, "w1", 5), op(9, 9, loosened, "w1", 0), op(8, 10, served, "w2", 6)}, true},
		"elsewhere before the lapse":           {[]porcupine.Operation{op(0, 1, served, "w1", 5), op(9, 9, loosened, "w1", 0), op(7, 8, served, "w2", 6)}, false},
		"back to an earlier owner":             {[]porcupine.Operation{op(0, 1, served, "w1", 5), op(2, 2, loosened, "w1", 0), op(3, 4, served, "w2", 6), op(5, 6, served, "w1", 5)}, false},
		"reclaimed after a lapse":              {[]porcupine.Operation{op(0, 1, served, "w1", 5), op(2, 2, loosened, "w1", 0), op(3, 4, reclaimed, "w1", 0), op(5, 6, served, "w1", 5)}, true},
		"reclaimed, and yet placed elsewhere":  {[]porcupine.Operation{op(0, 1, served, "w1", 5), op(2, 2, loosened, "w1", 0), op(3, 4, reclaimed, "w1", 0), op(5, 6, served, "w2", 6)}, false},
		"reclaimed from its new owner":         {[]porcupine.Operation{op(0, 1, served, "w1", 5), op(2, 2, loosened, "w1", 0), op(3, 4, served, "w2", 6), op(5, 6, reclaimed, "w1", 0)}, false},
		"left out by a registration":           {[]porcupine.Operation{op(0, 1, served, "w1", 5), op(2, 3, omitted, "w1", 0), op(4, 5, served, "w2", 6)}, true},
		"left out, and yet served":             {[]porcupine.Operation{op(0, 1, served, "w1", 5), op(2, 3, omitted, "w1", 0), op(4, 5, served, "w1", 5)}, false},
		"told to quit, and yet served":         {[]porcupine.Operation{op(0, 1, served, "w1", 5), op(2, 3, refused, "w1", 0), op(4, 5, served, "w1", 5)}, false},
		"released at the epoch before a fresh": {[]porcupine.Operation{op(0, 1, served, "w1", 5), op(2, 3, served, "w1", 7), op(4, 5, released, "w1", 5), op(6, 7, served, "w2", 8)}, true},
	} {
		if found := linearizable(c.ops); (len(found) == 0) != c.fits {
			t.Errorf("%s: %v", name, found)
		}
	}
}

// From what was written down to a verdict.
func TestHistoryIsReadFromTheJournal(t *testing.T) {
	lines := []line{
		at(0, "w1", line{Event: "call", Call: 1, Kind: "register"}),
		at(1, "w1", line{Event: "answer", Call: 1, OK: true, Deadline: 900e6}),
		start(10, "w1", 1, 5), at(11, "w1", line{Event: "enter", ID: "a", Op: 1, Epoch: 5}),
		at(20, "w1", line{Event: "call", Call: 2, Kind: "release", Released: map[string]pinboard.Epoch{"a": 5}}),
		at(21, "w1", line{Event: "answer", Call: 2, OK: true}),
		at(40, "w2", line{Event: "enter", ID: "a", Op: 2, Epoch: 6}),
	}
	requests := []request{{op: 1, id: "a", call: 9e6, status: 200, body: "w1 5"}, {op: 2, id: "a", call: 30e6}}
	judge := func(lines []line, requests []request) string {
		ops, faults := history(requests, lines)
		return strings.Join(append(faults, linearizable(ops)...), "; ")
	}
	if got := judge(lines, requests); got != "" {
		t.Errorf("a whole story: %s", got)
	}
	without := func(i int) []line { return append(append([]line{}, lines[:i]...), lines[i+1:]...) }
	if got := judge(without(4), requests); !strings.Contains(got, "not linearizable") {
		t.Errorf("no release: %q", got)
	}
	if got := judge(without(5), requests); got != "" {
		t.Errorf("a release without an answer may have worked: %s", got)
	}
	twice := append(append([]line{}, lines...), at(50, "w2", line{Event: "enter", ID: "a", Op: 2, Epoch: 6}))
	if got := judge(twice, requests); !strings.Contains(got, "delivered twice") {
		t.Errorf("a request twice: %q", got)
	}
	invented := append([]request{{op: 3, id: "a", call: 50e6, status: 200, body: "w3 9"}}, requests...)
	if got := judge(lines, invented); !strings.Contains(got, "an answer nobody gave") {
		t.Errorf("an answer out of nothing: %q", got)
	}
}

// A history as long as a nightly one is judged in no time.
func TestHistoryCheckerIsFast(t *testing.T) {
	var ops []porcupine.Operation
	for i := range int64(4000) {
		process, e := "w1", pinboard.Epoch(1+i/100)
		if i/100%2 == 1 {
			process = "w2"
		}
		ops = append(ops, op(i*10, i*10+35, served, process, e))
		if i%100 == 99 {
			ops = append(ops, op(i*10+36, i*10+39, loosened, process, 0))
			ops[len(ops)-2].Return = i*10 + 9
		} else if i%100 > 95 {
			ops[len(ops)-1].Return = i*10 + 9
		}
	}
	begun := time.Now()
	if found := linearizable(ops); len(found) != 0 {
		t.Error(found)
	}
	if took := time.Since(begun); took > 20*time.Second {
		t.Errorf("it took %v", took)
	}
}
