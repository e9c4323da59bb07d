package redistest

import (
	"bufio"
	"io"
	"maps"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// A Fault is what a relay does to one command. Every fault has a twin: the
// command was not executed; it was, and its reply is lost.
type Fault struct {
	kind  faultKind
	delay time.Duration
	reply string
}

type faultKind int

const (
	pass faultKind = iota
	delayCommand
	delayReply
	cutBefore
	cutAfter
	cutInside
	swallow
	hold
	inject
)

// Pass does nothing.
func Pass() Fault { return Fault{} }

// DelayCommand forwards the command (and those behind it) only after d.
func DelayCommand(d time.Duration) Fault { return Fault{kind: delayCommand, delay: d} }

// DelayReply executes at once; the reply (and those behind it) comes d later.
func DelayReply(d time.Duration) Fault { return Fault{kind: delayReply, delay: d} }

// CutBefore closes the connection; the command is not executed.
func CutBefore() Fault { return Fault{kind: cutBefore} }

// CutAfter closes the connection once the command was executed, without reply.
func CutAfter() Fault { return Fault{kind: cutAfter} }

// CutInside executes, sends half of the reply and closes.
func CutInside() Fault { return Fault{kind: cutInside} }

// Swallow executes and never delivers the reply; later replies are delivered,
// so a client that keeps the connection reads them shifted by one.
func Swallow() Fault { return Fault{kind: swallow} }

// Hold forwards neither this command nor any later one of the connection.
func Hold() Fault { return Fault{kind: hold} }

// Inject answers reply (raw RESP, such as "-LOADING x\r\n") without executing.
func Inject(reply string) Fault { return Fault{kind: inject, reply: reply} }

// A Relay stands between a client and a server and breaks what Rule says.
type Relay struct {
	Addr string

	target string
	t      testing.TB
	rule   atomic.Pointer[func([]string) Fault]
	mu     sync.Mutex
	links  map[*link]bool
	done   chan struct{} // closed at the end
	closed bool
	refuse bool
	stall  chan struct{} // non-nil while stalled; closed at its end
	wg     sync.WaitGroup
	l      net.Listener
}

// NewRelay relays to the server at target. It knows plain connections and
// one reply per command: no TLS, no subscriptions, no tracking.
func NewRelay(t testing.TB, target string) *Relay {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r := &Relay{Addr: l.Addr().String(), target: target, t: t, links: map[*link]bool{}, done: make(chan struct{}), l: l}
	r.wg.Add(1)
	go r.accept()
	t.Cleanup(r.close)
	return r
}

// URL is the relay's address as the store's option takes it.
func (r *Relay) URL() string { return "redis://" + r.Addr }

// Rule sets what happens to commands from now on; nil passes everything. It
// sees the words of each command, name in upper case, and may run concurrently.
func (r *Relay) Rule(rule func(words []string) Fault) {
	if rule == nil {
		r.rule.Store(nil)
		return
	}
	r.rule.Store(&rule)
}

// Once applies f to the next n commands called name and passes all others.
func (r *Relay) Once(name string, n int, f Fault) {
	var left atomic.Int64
	left.Store(int64(n))
	r.Rule(func(w []string) Fault {
		if w[0] == name && left.Add(-1) >= 0 {
			return f
		}
		return Pass()
	})
}

// Cut closes every connection; new ones are relayed.
func (r *Relay) Cut() {
	r.mu.Lock()
	links := slices.Collect(maps.Keys(r.links))
	r.mu.Unlock()
	for _, l := range links {
		l.close()
	}
}

// Refuse closes every connection and, while on, each new one at once.
func (r *Relay) Refuse(on bool) {
	r.mu.Lock()
	r.refuse = on
	r.mu.Unlock()
	if on {
		r.Cut()
	}
}

// Stall freezes both directions of all connections while on: a black hole.
func (r *Relay) Stall(on bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case on && r.stall == nil:
		r.stall = make(chan struct{})
	case !on && r.stall != nil:
		close(r.stall)
		r.stall = nil
	}
}

func (r *Relay) close() {
	r.mu.Lock()
	r.closed = true
	r.mu.Unlock()
	close(r.done)
	r.l.Close()
	r.Stall(false)
	r.Cut()
	r.wg.Wait()
}

func (r *Relay) accept() {
	defer r.wg.Done()
	for {
		c, err := r.l.Accept()
		if err != nil {
			return
		}
		r.mu.Lock()
		ok := !r.refuse && !r.closed
		r.mu.Unlock()
		up, err := net.DialTimeout("tcp", r.target, time.Second)
		if !ok || err != nil {
			c.Close()
			if err == nil {
				up.Close()
			}
			continue
		}
		link := &link{r: r, client: c, server: up, acts: make(chan Fault, 1<<16), dead: make(chan struct{})}
		r.mu.Lock()
		r.links[link] = true
		ok = !r.closed
		r.mu.Unlock()
		if !ok {
			link.close()
		}
		r.wg.Add(2)
		go link.commands()
		go link.replies()
	}
}

func (r *Relay) waitStall(dead chan struct{}) {
	r.mu.Lock()
	ch := r.stall
	r.mu.Unlock()
	if ch == nil {
		return
	}
	select {
	case <-ch:
	case <-dead:
	}
}

// A link is one relayed connection. acts carries the fault of each command
// whose reply is due, in order.
type link struct {
	r              *Relay
	client, server net.Conn
	acts           chan Fault
	dead           chan struct{}
	once           sync.Once
}

func (l *link) close() {
	l.once.Do(func() {
		close(l.dead)
		l.client.Close()
		l.server.Close()
		l.r.mu.Lock()
		delete(l.r.links, l)
		l.r.mu.Unlock()
	})
}

func (l *link) sleep(d time.Duration) {
	select {
	case <-time.After(d):
	case <-l.dead:
	case <-l.r.done:
	}
}

func (l *link) commands() {
	defer l.r.wg.Done()
	defer l.close()
	in := bufio.NewReader(l.client)
	for {
		frame, err := readFrame(in, nil)
		if err != nil {
			return
		}
		l.r.waitStall(l.dead)
		w := words(frame)
		f := Pass()
		if rule := l.r.rule.Load(); rule != nil && len(w) > 0 {
			w[0] = strings.ToUpper(w[0])
			f = (*rule)(w)
		}
		switch f.kind {
		case cutBefore:
			return
		case hold:
			io.Copy(io.Discard, in)
			return
		case delayCommand:
			l.sleep(f.delay)
		}
		select {
		case l.acts <- f:
		case <-l.dead:
			return
		}
		if f.kind == inject {
			continue
		}
		if _, err := l.server.Write(frame); err != nil {
			return
		}
	}
}

func (l *link) replies() {
	defer l.r.wg.Done()
	defer l.close()
	out := bufio.NewReader(l.server)
	for {
		var f Fault
		select {
		case f = <-l.acts:
		case <-l.dead:
			return
		}
		frame := []byte(f.reply)
		if f.kind != inject {
			var err error
			if frame, err = readFrame(out, nil); err != nil {
				return
			}
		}
		switch f.kind {
		case delayReply:
			l.sleep(f.delay)
		case cutAfter:
			return
		case cutInside:
			l.client.Write(frame[:len(frame)/2])
			return
		case swallow:
			continue
		}
		l.r.waitStall(l.dead)
		if _, err := l.client.Write(frame); err != nil {
			return
		}
	}
}
