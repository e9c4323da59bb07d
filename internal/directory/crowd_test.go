package directory_test

import (
	"fmt"
	"reflect"
	"testing"
	"time"

	"pinboard"
	"pinboard/internal/directory"
)

// Affinity that gives one worker most of a node's new ids is told at the
// hundredth and at each doubling; a key among many, a lone worker and calls of
// instances are no crowd.
func TestCrowdsAreTold(t *testing.T) {
	var told []directory.Crowd
	w := newWorld(t, 1, func(o *directory.Options) { o.Crowded = func(c directory.Crowd) { told = append(told, c) } }).warm()
	n, reports := 0, true
	var workers []*proc
	join := func(name string) { workers = append(workers, w.proc(name, "/t").register(0)) }
	place := func(many int, r directory.Request) (last directory.Placement) {
		t.Helper()
		for range many {
			if n++; n%10 == 0 && reports { // each id weighs on a worker until it reports
				w.after(2 * time.Second)
				for _, p := range workers {
					p.mustBeat(0)
				}
			}
			r.Address = pinboard.Address{Namespace: "/t", ID: fmt.Sprint("id", n)}
			p, err := w.nodes[0].Resolve(bg, r)
			if err != nil {
				t.Fatal(err)
			}
			last = p
		}
		return last
	}
	one := directory.Request{Affinity: "10.0.0.1"}
	join("w1")
	place(150, one)
	if len(told) > 0 {
		t.Errorf("there is no other worker: %v", told)
	}
	join("w2")
	for range 120 {
		place(1, one)
		place(2, directory.Request{})
	}
	for i := range 150 {
		place(1, directory.Request{Affinity: fmt.Sprint(i)})
	}
	if len(told) > 0 {
		t.Errorf("no key has most of the new ids: %v", told)
	}
	two := directory.Request{Affinity: "10.0.0.2"}
	p := place(99, two)
	if len(told) > 0 {
		t.Errorf("99 ids: %v", told)
	}
	place(401, two)
	var want []directory.Crowd
	for _, ids := range []int{100, 200, 400} {
		want = append(want, directory.Crowd{Session: p.Worker.Session, IDs: ids, Of: ids, Workers: 2})
	}
	if !reflect.DeepEqual(told, want) {
		t.Errorf("told %v, want %v", told, want)
	}
	told = nil
	place(600, directory.Request{Affinity: "10.0.0.3", Caller: p.Worker.Session})
	if len(told) > 0 {
		t.Errorf("callers keep their instances beside them: %v", told)
	}
	reports = false // placed faster than workers report, a key's ids are spread
	place(1000, directory.Request{Affinity: "10.0.0.4"})
	if len(told) > 0 {
		t.Errorf("a key whose ids are spread: %v", told)
	}
}
