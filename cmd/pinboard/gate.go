package main

import (
	"context"
	"net/http"
	"sync/atomic"

	"pinboard"
	"pinboard/internal/directory"
	"pinboard/internal/proxy"
	"pinboard/internal/registry"
)

// gate stands between the open port and a store that is still being reached.
// Until open is called everything is refused with a clear, retryable answer.
type gate struct {
	resolved func(directory.Placement, error)
	outside  http.Handler // the registry without a store
	inside   atomic.Pointer[inside]
}

// inside is what only exists once the store is reached.
type inside struct {
	directory *directory.Directory
	registry  *registry.Server
}

func (g *gate) open(in *inside) { g.inside.Store(in) }

// Resolve implements proxy.Directory.
func (g *gate) Resolve(ctx context.Context, r directory.Request) (p directory.Placement, err error) {
	err = pinboard.StoreUnavailable
	if in := g.inside.Load(); in != nil {
		p, err = in.directory.Resolve(ctx, r)
	}
	g.resolved(p, err)
	return p, err
}

// Report implements proxy.Directory; nothing was resolved before open.
func (g *gate) Report(ctx context.Context, p directory.Placement, e directory.Event) directory.Verdict {
	return g.inside.Load().directory.Report(ctx, p, e)
}

// Recheck implements proxy.Directory; no stream was opened before open.
func (g *gate) Recheck(ctx context.Context, w []*directory.Watch) error {
	in := g.inside.Load()
	if in == nil {
		return nil
	}
	return in.directory.Recheck(ctx, w)
}

// Caller implements proxy.Directory.
func (g *gate) Caller(ctx context.Context, c directory.CallerClaim) (string, error) {
	in := g.inside.Load()
	if in == nil {
		return "", pinboard.StoreUnavailable
	}
	return in.directory.Caller(ctx, c)
}

// Prefix implements pinboard.Prefix.
func (g *gate) Prefix(path string) int {
	if in := g.inside.Load(); in != nil {
		return in.directory.Prefix(path)
	}
	return 0
}

// ServeHTTP is the registry.
func (g *gate) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if in := g.inside.Load(); in != nil {
		in.registry.ServeHTTP(w, r)
		return
	}
	g.outside.ServeHTTP(w, r)
}

var _ proxy.Directory = (*gate)(nil)
