package redisstore

import (
	"bytes"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"pinboard"
	"pinboard/internal/rawsock"
)

func epochOf(b []byte) pinboard.Epoch { return pinboard.Epoch(binary.BigEndian.Uint64(b)) }

// A hitConn is one connection for hits, to a server whose identity was read
// on it (G1): names of leases carry it, so another server has none of them.
// Replies are taken strictly in the order of the calls; the first that is
// late or not understood ends the connection.
//
// Reading is one goroutine's part at a time. A call that finds nobody at it
// reads its own reply, so that alone it wakes no second goroutine. If others
// wait when it has it, the connection's own goroutine reads until none does.
type hitConn struct {
	line  *hitLine
	conn  net.Conn
	raw   syscall.RawConn // nil under TLS: the connection's own goroutine then reads always
	run   string          // the server that answers
	clock *serverClock
	turn  chan struct{} // hands the reader's part to the connection's own goroutine
	gone  chan struct{} // closed when dead

	mu       sync.Mutex
	out      []byte // commands not written yet
	spare    []byte
	flushing bool
	reading  bool // somebody has the reader's part
	dead     bool
	waiting  queue

	// The reader's.
	in       []byte // received and not yet understood
	own      *hitCall
	ownCame  bool
	err      error
	deadline time.Time
	step     func(fd uintptr) (leave bool) // c.poll, bound once

	// That of whoever is flushing.
	rest     []byte
	werr     error
	writable time.Time
	put      func(fd uintptr) (done bool)
}

var errReply = errors.New("unexpected reply")

// dialHits opens a connection, signs in and asks who answers.
func (s *Store) dialHits(n *node) (*hitConn, error) {
	conn, err := net.DialTimeout("tcp", n.addr, dialTimeout)
	if err != nil {
		return nil, err
	}
	conn.SetDeadline(time.Now().Add(silence))
	login := n.src.login(n.role)
	if t := login.to(n.addr); t != nil {
		conn = tls.Client(conn, t)
	}
	c := &hitConn{conn: conn}
	info, err := c.greet(login, n.db)
	if err != nil {
		conn.Close()
		return nil, err
	}
	run := infoField(info, "run_id")
	if run == "" {
		conn.Close()
		return nil, errReply
	}
	c.run, c.clock = run, s.clocks.clock(run)
	c.in = append(make([]byte, 0, hitBuffer), c.in...)
	c.turn, c.gone = make(chan struct{}, 1), make(chan struct{})
	c.raw = rawsock.Of(conn)
	c.reading = c.raw == nil
	c.step, c.put = c.poll, rawsock.WriteAll(&c.rest, &c.werr)
	conn.SetDeadline(time.Time{})
	return c, nil
}

func (c *hitConn) greet(l *login, db int) (info string, err error) {
	var out []byte
	replies := 1
	switch {
	case l.user != "":
		out = appendCommand(out, "AUTH", l.user, l.password)
		replies++
	case l.password != "":
		out = appendCommand(out, "AUTH", l.password)
		replies++
	}
	if db != 0 {
		out = appendCommand(out, "SELECT", strconv.Itoa(db))
		replies++
	}
	out = appendCommand(out, "INFO", "server")
	if _, err := c.conn.Write(out); err != nil {
		return "", err
	}
	for ; replies > 1; replies-- {
		line, err := c.await(lineReply)
		if err != nil || !strings.HasPrefix(line, "+OK") {
			return "", errors.Join(errReply, err)
		}
	}
	return c.await(bulkReply)
}

func appendCommand(b []byte, words ...string) []byte {
	b = append(strconv.AppendInt(append(b, '*'), int64(len(words)), 10), "\r\n"...)
	for _, w := range words {
		b = append(strconv.AppendInt(append(b, '$'), int64(len(w)), 10), "\r\n"...)
		b = append(append(b, w...), "\r\n"...)
	}
	return b
}

// await reads until parse finds a whole reply at the start of c.in.
func (c *hitConn) await(parse func([]byte) (value string, n int, err error)) (string, error) {
	for {
		v, n, err := parse(c.in)
		if err != nil {
			return "", err
		}
		if n > 0 {
			c.in = c.in[n:]
			return v, nil
		}
		var b [4096]byte
		k, err := c.conn.Read(b[:])
		if err != nil {
			return "", err
		}
		c.in = append(c.in, b[:k]...)
	}
}

func lineReply(b []byte) (string, int, error) {
	i := bytes.IndexByte(b, '\n')
	return string(b[:i+1]), i + 1, nil
}

func bulkReply(b []byte) (string, int, error) {
	v, n, err := bulkAt(b, 0)
	if err != nil || n < 0 {
		return "", 0, err
	}
	return string(v), n, nil
}

// hitBuffer is more than any batch of replies that is read at once needs.
const hitBuffer = 1 << 14

// read is the connection's own goroutine.
func (c *hitConn) read() {
	defer c.die()
	if c.raw == nil {
		for c.receive(c.readBlocking) == nil {
		}
		return
	}
	for {
		select {
		case <-c.gone:
			return
		case <-c.turn:
			for over := false; !over; over = c.rests() {
				if c.receive(c.visit) != nil {
					return
				}
			}
		}
	}
}

// readOwn reads until call has its reply, or the connection is dead and has
// told so.
func (c *hitConn) readOwn(call *hitCall) {
	c.own, c.ownCame = call, false
	err := c.receive(c.visit)
	c.own = nil
	switch {
	case err != nil:
		c.die()
	case !c.rests():
		c.turn <- struct{}{}
	}
}

func (c *hitConn) idle() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.waiting.size == 0
}

// rests gives the reader's part up if nobody waits: nothing of the reader's
// may be touched any more.
func (c *hitConn) rests() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.reading = c.waiting.size > 0
	return !c.reading
}

// receive runs one wait. The deadline moves in coarse steps, and one that
// finds nobody waiting for long is none.
func (c *hitConn) receive(wait func() error) error {
	for {
		if now := time.Now(); c.deadline.Sub(now) < silence/2 {
			c.deadline = now.Add(silence)
			c.conn.SetReadDeadline(c.deadline)
		}
		err := wait()
		if err == nil || !errors.Is(err, os.ErrDeadlineExceeded) || c.overdue() {
			return err
		}
	}
}

// visit waits inside the poller until the reader has what it reads for.
func (c *hitConn) visit() error {
	if err := c.raw.Read(c.step); err != nil {
		return err
	}
	return c.err
}

// poll takes what is there: true when the reader is done, or at an error.
func (c *hitConn) poll(fd uintptr) (leave bool) {
	for {
		n, err := rawsock.Read(fd, c.in[len(c.in):cap(c.in)])
		switch {
		case err == syscall.EAGAIN:
			return false
		case err == nil && n == 0:
			err = io.EOF
		}
		if c.err = err; err == nil {
			c.err = c.take(n)
		}
		switch {
		case c.err != nil:
			return true
		case c.own != nil && c.ownCame, c.own == nil && c.idle():
			return true
		}
	}
}

func (c *hitConn) readBlocking() error {
	n, err := c.conn.Read(c.in[len(c.in):cap(c.in)])
	if n > 0 {
		return c.take(n)
	}
	if err == nil {
		err = io.ErrNoProgress
	}
	return err
}

// take hands out the replies in n more bytes.
func (c *hitConn) take(n int) error {
	c.in = c.in[:len(c.in)+n]
	now := c.line.s.clocks.now()
	used := 0
	for {
		n, err := c.reply(c.in[used:], now)
		if err != nil {
			return err
		}
		if n == 0 {
			break
		}
		used += n
	}
	c.in = c.in[:copy(c.in, c.in[used:])]
	if len(c.in) == cap(c.in) {
		return errReply // none is that long
	}
	return nil
}

func (c *hitConn) overdue() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	first := c.waiting.first()
	return first != nil && c.line.s.clocks.now().Sub(first.sent) > silence
}

// reply consumes one whole reply; 0 when there is none yet.
func (c *hitConn) reply(b []byte, now time.Time) (int, error) {
	if len(b) == 0 {
		return 0, nil
	}
	end := bytes.IndexByte(b, '\n') + 1
	if end == 0 {
		return 0, nil
	}
	var part [4][]byte
	n, parts := end, 0
	switch b[0] {
	case '-':
	case '*':
		parts = int(b[1] - '0')
		if end != 4 || parts < 3 || parts > 4 {
			return 0, errReply
		}
		for i := range parts {
			v, next, err := bulkAt(b, n)
			if err != nil {
				return 0, err
			}
			if next < 0 {
				return 0, nil
			}
			part[i], n = v, next
		}
	default:
		return 0, errReply
	}
	c.mu.Lock()
	call := c.waiting.pop()
	c.mu.Unlock()
	if call == nil {
		return 0, errReply
	}
	c.ownCame = c.ownCame || call == c.own
	call.got = now
	call.refused = parts == 0
	call.moved = parts == 0 && isRedirect(b[1:end])
	call.row = append(call.row[:0], part[0]...)
	call.lease = append(call.lease[:0], part[1]...)
	call.gen = append(call.gen[:0], part[2]...)
	call.binding = append(call.binding[:0], part[3]...)
	call.done <- struct{}{}
	return n, nil
}

func isRedirect(line []byte) bool {
	for _, w := range [...]string{"MOVED ", "ASK ", "TRYAGAIN "} {
		if len(line) >= len(w) && string(line[:len(w)]) == w {
			return true
		}
	}
	return false
}

// bulkAt reads a bulk string at b[i:], nil for the absent one; next is -1
// while it is not whole.
func bulkAt(b []byte, i int) (v []byte, next int, err error) {
	if i >= len(b) {
		return nil, -1, nil
	}
	if b[i] != '$' {
		return nil, 0, errReply
	}
	end := bytes.IndexByte(b[i:], '\n')
	if end < 0 {
		return nil, -1, nil
	}
	digits := b[i+1 : i+end-1]
	if string(digits) == "-1" {
		return nil, i + end + 1, nil
	}
	n := 0
	for _, d := range digits {
		if d < '0' || d > '9' || n > 1<<20 {
			return nil, 0, errReply
		}
		n = 10*n + int(d-'0')
	}
	start := i + end + 1
	if start+n+2 > len(b) {
		return nil, -1, nil
	}
	if b[start+n] != '\r' || b[start+n+1] != '\n' {
		return nil, 0, errReply
	}
	return b[start : start+n], start + n + 2, nil
}

// die closes the connection and tells everybody who waits on it.
func (c *hitConn) die() {
	c.mu.Lock()
	if c.dead {
		c.mu.Unlock()
		return
	}
	c.dead = true
	close(c.gone)
	var lost []*hitCall
	for call := c.waiting.pop(); call != nil; call = c.waiting.pop() {
		lost = append(lost, call)
	}
	c.mu.Unlock()
	c.line.cur.CompareAndSwap(c, nil)
	c.conn.Close()
	for _, call := range lost {
		call.broken = true
		call.done <- struct{}{}
	}
}

// A queue is first in, first out, in a ring that grows.
type queue struct {
	ring       []*hitCall
	head, size int
}

func (q *queue) push(c *hitCall) {
	if q.size == len(q.ring) {
		bigger := make([]*hitCall, max(64, 2*len(q.ring)))
		for i := range q.size {
			bigger[i] = q.ring[(q.head+i)%len(q.ring)]
		}
		q.ring, q.head = bigger, 0
	}
	q.ring[(q.head+q.size)%len(q.ring)] = c
	q.size++
}

func (q *queue) first() *hitCall {
	if q.size == 0 {
		return nil
	}
	return q.ring[q.head]
}

func (q *queue) pop() *hitCall {
	if q.size == 0 {
		return nil
	}
	c := q.ring[q.head]
	q.ring[q.head] = nil
	q.head = (q.head + 1) % len(q.ring)
	q.size--
	return c
}
