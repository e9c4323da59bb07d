package proxy

import (
	"context"
	"errors"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// A Proxy serves any number of listeners until Shutdown.
type Proxy struct {
	cfg      Config
	origins  map[string]bool
	ctx      context.Context
	stop     context.CancelFunc
	watcher  *watcher
	draining atomic.Bool
	counts   [Control + 1]atomic.Int64

	mu        sync.Mutex
	listeners map[net.Listener]struct{}
	conns     map[uint64]*conn
	lastID    uint64
	closed    bool // no listener is served any more
	served    sync.WaitGroup
	over      sync.Once

	workersMu sync.RWMutex
	workers   map[string]*worker

	sweeper sweeper
	spare   spare
	paths   paths
}

// New starts a Proxy; Shutdown ends it.
func New(cfg Config) (*Proxy, error) {
	p := &Proxy{
		cfg:       cfg.withDefaults(),
		origins:   make(map[string]bool),
		listeners: make(map[net.Listener]struct{}),
		conns:     make(map[uint64]*conn),
		workers:   make(map[string]*worker),
	}
	for _, o := range cfg.CORSOrigins {
		p.origins[o] = true
	}
	var err error
	if p.watcher, err = newWatcher(); err != nil {
		return nil, err
	}
	p.spare.open()
	p.ctx, p.stop = context.WithCancel(context.Background())
	p.sweeper.start(p)
	return p, nil
}

// InFlight is the number of open exchanges of a kind.
func (p *Proxy) InFlight(k Kind) int { return int(p.counts[k].Load()) }

// CloseSession closes the idle connections of an ended session and keeps none
// that come back later.
func (p *Proxy) CloseSession(session string) {
	p.workersMu.Lock()
	k := p.workers[session]
	delete(p.workers, session)
	p.workersMu.Unlock()
	if k != nil {
		k.closeIdle(true)
	}
}

// Serve accepts connections until Shutdown, then returns nil.
func (p *Proxy) Serve(l net.Listener) error {
	p.mu.Lock()
	if p.closed {
		p.mu.Unlock()
		return l.Close()
	}
	p.listeners[l] = struct{}{}
	p.mu.Unlock()
	defer func() {
		p.mu.Lock()
		delete(p.listeners, l)
		p.mu.Unlock()
		_ = l.Close()
	}()
	for {
		nc, err := l.Accept()
		switch {
		case err == nil:
			p.start(nc)
		case p.ended() || errors.Is(err, net.ErrClosed):
			return nil
		case isFull(err):
			p.closeIdle()
			p.spare.shed(l, p.shedAnswer())
		case errors.As(err, new(syscall.Errno)): // of one connection, or passing (accept(2))
			time.Sleep(shedPause)
		default:
			return err
		}
	}
}

func (p *Proxy) ended() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.closed
}

func (p *Proxy) start(nc net.Conn) {
	c := newConn(p, nc)
	p.mu.Lock()
	if p.closed {
		p.mu.Unlock()
		_ = nc.Close()
		return
	}
	p.lastID++
	c.id = p.lastID
	p.conns[c.id] = c
	p.served.Add(1)
	p.mu.Unlock()
	p.watcher.add(c)
	go p.attend(c, c.serve)
}

// attend runs f for c and closes c when f says that it is over, or panics.
func (p *Proxy) attend(c *conn, f func() (over bool)) {
	over := true
	defer func() {
		if v := recover(); v != nil {
			p.reportPanic(v)
		}
		if over {
			p.forget(c)
		}
	}()
	over = f()
}

// forget closes c and whatever it still holds, once.
func (p *Proxy) forget(c *conn) {
	p.watcher.remove(c.id)
	p.mu.Lock()
	_, known := p.conns[c.id]
	delete(p.conns, c.id)
	p.mu.Unlock()
	if known {
		c.end()
		p.served.Done()
	}
}

func (p *Proxy) closeIdle() {
	p.workersMu.RLock()
	defer p.workersMu.RUnlock()
	for _, k := range p.workers {
		k.closeIdle(false)
	}
}

func isFull(err error) bool {
	return errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE) ||
		errors.Is(err, syscall.ENOBUFS) || errors.Is(err, syscall.ENOMEM)
}

// A spare descriptor lets a full process still take a connection off the
// queue and say no, instead of leaving clients to time out.
type spare struct {
	mu   sync.Mutex
	file *os.File
}

func (s *spare) open() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.file == nil {
		s.file, _ = os.Open(os.DevNull)
	}
}

func (s *spare) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.file != nil {
		_ = s.file.Close()
		s.file = nil
	}
}

// shedPause keeps a full process from spinning on accept.
const shedPause = 5 * time.Millisecond

// shed answers one waiting connection, with 503.
func (s *spare) shed(l net.Listener, answer []byte) {
	s.close()
	if d, ok := l.(interface{ SetDeadline(time.Time) error }); ok {
		_ = d.SetDeadline(time.Now().Add(shedPause))
		defer func() { _ = d.SetDeadline(time.Time{}) }()
		if nc, err := l.Accept(); err == nil {
			_ = nc.SetDeadline(time.Now().Add(shedPause))
			_, _ = nc.Write(answer)
			var b [smallBlock]byte
			_, _ = nc.Read(b[:]) // an unread request would make the close a reset
			_ = nc.Close()
		}
	}
	time.Sleep(shedPause)
	s.open()
}
