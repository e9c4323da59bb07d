package sim

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"pinboard/internal/guard"
	"pinboard/internal/memstore"
	"pinboard/internal/ownership"
)

// Micros is the store's time.
type Micros = ownership.Micros

// A Server is one process of the store. A restart or failover makes another
// one, with its own identity and clock.
type Server struct {
	w       *World
	header  int     // buckets that it was set up with; 0: by nobody yet
	follows *Server // what it took the place of
	run     string
	mem     *memstore.Store
	since   time.Duration // when it came, or was wiped
	offset  time.Duration // of its clock against the nodes', at slewAt
	slew    float64       // what it gains since then
	slewAt  time.Duration
	gone    bool // it will never answer again
	down    bool // nobody can reach it
	full    bool // no memory: writes fail
	still   bool // a primary without enough replicas: writes fail (G3)
	slow    time.Duration
	cut     map[int]int // buckets on a shard that is away
	mute    int         // replies to lose
	drop    int         // commands to fail before they do anything

	loseWrites, failWrites int           // the same for commits alone; for stories
	passWrites             int           // commits that pass before those that fail
	delay                  time.Duration // of every command
}

// newServer starts a server with the content of an earlier one.
func (w *World) newServer(im *memstore.Image, offset time.Duration) *Server {
	w.servers++
	s := &Server{w: w, run: "run" + string(rune('0'+w.servers%10)) + strings.Repeat("'", w.servers/10), since: w.Now, offset: offset, cut: map[int]int{}}
	s.mem = memstore.New(memstore.Options{Buckets: 2 * w.Buckets, Server: s.run, Now: w.time, Clock: s.clock})
	if im != nil {
		s.mem.Restart(s.run, im)
	}
	return s
}

// name gives the server the identity of one that was there before.
func (s *Server) name(run string) {
	s.run = run
	s.mem.Restart(run, s.mem.Image())
}

// Replace ends the server and puts another one in its place.
func (w *World) Replace(im *memstore.Image, offset time.Duration) {
	old := w.server
	old.gone = true
	w.server = w.newServer(im, offset)
	w.server.down, w.server.follows = old.down, old
	if im != nil {
		w.server.header = old.header
	}
	if w.slewing {
		w.slewing, w.stepped = false, w.Now
	}
	w.note("store: %s follows %s", w.server.run, old.run)
}

// What a store command can fail with. All mean: not known.
var (
	errAway      = errors.New("store away")
	errFull      = errors.New("store has no memory left")
	errContended = errors.New("store contended")
)

const (
	opTime    = 1400 * time.Millisecond // for one operation, retries included
	stepLimit = Micros(1_000_000)       // how much later than it can be a commit may happen
	drift     = 1e-3                    // how much faster or slower two clocks may run
)

// A conn is a node's side of the store: the same optimistic transactions as
// on Redis. A rule runs on what was read at one instant; the commit compares
// everything that was read and looks at the clock and the server's identity.
type conn struct {
	w  *World
	n  *Node
	to *Server // nil: whatever is current

	guard    *guard.Guard   // the real one
	verified map[int]string // by bucket: the generation that the header was read for
	differs  bool           // this node disagrees with the header
	ticked   time.Duration  // when the node last found itself running, by its own clock
	slept    time.Duration  // what it knew of its sleep then
}

func (c *conn) server() *Server {
	if c.to != nil && !c.to.gone {
		return c.to
	}
	return c.w.server
}

// oldNow is what the clock behind an earlier generation shows now (R6).
func (c *conn) oldNow(gen string) (Micros, bool) { return c.guard.OldNow(gen, c.local()) }

// A verdict is what became of a command at the server.
type verdict struct {
	err    error
	run    string
	now    Micros
	header int
	peek   ownership.Peek
	hit    bool
	rows   []ownership.Walked
	next   string
	ok     bool // committed, or nothing to commit

	at      time.Duration // when it came, by the node's own clock
	reading guard.Reading
	trust   guard.Verdict
}

// send does one command at the server, at one instant on its way. The result
// is unknown when the answer does not come in time.
func (c *conn) send(ctx context.Context, b int, write bool, do func(*Server) verdict) (v verdict, sent time.Duration, err error) {
	if err := ctx.Err(); err != nil {
		return v, 0, err
	}
	s, r, given := c.server(), newReply[verdict](c.w.Loop), false
	sent = c.n.own()
	d, arrives := c.w.net.leg(c.n.Name, "store")
	d += c.w.between("store", 0, s.slow) + s.delay
	if arrives {
		c.w.At(d, func() {
			switch {
			case s.gone || s.down || s.cut[b] > 0:
				return
			case s.drop > 0:
				s.drop--
				r.say(verdict{err: errAway})
				return
			case write && s.passWrites > 0:
				s.passWrites--
			case write && s.failWrites > 0:
				s.failWrites--
				r.say(verdict{err: errAway})
				return
			case write && (s.full || s.still):
				r.say(verdict{err: errFull})
				return
			case !write && given:
				return // nobody waits for what a late read would say
			}
			got := do(s)
			got.run = s.run
			back, arrives := c.w.net.leg("store", c.n.Name)
			if s.mute > 0 {
				s.mute--
				arrives = false
			}
			if write && s.loseWrites > 0 {
				s.loseWrites--
				arrives = false
			}
			if arrives {
				c.w.At(back, func() { r.say(got) })
			}
		})
	}
	limit := opTime
	if at, ok := ctx.Deadline(); ok {
		limit = min(limit, max(at.Sub(c.n.now()), time.Microsecond))
	}
	v, ok := r.await(limit)
	given = true
	if !ok {
		return v, sent, errAway
	}
	if v.now != 0 {
		v.reading = guard.Reading{Server: v.run, Now: v.now, Sent: sent.Microseconds(), Received: c.local()}
		v.at = c.n.own()
		v.trust = c.guard.Time(v.reading)
	}
	return v, sent, v.err
}

// Buckets implements ownership.Store.
func (c *conn) Buckets() int { return c.n.buckets }

// Update implements ownership.Store.
func (c *conn) Update(ctx context.Context, b int, sel ownership.Select, rule func(*ownership.Tx) error) error {
	ctx, _ = c.n.within(ctx, opTime)
	if sel.Roster {
		return c.atOnce(ctx, b, rule)
	}
	for range 12 {
		t, err := c.see(ctx, b, rule)
		switch {
		case err != nil:
			return err
		case t == nil:
			c.w.Sleep(20 * time.Millisecond) // nothing may be decided yet
		case t.ruled != nil || t.tx.Out.Empty():
			return t.ruled
		default:
			if ok, err := c.commit(ctx, b, t); err != nil || ok {
				return err
			}
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
	return errContended
}

// see runs the rule on one view, with what the guard says of it. No
// transaction and no error: nothing may be decided on this view. The rule runs
// at the server, so that one which must be told a doubt is sent once more.
func (c *conn) see(ctx context.Context, b int, rule func(*ownership.Tx) error) (*transaction, error) {
	var told ownership.Cause
	for {
		known := c.guard.Known(b)
		var t *transaction
		v, sent, err := c.send(ctx, b, false, func(s *Server) verdict {
			t = c.read(s, b, told, rule)
			return verdict{now: t.now}
		})
		if err != nil {
			return nil, err
		}
		t.sent, t.got, t.tx.Sent = sent, v.at, start.Add(sent)
		switch doubt, sure := c.guard.Judge(b, known, v.reading, t.state); {
		case !sure || v.trust == guard.Unsure:
			return nil, nil
		case doubt == told:
			return t, c.agree(ctx, b, t.state.Gen)
		default:
			told = doubt
		}
	}
}

// watch is what a node does each second beside everything else: it looks at a
// bucket and keeps the record of its watch, like the store on Redis.
func (c *conn) watch(b int) {
	ctx, _ := c.n.within(context.Background(), opTime)
	known := c.guard.Known(b)
	var t *transaction
	v, sent, err := c.send(ctx, b, false, func(s *Server) verdict {
		t = c.read(s, b, "", func(tx *ownership.Tx) error {
			if since, ok := c.guard.Watching(s.run); ok && ownership.ServerOf(tx.Meta.Gen) == s.run {
				ownership.ExtendWatch(tx, since)
			}
			return nil
		})
		return verdict{now: t.now}
	})
	if err != nil || c.differs {
		return
	}
	t.sent, t.got = sent, v.at
	c.guard.Watched(b, v.reading, t.watch)
	switch doubt, sure := c.guard.Judge(b, known, v.reading, t.state); {
	case doubt != "":
		c.w.Go(&c.n.Host, func() { _ = c.n.dir.Touch(context.Background()) }) // a node that saw less must not decide before
	case sure && v.trust != guard.Unsure && !t.tx.Out.Empty():
		_, _ = c.commit(ctx, b, t)
	}
}

// atOnce is for the list of workers, which is only a hint: no time passes, so
// that requests which share one reading need not wait for each other.
func (c *conn) atOnce(ctx context.Context, b int, rule func(*ownership.Tx) error) error {
	s := c.server()
	if s.gone || s.down || s.cut[b] > 0 || s.full || s.still || c.w.net.cut[[2]string{c.n.Name, "store"}] > 0 {
		return errAway
	}
	if c.differs {
		return errDisagrees
	}
	known, now := c.guard.Known(b), c.local()
	reading := guard.Reading{Server: s.run, Now: s.clock(), Sent: now, Received: now}
	c.guard.Time(reading)
	before := s.state(b)
	doubt, sure := c.guard.Judge(b, known, reading, before)
	if !sure {
		return errContended
	}
	err := s.mem.Update(context.Background(), b, ownership.Select{}, func(tx *ownership.Tx) error {
		tx.Doubt, tx.Sent = doubt, c.n.now()
		return rule(tx)
	})
	if after := s.state(b); err == nil && after != before {
		c.guard.Committed(b, reading, after, after.Gen != before.Gen)
	}
	return err
}

// state is what a read shows the guard of a bucket.
func (s *Server) state(b int) guard.State {
	st := guard.State{Commits: s.mem.Commits(b)}
	_ = s.mem.Update(context.Background(), b, ownership.Select{}, func(tx *ownership.Tx) error {
		st.Gen, st.Since, st.Longest = tx.Meta.Gen, tx.Meta.Since, tx.Meta.Longest
		return errDry
	})
	return st
}

// A transaction is a rule's run on what was read.
type transaction struct {
	tx    *ownership.Tx
	read  *reads
	now   Micros
	state guard.State     // the bucket before the rule
	watch ownership.Watch // likewise
	sent  time.Duration   // by the node's own clock
	got   time.Duration   // likewise, when the view came
	ruled error           // what the rule returned
}

var errDry = errors.New("read only")

// read runs the rule at the server's present without committing.
func (c *conn) read(s *Server, b int, doubt ownership.Cause, rule func(*ownership.Tx) error) *transaction {
	t := &transaction{state: s.state(b)}
	err := s.mem.Update(context.Background(), b, ownership.Select{}, func(at *ownership.Tx) error {
		rec := newReads(at)
		tx := ownership.NewTx(rec)
		tx.Sent, tx.Now, tx.Server, tx.Bucket, tx.Meta, tx.Doubt = c.n.now(), at.Now, at.Server, at.Bucket, at.Meta, doubt
		t.tx, t.read, t.now, t.watch = tx, rec, at.Now, ownership.ReadWatch(at)
		t.ruled = rule(tx)
		if err := ownership.Audit(tx); err != nil {
			c.w.check.fail("a rule broke the model: %v", err)
		}
		rec.at = nil
		return errDry
	})
	if !errors.Is(err, errDry) {
		panic(err)
	}
	return t
}

// commit applies what the rule wrote if nothing that it read has changed, the
// same server answers and has forgotten nothing, and its clock shows a time
// that can be true.
func (c *conn) commit(ctx context.Context, b int, t *transaction) (ok bool, err error) {
	elapsed := (c.n.own() - t.sent).Microseconds()
	latest := t.now + Micros(float64(elapsed)*(1+drift)) + stepLimit
	notAfter := t.tx.Out.NotAfter
	if at, ok := ctx.Deadline(); ok {
		least := float64((c.n.own() - t.got).Microseconds()) * (1 - drift)
		if by := t.now + Micros(least) + at.Sub(c.n.now()).Microseconds(); notAfter == 0 || by < notAfter {
			notAfter = by
		}
	}
	var after guard.State
	v, _, err := c.send(ctx, b, true, func(s *Server) verdict {
		v := verdict{now: s.clock()}
		if s.mem.Commits(b) < t.state.Commits {
			return v
		}
		err := s.mem.Update(context.Background(), b, ownership.Select{}, func(at *ownership.Tx) error {
			switch {
			case at.Server != t.tx.Server, at.Now < t.now, at.Now > latest,
				notAfter != 0 && at.Now >= notAfter, !t.read.unchanged(at):
				return errDry
			}
			at.Out = t.tx.Out
			return nil
		})
		if v.ok = err == nil; v.ok {
			c.w.check.committed(s, b, &t.tx.Out)
			after = s.state(b)
		}
		return v
	})
	if err == nil && v.ok {
		c.guard.Committed(b, v.reading, after, after.Gen != t.state.Gen)
	}
	return v.ok, err
}

// Peek implements ownership.Store.
func (c *conn) Peek(ctx context.Context, b int, h ownership.Hint) (ownership.Peek, bool, error) {
	ctx, _ = c.n.within(ctx, opTime)
	known, clear := c.guard.Commits(b)
	if !clear {
		return ownership.Peek{}, false, nil
	}
	v, sent, err := c.send(ctx, b, false, func(s *Server) verdict {
		p, hit, err := s.mem.Peek(context.Background(), b, h)
		return verdict{peek: p, hit: hit && s.mem.Commits(b) >= known, err: err, now: s.clock()}
	})
	if err != nil || !v.hit {
		return ownership.Peek{}, false, err
	}
	late := v.peek.Sent.Sub(start.Add(sent))
	v.peek.Sent, v.peek.Until = v.peek.Sent.Add(-late), v.peek.Until.Add(-late)
	return v.peek, true, nil
}

// Walk implements ownership.Store.
func (c *conn) Walk(ctx context.Context, b int, cursor string, n int) ([]ownership.Walked, string, error) {
	ctx, _ = c.n.within(ctx, opTime)
	v, _, err := c.send(ctx, b, false, func(s *Server) verdict {
		rows, next, err := s.mem.Walk(context.Background(), b, cursor, n)
		slices.SortFunc(rows, func(x, y ownership.Walked) int { return strings.Compare(x.Key.String(), y.Key.String()) })
		return verdict{rows: rows, next: next, err: err, now: s.clock()}
	})
	return v.rows, v.next, err
}

// Entries implements ownership.Store.
func (c *conn) Entries(ctx context.Context, b int, n int) ([]ownership.Entry, error) {
	return c.server().mem.Entries(ctx, b, n)
}

var _ ownership.Store = (*conn)(nil)

// peekAt looks into a bucket without changing it.
func (w *World) peekAt(b int, look func(*ownership.Tx)) {
	_ = w.server.mem.Update(context.Background(), b, ownership.Select{}, func(tx *ownership.Tx) error {
		look(tx)
		return errDry
	})
}
