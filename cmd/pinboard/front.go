package main

import (
	"context"

	"pinboard/internal/proxy"
	"pinboard/internal/server"
)

// front makes the data plane what the server drains.
type front struct{ *proxy.Proxy }

// Open implements server.Front.
func (f front) Open() server.Open {
	return server.Open{Exchanges: f.InFlight(proxy.Finite), Streams: f.InFlight(proxy.Stream), Tunnels: f.InFlight(proxy.Tunnel)}
}

// Shutdown implements server.Front.
func (f front) Shutdown(ctx context.Context) server.Open {
	cut := f.Proxy.Shutdown(ctx)
	return server.Open{Exchanges: cut.Finite + cut.Control, Streams: cut.Streams, Tunnels: cut.Tunnels}
}
