package ownership

import (
	"fmt"
	"strconv"
	"strings"
)

// A Watch is a bucket's record of how long its server's clock has been watched
// by at least one node without a break: nodes whose watches overlap extend it,
// whoever finds a gap or a step begins another number. A node that slept reads
// from it whether it has missed anything (G4).
type Watch struct {
	Number int64  // of this unbroken watch, from 1
	Until  Micros // last extended
	gen    string // generation it belongs to
}

// WatchIndex names the index entry of the record.
const WatchIndex = "w"

const (
	watchStep  = second / 2 // extended no more often than this
	watchStale = 5 * second // nobody extends it any more
)

// ReadWatch reads the record; the zero Watch if there is none.
func ReadWatch(tx *Tx) (w Watch) {
	f := strings.Fields(tx.Index(WatchIndex))
	if len(f) != 3 {
		return Watch{}
	}
	w.Number, _ = strconv.ParseInt(f[0], 10, 64)
	w.Until, _ = strconv.ParseInt(f[1], 10, 64)
	w.gen = f[2]
	return w
}

// ExtendWatch records that a node has watched the server's clock since then
// without a break. It begins no generation.
func ExtendWatch(tx *Tx, since Micros) Watch {
	w := ReadWatch(tx)
	switch {
	case w.gen != tx.Meta.Gen, w.Until > tx.Now+watchStale, w.Until < since && tx.Now > w.Until+watchStale:
		w = Watch{Number: w.Number + 1, Until: tx.Now, gen: tx.Meta.Gen}
	case w.Until < since, tx.Now < w.Until+watchStep:
		return w
	default:
		w.Until = tx.Now
	}
	tx.PutIndex(WatchIndex, fmt.Sprintf("%d %d %s", w.Number, w.Until, w.gen))
	return w
}
