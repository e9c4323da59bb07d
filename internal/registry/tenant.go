package registry

import (
	"context"

	"pinboard/api"
	"pinboard/internal/ownership"
	"pinboard/internal/passport"
)

// A token that is limited to hostnames must not reach another tenant by naming
// its env: ids live per env, and hostnames of one env share them. So it joins
// only envs that its claim `envs` names. Without one it joins envs that are
// named like its hostnames, or that a token which may has bound to them.

// mayJoin judges that for one env that the token wants to show, or to give
// orders for, at a hostname it may use.
func (s *Server) mayJoin(ctx context.Context, p *passport.Principal, env, hostname, namespace string) error {
	if !s.HostnameAware {
		return nil
	}
	may, stated := p.Env(env)
	if may || !stated && p.Hostname(env) {
		return nil
	}
	if !stated {
		bound, err := s.Directory.Bound(ctx, hostname, namespace)
		if err != nil {
			return err
		}
		if bound == env {
			return nil
		}
	}
	return denied("token may not use this env")
}

// joins judges every env that a registration names.
func (s *Server) joins(ctx context.Context, p *passport.Principal, q *api.Register) error {
	for _, ns := range q.Namespaces {
		env, named := q.Envs[ns]
		if !named {
			env = q.Env
		}
		if env == "" {
			env = q.Hostname
		}
		if err := s.mayJoin(ctx, p, env, q.Hostname, ns); err != nil {
			return err
		}
	}
	return nil
}

// mayOrder holds an order against the namespaces and hostnames of the token,
// and against the envs that it would reach there.
func (s *Server) mayOrder(ctx context.Context, p *passport.Principal, hostname string, namespaces ...string) error {
	for _, ns := range namespaces {
		if !p.Namespace(ns) {
			return denied("token may not use the namespace " + ns)
		}
	}
	if hostname == "" || hostname == ownership.World {
		return nil
	}
	if !p.Hostname(hostname) {
		return denied("token may not use this hostname")
	}
	if !s.HostnameAware {
		return nil
	}
	for _, ns := range namespaces {
		env, err := s.Directory.Bound(ctx, ordered(hostname), ns)
		if err != nil {
			return err
		}
		if env == "" {
			continue
		}
		if err := s.mayJoin(ctx, p, env, ordered(hostname), ns); err != nil {
			return err
		}
	}
	return nil
}
