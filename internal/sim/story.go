package sim

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"pinboard"
	"pinboard/internal/directory"
	"pinboard/internal/memstore"
	"pinboard/internal/ownership"
)

// A Story is a script of commands on one cluster in which nothing is random.
// A command is one line; what happens until it is done is its output.
type Story struct {
	w     *World
	out   strings.Builder
	procs map[string]*Proc
	saved *memstore.Image
}

// Do runs one command and returns what it told.
func (s *Story) Do(line string) string {
	s.out.Reset()
	f := strings.Fields(line)
	args := newWords(f[1:])
	switch verb := f[0]; verb {
	case "cluster":
		s.cluster(args)
	case "worker":
		s.worker(args)
	case "ask":
		s.ask(args)
	case "run":
		s.w.Run(args.duration(0))
	case "freeze", "thaw", "sleep", "wake", "kill", "boot", "leave":
		s.w.other = args.num("buckets", 0)
		s.host(verb, args.word(0))
	case "cut", "mend":
		by := map[string]int{"cut": 1, "mend": -1}[verb]
		s.w.net.Cut(args.word(0), args.word(1), by, args.has("oneway"))
	case "store":
		s.store(args)
	case "order":
		s.order(args)
	case "beat", "register", "release", "deregister", "message":
		s.call(verb, args)
	case "set":
		s.set(args)
	case "rows":
		s.rows()
	case "sessions":
		s.sessions()
	case "buckets":
		s.buckets()
	case "streams":
		s.streams()
	case "listens":
		s.w.listen[args.word(0)] = s.procs[args.word(1)]
	default:
		panic("unknown command " + verb)
	}
	if s.out.Len() == 0 {
		return "ok\n"
	}
	return s.out.String()
}

func (s *Story) say(format string, args ...any) { fmt.Fprintf(&s.out, format+"\n", args...) }

// words are a command's arguments: plain ones, and name=value.
type words struct {
	plain []string
	named map[string]string
}

func newWords(f []string) words {
	w := words{named: map[string]string{}}
	for _, x := range f {
		if name, value, ok := strings.Cut(x, "="); ok {
			w.named[name] = value
		} else {
			w.plain = append(w.plain, x)
		}
	}
	return w
}

func (w words) word(i int) string {
	if i < len(w.plain) {
		return w.plain[i]
	}
	return ""
}

func (w words) has(word string) bool { return slices.Contains(w.plain, word) }

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func (w words) duration(i int) time.Duration { return must(time.ParseDuration(w.word(i))) }

func (w words) span(name string, otherwise time.Duration) time.Duration {
	if v, ok := w.named[name]; ok {
		return must(time.ParseDuration(v))
	}
	return otherwise
}

func (w words) num(name string, otherwise int) int {
	if v, ok := w.named[name]; ok {
		return must(strconv.Atoi(v))
	}
	return otherwise
}

func (w words) text(name, otherwise string) string {
	if v, ok := w.named[name]; ok {
		return v
	}
	return otherwise
}

func (s *Story) cluster(a words) {
	s.procs = map[string]*Proc{}
	s.w = NewWorld(Setup{Seed: 1, Still: true, Nodes: a.num("nodes", 1), Buckets: a.num("buckets", 1), Lease: a.span("lease", 15*time.Second),
		Lag: a.span("lag", 0), Slack: a.span("slack", 0), Chunk: a.num("chunk", 0), Hostnames: a.has("hostnames"), PlaceLimit: int64(a.num("limit", 0))})
	for i, v := range strings.Split(a.text("leases", ""), ",") {
		if v != "" {
			n := s.w.nodes[i]
			n.lease = must(time.ParseDuration(v))
			n.configure()
		}
	}
	s.w.trace.tell = func(line string) { s.say("%s", tidy(line)) }
	s.w.Run(100 * time.Millisecond)
	if a.has("warm") {
		s.w.Run(s.w.Lease + s.w.Lag)
	}
}

// tidy keeps a tenth of a second.
func tidy(line string) string {
	t, rest, _ := strings.Cut(strings.TrimLeft(line, " "), " ")
	return fmt.Sprintf("%5.1f %s", must(strconv.ParseFloat(t, 64)), rest)
}

func (s *Story) worker(a words) {
	k := Today
	k.Build, k.Close, k.Idle = a.span("build", k.Build), a.span("close", k.Close), a.span("idle", time.Hour)
	k.Hostname, k.Env, k.Takeover, k.BindEpoch = a.text("host", ""), a.text("env", ""), a.text("takeover", ""), int64(a.num("epoch", 0))
	k.Namespaces = strings.Split(a.text("ns", "/t"), ",")
	k.Go = a.has("go")
	k.KeepRows, k.Lags = a.has("keeps-rows"), a.has("lags")
	k.Drain = a.span("drain", k.Drain)
	switch a.text("client", "0.16") {
	case "0.14":
		k.Acks = false
	case "0.8.5":
		k.Acks, k.Epochs = false, false
	case "0.8.3":
		k.Acks, k.Epochs, k.Keeps = false, false, false
	}
	name := a.word(0)
	p := s.w.Spawn(name, a.text("at", "http://"+name), k)
	if other := s.procs[a.text("like", "")]; other != nil {
		p.client = other.client // another process that claims the same clientId
	}
	s.procs[name] = p
	p.hops = len(s.w.nodes) - 1 // the first call goes to n1
	p.quiet = a.has("byhand")
	if !a.has("silent") {
		p.Start()
		s.w.Run(100 * time.Millisecond)
	}
}

func (s *Story) node(name string) *Node {
	return s.w.nodes[must(strconv.Atoi(strings.TrimPrefix(name, "n")))-1]
}

func (s *Story) ask(a words) {
	q := Ask{Host: a.text("host", ""), NS: a.text("ns", "/t"), ID: a.word(1), Body: a.has("body"), Deny: a.has("deny"), Stray: a.has("stray"),
		Busy: a.span("busy", 0), Stream: a.span("stream", 0)}
	r := newReply[bool](s.w.Loop)
	n := s.node(a.word(0))
	for range a.num("times", 1) {
		s.w.Go(nil, func() { s.w.ask(n, q, time.Minute); r.say(true) })
	}
	if a.has("later") {
		return
	}
	for limit := s.w.Now + 40*time.Second; !r.said && s.w.Step(limit); {
		s.w.check.look()
	}
	s.w.Run(time.Millisecond)
}

func (s *Story) host(verb, name string) {
	if strings.HasPrefix(name, "n") {
		n := s.node(name)
		switch verb {
		case "freeze":
			n.Freeze()
		case "thaw":
			n.Thaw()
		case "sleep":
			n.Sleep()
		case "wake":
			n.Wake()
		case "kill":
			n.Kill()
		case "boot":
			s.w.boot(n.at)
			s.w.Run(10 * time.Millisecond)
		}
		return
	}
	p := s.procs[name]
	switch verb {
	case "freeze":
		p.Freeze()
	case "thaw":
		p.Thaw()
	case "kill":
		p.Crash()
	case "leave":
		p.Leave()
	}
}

func (s *Story) set(a words) {
	p := s.procs[a.word(0)]
	p.Close, p.Build, p.Idle = a.span("close", p.Close), a.span("build", p.Build), a.span("idle", p.Idle)
	p.quiet = (p.quiet || a.has("byhand")) && !a.has("itself")
	p.lossy, p.slack = a.has("loses-writes"), a.has("restates-late")
	p.lease.Buffer = a.span("buffer", p.lease.Buffer)
}

func (s *Story) store(a words) {
	srv, w := s.w.server, s.w
	num := func() int { return must(strconv.Atoi(a.word(1))) }
	switch a.word(0) {
	case "wipe":
		srv.wipe()
	case "save":
		s.saved = srv.mem.Image()
	case "restart":
		w.Replace(srv.mem.Image(), srv.ahead()+a.span("skew", 0))
	case "rewind": // an older image under the same identity
		srv.mem.Restart(srv.run, s.saved)
	case "slew": // a share of time that its clock gains, for a while
		rate := must(strconv.ParseFloat(strings.TrimSuffix(a.word(1), "%"), 64))
		srv.rate(rate / 100)
		w.At(a.span("for", time.Minute), func() { srv.rate(0) })
	case "return": // of the first server, with what its replica has by now or it was saved with
		im := srv.mem.Image()
		if a.has("saved") {
			im = s.saved
		}
		w.Replace(im, srv.ahead())
		w.server.name("run1")
		s.say("it is run1 again")
	case "empty":
		w.Replace(nil, srv.ahead())
	case "restore":
		w.Replace(s.saved, srv.ahead()+a.span("skew", 0))
	case "step":
		srv.step(a.duration(1))
	case "away":
		srv.down = true
	case "back":
		srv.down = false
	case "bucket":
		srv.cut[num()] = map[string]int{"away": 1}[a.word(2)]
	case "full":
		srv.full = true
	case "free":
		srv.full = false
	case "lose":
		srv.loseWrites += num()
	case "fail":
		srv.failWrites, srv.passWrites = num(), a.num("after", 0)
	case "slow":
		srv.delay = a.duration(1)
	default:
		panic("unknown store command " + a.word(0))
	}
}

func (s *Story) order(a words) {
	n, bg := s.node(a.word(0)), context.Background()
	w := directory.WindDown{Host: a.text("host", ""), Namespace: "/t", ID: a.word(2)}
	var at *time.Duration
	if _, ok := a.named["in"]; ok {
		d := a.span("in", 0)
		at = &d
	}
	sel := directory.Selector{}
	if p := s.procs[a.word(2)]; p != nil {
		sel.ClientID = p.client
	}
	s.inNode(n, func() {
		var done any
		var err error
		switch a.word(1) {
		case "wind-down":
			w.Deadline = at
			done, err = n.dir.WindDown(bg, w)
		case "revoke":
			done, err = n.dir.WindDown(bg, w)
		case "drain":
			done, err = n.dir.Drain(bg, sel, at)
		case "undrain":
			done, err = n.dir.Undrain(bg, sel)
		case "eject":
			done, err = n.dir.Eject(bg, sel)
		case "unbind":
			done, err = n.dir.DeleteBinding(bg, a.word(2), "/t")
		case "tag":
			p := s.procs[a.word(3)]
			done, err = n.dir.Tag(bg, owner, directory.Tag{Session: p.session, Namespace: "/t", ID: a.word(2), Tag: "label"})
		default:
			panic("unknown order " + a.word(1))
		}
		s.say("%v%s", done, answer{err: err}.unlessOK())
	})
}

func (a answer) unlessOK() string {
	if a.err == nil {
		return ""
	}
	return " " + a.text()
}

// inNode runs f on a node and waits for its end.
func (s *Story) inNode(n *Node, f func()) {
	r := newReply[bool](s.w.Loop)
	s.w.Go(&n.Host, func() { f(); r.say(true) })
	for limit := s.w.Now + 10*time.Second; !r.said && s.w.Step(limit); {
		s.w.check.look()
	}
}

// call makes a worker call a node by hand, outside its own loop.
func (s *Story) call(verb string, a words) {
	p, n := s.procs[a.word(0)], s.node(a.word(1))
	p.hops = n.at + len(s.w.nodes) - 1 // calls that follow from this one go there first
	p.deaf = a.has("lost")
	defer func() { p.deaf = false }()
	session := p.session
	if a.has("last") {
		session = p.last
	}
	r := newReply[bool](s.w.Loop)
	s.w.Go(&p.Host, func() {
		defer r.say(true)
		switch verb {
		case "beat":
			if a.has("last") {
				got := p.call(n, nil, func() answer { return n.beat(ownership.Beat{Session: p.last}, p.pair) })
				s.say("%s", got.text())
				return
			}
			if got := p.BeatAt(n); got.err == nil && !got.unset {
				s.say("%5.1f %s: renewed for %v", s.w.Now.Seconds(), p.Name, got.grant.ExpiresIn)
			}
		case "register":
			p.lose()
			p.register()
		case "deregister":
			s.say("%s", p.call(n, nil, func() answer { return answer{err: n.deregister(session)} }).text())
		case "release":
			item := directory.Release{Session: session, Namespace: "/t", ID: a.word(2)}
			if e := a.text("epoch", ""); e != "" {
				item.HasEpoch, item.Epoch = true, s.epoch(p.key("/t", item.ID), e)
			}
			freed := 0
			p.call(n, nil, func() answer {
				var err error
				freed, err = n.dir.Release(context.Background(), owner, []directory.Release{item})
				return answer{err: err}
			})
			s.say("released %d", freed)
		}
	})
	if a.has("later") {
		return
	}
	for limit := s.w.Now + 15*time.Second; !r.said && s.w.Step(limit); {
		s.w.check.look()
	}
	s.w.Run(time.Millisecond)
}

// epoch finds the epoch behind a short name.
func (s *Story) epoch(k ownership.Key, name string) pinboard.Epoch {
	for e, n := range s.w.check.epochs[k] {
		if name == fmt.Sprint("e", n) {
			return e
		}
	}
	return pinboard.Epoch(must(strconv.ParseUint(name, 10, 64)))
}
