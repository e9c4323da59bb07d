package proxy

import (
	"context"

	"pinboard/internal/ownership"
)

// Connect tries one connection to w exactly as a forward would make it, and
// closes it. It is how a worker degraded by failed connects shows that they
// work again (docs/rules.md, "Degraded").
func (p *Proxy) Connect(ctx context.Context, w *ownership.Worker) error {
	k, err := newWorker(w)
	if err != nil {
		return err
	}
	u, err := p.dial(ctx, k)
	if err != nil {
		return err
	}
	u.close()
	return nil
}
