package directory_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"pinboard"
	"pinboard/internal/directory"
)

func (w *world) placeFor(client, caller, id string) error {
	_, err := w.nodes[0].Resolve(bg, directory.Request{Client: client, Caller: caller, Address: pinboard.Address{Namespace: "/threads", ID: id}})
	return err
}

func TestAClientCausesOnlySoManyNewIDs(t *testing.T) {
	w := newWorld(t, 1, func(o *directory.Options) { o.PlaceRate = 2 }).warm()
	a := w.proc("w1").register(0)
	taken := 0
	for i := range 100 {
		switch err := w.placeFor("10.0.0.1", "", fmt.Sprint("id", i)); {
		case err == nil:
			taken++
		case !errors.Is(err, pinboard.PlacementRate):
			t.Fatal(err)
		}
	}
	if taken != 20 {
		t.Fatalf("a burst of %d ids, want ten seconds' worth at 2 a second", taken)
	}
	if err := w.placeFor("10.0.0.1", "", "id0"); err != nil {
		t.Fatalf("a placed id: %v", err)
	}
	if err := w.placeFor("10.0.0.2", "", "other"); err != nil {
		t.Fatalf("another client: %v", err)
	}
	if err := w.placeFor("10.0.0.1", a.session, "called"); err != nil {
		t.Fatalf("a proven caller: %v", err)
	}
	w.after(time.Second)
	for i := range 3 {
		if err := w.placeFor("10.0.0.1", "", fmt.Sprint("later", i)); (err == nil) != (i < 2) {
			t.Fatalf("id %d of the next second: %v", i, err)
		}
	}
}

func TestWithoutARateNothingIsLimited(t *testing.T) {
	w := newWorld(t, 1).warm()
	w.proc("w1").register(0)
	for i := range 500 {
		if err := w.placeFor("10.0.0.1", "", fmt.Sprint("id", i)); err != nil {
			t.Fatal(err)
		}
	}
}
