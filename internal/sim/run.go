package sim

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"pinboard/internal/directory"
	"pinboard/internal/ownership"
)

const (
	ids      = 6                // that clients ask for
	troubled = 80 * time.Second // of faults
)

// A Result is what a run came to.
type Result struct {
	Seed       uint64
	Plan       []Fault
	Sum        uint64 // of the whole trace
	Violations []string
	Lines      []string
	Served     int
}

// Failed reports a broken promise.
func (r *Result) Failed() bool { return len(r.Violations) > 0 }

// PlanOf is the plan that a seed draws.
func PlanOf(seed uint64) []Fault {
	r := rand.New(rand.NewPCG(seed, 3))
	return draw(r, 4+r.IntN(24), troubled)
}

// setupOf is the cluster that a seed draws.
func setupOf(seed uint64) Setup {
	r := rand.New(rand.NewPCG(seed, 5))
	s := Setup{Seed: seed, Nodes: 1 + r.IntN(3), Buckets: 1 + r.IntN(4), Hostnames: r.IntN(4) == 0,
		Lease: time.Duration(8+r.IntN(8)) * time.Second, PlaceLimit: int64(10 + r.IntN(60)), Slack: time.Second, Chunk: 2}
	s.Mixed = r.IntN(4) == 0
	if r.IntN(3) == 0 {
		s.Lag = 4 * time.Second
	}
	return s
}

// hosts that clients name; one that nobody looks at outside hostname mode.
func (w *World) hosts() []string {
	if w.Hostnames {
		return []string{"a.example", "b.example"}
	}
	return []string{""}
}

// Run plays a plan on the cluster of a seed, then lets everything heal and
// demands that every id is served again in time.
func Run(seed uint64, plan []Fault, keep bool) (res Result) {
	w := NewWorld(setupOf(seed))
	defer w.Close()
	w.trace.keep = keep
	res = Result{Seed: seed, Plan: plan}
	defer func() {
		res.Sum, res.Violations, res.Lines = w.trace.sum.Sum64(), w.check.violations, w.trace.lines
	}()
	w.populate()
	w.inflict(plan)
	w.load(&res.Served)
	w.snapshots()
	w.Run(troubled)
	if !w.broken() {
		w.heal()
		w.live()
	}
	return res
}

func (w *World) broken() bool { return len(w.check.violations) > 0 }

// populate starts the first workers. None of them looks at the audience of a
// forward some time before the rest (Kind.Lags): such a one may start an
// instance that nobody has heard of (docs/guarantees.md, assumption 6).
func (w *World) populate() {
	r := w.rand("workers")
	slow := r.IntN(5) == 0 // closes take longer than a cold start, all the time
	for i := range 2 + r.IntN(3) {
		k := Today
		k.Build = time.Duration(r.IntN(400)) * time.Millisecond
		k.Close = time.Duration(10+r.IntN(1500)) * time.Millisecond
		k.Idle = time.Duration(2+r.IntN(30)) * time.Second
		k.Drain = time.Duration(5+r.IntN(25)) * time.Second
		if slow {
			k.Close = time.Duration(r.IntN(30_000)) * time.Millisecond
		}
		k.KeepRows = r.IntN(6) == 0
		if r.IntN(4) == 0 { // 0.14
			k.Acks = false
		}
		k.Go = w.chance("go workers", 0.3)
		if w.Hostnames {
			k.Hostname, k.Env = w.hosts()[i%2], "blue"
			k.Takeover = []string{"wind_down", "deny"}[min(1, r.IntN(5)/4)]
			k.BindEpoch = 1
		}
		p := w.Spawn(fmt.Sprint("w", i+1), fmt.Sprint("http://w", i+1), k)
		p.Start()
	}
}

// load keeps clients asking.
func (w *World) load(count *int) {
	for c := range 4 {
		w.Go(nil, func() {
			r := w.rand(fmt.Sprint("client", c))
			for {
				w.Sleep(time.Duration(r.IntN(900)) * time.Millisecond)
				q := Ask{Host: w.hosts()[r.IntN(len(w.hosts()))], NS: "/t", ID: fmt.Sprint("id", r.IntN(ids)),
					Body: r.IntN(3) == 0, Deny: r.IntN(20) == 0, Busy: time.Duration(r.IntN(1<<r.IntN(12))) * time.Millisecond,
					Affinity: fmt.Sprint("c", c)}
				switch r.IntN(12) {
				case 0:
					q.ID, q.Stray = fmt.Sprint("x", r.IntN(100)), true
				case 1, 2:
					q.Stream = time.Duration(r.IntN(30)) * time.Second
				}
				if w.ask(w.nodes[r.IntN(len(w.nodes))], q, time.Minute).Text == served {
					*count++
				}
			}
		})
	}
}

// ask is a client's request to a node, patience at most; it waits for the answer.
func (w *World) ask(n *Node, q Ask, patience time.Duration) Outcome {
	if n.dead {
		return Outcome{Text: "connection refused"}
	}
	r := newReply[Outcome](w.Loop)
	w.Go(&n.Host, func() { r.say(n.Serve(q)) })
	var o Outcome
	ok := false
	for end := w.Now + patience; !ok && w.Now < end && !n.dead; {
		o, ok = r.await(time.Second)
	}
	if !ok {
		o.Text = "no answer"
	}
	by := "nobody"
	if o.By != nil {
		by = o.By.Name + " @" + w.check.name(o.Key, o.Epoch)
	}
	w.note("%s: %s -> %s by %s", n.Name, q.ID, o.Text, by)
	if o.Text == served {
		w.check.served[q.Host+"/"+q.ID] = w.Now
	}
	return o
}

// heal ends every fault and gives every hostname a worker that can serve.
func (w *World) heal() {
	w.note("everything heals")
	w.net.cut, w.net.loss, w.net.again, w.net.slow = map[[2]string]int{}, 0, 0, 0
	s := w.server
	s.down, s.full, s.slow, s.mute, s.drop, s.still, s.cut = false, false, 0, 0, 0, false, map[int]int{}
	w.endSlew()
	w.healing = true
	for range 20 {
		if w.unmix(); w.mixed() {
			w.Run(time.Second)
		}
	}
	for i, n := range w.nodes {
		if n.conn.to != nil {
			n.conn.to.gone = true
		}
		if n.dead {
			w.boot(i)
		} else {
			n.trip, n.stall = 0, 0
			n.Wake()
		}
	}
	for _, p := range w.running() {
		p.trip = 0
		p.Thaw()
		w.closes = max(w.closes, 2*p.Close)
		p.Close = min(p.Close, time.Second)
		w.undrain(directory.Selector{ClientID: p.client})
	}
	n := len(w.procs)
	for i, host := range w.hosts() {
		k := Today
		if w.Hostnames {
			k.Hostname, k.Env, k.BindEpoch, k.Takeover = host, "blue", 1000, "wind_down"
		}
		w.Spawn(fmt.Sprint("w", n+i+1), fmt.Sprint("http://last", i), k).Start()
	}
}

// live demands service in time: two leases and the restatement, behind what
// the client still waits before it registers again; six leases and the closes
// for ids under a wind-down or closing row (and what a takeover adds).
func (w *World) live() {
	slack := 10*time.Second + w.Lag
	began := w.Now
	quick := map[string]bool{}
	for i := range ids {
		id := fmt.Sprint("id", i)
		quick[id] = !w.Hostnames && w.plain(ownership.Key{Env: ownership.World, Namespace: "/t", ID: id})
	}
	back := func(id string) bool { return w.since(began, id) }
	w.runUntil(2*w.Lease+slack+w.backoff(), back)
	for i := range ids {
		if id := fmt.Sprint("id", i); quick[id] && w.plain(ownership.Key{Env: ownership.World, Namespace: "/t", ID: id}) && !back(id) && !w.broken() {
			w.check.fail("%s was not served within two leases and a restatement: %s", id, w.rowText(id))
		}
	}
	late := 4*w.Lease + slack + w.closes
	if w.Hostnames {
		late += 14 * w.Lease // a takeover settles for ten leases
	}
	w.runUntil(late, back)
	for i := range ids {
		if id := fmt.Sprint("id", i); !back(id) && !w.broken() {
			w.check.fail("%s was not served within six leases: %s", id, w.rowText(id))
		}
	}
}

// runUntil lets d pass, or less if every id is back before, but a lease at least.
func (w *World) runUntil(d time.Duration, back func(id string) bool) {
	for began := w.Now; w.Now < began+d && !w.broken(); w.Run(time.Second) {
		missing := 0
		for i := range ids {
			if !back(fmt.Sprint("id", i)) {
				missing++
			}
		}
		if missing == 0 && w.Now >= began+w.Lease {
			return
		}
	}
}

// backoff is how long a worker without a session may still wait before it
// registers again: its client decides that, up to 30 s.
func (w *World) backoff() (longest time.Duration) {
	for _, p := range w.running() {
		if p.session == "" {
			longest = max(longest, p.next-w.Now)
		}
	}
	return longest
}

// since reports that somebody got an answer about id.
func (w *World) since(t time.Duration, id string) bool {
	for _, host := range w.hosts() {
		if at, ok := w.check.served[host+"/"+id]; ok && at > t {
			return true
		}
	}
	return false
}

// plain reports a row under no order, not held, and nobody that closes the id.
func (w *World) plain(k ownership.Key) (plain bool) {
	w.peekAt(k.Bucket(w.Buckets), func(tx *ownership.Tx) {
		r := tx.Row(k)
		plain = r == nil || r.Kind == ownership.Placed && r.Wind == 0
	})
	for _, in := range w.check.holders[k] {
		plain = plain && !in.closing
	}
	return plain
}

// rowText describes an id's row.
func (w *World) rowText(id string) (text string) {
	for _, env := range []string{ownership.World, "blue", "green"} {
		k := ownership.Key{Env: env, Namespace: "/t", ID: id}
		w.peekAt(k.Bucket(w.Buckets), func(tx *ownership.Tx) {
			if r := tx.Row(k); r != nil {
				text += fmt.Sprintf("%s %c of %s wind=%d claim=%q; ", env, r.Kind, w.check.clientOf(r.Session), r.Wind, r.Claim)
			}
		})
	}
	if text == "" {
		return "no row"
	}
	return text
}

// Shrink drops faults from a failing plan for as long as it still fails.
func Shrink(seed uint64, plan []Fault) Result {
	small := shrink(plan, func(p []Fault) bool {
		r := Run(seed, p, false)
		return r.Failed()
	})
	return Run(seed, small, true)
}

// shrink tries to do without halves, quarters and at last single items.
func shrink[T any](list []T, fails func([]T) bool) []T {
	for size := max(1, len(list)/2); ; size /= 2 {
		for i := 0; i < len(list); {
			less := append(slices.Clone(list[:i]), list[min(i+size, len(list)):]...)
			if fails(less) {
				list = less
			} else {
				i += size
			}
		}
		if size <= 1 {
			return list
		}
	}
}
