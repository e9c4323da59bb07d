package registry

import (
	"strings"

	"pinboard/api"
	"pinboard/internal/directory"
	"pinboard/internal/outbound"
	"pinboard/internal/ownership"
	"pinboard/internal/passport"
)

// registration is what the directory keeps of an accepted register call. The
// facts about the worker's dialect are read off the body once, here
// (docs/protocol.md, "What Pinboard says to workers").
func (s *Server) registration(p *passport.Principal, q *api.Register, target outbound.Target, proven bool) *directory.Registration {
	legacy := s.legacyPath(q, target)
	return &directory.Registration{
		Worker: ownership.Worker{
			ClientID: q.ClientID, Secret: q.Secret, URL: target.URL, Namespaces: q.Namespaces,
			Hostname: q.Hostname, Env: q.Env, Envs: q.Envs, Takeover: q.Takeover, BindEpoch: q.Epoch,
			Owner: p.Owner, Proven: proven,
			PathInURL: legacy, SendSecret: legacy, // one fact: 0.4.1 and older want both
		},
		Headroom: q.Headroom, Draining: q.Draining,
		Instances: q.Instances, PrevSession: q.PrevSessionID,
	}
}

// legacyPath reports a worker of 0.4.1 or older: its URL already ends in its
// only namespace. With a challenge that is a guess, which a worker mounted
// under a prefix equal to its namespace would lose; hence the option.
func (s *Server) legacyPath(q *api.Register, target outbound.Target) bool {
	later := q.Hostname != "" || q.Epoch != 0 || q.Envs != nil || q.Instances != nil || q.PrevSessionID != ""
	return (q.Challenge == "" || s.LegacyPaths) && !later &&
		len(q.Namespaces) == 1 && strings.HasSuffix(target.Path, q.Namespaces[0])
}

// pushed reports the push dialect: no challenge at registration, so orders are
// called back; such a client reads no messages (docs/protocol.md, "What operators say").
func pushed(w *ownership.Worker) bool { return !w.Proven }
