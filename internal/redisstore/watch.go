package redisstore

import (
	"context"
	"sync"
	"time"

	"pinboard/internal/ownership"
)

// tick is called about each second.
func (s *Store) tick() {
	slept := sleptFor()
	if s.clocks.tick() || slept-s.slept > sleepSeen {
		s.guard.Slept()
	}
	s.slept = slept
}

// sleepSeen is what tells a sleep of the machine from the noise of two readings.
const sleepSeen = 50 * time.Millisecond

// watch looks at every bucket, which shows the guard its history, and keeps the
// record of the watch that this node and the others keep of the server's clock
// (ownership.Watch). A node that slept reads there whether it missed anything.
// What is doubted is told at once: another generation must begin before a node
// that saw less decides something.
func (s *Store) watch(ctx context.Context) {
	var wg sync.WaitGroup
	for b := range s.opt.Buckets {
		wg.Go(func() { s.watchBucket(ctx, b) })
	}
	wg.Wait()
}

func (s *Store) watchBucket(ctx context.Context, b int) {
	var w want
	w.add(ownership.Select{Index: []string{ownership.WatchIndex}})
	tx, v, err := s.see(ctx, b, &w)
	if err != nil || v == nil {
		return
	}
	s.guard.Watched(b, v.reading, ownership.ReadWatch(tx))
	switch since, ok := s.guard.Watching(tx.Server); {
	case tx.Doubt != "":
		s.opt.OnDoubt(b, tx.Doubt)
	case !v.sure || !ok || ownership.ServerOf(v.gen) != tx.Server || s.Disagrees() != "":
	default:
		ownership.ExtendWatch(tx, since)
		if !tx.Out.Empty() {
			_, _ = s.commit(ctx, b, v, tx) // who loses the race finds the winner's record next time
		}
	}
}
