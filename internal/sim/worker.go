package sim

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"pinboard"
	"pinboard/internal/directory"
	"pinboard/internal/ownership"
)

// A Kind of worker: what it registers, and how its instances behave.
type Kind struct {
	Namespaces []string
	Hostname   string
	Env        string
	Takeover   string
	BindEpoch  int64
	Acks       bool          // 0.15.0 and later confirm messages and keep releases for the next session
	Keeps      bool          // 0.8.4 and later keep their instances over a lost session
	Epochs     bool          // 0.9.0 and later know placement epochs
	Build      time.Duration // an activation takes this long
	Close      time.Duration // ... and a close
	Idle       time.Duration // without requests for so long an instance closes
	KeepRows   bool          // ... and keeps its placement
	Lags       bool          // looks at the audience up to a second before the rest (thread pool)
	Drain      time.Duration // own deadline on SIGTERM
	Go         bool          // the real Go SDK, not the model of the Python client
}

// Today is the current client.
var Today = Kind{Namespaces: []string{"/t"}, Acks: true, Keeps: true, Epochs: true,
	Build: 50 * time.Millisecond, Close: 100 * time.Millisecond, Idle: time.Minute, Drain: 30 * time.Second}

const (
	interval = 3 * time.Second // between heartbeats
	patience = 5 * time.Second // for an answer of a node
)

// A Proc is one worker process, with the rules of the real client.
type Proc struct {
	Host
	Kind
	w      *World
	client string // clientId
	secret string
	url    string

	session   string
	prev      string
	lease     Lease
	fence     *Fence
	pair      int // challenge in use
	draining  bool
	ownAt     time.Duration // own drain deadline, 0 none
	srvDrain  bool
	srvAt     time.Duration
	acks      []string
	fails     int
	deferred  time.Duration // Retry-After, 0 none
	super     bool
	leaving   bool
	quiet     bool                  // a story beats by hand
	script    func(body any) answer // a script answers all calls
	slack     bool                  // a story delays what a restate order makes it do
	lossy     bool                  // a story makes the last write of a close fail
	deaf      bool                  // a story loses the answers to its calls
	last      string                // session before this one
	instances map[ownership.Key]*Instance
	queue     []directory.Release
	flushing  bool
	nudge     func()
	next      time.Duration // when it calls again by itself
	hops      int           // nodes taken in turn

	sdk     *goSDK        // the Go SDK, if it runs here
	granted time.Duration // the latest end of a lease that it was told of
}

// An Instance is the live object of an id in a process.
type Instance struct {
	p         *Proc
	key       ownership.Key
	epoch     pinboard.Epoch // highest it was addressed with
	version   int            // of the stored data that its memory holds
	built     *reply[bool]
	closed    *reply[bool]
	closing   bool
	releasing bool
	lapsed    bool // it was closing when the lease ended: no later lease makes it live again
	live      bool // from the start of the activation until the close has ended
	served    bool
	busy      int
	streams   int
	used      time.Duration
	deadline  time.Duration // of its wind-down, 0 none
}

// Spawn starts a process that listens at url. Nothing of an earlier one is
// known to it.
func (w *World) Spawn(name, url string, k Kind) *Proc {
	n := len(w.procs)
	p := &Proc{Host: Host{Name: name, loop: w.Loop}, Kind: k, w: w, url: url,
		client: name, secret: "secret of " + name, instances: map[ownership.Key]*Instance{}, hops: n}
	p.lease.Buffer = min(5*time.Second, w.Lease/3)
	p.fence = newFence(&p.lease)
	w.procs = append(w.procs, p)
	w.listen[url] = p
	w.note("%s: starts at %s", p.Name, url)
	return p
}

// Start begins the client's loop.
func (p *Proc) Start() {
	if p.Go {
		p.startGo()
		return
	}
	p.w.Go(&p.Host, p.loop)
	p.w.Go(&p.Host, p.sweep)
}

func (p *Proc) loop() {
	for !p.super {
		began := p.w.Now
		if p.session == "" && !(p.quiet && p.prev != "") {
			p.register()
		} else if !p.quiet {
			p.Beat()
		}
		if p.super {
			return
		}
		p.pause(p.delay() - (p.w.Now - began))
	}
}

// pause waits until d has passed or something wants a call at once.
func (p *Proc) pause(d time.Duration) {
	p.next = p.w.Now + d
	p.nudge = p.w.waker()
	p.w.At(d, p.nudge)
	p.w.park()
	p.nudge = nil
}

func (p *Proc) wake() {
	if p.nudge != nil {
		p.nudge()
	}
}

// delay is the client's pacing: a fixed rate in a session, else backoff.
func (p *Proc) delay() time.Duration {
	if p.session != "" || p.fails == 0 {
		return interval
	}
	d := interval << min(p.fails, 16)
	if p.deferred != 0 {
		d = p.deferred << min(p.fails-1, 16)
	}
	d = min(d, 30*time.Second)
	return p.w.between("backoff", d*3/10, d)
}

// node is where the next call goes: a load balancer in front of the nodes.
func (p *Proc) node() *Node {
	p.hops++
	for range p.w.nodes {
		if n := p.w.nodes[p.hops%len(p.w.nodes)]; !n.dead {
			return n
		}
		p.hops++
	}
	return p.w.nodes[p.hops%len(p.w.nodes)]
}

// An answer of the registry.
type answer struct {
	grant directory.Grant
	err   error
	unset bool // transport error
}

func (p *Proc) envOf(ns string) string {
	switch {
	case !p.w.Hostnames:
		return ownership.World
	case p.Env == "":
		return p.Hostname
	}
	return p.Env
}

// register sends one registration and takes its answer.
func (p *Proc) register() {
	sent := p.w.Now
	p.pair++
	p.deferred = 0
	reg := directory.Registration{Headroom: 100 - float64(len(p.instances)), Draining: p.draining, PrevSession: p.prev, Worker: ownership.Worker{
		ClientID: p.client, Secret: p.secret, URL: p.url, Namespaces: p.Namespaces, Owner: owner, Proven: true,
		Hostname: p.Hostname, Env: p.Env, Takeover: p.Takeover, BindEpoch: p.BindEpoch}}
	if p.Keeps {
		reg.Instances = p.restated()
	}
	if !p.Epochs {
		reg.PrevSession = ""
	}
	n, pair := p.node(), p.pair
	a := p.call(n, reg, func() answer { return n.register(reg, pair) })
	wait, isWait := a.err.(ownership.Wait)
	switch {
	case a.unset || a.err != nil:
		p.fails++
		if isWait || isAway(a.err) {
			p.deferred = max(wait.After, 50*time.Millisecond)
			if wait.After == 0 {
				p.deferred = time.Second
			}
		}
		p.w.note("%s: register at %s: %s", p.Name, n.Name, a.text())
		return
	}
	p.accept(a.grant, sent)
}

// restated lists every id in the table, also those being built or closed.
func (p *Proc) restated() map[string][]string {
	if len(p.instances) == 0 {
		return nil
	}
	out := map[string][]string{}
	for _, in := range p.held() {
		out[in.key.Namespace] = append(out[in.key.Namespace], in.key.ID)
	}
	return out
}

func (p *Proc) held() []*Instance {
	out := make([]*Instance, 0, len(p.instances))
	for _, in := range p.instances {
		out = append(out, in)
	}
	slices.SortFunc(out, func(a, b *Instance) int { return cmp.Compare(a.key.String(), b.key.String()) })
	return out
}

// accept takes a session: duplicates are quit before the lease is renewed.
func (p *Proc) accept(g directory.Grant, sent time.Duration) {
	p.fails = 0
	p.last = p.prev
	p.session, p.prev, p.acks = g.Session, "", nil
	var quit []string
	for _, d := range g.Duplicates {
		if in := p.instances[p.key(d.Namespace, d.ID)]; in != nil && p.Keeps {
			p.close(in, true)
			quit = append(quit, d.ID)
		}
	}
	p.renew(sent, g.ExpiresIn)
	slices.Sort(quit)
	p.w.note("%s: registered, quits %s", p.Name, list(quit))
	p.drainEcho(g)
	p.flush()
}

func (p *Proc) renew(sent, ttl time.Duration) {
	if p.lease.over(p.w.Now) {
		for _, in := range p.instances {
			in.lapsed = in.lapsed || in.closing
		}
	}
	p.lease.Renewed(sent, ttl)
}

func list(ids []string) string {
	if len(ids) == 0 {
		return "nothing"
	}
	return strings.Join(ids, " ")
}

// Beat sends one heartbeat and takes its answer.
func (p *Proc) Beat() answer {
	n := p.node()
	return p.BeatAt(n)
}

// BeatAt sends it to a node of the caller's choice.
func (p *Proc) BeatAt(n *Node) answer {
	sent := p.w.Now
	p.pair++
	acks := slices.Clone(p.acks)
	slices.Sort(acks)
	beat := ownership.Beat{Session: p.session, Headroom: 100 - float64(len(p.instances)), Draining: p.draining, Acks: acks, HasAcks: len(acks) > 0}
	pair := p.pair
	a := p.call(n, beat, func() answer { return n.beat(beat, pair) })
	if beat.Session != p.session {
		return a // a story beat by hand while the loop registered
	}
	switch err := a.err.(type) {
	case nil:
		if a.unset {
			return a
		}
		p.renew(sent, a.grant.ExpiresIn)
		p.drainEcho(a.grant)
		p.acks = slices.DeleteFunc(p.acks, func(id string) bool { return slices.Contains(beat.Acks, id) })
		for _, m := range a.grant.Messages {
			p.message(m)
			if p.Acks && !slices.Contains(p.acks, m.MsgID) {
				p.acks = append(p.acks, m.MsgID)
			}
		}
	case ownership.Superseded:
		p.super = true
		p.w.note("%s: superseded", p.Name)
		p.abortAll()
	case directory.Reregister:
		p.w.note("%s: told to register again (%s)", p.Name, err.Reason)
		p.lose()
		if !p.slack {
			p.register()
		}
	default:
		p.w.note("%s: not renewed (%s)", p.Name, a.text())
	}
	return a
}

// lose is what a client does without its session.
func (p *Proc) lose() {
	if p.session != "" {
		p.prev, p.session = p.session, ""
	}
	if !p.Keeps {
		p.abortAll()
	}
	p.wake()
}

// sweep closes what nobody has used for long.
func (p *Proc) sweep() {
	for {
		p.w.Sleep(time.Second)
		if !p.Keeps && p.lease.granted && !p.lease.Healthy(p.w.Now) {
			p.abortAll() // before 0.8.4 everything ends with the health of the lease
		}
		for _, in := range p.held() {
			if in.busy == 0 && in.served && p.w.Now-in.used >= p.Idle {
				p.close(in, !p.KeepRows)
			}
		}
	}
}

// call is a request to the registry.
func (p *Proc) call(n *Node, body any, handle func() answer) answer {
	if p.script != nil {
		return p.script(body)
	}
	a, ok := call(p.w, p.Name, n.Name, &n.Host, patience, handle)
	a.unset = !ok || p.deaf
	return a
}

func (a answer) text() string {
	switch {
	case a.unset:
		return "no answer"
	case isAway(a.err):
		return pinboard.StoreUnavailable.Text
	case a.err != nil:
		return a.err.Error()
	}
	return "ok"
}

// flush sends the releases that wait, one batch at a time.
func (p *Proc) flush() *reply[bool] {
	done := newReply[bool](p.w.Loop)
	if p.session == "" && !p.Acks {
		p.queue = nil // before 0.15.0 they are dropped
	}
	p.w.Go(&p.Host, func() {
		for p.flushing {
			p.w.Sleep(10 * time.Millisecond)
		}
		if p.session == "" || len(p.queue) == 0 {
			done.say(true)
			return
		}
		p.flushing = true
		batch := p.queue
		p.queue = nil
		for i := range batch {
			batch[i].Session = p.session
		}
		p.retry(batch, func(n *Node) error { return n.release(batch) })
		p.flushing = false
		done.say(true)
	})
	return done
}

// retry makes a call at most three times.
func (p *Proc) retry(body any, do func(*Node) error) {
	for i := range 3 {
		n := p.node()
		if a := p.call(n, body, func() answer { return answer{err: do(n)} }); !a.unset && a.err == nil {
			return
		}
		p.w.Sleep(200 * time.Millisecond << i)
	}
}
