package ownership_test

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"pinboard/internal/memstore"
	"pinboard/internal/ownership"
)

// A hall is a bucket under a clock that only moves when told.
type hall struct {
	t      *testing.T
	now    ownership.Micros
	store  *memstore.Store
	writes int
}

func newHall(t *testing.T) *hall {
	h := &hall{t: t, now: 1_800_000_000_000_000}
	h.store = memstore.New(memstore.Options{Buckets: 1, Server: "run1", Clock: func() ownership.Micros { return h.now }})
	return h
}

func (h *hall) pass(d time.Duration) { h.now += d.Microseconds() }

func (h *hall) do(rule func(*ownership.Tx)) {
	h.t.Helper()
	err := h.store.Update(context.Background(), 0, ownership.Select{}, func(tx *ownership.Tx) error {
		rule(tx)
		if !tx.Out.Empty() {
			h.writes++
		}
		return nil
	})
	if err != nil {
		h.t.Fatal(err)
	}
}

func (h *hall) note(n ownership.Node) (list []ownership.Node) {
	h.t.Helper()
	h.do(func(tx *ownership.Tx) { list = ownership.NoteNode(tx, n) })
	return list
}

func (h *hall) text() (text string) {
	h.do(func(tx *ownership.Tx) { text = tx.Index(ownership.NodesIndex) })
	return text
}

func names(list []ownership.Node) (out []string) {
	for _, n := range list {
		out = append(out, n.Name)
	}
	return out
}

func plain(name string) ownership.Node {
	return ownership.Node{Name: name, Version: "v1", Format: 2, LeaseMs: 15000, SlackMs: 1000, ColdStart: true}
}

func (h *hall) lists(n ownership.Node, want ...string) {
	h.t.Helper()
	if got := names(h.note(n)); !slices.Equal(got, want) {
		h.t.Errorf("%s sees %v, want %v", n.Name, got, want)
	}
}

// Nodes list each other, write seldom, and are dropped when they say no more.
func TestNodesListEachOther(t *testing.T) {
	h := newHall(t)
	h.lists(plain("b"), "b")
	h.lists(plain("a"), "a", "b")
	h.pass(2 * time.Second)
	before := h.writes
	for range 5 {
		h.lists(plain("b"), "a", "b")
	}
	if h.writes != before {
		t.Errorf("%d writes within seconds", h.writes-before)
	}
	began := h.note(plain("b"))[1].Since
	for range 10 { // b goes on, a is silent
		h.pass(4 * time.Second)
		h.lists(plain("b"), "a", "b")
	}
	if n := h.note(plain("b"))[1]; n.Since != began || n.Seen != h.now {
		t.Errorf("b is there since %d and was seen at %d, want %d and %d", n.Since, n.Seen, began, h.now)
	}
	h.pass(4 * time.Second)
	h.lists(plain("b"), "b")
	h.lists(plain("c"), "b", "c")
	h.do(func(tx *ownership.Tx) { ownership.DropNode(tx, "b") })
	h.lists(plain("c"), "c")
	h.do(func(tx *ownership.Tx) { ownership.DropNode(tx, "c") })
	if text := h.text(); text != "" {
		t.Errorf("left behind: %s", text)
	}
}

// A change of settings shows at once, whatever was written a moment ago.
func TestANodeThatChangesIsWritten(t *testing.T) {
	h := newHall(t)
	h.note(plain("a"))
	other := plain("a")
	other.LeaseMs = 9000
	h.note(other)
	if got := h.note(plain("b"))[0]; got.LeaseMs != 9000 {
		t.Errorf("%+v", got)
	}
}

// A clock that stepped back leaves no node of the future for longer than one
// that is silent.
func TestNodesOfASteppedClock(t *testing.T) {
	h := newHall(t)
	h.note(plain("a"))
	h.note(plain("b"))
	h.pass(-time.Hour)
	h.lists(plain("b"), "b")
	if n := h.note(plain("b"))[0]; n.Since > h.now || n.Seen != h.now {
		t.Errorf("%+v at %d", n, h.now)
	}
}

// The list is bounded, and so is what a node says.
func TestTheListOfNodesIsBounded(t *testing.T) {
	h := newHall(t)
	for i := range 200 {
		n := plain(fmt.Sprintf("node-%03d", i) + strings.Repeat("é", 100))
		n.Version = strings.Repeat("v", 1000)
		h.pass(time.Millisecond)
		if list := h.note(n); !strings.HasPrefix(list[len(list)-1].Name, fmt.Sprintf("node-%03d", i)) {
			t.Fatalf("node %d is not on its own list", i)
		}
	}
	if list := h.note(plain("zz")); len(list) != 128 || len(h.text()) > 100_000 {
		t.Errorf("%d nodes in %d bytes", len(list), len(h.text()))
	}
}

// What a newer version says of itself survives an older one's writes, and what
// is no list is begun anew.
func TestRecordsOfOthersAreKeptAsTheyAre(t *testing.T) {
	h := newHall(t)
	h.note(plain("a"))
	newer := strings.Replace(h.text(), `"name":"a"`, `"name":"a","colour":"red"`, 1)
	h.do(func(tx *ownership.Tx) { tx.PutIndex(ownership.NodesIndex, newer) })
	h.lists(plain("b"), "a", "b")
	if !strings.Contains(h.text(), `"colour":"red"`) {
		t.Errorf("lost: %s", h.text())
	}
	for _, odd := range []string{"moon", `{"a":1}`, `[1,"x",{}]`} {
		h.do(func(tx *ownership.Tx) { tx.PutIndex(ownership.NodesIndex, odd) })
		h.lists(plain("b"), "b")
	}
}

// Differences name each setting and value once.
func TestDifferences(t *testing.T) {
	change := func(name string, f func(*ownership.Node)) ownership.Node {
		n := plain(name)
		f(&n)
		return n
	}
	nodes := []ownership.Node{
		plain("a"), plain("b"),
		change("c", func(n *ownership.Node) { n.Version = "v2" }),
		change("d", func(n *ownership.Node) { n.Version = "v2"; n.LeaseMs = 9000 }),
		change("e", func(n *ownership.Node) { n.Version = "v3" }),
		change("f", func(n *ownership.Node) { n.Format, n.SlackMs, n.Hostnames, n.ColdStart = 3, 0, true, false }),
	}
	want := []ownership.Difference{
		{"version", "v1", "v2", 2, "c"}, {"version", "v1", "v3", 1, "e"}, {"storeFormat", "2", "3", 1, "f"}, {"leaseMs", "15000", "9000", 1, "d"},
		{"slackMs", "1000", "0", 1, "f"}, {"hostnameAware", "false", "true", 1, "f"}, {"coldStart", "true", "false", 1, "f"},
	}
	if got := ownership.Differences("a", nodes); !reflect.DeepEqual(got, want) {
		t.Errorf("got  %v\nwant %v", got, want)
	}
	if got := ownership.Differences("a", nodes[:2]); got != nil {
		t.Errorf("alike: %v", got)
	}
	if got := ownership.Differences("x", nodes); got != nil {
		t.Errorf("not on the list: %v", got)
	}
}
