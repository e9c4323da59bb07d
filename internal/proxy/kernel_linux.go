package proxy

import (
	"net"
	"sync"
	"syscall"
	"time"

	"pinboard/internal/rawsock"

	"golang.org/x/sys/unix"
)

// hasSpoken reports whether a read of the idle nc would not wait.
func hasSpoken(nc net.Conn) bool {
	raw := rawsock.Of(nc)
	if raw == nil {
		return false
	}
	spoken := false
	_ = raw.Control(func(fd uintptr) {
		var one [1]byte
		_, _, err := unix.Recvfrom(int(fd), one[:], unix.MSG_PEEK|unix.MSG_DONTWAIT)
		spoken = err != unix.EAGAIN
	})
	return spoken
}

// setUserTimeout sets TCP_USER_TIMEOUT: how long sent bytes may stay
// unacknowledged; 0 is for ever.
func setUserTimeout(nc net.Conn, d time.Duration) error {
	raw := rawsock.Of(nc)
	if raw == nil {
		return syscall.ENOTSUP
	}
	var set error
	err := raw.Control(func(fd uintptr) {
		set = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, int(d.Milliseconds()))
	})
	if err == nil {
		err = set
	}
	return err
}

// acknowledged reports whether the peer's kernel has the first n bytes that
// were written to nc.
func acknowledged(nc net.Conn, n uint64) bool {
	info := tcpInfo(nc)
	return info != nil && info.Bytes_acked > n // the SYN counts as one byte
}

// allAcknowledged reports whether the peer's kernel has all that was written.
func allAcknowledged(nc net.Conn) bool {
	info := tcpInfo(nc)
	return info != nil && info.Unacked == 0 && info.Notsent_bytes == 0
}

// tcpInfo is what the kernel knows of nc; nil when it says nothing.
func tcpInfo(nc net.Conn) (info *unix.TCPInfo) {
	raw := rawsock.Of(nc)
	if raw == nil {
		return nil
	}
	var err error
	_ = raw.Control(func(fd uintptr) {
		info, err = unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO)
	})
	if err != nil {
		return nil
	}
	return info
}

// A watcher tells of hang-ups while nobody reads: one epoll for all connections
// of clients and workers, asked only for RDHUP, HUP and ERR. It costs an
// exchange nothing and sees a FIN even behind unread pipelined bytes.
type watcher struct {
	epoll int
	wake  [2]int

	mu    sync.Mutex
	conns map[uint64]watched
	last  uint64 // id of an upstream, without ofUpstream
	done  chan struct{}
}

// A watched is a connection that hears of the peer's FIN or, with gone, of its RST.
type watched interface{ hungUp(gone bool) }

// ofUpstream sets the ids of connections to workers apart from those of clients.
const ofUpstream = 1 << 63

func newWatcher() (*watcher, error) {
	w := &watcher{conns: make(map[uint64]watched), done: make(chan struct{})}
	var err error
	if w.epoll, err = unix.EpollCreate1(unix.EPOLL_CLOEXEC); err != nil {
		return nil, err
	}
	if err = unix.Pipe2(w.wake[:], unix.O_CLOEXEC|unix.O_NONBLOCK); err != nil {
		_ = unix.Close(w.epoll)
		return nil, err
	}
	e := event(0, unix.EPOLLIN)
	if err = unix.EpollCtl(w.epoll, unix.EPOLL_CTL_ADD, w.wake[0], &e); err != nil {
		w.closeFiles()
		return nil, err
	}
	go w.run()
	return w, nil
}

func event(id uint64, bits uint32) unix.EpollEvent {
	return unix.EpollEvent{Events: bits, Fd: int32(uint32(id)), Pad: int32(uint32(id >> 32))}
}

func (w *watcher) add(c *conn) { w.watch(c.id, c, c.nc) }

// addUpstream begins to watch u; remove with u.id ends it.
func (w *watcher) addUpstream(u *upstream) {
	w.mu.Lock()
	w.last++
	u.id = w.last | ofUpstream
	w.mu.Unlock()
	w.watch(u.id, u, u.tcp)
}

func (w *watcher) watch(id uint64, who watched, nc net.Conn) {
	sc, ok := nc.(syscall.Conn)
	if !ok {
		return
	}
	raw, err := sc.SyscallConn()
	if err != nil {
		return
	}
	w.mu.Lock()
	w.conns[id] = who
	w.mu.Unlock()
	_ = raw.Control(func(fd uintptr) {
		e := event(id, unix.EPOLLRDHUP|unix.EPOLLET)
		_ = unix.EpollCtl(w.epoll, unix.EPOLL_CTL_ADD, int(fd), &e)
	})
}

// remove forgets a connection before its descriptor is closed, which ends the
// kernel's own interest.
func (w *watcher) remove(id uint64) {
	w.mu.Lock()
	delete(w.conns, id)
	w.mu.Unlock()
}

func (w *watcher) run() {
	defer close(w.done)
	events := make([]unix.EpollEvent, 128)
	for {
		n, err := unix.EpollWait(w.epoll, events, -1)
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return
		}
		for _, e := range events[:n] {
			id := uint64(uint32(e.Fd)) | uint64(uint32(e.Pad))<<32
			if id == 0 {
				return
			}
			w.mu.Lock()
			c := w.conns[id]
			w.mu.Unlock()
			if c != nil {
				c.hungUp(e.Events&(unix.EPOLLHUP|unix.EPOLLERR) != 0)
			}
		}
	}
}

func (w *watcher) close() {
	_, _ = unix.Write(w.wake[1], []byte{0})
	<-w.done
	w.closeFiles()
}

func (w *watcher) closeFiles() {
	_ = unix.Close(w.wake[0])
	_ = unix.Close(w.wake[1])
	_ = unix.Close(w.epoll)
}
