package proxy

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"time"
)

func (p *Proxy) handshake(ctx context.Context, k *worker, nc net.Conn) (net.Conn, error) {
	cfg := &tls.Config{}
	if p.cfg.TLS != nil {
		cfg = p.cfg.TLS.Clone()
	}
	cfg.NextProtos = []string{"http/1.1"}
	if cfg.ServerName == "" {
		cfg.ServerName = k.host
	}
	ctx, cancel := context.WithTimeout(ctx, p.cfg.ConnectTimeout)
	defer cancel()
	t := tls.Client(beneath{nc}, cfg)
	if err := t.HandshakeContext(ctx); err != nil {
		_ = nc.Close()
		return nil, err
	}
	return t, nil
}

// beneath is the connection that a worker's TLS runs on. TLS reads it until the
// worker has said good-bye (close_notify), so a FIN that is read is one before
// that: what came may have been cut by anybody (RFC 9112 9.8).
type beneath struct{ net.Conn }

var errCutTLS = errors.New("TLS ended without close_notify")

func (b beneath) Read(p []byte) (int, error) {
	n, err := b.Conn.Read(p)
	if err == io.EOF {
		err = errCutTLS
	}
	return n, err
}

// quiet reports that nothing has come behind the worker's answer. With TLS that
// may be a good-bye, read along with the answer or still in the kernel, and no
// later look at the socket would see it.
func (u *upstream) quiet() bool {
	if u.raw != nil {
		return true
	}
	_ = u.nc.SetReadDeadline(past) // only what has been read is looked at
	var one [1]byte
	_, err := u.nc.Read(one[:])
	_ = u.nc.SetReadDeadline(time.Time{})
	return isTimeout(err) && !hasSpoken(u.tcp)
}
