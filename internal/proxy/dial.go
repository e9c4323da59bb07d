package proxy

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"syscall"
	"time"
)

const (
	maxAddresses = 8                      // of one name
	eyeballDelay = 250 * time.Millisecond // RFC 8305 5
)

// dial connects to the worker: each address gets the connect timeout, the next
// one starts when the one before failed or is slow (RFC 8305).
func (p *Proxy) dial(ctx context.Context, k *worker) (*upstream, error) {
	addresses, err := p.addresses(ctx, k)
	if err != nil {
		return nil, err
	}
	nc, err := p.race(ctx, addresses)
	if err != nil {
		return nil, err
	}
	u := &upstream{worker: k, tcp: nc, p: p}
	u.armed = setUserTimeout(nc, p.cfg.Limits.Unacknowledged) == nil
	if k.secure {
		if nc, err = p.handshake(ctx, k, nc); err != nil {
			return nil, err
		}
	}
	u.init(nc, largeBlock)
	p.watcher.addUpstream(u)
	u.taken = p.cfg.Now()
	return u, nil
}

// addresses lists what to dial, families interleaved, the first family first.
func (p *Proxy) addresses(ctx context.Context, k *worker) ([]string, error) {
	if a, err := netip.ParseAddr(k.host); err == nil {
		return []string{net.JoinHostPort(a.String(), k.port)}, nil
	}
	ctx, cancel := context.WithTimeout(ctx, p.cfg.ConnectTimeout)
	defer cancel()
	found, err := p.cfg.Lookup(ctx, k.host)
	if err != nil {
		return nil, err
	}
	var first, second []string
	for _, a := range found {
		a = a.Unmap()
		s := net.JoinHostPort(a.String(), k.port)
		if a.Is4() == found[0].Unmap().Is4() {
			first = append(first, s)
		} else {
			second = append(second, s)
		}
	}
	var all []string
	for i := 0; i < max(len(first), len(second)); i++ {
		if i < len(first) {
			all = append(all, first[i])
		}
		if i < len(second) {
			all = append(all, second[i])
		}
	}
	if len(all) == 0 {
		return nil, errBadURL
	}
	return all[:min(len(all), maxAddresses)], nil
}

type dialled struct {
	nc  net.Conn
	err error
}

func (p *Proxy) race(ctx context.Context, addresses []string) (net.Conn, error) {
	if len(addresses) == 1 {
		return p.connect(ctx, addresses[0])
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	results := make(chan dialled, len(addresses))
	started, failed := 0, 0
	start := func() {
		address := addresses[started]
		started++
		go func() {
			nc, err := p.connect(ctx, address)
			results <- dialled{nc, err}
		}()
	}
	start()
	next := time.NewTicker(eyeballDelay)
	defer next.Stop()
	for {
		select {
		case r := <-results:
			if r.err == nil {
				go closeLosers(results, started-failed-1)
				return r.nc, nil
			}
			failed++
			if started < len(addresses) {
				start()
			} else if failed == started {
				return nil, r.err
			}
		case <-next.C:
			if started < len(addresses) {
				start()
			}
		}
	}
}

func closeLosers(results chan dialled, n int) {
	for range n {
		if r := <-results; r.err == nil {
			_ = r.nc.Close()
		}
	}
}

func (p *Proxy) connect(ctx context.Context, address string) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, p.cfg.ConnectTimeout)
	defer cancel()
	return p.cfg.Dial(ctx, "tcp", address)
}

// isOurs reports that a dial failed for want of something on this node, which
// says nothing about the worker.
func isOurs(err error) bool {
	for _, e := range []error{syscall.EMFILE, syscall.ENFILE, syscall.ENOBUFS, syscall.ENOMEM, syscall.EADDRNOTAVAIL} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}
