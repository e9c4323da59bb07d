package registry

import (
	"context"
	"errors"
	"strings"

	"pinboard"
	"pinboard/api"
	"pinboard/internal/directory"
	"pinboard/internal/outbound"
	"pinboard/internal/ownership"
	"pinboard/internal/passport"
)

// register accepts a process once its token may speak for it and its URL has
// proved to end there.
func (s *Server) register(ctx context.Context, p *passport.Principal, q *api.Register) (any, error) {
	heard := s.Now() // as for a beat
	target, err := s.authorise(p, q)
	if err != nil {
		return nil, err
	}
	if err := s.joins(ctx, p, q); err != nil {
		return nil, err
	}
	proven, err := s.proveNew(ctx, target, q)
	if err != nil {
		return nil, err
	}
	reg := s.registration(p, q, target, proven)
	reg.Heard = heard
	g, err := s.Directory.Register(ctx, reg)
	if err != nil {
		return nil, err
	}
	s.say(p, "worker registered", "session", g.Session, "client", q.ClientID, "url", target.URL, "namespaces", q.Namespaces,
		"proven", proven, "draining", q.Draining, "previous", q.PrevSessionID, "duplicates", len(g.Duplicates))
	a := api.RegisterAnswer{SessionID: g.Session, ExpiresInMs: g.ExpiresIn.Milliseconds(), Draining: g.Draining, DrainDeadline: api.Seconds(g.DrainLeft)}
	for _, d := range g.Duplicates {
		a.Duplicates = append(a.Duplicates, api.Instance{NS: d.Namespace, ID: d.ID})
	}
	return a, nil
}

// authorise holds the registration against the token's limits and the rules
// for advertise URLs.
func (s *Server) authorise(p *passport.Principal, q *api.Register) (outbound.Target, error) {
	for _, ns := range q.Namespaces {
		if !p.Namespace(ns) {
			return outbound.Target{}, denied("token may not use the namespace " + ns)
		}
	}
	if s.HostnameAware {
		if err := canonical(q); err != nil {
			return outbound.Target{}, err
		}
		if !p.Hostname(q.Hostname) {
			return outbound.Target{}, denied("token may not use this hostname")
		}
	}
	target, err := outbound.ParseURL(q.AdvertiseURL)
	if err == nil {
		err = s.Policy.Literal(target)
	}
	if err == nil && !p.Backend(target.Host) {
		err = denied("token may not advertise this host")
	}
	return target, err
}

// canonical brings the hostname into the form that requests are compared in,
// by the same function; a port has no place in it.
func canonical(q *api.Register) error {
	if q.Hostname == "" {
		return &api.FieldError{Field: "hostname", Want: "required in hostname-aware mode"}
	}
	name, ok := pinboard.Hostname(q.Hostname)
	if !ok || strings.TrimSuffix(strings.ToLower(q.Hostname), ".") != name {
		return &api.FieldError{Field: "hostname", Want: "want a host name without port"}
	}
	q.Hostname = name
	return nil
}

// proveNew runs the challenge of a registration. Any failure is worth another
// try: the worker's own listener may not be up yet.
func (s *Server) proveNew(ctx context.Context, target outbound.Target, q *api.Register) (proven bool, err error) {
	if q.Challenge == "" {
		if s.RequireProof {
			return false, pinboard.ChallengeRequired
		}
		return false, nil
	}
	proof := s.prove(ctx, outbound.Probe{URL: target.URL, Secret: q.Secret, Challenge: q.Challenge, Value: q.ChallengeValue}, q.ClientID)
	if proof.Outcome != outbound.Proved {
		return false, ownership.Wait{Reason: proof.Told()}
	}
	return true, nil
}

func (s *Server) prove(ctx context.Context, probe outbound.Probe, client string) outbound.Proof {
	proof := s.Workers.Prove(ctx, probe)
	s.Proved(proof.Outcome)
	if proof.Outcome != outbound.Proved {
		s.notProved(proof, client, probe.URL)
	} else if s.failing.Over(client) {
		s.Log.Info("advertise URL proved after all", "client", client, "url", probe.URL)
	}
	return proof
}

// notProved tells of a worker that fails again and again at once and then at
// growing intervals, and of all of them together no more than the quota.
func (s *Server) notProved(proof outbound.Proof, client, url string) {
	others, due := s.failing.Due(client, proof.Detail, s.Now())
	if !due {
		return
	}
	left, more := s.unproved.take()
	if !more {
		return
	}
	about := []any{"client", client, "url", url, "reason", proof.Detail}
	if proof.Err != nil {
		about = append(about, "error", proof.Err.Error())
	}
	s.Log.Warn("advertise URL not proved", append(about, "others", others, "leftOut", left)...)
}

// proofs are the outcomes in the directory's words.
var proofs = map[outbound.Outcome]ownership.Proof{
	outbound.Proved: ownership.ProofOK, outbound.Unproved: ownership.ProofMissing, outbound.Refuted: ownership.ProofRefused,
}

// heartbeat renews a session that this token registered. A pair in the beat is
// proved first. Whether an unknown session must register again is for Beat to
// say, which asks every bucket (L9).
func (s *Server) heartbeat(ctx context.Context, p *passport.Principal, q *api.Heartbeat) (any, error) {
	heard := s.Now() // before anything that waits: the order of a process's calls rests on it (L6)
	w, err := s.Directory.WorkerOf(ctx, q.SessionID)
	if err != nil && !ends(err) {
		return nil, err
	}
	if w != nil && w.Owner != p.Owner {
		return nil, denied("session belongs to another token")
	}
	known := err == nil
	b := ownership.Beat{Session: q.SessionID, Heard: heard, Headroom: q.Headroom, Draining: q.Draining, Acks: q.Acks, HasAcks: q.HasAcks}
	if known && q.Challenge != "" {
		proof := s.prove(ctx, outbound.Probe{URL: w.URL, Secret: w.Secret, Challenge: q.Challenge, Value: q.ChallengeValue}, w.ClientID)
		b.Proof = proofs[proof.Outcome]
	}
	g, err := s.Directory.Beat(ctx, b)
	if err != nil {
		return nil, err
	}
	if s.drains.turned(q.SessionID, q.Draining) {
		s.say(p, "worker drains by itself", "session", q.SessionID)
	}
	if known && pushed(w) && !q.HasAcks {
		s.relay(w, g.Messages)
	}
	a := api.HeartbeatAnswer{ExpiresInMs: g.ExpiresIn.Milliseconds(), Draining: g.Draining, DrainDeadline: api.Seconds(g.DrainLeft)}
	for _, m := range g.Messages {
		a.Messages = append(a.Messages, api.Message{MsgID: m.MsgID, Type: m.Type, NS: m.NS, ID: m.ID, Deadline: api.Seconds(m.Deadline)})
	}
	return a, nil
}

// ends reports an answer about the session, as opposed to the store being away.
func ends(err error) bool {
	return errors.As(err, new(directory.Reregister)) || errors.As(err, new(directory.Gone))
}

// release frees ids. Items that no placement can match are dropped: the answer
// is 200 for them too (docs/protocol.md, "release, deregister, tag, durability").
func (s *Server) release(ctx context.Context, p *passport.Principal, q *api.Releases) (any, error) {
	items := make([]directory.Release, 0, len(*q))
	for _, r := range *q {
		if r.Epoch.Given && r.Epoch.Value == 0 {
			continue
		}
		items = append(items, directory.Release{Session: r.SessionID, ClientID: r.ClientID, Namespace: r.Namespace, ID: r.ID, Epoch: r.Epoch.Value, HasEpoch: r.Epoch.Given})
	}
	n, err := s.Directory.Release(ctx, p.Owner, items)
	return api.ReleaseAnswer{Released: n}, err
}

// deregister ends a session; an unknown one has ended already.
func (s *Server) deregister(ctx context.Context, p *passport.Principal, q *api.Deregister) (any, error) {
	w, err := s.Directory.WorkerOf(ctx, q.SessionID)
	leaves := err == nil && w.Owner == p.Owner
	if err = s.Directory.Deregister(ctx, p.Owner, q.SessionID); err == nil && leaves {
		s.drains.turned(q.SessionID, false)
		s.say(p, "worker left", "session", q.SessionID, "client", w.ClientID, "url", w.URL)
	}
	return api.Done{OK: true}, err
}

// tag labels a placement for operators.
func (s *Server) tag(ctx context.Context, p *passport.Principal, q *api.Tag) (any, error) {
	if q.Epoch.Given && q.Epoch.Value == 0 {
		return api.TagAnswer{}, nil // an epoch that was never minted
	}
	ok, err := s.Directory.Tag(ctx, p.Owner, directory.Tag{Session: q.SessionID, Namespace: q.Namespace, ID: q.ID, Epoch: q.Epoch.Value, Tag: q.Tag})
	return api.TagAnswer{Tagged: ok}, err
}

// mark answers the durability marks of 0.3.0-0.5.0, which wait for a 200 and
// nothing else.
func (s *Server) mark(context.Context, *passport.Principal, *api.Mark) (any, error) {
	return api.Done{OK: true}, nil
}
