package main

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"pinboard"
	"pinboard/internal/ownership"
)

// silence is how long the oldest look-up may wait before the connection is
// closed (R10).
const silence = 700 * time.Millisecond

// hits is a loop's own connection for look-ups. What a round of the loop asks
// goes out in one write behind it; replies are taken strictly in order.
type hits struct {
	l       *loop
	fd      int // -1: none
	run     string
	clock   estimate
	out     []byte
	sent    int // of out
	in      []byte
	got     int // of in
	waiting []asked
	first   int // of waiting
	retry   time.Time
}

// asked is a look-up under way: of x, unless x has gone on without it (x.call
// differs), or a reading of the server's clock.
type asked struct {
	x    *exchange
	call uint64
	sent time.Time
}

// dial connects and asks who answers. It blocks the loop, as an experiment may.
func (h *hits) dial() error {
	now := time.Now()
	if now.Before(h.retry) {
		return errReply
	}
	h.retry = now.Add(100 * time.Millisecond)
	ctx, cancel := context.WithTimeout(context.Background(), silence)
	defer cancel()
	info, err := h.l.set.workers.client.Do(ctx, h.l.set.workers.client.B().Info().Section("server").Build()).ToString()
	if err != nil {
		return err
	}
	_, rest, _ := strings.Cut(info, "run_id:")
	h.run, _, _ = strings.Cut(rest, "\r")
	address, err := net.ResolveTCPAddr("tcp4", h.l.set.redis)
	if err != nil {
		return err
	}
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	to := &unix.SockaddrInet4{Port: address.Port, Addr: [4]byte(address.IP.To4())}
	if err := errors.Join(unix.Connect(fd, to), unix.SetNonblock(fd, true), noDelay(fd)); err != nil {
		_ = unix.Close(fd)
		return err
	}
	h.fd, h.clock, h.in = fd, estimate{}, make([]byte, 64<<10)
	h.out, h.sent, h.got, h.waiting, h.first = h.out[:0], 0, 0, h.waiting[:0], 0
	h.l.watch(fd, h)
	return nil
}

var errReply = errors.New("unexpected reply")

// ask queues the MGET of row, lease and generation.
func (h *hits) ask(x *exchange, key ownership.Key, session string) bool {
	if h.fd < 0 && h.dial() != nil {
		return false
	}
	if !h.clock.known && h.pending() == 0 {
		h.askTime()
	}
	x.call++
	h.out = appendHit(h.out, h.l.set.prefix, key.Bucket(h.l.set.buckets), key, h.run, session)
	h.waiting = append(h.waiting, asked{x, x.call, h.l.now})
	return true
}

// askTime asks for the server's clock.
func (h *hits) askTime() {
	h.out = append(h.out, "*1\r\n$4\r\nTIME\r\n"...)
	h.waiting = append(h.waiting, asked{nil, 0, time.Now()})
}

func (h *hits) pending() int { return len(h.waiting) - h.first }

// appendHit appends the command; names are those of internal/redisstore.
func appendHit(dst []byte, prefix string, bucket int, key ownership.Key, run, session string) []byte {
	tag := len(prefix) + 2 + digits(bucket)
	dst = append(dst, "*4\r\n$4\r\nMGET\r\n"...)
	dst = appendLength(dst, tag+len(key.Env)+len(key.Namespace)+1+len(key.ID))
	dst = appendTag(dst, prefix, bucket)
	dst = append(append(dst, key.Env...), key.Namespace...)
	dst = append(append(dst, '/'), key.ID...)
	run = run[:min(12, len(run))]
	dst = appendLength(append(dst, "\r\n"...), tag+3+len(run)+1+12)
	dst = append(append(appendTag(dst, prefix, bucket), "%l:"...), run...)
	dst = appendSession(append(dst, 1), session)
	dst = appendLength(append(dst, "\r\n"...), tag+2)
	return append(appendTag(dst, prefix, bucket), "%g\r\n"...)
}

func appendTag(dst []byte, prefix string, bucket int) []byte {
	return append(strconv.AppendInt(append(append(dst, prefix...), '{'), int64(bucket), 10), '}')
}

func appendLength(dst []byte, n int) []byte {
	return append(strconv.AppendInt(append(dst, '$'), int64(n), 10), "\r\n"...)
}

func digits(n int) int {
	if n < 10 {
		return 1
	}
	return 1 + digits(n/10)
}

// flush writes what the round has asked.
func (h *hits) flush() {
	for h.fd >= 0 && h.sent < len(h.out) {
		n, err := write(h.fd, h.out[h.sent:])
		if err == unix.EAGAIN {
			return
		}
		if err != nil {
			h.die()
			return
		}
		h.sent += n
	}
	h.out, h.sent = h.out[:0], 0
}

// ready implements file.
func (h *hits) ready(uint32) {
	for {
		n, err := read(h.fd, h.in[h.got:])
		if err == unix.EAGAIN {
			return
		}
		if n <= 0 {
			h.die()
			return
		}
		full := h.got+n == len(h.in)
		h.got += n
		if !h.take() {
			h.die()
			return
		}
		if !full {
			return
		}
	}
}

// take hands out the replies that are whole; false when one is not understood.
func (h *hits) take() bool {
	used := 0
	for {
		var part [3][]byte
		n, parts, err := parseReply(h.in[used:h.got], &part)
		if err != nil || n > 0 && h.pending() == 0 {
			return false
		}
		if n == 0 {
			break
		}
		used += n
		a := h.waiting[h.first]
		if h.first++; h.first == len(h.waiting) {
			h.waiting, h.first = h.waiting[:0], 0
		}
		switch {
		case a.x == nil && parts == 2:
			h.sample(part[0], part[1], a.sent)
		case a.x == nil:
			return false
		case a.x.call == a.call && a.x.c != nil:
			a.x.resolved(parts == 3, &part, a.sent)
		}
		if h.fd < 0 {
			return true
		}
	}
	h.got = copy(h.in, h.in[used:h.got])
	return h.got < len(h.in)
}

func (h *hits) sample(seconds, micros []byte, sent time.Time) {
	s, err1 := strconv.ParseInt(string(seconds), 10, 64)
	u, err2 := strconv.ParseInt(string(micros), 10, 64)
	if errors.Join(err1, err2) == nil {
		h.clock = estimateOf(s*1e6+u, h.l.micros(sent), h.l.micros(time.Now())).met(h.clock)
	}
}

// die closes the connection; everybody who waits on it is refused.
func (h *hits) die() {
	h.l.close(h.fd)
	h.fd = -1
	lost := h.waiting[h.first:]
	h.waiting, h.first = nil, 0
	for _, a := range lost {
		if a.x != nil && a.x.c != nil && a.x.call == a.call {
			a.x.refuse(pinboard.StoreUnavailable)
		}
	}
}

// sweep reads the server's clock and closes a connection that is silent.
func (h *hits) sweep(now time.Time) {
	switch {
	case h.fd < 0:
	case h.pending() > 0 && now.Sub(h.waiting[h.first].sent) > silence:
		h.die()
	default:
		h.askTime()
	}
}

// A lease that hits rely on: deadline, time of registration, flags, the
// generation that granted it after its length, the worker's hostname.
const leaseGenAt = 18

// judge is the epoch of a row that is plain and session's, with a lease of the
// bucket's own generation, begun by the server at the other end; until is when
// that lease ends at the earliest. ok is false for anything else.
func (h *hits) judge(part *[3][]byte, session string, now time.Time) (epoch pinboard.Epoch, until time.Time, ok bool) {
	row, lease, gen := part[0], part[1], part[2]
	var raw [12]byte
	if len(row) != 21 || row[0] != byte(ownership.Placed) || string(row[9:]) != string(appendSession(raw[:0], session)) {
		return 0, until, false
	}
	if len(lease) < leaseGenAt || !h.clock.known {
		return 0, until, false
	}
	end := leaseGenAt + int(lease[leaseGenAt-1])
	if len(lease) < end || !bytes.Equal(lease[leaseGenAt:end], gen) ||
		len(gen) <= len(h.run) || gen[len(h.run)] != '@' || string(gen[:len(h.run)]) != h.run {
		return 0, until, false
	}
	us := h.clock.until(int64(binary.BigEndian.Uint64(lease)))
	until = h.l.base.Add(time.Duration(us) * time.Microsecond)
	return pinboard.Epoch(binary.BigEndian.Uint64(row[1:])), until, until.After(now)
}

// parseReply reads an array of two or three bulk strings, or an error (no
// parts), at the start of b; n is 0 while it is not whole.
func parseReply(b []byte, part *[3][]byte) (n, parts int, err error) {
	end := bytes.IndexByte(b, '\n') + 1
	if end == 0 {
		return 0, 0, nil
	}
	switch {
	case b[0] == '-':
		return end, 0, nil
	case b[0] != '*' || end != 4 || b[1] != '2' && b[1] != '3':
		return 0, 0, fmt.Errorf("%w: %.20q", errReply, b[:end])
	}
	parts, n = int(b[1]-'0'), end
	for i := range parts {
		rest := b[n:]
		end := bytes.IndexByte(rest, '\n') + 1
		if end == 0 {
			return 0, 0, nil
		}
		if rest[0] != '$' || end < 4 {
			return 0, 0, fmt.Errorf("%w: %.20q", errReply, rest[:end])
		}
		if string(rest[:end]) == "$-1\r\n" {
			n += end
			continue
		}
		size := 0
		for _, d := range rest[1 : end-2] {
			if d < '0' || d > '9' || size > 1<<20 {
				return 0, 0, fmt.Errorf("%w: %.20q", errReply, rest[:end])
			}
			size = 10*size + int(d-'0')
		}
		if len(rest) < end+size+2 {
			return 0, 0, nil
		}
		part[i] = rest[end : end+size]
		n += end + size + 2
	}
	return n, parts, nil
}

const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"

var sextet = func() (t [256]byte) {
	for i := 0; i < len(alphabet); i++ {
		t[alphabet[i]] = byte(i)
	}
	return t
}()

// appendSession packs a session id of 16 characters base64url into 12 bytes.
func appendSession(dst []byte, s string) []byte {
	for i := 0; i+4 <= len(s) && i < 16; i += 4 {
		a, b, c, d := sextet[s[i]], sextet[s[i+1]], sextet[s[i+2]], sextet[s[i+3]]
		dst = append(dst, a<<2|b>>4, b<<4|c>>2, c<<6|d)
	}
	return dst
}
