package main

import (
	"context"
	"crypto/tls"
	"net"
	"net/url"

	"pinboard/internal/directory"
	"pinboard/internal/outbound"
)

// reach tries one connect to a worker, as a forward would make it. It shows
// whether a worker whose connects failed can be reached again.
func reach(policy outbound.Policy) func(context.Context, *directory.Worker) error {
	dialer := &net.Dialer{ControlContext: policy.Control}
	return func(ctx context.Context, w *directory.Worker) error {
		u, err := url.Parse(w.URL)
		if err != nil {
			return err
		}
		port := u.Port()
		if port == "" {
			port = map[string]string{"http": "80", "https": "443"}[u.Scheme]
		}
		address := net.JoinHostPort(u.Hostname(), port)
		var conn net.Conn
		if u.Scheme == "https" {
			conn, err = (&tls.Dialer{NetDialer: dialer}).DialContext(ctx, "tcp", address)
		} else {
			conn, err = dialer.DialContext(ctx, "tcp", address)
		}
		if err != nil {
			return err
		}
		return conn.Close()
	}
}
