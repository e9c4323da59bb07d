//go:build linux

package faults

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pinboard/internal/rawtest"
	"pinboard/internal/redistest"
)

// A lateOne is a worker process without an SDK, which says what it likes when
// it likes: its answers are its name and the epoch of the request.
type lateOne struct {
	*rawtest.Session
	worker *rawtest.Worker
}

func (f *rawFleet) worker(name string, every time.Duration) *lateOne {
	w := rawtest.NewWorker(f.t, func(c *rawtest.Conn) {
		if m, ok := c.Request(); ok {
			c.Write(rawtest.Response(200, name+" "+m.Get("Pinboard-Epoch"), "Connection: close"))
		}
	})
	return &lateOne{w.Register("http://"+f.nodes[0].addr, token, every, namespace), w}
}

// A rawFleet is two nodes over one Redis: workers speak with the first,
// clients with the second.
type rawFleet struct {
	t     *testing.T
	nodes []*node
}

func startRawFleet(t *testing.T) *rawFleet {
	f := &rawFleet{t: t}
	redis := redistest.Start(t)
	for i := range 2 {
		f.nodes = append(f.nodes, startNode(t, fmt.Sprint("node", i), build(t), redis.URL()))
	}
	for _, n := range f.nodes {
		f.await("node", n.ready)
	}
	return f
}

func (f *rawFleet) await(what string, ok func() bool) {
	f.t.Helper()
	for end := time.Now().Add(deadline); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			f.t.Fatalf("never: %s", what)
		}
	}
}

// get asks for the id; owner and epoch are empty unless it was served.
func (f *rawFleet) get(id string) (owner, epoch string) {
	m := rawtest.Do(f.t, f.nodes[1].addr, "GET "+namespace+"/"+id+" HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n")
	if m.Status() != 200 {
		return "", ""
	}
	owner, epoch, _ = strings.Cut(string(m.Body), " ")
	return owner, epoch
}

// place waits until the id is served by owner and returns its epoch.
func (f *rawFleet) place(id, owner string) (epoch string) {
	f.t.Helper()
	f.await(id+" on "+owner, func() bool {
		var at string
		at, epoch = f.get(id)
		return at == owner
	})
	return epoch
}

// FC-48, FC-49: a worker that missed its lease says late what it would have
// said in time, with real nodes and a real store behind them. Its beats revive
// nothing, its releases and labels touch nothing of its successor's.
func TestYesterdaysOwner(t *testing.T) {
	t.Parallel()
	f := startRawFleet(t)
	w1 := f.worker("w1", beat)
	e1 := f.place("a", "w1")
	w1.Pause()
	for range 3 { // none of them adds to another
		if status, answer := w1.Beat(); status != 200 || answer["expiresInMs"] != float64(lease.Milliseconds()) {
			t.Fatalf("a beat: %d %v", status, answer)
		}
	}
	last := time.Now()
	w2 := f.worker("w2", beat)
	e2 := f.place("a", "w2")
	if away := time.Since(last); away < lease-beat {
		t.Errorf("the id moved %v after the last beat, the lease is %v", away, lease)
	} else if away > 2*lease+beat && !busy(last) {
		t.Errorf("the id moved %v after the last beat: the lease of %v counted twice", away, lease)
	}
	if !(len(e2) == len(e1) && e2 > e1) {
		t.Errorf("epoch %s after %s", e2, e1)
	}

	if status, answer := w1.Beat(); status != 409 || answer["reregister"] != true || answer["superseded"] != nil {
		t.Errorf("a late beat: %d %v", status, answer)
	}
	for _, epoch := range []string{e1, e2, "1", "9223372036854775807", "18446744073709551617", ""} {
		item := map[string]any{"sessionId": w1.ID, "namespace": namespace, "id": "a"}
		if epoch != "" {
			item["epoch"] = epoch
		}
		if status, answer := w1.Post("/registry/release", []any{item}); status != 200 || answer["released"] != float64(0) {
			t.Errorf("a late release of epoch %q: %d %v", epoch, status, answer)
		}
		item["tag"] = "mine"
		if status, answer := w1.Post("/registry/tag", item); status == 200 && answer["tagged"] != false {
			t.Errorf("a late label at epoch %q: %d %v", epoch, status, answer)
		}
	}
	for _, epoch := range []any{12, "1e3", "-1"} {
		item := map[string]any{"sessionId": w1.ID, "namespace": namespace, "id": "a", "epoch": epoch}
		if status, _ := w1.Post("/registry/release", []any{item}); status != 400 {
			t.Errorf("a release of epoch %v: %d", epoch, status)
		}
	}
	w1.Post("/registry/deregister", map[string]any{"sessionId": w1.ID})
	if owner, epoch := f.get("a"); owner != "w2" || epoch != e2 {
		t.Errorf("after all that the id is with %q at %q", owner, epoch)
	}
	if status, _ := w2.Beat(); status != 200 {
		t.Errorf("its owner's beat: %d", status)
	}
}

// busy reports that this machine was too busy to measure time since then: a
// sleep of ten milliseconds now takes ten times that.
func busy(time.Time) bool {
	var worst time.Duration
	for range 5 {
		begun := time.Now()
		time.Sleep(10 * time.Millisecond)
		worst = max(worst, time.Since(begun))
	}
	return worst > 50*time.Millisecond
}

// Item by item the wall between a release and the next placement: nothing that
// w1 says in any order, twice or late, ever frees the id for two.
func TestReleasesRepeatedAndReordered(t *testing.T) {
	t.Parallel()
	f := startRawFleet(t)
	w1 := f.worker("w1", beat)
	var epochs []string
	for range 5 {
		e := f.place("a", "w1")
		epochs = append(epochs, e)
		release := func(epoch string) float64 {
			_, answer := w1.Post("/registry/release", []any{map[string]any{"sessionId": w1.ID, "namespace": namespace, "id": "a", "epoch": epoch}})
			n, _ := answer["released"].(float64)
			return n
		}
		for _, old := range epochs[:len(epochs)-1] {
			if release(old) != 0 {
				t.Errorf("a release of %s freed epoch %s", old, e)
			}
		}
		if owner, at := f.get("a"); owner != "w1" || at != e {
			t.Fatalf("the id is with %q at %q", owner, at)
		}
		if release(e) != 1 || release(e) != 0 {
			t.Error("a release counts once")
		}
	}
	if !slices.IsSorted(epochs) || len(slices.Compact(epochs)) != 5 {
		t.Errorf("epochs %v", epochs)
	}
}
