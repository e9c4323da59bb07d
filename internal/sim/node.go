package sim

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"pinboard"
	"pinboard/internal/directory"
	"pinboard/internal/guard"
	"pinboard/internal/ownership"
)

// A Node runs a real Directory, with small faithful models of the edges
// around it: the registry's handlers and the loop of the data plane.
type Node struct {
	Host
	w       *World
	at      int
	boots   int
	buckets int           // that it takes the store to have
	since   time.Duration // when it came up or thawed
	lease   time.Duration
	dir     *directory.Directory
	conn    *conn
	flows   []*flow
	stall   time.Duration // the next request stops for so long between look and write
	slept   time.Duration // how long its own clock stood still, before
	woke    time.Duration // when it last did; 0 never
	asleep  time.Duration // since when it does; 0 it does not
}

// boot starts the node of that number, as a new process.
func (w *World) boot(i int) *Node {
	n := &Node{Host: Host{Name: fmt.Sprint("n", i+1), loop: w.Loop}, w: w, at: i, lease: w.Lease, since: w.Now, buckets: w.Buckets}
	if w.Mixed && i > 0 {
		n.lease = w.Lease * time.Duration(6+i) / 10 // in the middle of a roll
	}
	if old := w.nodes[i]; old != nil {
		n.boots, n.lease = old.boots+1, old.lease
		if w.other > 0 {
			n.buckets, w.other = w.other, 0
		}
	}
	w.nodes[i] = n
	w.boots++
	n.conn = &conn{w: w, n: n, ticked: w.Now, verified: map[int]string{}}
	n.conn.guard = guard.New(guard.Options{Buckets: 2 * w.Buckets, Slack: stepLimit, Asleep: func() guard.Local { return n.sleeps().Microseconds() },
		OnStep: func(server string) { w.note("%s: the clock of %s stepped", n.Name, server) }})
	n.configure()
	w.Go(&n.Host, func() {
		for n.dir.Touch(context.Background()) != nil {
			w.Sleep(500 * time.Millisecond)
		}
		w.note("%s: is up", n.Name)
		w.Go(&n.Host, n.tick)
		w.Go(&n.Host, n.recheck)
		w.Go(&n.Host, n.keep)
	})
	w.Go(&n.Host, n.pulse) // from the start: who disagrees with the header is not up until it agrees
	return n
}

func (n *Node) configure() {
	w := n.w
	seed := w.Seed ^ uint64(n.at+1)<<32 ^ uint64(n.boots+1)<<48
	n.dir = directory.New(directory.Options{Store: n.conn, Lease: n.lease, Slack: w.Slack, Lag: w.Lag, Hostnames: w.Hostnames,
		PlaceLimit: w.PlaceLimit, EnrolChunk: w.Chunk, Node: n.Name, Now: n.now, Rand: rand.NewPCG(seed, 7), Secrets: w.secret,
		Fan: w.Fan, OldNow: n.conn.oldNow, Within: n.within, Connect: n.connect,
		Go: func(f func()) { w.Go(&n.Host, f) }})
}

// pulse looks at every bucket each second, as a node does all the time.
func (n *Node) pulse() {
	for {
		n.w.Sleep(time.Second)
		ctx, _ := n.within(context.Background(), opTime)
		_ = n.conn.compare(ctx)
		for b := range n.buckets {
			n.conn.watch(b)
		}
	}
}

func (n *Node) tick() {
	for {
		n.conn.tick()
		// A timer counts on behind a sleep: requests may come before it ends.
		for at := n.own() + time.Second; n.own() < at; {
			n.w.Sleep(at - n.own())
		}
	}
}

func (n *Node) keep() {
	for {
		n.w.Sleep(n.w.between("keep", time.Second, 3*time.Second))
		_ = n.dir.Keep(context.Background()) // goes on where it stopped
	}
}

func isAway(err error) bool { return errors.Is(err, pinboard.StoreUnavailable) }

// register is the registry's handler: the challenge comes first.
func (n *Node) register(reg directory.Registration, pair int) answer {
	reg.Heard = n.now()
	if n.probe(reg.Worker.URL, reg.Worker.Secret, pair) != ownership.ProofOK {
		return answer{err: ownership.Wait{Reason: "advertise URL not proved", After: time.Second}}
	}
	g, err := n.dir.Register(context.Background(), &reg)
	return answer{grant: g, err: err}
}

// probe asks the process behind the URL for the pair.
func (n *Node) probe(url, secret string, pair int) ownership.Proof {
	p := n.w.listen[url]
	if p == nil {
		return ownership.ProofMissing
	}
	proof, ok := call(n.w, n.Name, p.Name, &p.Host, 2*time.Second, func() ownership.Proof {
		switch {
		case p.secret != secret:
			return ownership.ProofRefused
		case p.pair != pair:
			return ownership.ProofMissing
		}
		return ownership.ProofOK
	})
	if !ok {
		return ownership.ProofMissing
	}
	return proof
}

// beat is the registry's handler.
func (n *Node) beat(b ownership.Beat, pair int) answer {
	bg := context.Background()
	b.Heard = n.now()
	w, err := n.dir.WorkerOf(bg, b.Session)
	if err != nil && isAway(err) {
		return answer{err: err}
	}
	if err == nil {
		b.Proof = n.probe(w.URL, w.Secret, pair)
	}
	g, err := n.dir.Beat(bg, b)
	return answer{grant: g, err: err}
}

func (n *Node) release(items []directory.Release) error {
	_, err := n.dir.Release(context.Background(), owner, items)
	return err
}

func (n *Node) deregister(session string) error {
	return n.dir.Deregister(context.Background(), owner, session)
}

// connect tries one data-plane connect for the directory.
func (n *Node) connect(_ context.Context, w *ownership.Worker) error {
	if n.dial(w.URL) == nil {
		return errors.New("connect failed")
	}
	return nil
}

// dial connects to a URL: at once, or refused, or lost in the net for 2 s. A
// frozen process is connected to by its kernel.
func (n *Node) dial(url string) *Proc {
	p := n.w.listen[url]
	if p == nil {
		return nil
	}
	d, there := n.w.net.leg(n.Name, p.Name)
	if n.w.net.cut[[2]string{p.Name, n.Name}] > 0 {
		there = false
	}
	if !there {
		n.w.Sleep(2 * time.Second)
		return nil
	}
	n.w.Sleep(d)
	if p.dead {
		return nil
	}
	return p
}

// An Ask is one client request.
type Ask struct {
	Host, NS, ID string
	Body         bool
	Deny, Stray  bool
	Busy, Stream time.Duration
	Affinity     string
}

// An Outcome is what the client got.
type Outcome struct {
	Text    string // of a refusal or of the worker
	By      *Proc
	Epoch   pinboard.Epoch
	Key     ownership.Key
	Refused *pinboard.Refusal
}

const answerLimit = 30 * time.Second

// Serve is the loop of the data plane and its retries (docs/guarantees.md, "Delivery").
func (n *Node) Serve(q Ask) Outcome {
	bg := context.Background()
	avoid, placedAgain, settled := "", false, false
	for resolves := 0; ; {
		slept := n.sleeps()
		p, err := n.dir.Resolve(bg, directory.Request{Host: q.Host, Affinity: q.Affinity, Avoid: avoid,
			Address: pinboard.Address{Namespace: q.NS, ID: q.ID}})
		if err != nil {
			var r *pinboard.Refusal
			errors.As(err, &r)
			return Outcome{Text: r.Text, Refused: r}
		}
		n.w.check.resolved(n, &p)
		to := n.dial(p.Worker.URL)
		// As pinboard.Elapsed: a sleep since the resolve counts.
		late := n.now().Sub(p.Sent)+n.sleeps()-slept > pinboard.LimitsFor(n.lease).Age
		n.stop()
		if late {
			if resolves++; resolves > 2 {
				return Outcome{Text: pinboard.ResolveTooSlow.Text, Refused: pinboard.ResolveTooSlow}
			}
			continue
		}
		text, event := n.forward(to, &p, q)
		v := directory.Verdict{}
		if event >= 0 {
			v = n.dir.Report(bg, p, directory.Event(event))
		}
		switch {
		case v.Again && !q.Body && event == int(directory.Refused) && !placedAgain:
			placedAgain, avoid = true, p.Worker.Session
			continue
		case v.Again && !q.Body && event == int(directory.BadAttestation) && !settled:
			settled = true
			n.w.Sleep(300 * time.Millisecond)
			continue
		case v.Refusal != nil:
			return Outcome{Text: v.Refusal.Text, Refused: v.Refusal}
		}
		return Outcome{Text: text, By: to, Epoch: p.Epoch, Key: p.Key}
	}
}

// stop is a thread that loses its processor between its last look and the
// write: nothing can be between them but that.
func (n *Node) stop() {
	if d := n.stall; d > 0 {
		n.stall = 0
		n.w.note("%s: stops before a write", n.Name)
		n.w.Sleep(d)
	}
}

// forward sends the request once; event is -1 when nothing can be concluded.
func (n *Node) forward(to *Proc, p *directory.Placement, q Ask) (text string, event int) {
	if to == nil {
		return "", int(directory.Unreachable)
	}
	h := hit{key: p.Key, epoch: p.Epoch, aud: p.Worker.Session, secret: p.Worker.Secret, busy: q.Busy, stream: q.Stream, deny: q.Deny, stray: q.Stray}
	if q.Stream > 0 {
		h.flow = &flow{n: n, p: to, open: true, watch: directory.Watch{Key: p.Key, Process: p.Worker.Process, Deadline: p.Deadline}}
	}
	r := newReply[string](n.w.Loop)
	if d, arrives := n.w.net.leg(n.Name, to.Name); arrives && d < pinboard.LimitsFor(n.lease).Unacknowledged {
		n.w.At(d, func() {
			to.run(func() {
				n.w.Go(&to.Host, func() {
					text := to.handle(h)
					if d, arrives := n.w.net.leg(to.Name, n.Name); arrives {
						n.w.At(d, func() { r.say(text) })
					}
				})
			})
		})
	}
	text, ok := r.await(answerLimit)
	switch {
	case !ok:
		if h.flow != nil {
			h.flow.open = false
		}
		return "no answer from the worker", -1
	case text == stranger:
		return text, int(directory.BadAttestation)
	case text == unhealthy:
		return text, int(directory.Refused)
	case text == served && h.flow != nil:
		n.flows = append(n.flows, h.flow)
		n.w.At(0, func() { n.cutLater(h.flow) })
	}
	return text, int(directory.Served)
}

// A flow is an open stream through a node.
type flow struct {
	n     *Node
	p     *Proc
	open  bool
	watch directory.Watch
}

// bytes reach the node: they pass to the client unless the owner is gone (F2).
func (f *flow) bytes(in, owner *Instance) {
	if f.open && !f.n.now().Before(f.watch.Deadline) {
		f.open = false
	}
	if f.open {
		f.n.w.check.passes(f, in, owner)
	}
}

// cutLater ends the stream at the deadline as it was last read.
func (n *Node) cutLater(f *flow) {
	left := f.watch.Deadline.Sub(n.now())
	switch {
	case !f.open || n.dead:
	case left <= 0:
		f.open = false
		n.w.note("%s: cuts a stream of %s", n.Name, f.watch.Key.ID)
	default:
		n.w.At(left, func() { n.run(func() { n.cutLater(f) }) })
	}
}

// recheck reads the rows behind open streams again, every lease/3.
func (n *Node) recheck() {
	for {
		n.w.Sleep(n.lease / 3)
		var open []*flow
		var ws []*directory.Watch
		for _, f := range n.flows {
			if f.open {
				open = append(open, f)
				ws = append(ws, &f.watch)
			}
		}
		n.flows = open
		if len(ws) == 0 || n.dir.Recheck(context.Background(), ws) != nil {
			continue
		}
		for _, f := range open {
			if f.watch.Cut && f.open {
				f.open = false
				n.w.note("%s: cuts a stream of %s: it moved", n.Name, f.watch.Key.ID)
			}
		}
	}
}
