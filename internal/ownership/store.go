package ownership

import (
	"context"
	"time"
)

// A Store keeps the buckets. Two implementations stand behind it (in-process
// and Redis); storetest proves both against the same rules.
//
// All methods may be called concurrently. An error means "not known": never
// "absent", and after a failed Update the change may or may not have happened
// (R10): read again, never conclude.
type Store interface {
	// Buckets is fixed for the life of a store.
	Buckets() int

	// Update runs rule on bucket b and commits what it wrote in one atomic
	// step, at one reading of the store's clock. The rule sees a consistent
	// view and may be run several times, so it must be pure but for its Tx and
	// the variables it assigns afresh in each run. If the rule returns an
	// error nothing is committed and Update returns it. A commit happens only
	// while the server's generation is the one that was read, its clock has
	// not gone back nor jumped (G4), and neither tx.NotAfter nor the deadline
	// of ctx has passed by the store's clock (R5).
	//
	// prefetch names what the rule will probably look at; anything else is
	// fetched on demand.
	Update(ctx context.Context, b int, prefetch Select, rule func(*Tx) error) error

	// Peek reads one row, the lease it is expected to name and (Bind.Host set)
	// a binding at one instant, in one command without a rule. ok is false
	// whenever anything is not as hinted: then only Update can tell.
	Peek(ctx context.Context, b int, hint Hint) (Peek, bool, error)

	// Walk lists rows of bucket b in no order, about n at a time, from cursor
	// "" until next is "". Rows that exist throughout are listed at least once.
	Walk(ctx context.Context, b int, cursor string, n int) (rows []Walked, next string, err error)

	// Entries lists the ring of bucket b, newest first, n at most.
	Entries(ctx context.Context, b int, n int) ([]Entry, error)
}

// A Select is a prefetch list.
type Select struct {
	Rows     []Key // and the sessions they name
	Sessions []string
	Index    []string // and the sessions they name
	Bindings []BindKey
	Orders   []string // by process
	Counts   []string
	Roster   bool // every session of the bucket
}

// A Hint is what a node remembers of a key.
type Hint struct {
	Key     Key
	Session string
	Bind    BindKey // Host "" outside hostname mode
}

// A Peek is a hit: Row.Plain() and the lease of Row.Session runs.
type Peek struct {
	Row      Row
	Until    time.Time // the lease's end on this node's monotonic clock, never late
	Sent     time.Time // when the read was sent, also of one that is no hit; zero when none was
	Age      time.Duration
	Draining bool
	Settling bool // restating
}

// A Walked row with the answer to who owns it.
type Walked struct {
	Key Key
	Row Row
}
