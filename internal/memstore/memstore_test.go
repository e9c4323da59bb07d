package memstore_test

import (
	"fmt"
	"testing"
	"time"

	"pinboard/internal/memstore"
	"pinboard/internal/ownership"
	"pinboard/internal/ownership/storetest"
)

type rig struct {
	now   time.Time
	run   int
	store *memstore.Store
}

func open(*testing.T) storetest.Rig {
	r := &rig{now: time.Unix(1_800_000_000, 0)}
	r.store = memstore.New(memstore.Options{Buckets: 3, Server: "run0", Now: r.Now,
		Clock: func() ownership.Micros { return r.now.UnixMicro() }})
	return r
}

func (r *rig) Store() ownership.Store  { return r.store }
func (r *rig) Now() time.Time          { return r.now }
func (r *rig) Advance(d time.Duration) { r.now = r.now.Add(d) }
func (r *rig) NewServer(kept bool) {
	r.run++
	var im *memstore.Image
	if kept {
		im = r.store.Image()
	}
	r.store.Restart(fmt.Sprint("run", r.run), im)
}

func TestStore(t *testing.T) { storetest.Run(t, 500, open) }
