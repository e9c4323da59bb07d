package main

import (
	"net"
	"net/netip"
	"net/url"
	"runtime"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"pinboard/internal/attest"
	"pinboard/internal/h1"
	"pinboard/internal/ownership"
)

const (
	sweepEvery = time.Second
	readBlock  = 96 << 10 // holds a longest head and a full read behind it
	headBlock  = 4 << 10  // of a client that is sending a head
	burst      = 4        // reads of one connection per round
	edges      = unix.EPOLLIN | unix.EPOLLOUT | unix.EPOLLRDHUP | unix.EPOLLET
)

// A file is whatever a loop watches; ready is told of its events.
type file interface{ ready(events uint32) }

// A loop serves its share of the connections on one thread, which alone
// touches anything reachable from here. A descriptor is registered once,
// edge-triggered for everything.
type loop struct {
	set      *settings
	epoll    int
	listener int
	files    []file // by descriptor
	doomed   []int  // closed behind the round, so that none of its events meets a new descriptor
	again    []*upstream
	hits     hits
	hints    map[ownership.Key]owner
	workers  map[*ownership.Worker]*worker
	minter   *attest.Minter[ownership.Worker]
	base     time.Time
	now      time.Time // of the round
	swept    time.Time
	in, out  []byte
	spare    []*exchange
	blocks   [][]byte
}

// An owner is what the loop remembers of an id; epoch 0 is unknown.
type owner struct {
	worker *ownership.Worker
	epoch  uint64
}

// maxHints bounds the hints of one loop.
const maxHints = 1 << 18

// A worker is what a loop holds for one session.
type worker struct {
	*ownership.Worker
	to   unix.SockaddrInet4
	base string
	site string
	idle []*upstream // newest last
	good time.Time   // when it served last
}

func newLoop(s *settings, address string) (*loop, error) {
	l := &loop{
		set: s, hints: map[ownership.Key]owner{}, workers: map[*ownership.Worker]*worker{},
		minter: attest.NewMinter(time.Now, func(w *ownership.Worker) (string, string) { return w.Session, w.Secret }),
		base:   time.Now(), in: make([]byte, readBlock), out: make([]byte, 0, readBlock),
	}
	l.now, l.swept = l.base, l.base
	l.hits = hits{l: l, fd: -1}
	to, err := netip.ParseAddrPort(address)
	if err != nil {
		return nil, err
	}
	if l.epoll, err = unix.EpollCreate1(unix.EPOLL_CLOEXEC); err != nil {
		return nil, err
	}
	l.listener, err = unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	for _, option := range []int{unix.SO_REUSEADDR, unix.SO_REUSEPORT} {
		if err := unix.SetsockoptInt(l.listener, unix.SOL_SOCKET, option, 1); err != nil {
			return nil, err
		}
	}
	if err := unix.Bind(l.listener, &unix.SockaddrInet4{Port: int(to.Port()), Addr: to.Addr().As4()}); err != nil {
		return nil, err
	}
	if err := unix.Listen(l.listener, 4096); err != nil {
		return nil, err
	}
	e := unix.EpollEvent{Events: unix.EPOLLIN, Fd: int32(l.listener)}
	l.files = make([]file, l.listener+1)
	l.files[l.listener] = accepter{l}
	return l, unix.EpollCtl(l.epoll, unix.EPOLL_CTL_ADD, l.listener, &e)
}

// run is rounds: wait, let everything that is ready advance, send the round's
// look-ups in one write, close what ended.
func (l *loop) run() error {
	runtime.LockOSThread()
	events := make([]unix.EpollEvent, 256)
	for {
		timeout := max(0, int(sweepEvery.Milliseconds()-l.now.Sub(l.swept).Milliseconds()))
		if len(l.again) > 0 {
			timeout = 0
		}
		n, err := unix.EpollWait(l.epoll, events, timeout)
		if err != nil && err != unix.EINTR {
			return err
		}
		l.now = time.Now()
		for _, e := range events[:max(n, 0)] {
			if f := l.files[e.Fd]; f != nil {
				f.ready(e.Events)
			}
		}
		again := l.again
		l.again = nil
		for _, u := range again {
			u.pump()
		}
		if l.now.Sub(l.swept) >= sweepEvery {
			l.swept = l.now
			l.sweep()
		}
		l.hits.flush()
		for _, fd := range l.doomed {
			_ = unix.Close(fd)
		}
		l.doomed = l.doomed[:0]
	}
}

// watch registers a descriptor, which is closed if that fails.
func (l *loop) watch(fd int, f file) {
	for fd >= len(l.files) {
		l.files = append(l.files, make([]file, len(l.files))...)
	}
	l.files[fd] = f
	e := unix.EpollEvent{Events: edges, Fd: int32(fd)}
	_ = unix.EpollCtl(l.epoll, unix.EPOLL_CTL_ADD, fd, &e)
}

// close ends a descriptor behind the round.
func (l *loop) close(fd int) {
	l.files[fd] = nil
	l.doomed = append(l.doomed, fd)
}

// sweep ends what is overdue, so that no exchange sets a timer.
func (l *loop) sweep() {
	for _, f := range l.files {
		switch f := f.(type) {
		case *client:
			f.sweep(l.now)
		case *upstream:
			f.sweep(l.now)
		}
	}
	l.hits.sweep(l.now)
}

// worker is what the loop holds for w; nil when it cannot be dialled from here.
func (l *loop) worker(w *ownership.Worker) *worker {
	if k := l.workers[w]; k != nil {
		return k
	}
	k := &worker{Worker: w}
	u, err := url.Parse(w.URL)
	if err != nil || u.Scheme != "http" {
		return nil
	}
	port := u.Port()
	if port == "" {
		port = "80"
	}
	to, err := netip.ParseAddrPort(net.JoinHostPort(u.Hostname(), port))
	if err != nil || !to.Addr().Is4() {
		return nil
	}
	k.to = unix.SockaddrInet4{Port: int(to.Port()), Addr: to.Addr().As4()}
	k.base, k.site = strings.TrimSuffix(u.EscapedPath(), "/"), u.Host
	l.workers[w] = k
	return k
}

// accepter is the listener, level-triggered.
type accepter struct{ l *loop }

// ready implements file.
func (a accepter) ready(uint32) {
	for {
		fd, from, err := unix.Accept4(a.l.listener, unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC)
		if err != nil {
			return
		}
		c := &client{l: a.l, fd: fd, since: a.l.now}
		if from, ok := from.(*unix.SockaddrInet4); ok {
			c.peer = netip.AddrFrom4(from.Addr).String()
		}
		if noDelay(fd) != nil {
			_ = unix.Close(fd)
			continue
		}
		a.l.watch(fd, c)
	}
}

func noDelay(fd int) error { return unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_NODELAY, 1) }

func read(fd int, b []byte) (int, error) {
	for {
		n, err := unix.Read(fd, b)
		if err != unix.EINTR {
			return n, err
		}
	}
}

func write(fd int, b []byte) (int, error) {
	for {
		n, err := unix.Write(fd, b)
		if err != unix.EINTR {
			return max(n, 0), err
		}
	}
}

func (l *loop) takeBlock() []byte {
	if n := len(l.blocks); n > 0 {
		b := l.blocks[n-1]
		l.blocks = l.blocks[:n-1]
		return b
	}
	return make([]byte, headBlock)
}

func (l *loop) giveBlock(b []byte) {
	if cap(b) == headBlock && len(l.blocks) < 1024 {
		l.blocks = append(l.blocks, b[:headBlock])
	}
}

func (l *loop) takeExchange() *exchange {
	if n := len(l.spare); n > 0 {
		x := l.spare[n-1]
		l.spare = l.spare[:n-1]
		return x
	}
	return &exchange{req: h1.Request{Fields: make([]h1.Field, 0, 24)}, res: h1.Response{Fields: make([]h1.Field, 0, 24)}}
}
