package directory

import (
	"hash/maphash"
	"sync"
)

// A Crowd is what affinity can do with the ids of one client: this node gave
// most of its new ids to one worker, because they came with one affinity key,
// while others could have taken some.
type Crowd struct {
	Session string // the worker, as it is called now
	IDs     int    // of one key, to this worker
	Of      int    // new ids that this node placed meanwhile
	Workers int    // that could have taken the last one
}

const (
	crowdLeast = 100  // ids that are worth a word; told again at each doubling
	crowdKeys  = 1024 // keys remembered; beyond it all are forgotten
)

// crowds counts new ids by affinity key.
type crowds struct {
	mu    sync.Mutex
	seed  maphash.Seed // a key may be long, and it is the client's: only its hash is kept
	total int
	runs  map[uint64]*run
}

// A run is the new ids of one key while most of them go to one process.
type run struct {
	process string
	ids     int // to the process
	strays  int // to others
	before  int // total when it began
	next    int // ids that are worth a word
}

// placed counts a new id of a process and says whether its key's run is a
// crowd that is news. key is "" where affinity had no say.
func (c *crowds) placed(key, process string) (ids, of int, news bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.total++
	if key == "" {
		return 0, 0, false
	}
	h := maphash.String(c.seed, key)
	r := c.runs[h]
	if r == nil || r.process != process && r.strays >= r.ids {
		if r == nil && len(c.runs) >= crowdKeys {
			clear(c.runs)
		}
		r = &run{process: process, before: c.total - 1, next: crowdLeast}
		c.runs[h] = r
	}
	if r.process != process {
		r.strays++
		return 0, 0, false
	}
	r.ids++
	of = c.total - r.before
	if r.ids < r.next || r.ids < 4*r.strays || r.ids < of-r.ids {
		return 0, 0, false
	}
	r.next = 2 * r.ids
	return r.ids, of, true
}

// crowded counts a placement that affinity may have decided among n workers.
func (d *Directory) crowded(p Placement, r Request, n int) {
	key := r.Affinity
	if n < 2 || r.Caller != "" {
		key = ""
	}
	if ids, of, news := d.crowds.placed(key, p.Worker.Process); news {
		d.o.Crowded(Crowd{Session: p.Worker.Session, IDs: ids, Of: of, Workers: n})
	}
}
