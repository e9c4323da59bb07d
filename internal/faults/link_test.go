//go:build linux

package faults

import (
	"io"
	"maps"
	"math/rand/v2"
	"net"
	"slices"
	"sync"
	"testing"
	"time"
)

// A link relays connections to the first of its targets that takes them,
// beginning with another one each time, and breaks them on purpose. Bytes of a
// connection stay in order, so what can be reordered are connections: with a
// jitter each chunk waits for as long as chance says, and requests overtake
// each other.
type link struct {
	addr     string
	targets  []string
	listener net.Listener

	mu     sync.Mutex
	next   int
	conns  map[net.Conn]bool // both ends
	refuse bool
	stall  chan struct{} // non-nil while stalled
	jitter time.Duration
	over   bool
	wg     sync.WaitGroup
}

func newLink(t testing.TB, targets ...string) *link {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	k := &link{addr: l.Addr().String(), targets: targets, listener: l, conns: map[net.Conn]bool{}}
	k.wg.Go(k.accept)
	t.Cleanup(func() {
		k.end()
		k.heal()
		k.wg.Wait()
	})
	return k
}

func (k *link) accept() {
	for {
		c, err := k.listener.Accept()
		if err != nil {
			return
		}
		up := k.dial()
		if up == nil || !k.keep(c, up) {
			c.Close()
			if up != nil {
				up.Close()
			}
			continue
		}
		k.wg.Go(func() { k.pipe(c, up) })
		k.wg.Go(func() { k.pipe(up, c) })
	}
}

func (k *link) dial() net.Conn {
	k.mu.Lock()
	first := k.next
	k.next++
	refuse := k.refuse
	k.mu.Unlock()
	for i := range k.targets {
		if refuse {
			return nil
		}
		if c, err := net.DialTimeout("tcp", k.targets[(first+i)%len(k.targets)], patience); err == nil {
			return c
		}
	}
	return nil
}

func (k *link) keep(conns ...net.Conn) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, c := range conns {
		k.conns[c] = true
	}
	return !k.over && !k.refuse
}

// pipe carries one direction; its end ends both, as an RST would.
func (k *link) pipe(from, to net.Conn) {
	defer k.drop(from, to)
	b := make([]byte, 32<<10)
	for {
		n, err := from.Read(b)
		if err != nil {
			return
		}
		k.wait()
		if _, err := to.Write(b[:n]); err != nil {
			return
		}
	}
}

func (k *link) wait() {
	k.mu.Lock()
	stall, jitter := k.stall, k.jitter
	k.mu.Unlock()
	if stall != nil {
		<-stall
	}
	if jitter > 0 {
		time.Sleep(rand.N(jitter))
	}
}

func (k *link) drop(conns ...net.Conn) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, c := range conns {
		c.Close()
		delete(k.conns, c)
	}
}

// end makes the link what its target is when its process has died: connects
// are refused, for good.
func (k *link) end() {
	k.listener.Close()
	k.mu.Lock()
	k.over = true
	k.mu.Unlock()
	k.cut()
}

// cut closes every connection; new ones are relayed.
func (k *link) cut() {
	k.mu.Lock()
	conns := slices.Collect(maps.Keys(k.conns))
	k.mu.Unlock()
	k.drop(conns...)
}

// part refuses everything until heal.
func (k *link) part() {
	k.mu.Lock()
	k.refuse = true
	k.mu.Unlock()
	k.cut()
}

// hang holds every byte back until heal, and then delivers it.
func (k *link) hang() {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.stall == nil {
		k.stall = make(chan struct{})
	}
}

// shake makes chunks wait for up to d, each as it comes.
func (k *link) shake(d time.Duration) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.jitter = d
}

func (k *link) heal() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.refuse, k.jitter = false, 0
	if k.stall != nil {
		close(k.stall)
		k.stall = nil
	}
}

// A probe is a connection to a Redis server that says PING.
type probe struct {
	conn net.Conn
	err  error
}

func newProbe(addr string) *probe {
	c, err := net.Dial("tcp", addr)
	return &probe{c, err}
}

func (p *probe) ping() error {
	if p.err != nil {
		return p.err
	}
	p.conn.SetDeadline(time.Now().Add(5 * time.Second))
	if _, err := p.conn.Write([]byte("PING\r\n")); err != nil {
		return err
	}
	_, err := io.ReadFull(p.conn, make([]byte, len("+PONG\r\n")))
	return err
}
