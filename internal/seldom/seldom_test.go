package seldom

import (
	"fmt"
	"reflect"
	"testing"
	"time"
)

// A trouble each second is told at once and then less and less often.
func TestIntervalsGrow(t *testing.T) {
	var w Warnings
	begin, silent := time.Unix(0, 0), 0
	var at []int
	for s := range 3600 {
		switch others, ok := w.Due("a", "", begin.Add(time.Duration(s)*time.Second)); {
		case !ok:
			silent++
		case others != silent:
			t.Errorf("second %d: %d others, want %d", s, others, silent)
		default:
			at, silent = append(at, s), 0
		}
	}
	if want := []int{0, 10, 30, 70, 150, 310, 630, 1230, 1830, 2430, 3030}; !reflect.DeepEqual(at, want) {
		t.Errorf("told at %v, want %v", at, want)
	}
}

func TestTroublesAreOnesOwnAndEnd(t *testing.T) {
	var w Warnings
	now := time.Unix(0, 0)
	due := func(key string, want bool) {
		t.Helper()
		if _, ok := w.Due(key, "", now); ok != want {
			t.Errorf("%s: %v", key, ok)
		}
	}
	due("a", true)
	due("b", true)
	due("a", false)
	if !w.Over("a") || w.Over("a") {
		t.Error("the end is told once")
	}
	due("a", true)
	due("b", false)
	now = now.Add(most + time.Second)
	due("b", true) // quiet for long: news
	due("b", false)
	now = now.Add(first)
	due("b", true)
}

func TestMemoryIsBounded(t *testing.T) {
	var w Warnings
	for i := range 3 * keys {
		if _, ok := w.Due(fmt.Sprint(i), "", time.Unix(0, 0)); !ok {
			t.Fatalf("%d is not told", i)
		}
	}
	if len(w.known) > keys {
		t.Errorf("%d are remembered", len(w.known))
	}
}

// Another kind of the same trouble is news, as long as there are few.
func TestKindsAreToldAtOnce(t *testing.T) {
	var w Warnings
	now, told := time.Unix(0, 0), 0
	for range 2 {
		for kind := range 2 * kinds {
			if _, ok := w.Due("a", fmt.Sprint(kind), now); ok {
				told++
			}
		}
	}
	if told != kinds {
		t.Errorf("%d lines for %d kinds", told, 2*kinds)
	}
}
