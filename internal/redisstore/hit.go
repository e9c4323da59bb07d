package redisstore

import (
	"bytes"
	"context"
	"encoding/binary"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"pinboard/internal/ownership"
)

// silence is how long the oldest hit on a connection may wait before the
// connection is closed (R10).
const silence = 700 * time.Millisecond

// The lease a hit reads: deadline, time of registration, flags, the generation
// that granted it after its length and, for the rest of the value, the worker's
// hostname. It is there only while requests may go to the session with nothing
// else to look at (Session.Forwardable).
const (
	hitGenAt     = 18
	hitDraining  = 1
	hitRestating = 2
)

func encodeHit(s *ownership.Session) string {
	b := binary.BigEndian.AppendUint64(make([]byte, 0, 32), uint64(s.Until))
	b = binary.BigEndian.AppendUint64(b, uint64(s.At))
	var flags byte
	if s.OwnDrain || s.Drain {
		flags |= hitDraining
	}
	if s.Lease.Asked != 0 {
		flags |= hitRestating
	}
	b = append(append(b, flags, byte(len(s.Gen))), s.Gen...)
	return string(append(b, s.Worker.Hostname...))
}

// A hitCall is one MGET under way. The slices are reused; done carries one
// value when the reply or the end of the connection has come.
type hitCall struct {
	sent    time.Time
	got     time.Time // when the reply was read
	row     []byte
	lease   []byte
	gen     []byte // the bucket's history: commits, then generation
	binding []byte
	commits int64 // of the bucket, known when the call was sent
	refused bool  // the server answered with an error
	moved   bool  // ... that says the bucket lives elsewhere
	broken  bool  // the connection ended first
	done    chan struct{}
}

var hitCalls = sync.Pool{New: func() any { return &hitCall{done: make(chan struct{}, 1)} }}

// Peek implements ownership.Store: one pipelined MGET, no rule, and no
// allocation when everything is as hinted.
func (s *Store) Peek(ctx context.Context, b int, hint ownership.Hint) (p ownership.Peek, ok bool, err error) {
	n := s.topo.peek(b)
	if n == nil || s.header.differs.Load() != nil {
		return ownership.Peek{}, false, nil
	}
	line := n.hits.open()
	var raw [12]byte
	if line == nil || !compact(&raw, hint.Session) {
		return ownership.Peek{}, false, nil
	}
	call := hitCalls.Get().(*hitCall)
	call.refused, call.moved, call.broken = false, false, false
	if call.commits, ok = s.guard.Commits(b); !ok {
		hitCalls.Put(call)
		return ownership.Peek{}, false, nil
	}
	sent := s.clocks.now()
	call.sent = sent
	lone, ok := line.send(call, s.keys, b, &hint, &raw)
	if !ok {
		hitCalls.Put(call)
		return ownership.Peek{}, false, nil
	}
	if lone {
		line.readOwn(call)
	}
	select {
	case <-call.done:
	case <-ctx.Done():
		// Of a caller that hung up the reader still takes the reply, in its
		// place. One that waited in vain shows that replies are missing (R10).
		if ctx.Err() == context.DeadlineExceeded {
			line.die()
		}
		return ownership.Peek{Sent: sent}, false, unavailable("%v", ctx.Err())
	}
	p, ok, err = s.judgeHit(call, line, &hint, &raw)
	if call.moved {
		s.topo.suspect(n)
	}
	hitCalls.Put(call)
	return p, ok, err
}

func (s *Store) judgeHit(call *hitCall, line *hitConn, hint *ownership.Hint, raw *[12]byte) (p ownership.Peek, ok bool, err error) {
	p.Sent = call.sent
	switch {
	case call.broken:
		return p, false, unavailable("connection lost")
	case call.moved:
		return p, false, nil
	case call.refused:
		return p, false, unavailable("the server refuses reads")
	case !hitRow(&p.Row, call.row, hint, raw) || !current(call, line):
		return p, false, nil
	case hint.Bind.Host != "" && !bound(call, hint):
		return p, false, nil
	}
	lo, _, known := s.clocks.bounds(line.clock, call.got)
	until, _ := s.clocks.until(line.clock, int64(binary.BigEndian.Uint64(call.lease)))
	if !known || !until.After(call.got) {
		return p, false, nil
	}
	p.Until = until
	p.Age = time.Duration(max(lo-int64(binary.BigEndian.Uint64(call.lease[8:])), 0)) * time.Microsecond
	p.Draining = call.lease[16]&hitDraining != 0
	p.Settling = call.lease[16]&hitRestating != 0
	return p, true, nil
}

// current reports a lease of the bucket's generation of now, begun by the
// server that the connection was made to (G1). A server that comes back after
// another one took over still has its old leases; their generation is over. Nor
// is it one if the bucket has forgotten commits.
func current(call *hitCall, line *hitConn) bool {
	if len(call.lease) < hitGenAt || len(call.gen) < historyGen || int64(binary.BigEndian.Uint64(call.gen)) < call.commits {
		return false
	}
	gen := call.gen[historyGen:]
	end := hitGenAt + int(call.lease[hitGenAt-1])
	return len(call.lease) >= end && bytes.Equal(call.lease[hitGenAt:end], gen) &&
		len(gen) > len(line.run) && gen[len(line.run)] == '@' && string(gen[:len(line.run)]) == line.run
}

// bound reports that the hostname shows the key's env and that the worker
// serves it.
func bound(call *hitCall, hint *ownership.Hint) bool {
	if len(call.binding) < bindingEnvAt {
		return false
	}
	end := bindingEnvAt + int(binary.BigEndian.Uint16(call.binding[bindingEnvAt-2:]))
	return end <= len(call.binding) && string(call.binding[bindingEnvAt:end]) == hint.Key.Env &&
		string(call.lease[hitGenAt+int(call.lease[hitGenAt-1]):]) == hint.Bind.Host
}

// hitRow reads a row if it is plain and the hinted session's.
func hitRow(r *ownership.Row, b []byte, hint *ownership.Hint, raw *[12]byte) bool {
	if len(b) < plainRow || b[0]&^withFields != byte(ownership.Placed) || string(b[sessionAt:plainRow]) != string(raw[:]) {
		return false
	}
	if len(b) == plainRow {
		r.Kind, r.Session = ownership.Placed, hint.Session
		r.Epoch = epochOf(b[epochAt:])
		return true
	}
	full, err := decodeRow(string(b)) // a label, or something that makes it no hit
	*r = full
	return err == nil && r.Plain()
}

// A hitLine is where a node's hits go: one connection, opened beside the
// requests that would use it.
type hitLine struct {
	s       *Store
	n       *node
	cur     atomic.Pointer[hitConn]
	dialing atomic.Bool
	closed  atomic.Bool
	retry   atomic.Int64 // not before this local time, microseconds
}

func (s *Store) newHitLine(n *node) *hitLine { return &hitLine{s: s, n: n} }

// open is the connection; nil while there is none, and one is on its way.
func (l *hitLine) open() *hitConn {
	if c := l.cur.Load(); c != nil {
		return c
	}
	if l.closed.Load() || l.s.clocks.local(l.s.clocks.now()) < l.retry.Load() || !l.dialing.CompareAndSwap(false, true) {
		return nil
	}
	go l.dial()
	return nil
}

func (l *hitLine) dial() {
	defer l.dialing.Store(false)
	c, err := l.s.dialHits(l.n)
	if err != nil {
		l.retry.Store(l.s.clocks.local(l.s.clocks.now()) + 100_000)
		return
	}
	c.line = l
	l.cur.Store(c)
	if l.closed.Load() {
		c.die()
	}
	go c.read()
}

func (l *hitLine) close() {
	l.closed.Store(true)
	if c := l.cur.Load(); c != nil {
		c.die()
	}
}

// send queues the MGET and, unless somebody is at it already, writes all that
// is queued; the yield before lets others join. Not ok when the connection is
// gone; lone when the caller has to read.
func (c *hitConn) send(call *hitCall, k keyspace, b int, hint *ownership.Hint, raw *[12]byte) (lone, ok bool) {
	c.mu.Lock()
	if c.dead {
		c.mu.Unlock()
		return false, false
	}
	c.out = c.appendHit(c.out, k, b, hint, raw)
	c.waiting.push(call)
	lead := !c.flushing
	lone = !c.reading
	c.flushing, c.reading = true, true
	c.mu.Unlock()
	if lead {
		runtime.Gosched()
		c.flush()
	}
	return lone, true
}

func (c *hitConn) flush() {
	for {
		c.mu.Lock()
		if len(c.out) == 0 || c.dead {
			c.flushing = false
			c.mu.Unlock()
			return
		}
		b := c.out
		c.out = c.spare[:0]
		c.mu.Unlock()
		if now := time.Now(); c.writable.Sub(now) < silence/2 {
			c.writable = now.Add(silence)
			c.conn.SetWriteDeadline(c.writable)
		}
		if c.write(b) != nil {
			c.die()
		}
		c.mu.Lock()
		c.spare = b
		c.mu.Unlock()
	}
}

func (c *hitConn) write(b []byte) error {
	if c.raw == nil {
		_, err := c.conn.Write(b)
		return err
	}
	c.rest, c.werr = b, nil
	if err := c.raw.Write(c.put); err != nil {
		return err
	}
	return c.werr
}

func (c *hitConn) appendHit(dst []byte, k keyspace, b int, hint *ownership.Hint, raw *[12]byte) []byte {
	if hint.Bind.Host == "" {
		dst = append(dst, "*4\r\n$4\r\nMGET\r\n"...)
	} else {
		dst = append(dst, "*5\r\n$4\r\nMGET\r\n"...)
	}
	dst = k.appendRow(appendLength(dst, k.rowLen(b, hint.Key)), b, hint.Key)
	dst = appendLength(append(dst, "\r\n"...), len(k.tags[b])+len(leaseMark)+len(shortRun(c.run))+1+len(raw))
	dst = append(dst, k.tags[b]...)
	dst = append(dst, leaseMark...)
	dst = append(dst, shortRun(c.run)...)
	dst = append(dst, 1)
	dst = append(dst, raw[:]...)
	dst = appendLength(append(dst, "\r\n"...), len(k.tags[b])+len(historyMark))
	dst = append(dst, k.tags[b]...)
	dst = append(dst, historyMark...)
	if hint.Bind.Host != "" {
		dst = appendLength(append(dst, "\r\n"...), k.bindingLen(b, hint.Bind))
		dst = k.appendBinding(dst, b, hint.Bind)
	}
	return append(dst, "\r\n"...)
}

func appendLength(dst []byte, n int) []byte {
	return append(strconv.AppendInt(append(dst, '$'), int64(n), 10), "\r\n"...)
}
