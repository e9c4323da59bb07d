package ownership

import "testing"

// TestHowLongANodeIsHere: fifteen seconds, or three of its leases, on either
// side of the clock.
func TestHowLongANodeIsHere(t *testing.T) {
	for ms, gone := range map[int64]Micros{1000: nodeLeast, 20_000: 60 * second} {
		n := Node{LeaseMs: ms, Seen: start}
		for now, want := range map[Micros]bool{start + gone: true, start + gone + 1: false, start - gone: true, start - gone - 1: false} {
			if got := n.here(now); got != want {
				t.Errorf("lease of %d ms, %d us later: %v", ms, now-start, got)
			}
		}
	}
}

// TestHowOftenANodeIsWritten: every four seconds, and behind a clock that
// stepped back; who leaves takes nobody along.
func TestHowOftenANodeIsWritten(t *testing.T) {
	for now, want := range map[Micros]bool{start: false, start - 1: true, start + nodeStep - 1: false, start + nodeStep: true} {
		m := newMemory(t)
		m.at(start, func(tx *Tx) { NoteNode(tx, Node{Name: "a"}); NoteNode(tx, Node{Name: "b"}) })
		tx := m.at(now, func(tx *Tx) { NoteNode(tx, Node{Name: "a"}) })
		if got := len(tx.Out.Index) > 0; got != want {
			t.Errorf("%d us later: written %v", now-start, got)
		}
		m.at(now, func(tx *Tx) { DropNode(tx, "b") })
		m.at(now, func(tx *Tx) {
			if list := readNodes(tx); len(list) != 1 || list[0].Name != "a" {
				t.Errorf("%+v", list)
			}
		})
		if tx := m.at(now, func(tx *Tx) { DropNode(tx, "b") }); len(tx.Out.Index) > 0 {
			t.Error("nobody left, and it was written")
		}
		m.index[NodesIndex] = `[{"name":""},{"name":"c"}]`
		m.at(now, func(tx *Tx) {
			if list := readNodes(tx); len(list) != 1 {
				t.Errorf("a node without a name: %+v", list)
			}
		})
	}
}
