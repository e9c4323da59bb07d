package registry

import (
	"context"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"

	"pinboard"
	"pinboard/api"
)

const (
	smallBody  = 16 << 10
	callCost   = 1 << 10         // of the smallest call
	listAnswer = 4 << 20         // a page is cut there
	budgetTime = 2 * time.Second // that a call waits for its bytes
)

// A part of the budget is what calls of one kind compete for.
type part int

const (
	smallBodies part = iota // of at most smallBody
	largeBodies
	answers // lists and stats
)

// The budget of a node's control plane, in bytes of bodies and answers under
// way. What comes beyond it waits, and is refused if it waits too long. A beat
// must not wait behind a restatement, nor either behind a list, so there are
// parts. An owner has a share of each, so that a token holds up only itself.
// In memory a call takes a few times its bytes
// (TestGiantBodiesAllocateWithinTheBudget).
var budgets = [...]struct{ all, owner int64 }{
	smallBodies: {32 << 20, 2 << 20},
	largeBodies: {64 << 20, api.MaxBody},
	answers:     {32 << 20, 16 << 20},
}

// shares are what is left of each part.
type shares [len(budgets)]*semaphore.Weighted

func newShares(owner bool) (s shares) {
	for i, n := range budgets {
		s[i] = semaphore.NewWeighted(n.all)
		if owner {
			s[i] = semaphore.NewWeighted(n.owner)
		}
	}
	return s
}

// A budget is shared by all calls of a node.
type budget struct {
	all shares

	mu   sync.Mutex
	each map[string]shares // by passport.Principal.Share: configured, so they are few
}

func newBudget() *budget { return &budget{all: newShares(false), each: map[string]shares{}} }

// take waits for n bytes of a part; done gives them back. The refusal is
// Overloaded. The caller's own share comes first: whoever waits for that holds
// nothing of the others'.
func (b *budget) take(ctx context.Context, share string, p part, n int64) (done func(), refused error) {
	ctx, cancel := context.WithTimeout(ctx, budgetTime)
	defer cancel()
	n = max(n, callCost)
	own, all := b.of(share)[p], b.all[p]
	if own.Acquire(ctx, n) != nil {
		return func() {}, pinboard.Overloaded
	}
	if all.Acquire(ctx, n) != nil {
		own.Release(n)
		return func() {}, pinboard.Overloaded
	}
	return func() { all.Release(n); own.Release(n) }, nil
}

func (b *budget) of(share string) shares {
	b.mu.Lock()
	defer b.mu.Unlock()
	s, known := b.each[share]
	if !known {
		s = newShares(true)
		b.each[share] = s
	}
	return s
}
