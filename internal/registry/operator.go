package registry

import (
	"context"
	"net/http"
	"strconv"
	"time"

	"pinboard"
	"pinboard/api"
	"pinboard/internal/directory"
	"pinboard/internal/outbound"
	"pinboard/internal/ownership"
	"pinboard/internal/passport"
)

// workers lists sessions, ended ones included until they are forgotten.
func (s *Server) workers(ctx context.Context, at page) (any, error) {
	list, cursor, err := s.Directory.Workers(ctx, at.after, at.limit)
	if kept := fit(list); len(kept) < len(list) {
		list, cursor = kept, kept[len(kept)-1].SessionID
	}
	return struct {
		Workers []directory.WorkerInfo `json:"workers"`
		Next    *string                `json:"next"`
	}{filled(list), next(cursor)}, err
}

// filled keeps an empty list from being printed as null.
func filled[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}

func (s *Server) node() any {
	if s.Node == nil {
		return nil
	}
	return s.Node()
}

// overview is the fleet at a glance, with this node's own counts.
func (s *Server) overview(ctx context.Context, at page) (any, error) {
	o, err := s.Directory.Overview(ctx, at.after, at.limit)
	if kept := fit(o.Workers); len(kept) < len(o.Workers) {
		o.Workers, o.Next = kept, &kept[len(kept)-1].SessionID
	}
	o.Workers, o.Placed = filled(o.Workers), filled(o.Placed)
	return struct {
		directory.Overview
		Node any `json:"node,omitempty"`
	}{o, s.node()}, err
}

// health tells how placement stands, with this node's own counts. A node that
// must serve no id can say why, and no more: its store is not what it reads.
func (s *Server) health(_ http.ResponseWriter, r *http.Request, _ *passport.Principal) (any, error) {
	if why := s.Blocked(); why != "" {
		return struct {
			Reason string `json:"reason"`
			Node   any    `json:"node,omitempty"`
		}{why, s.node()}, nil
	}
	h, err := s.Directory.Health(r.Context())
	return struct {
		directory.Health
		Node any `json:"node,omitempty"`
	}{h, s.node()}, err
}

// events lists ownership changes, newest first.
func (s *Server) events(ctx context.Context, at page) (any, error) {
	if _, err := strconv.ParseInt(at.after, 10, 64); err != nil && at.after != "" {
		return nil, &api.FieldError{Field: "after", Want: "want what next said"}
	}
	list, cursor, err := s.Directory.Events(ctx, at.after, at.limit)
	return struct {
		Events []ownership.Entry `json:"events"`
		Next   *string           `json:"next"`
	}{filled(list), next(cursor)}, err
}

// A workerStats is one worker's part of the fan-out.
type workerStats struct {
	SessionID string `json:"sessionId"`
	ClientID  string `json:"clientId"`
	outbound.Stats
}

// stats asks a page of workers for their own figures. Those that do not serve
// are skipped, those that fail are marked; partial says whether anything is
// missing.
func (s *Server) stats(ctx context.Context, at page) (any, error) {
	list, cursor, err := s.Directory.Workers(ctx, at.after, at.limit)
	if err != nil {
		return nil, err
	}
	rows := make([]workerStats, len(list))
	var asked []int
	var targets []outbound.StatsTarget
	for i, info := range list {
		rows[i] = workerStats{SessionID: info.SessionID, ClientID: info.ClientID}
		rows[i].Status, rows[i].Reason = "skipped", info.State
		if info.State != "live" && info.State != "restating" {
			continue
		}
		w, err := s.Directory.WorkerOf(ctx, info.SessionID)
		switch {
		case err != nil && !ends(err):
			return nil, err
		case err != nil:
			rows[i].Reason = "ended"
		case w.PathInURL: // an app's route may answer there
			rows[i].Stats = outbound.Stats{Status: "unsupported"}
		default:
			asked = append(asked, i)
			targets = append(targets, outbound.StatsTarget{URL: w.URL, Secret: w.Secret})
		}
	}
	partial := len(targets) < len(rows)
	for i, got := range s.Workers.Stats(ctx, targets) {
		rows[asked[i]].Stats = got
		partial = partial || got.Status != "ok"
	}
	return struct {
		Workers []workerStats `json:"workers"`
		Partial bool          `json:"partial"`
		Next    *string       `json:"next"`
	}{rows, partial, next(cursor)}, nil
}

// windDown orders one id to end. queued is false when it is not placed: there
// is nobody to tell.
func (s *Server) windDown(ctx context.Context, p *passport.Principal, q *api.WindDown) (any, error) {
	if err := s.mayOrder(ctx, p, q.Hostname, q.Namespace); err != nil {
		return nil, err
	}
	switch {
	case !pinboard.ValidNamespace(q.Namespace):
		return nil, &api.FieldError{Field: "namespace", Want: `want "/" and its name, as it was registered`}
	case !pinboard.ValidID(q.ID):
		return nil, &api.FieldError{Field: "id", Want: "want 1 to 256 characters of A-Z a-z 0-9 . _ ~ -"}
	}
	ok, err := s.Directory.WindDown(ctx, directory.WindDown{Host: ordered(q.Hostname), Namespace: q.Namespace, ID: q.ID, Deadline: q.Deadline})
	if err == nil {
		s.took(p, wound(q.Deadline), ok, "hostname", q.Hostname, "namespace", q.Namespace, "id", q.ID)
	}
	return api.Queued{Queued: ok}, err
}

// wound names an order for one id.
func wound(deadline *time.Duration) string {
	if deadline == nil {
		return "revoke"
	}
	return "wind_down"
}

// ordered is the hostname that an order means; one that is none matches nothing.
func ordered(hostname string) string {
	name, _ := pinboard.Hostname(hostname)
	return name
}

// deleteBinding frees a hostname that a mistaken epoch holds (H4).
func (s *Server) deleteBinding(ctx context.Context, p *passport.Principal, q *api.Binding) (any, error) {
	if err := s.mayOrder(ctx, p, q.Hostname, q.Namespace); err != nil {
		return nil, err
	}
	ok, err := s.Directory.DeleteBinding(ctx, ordered(q.Hostname), q.Namespace)
	if err == nil {
		s.took(p, "delete_binding", ok, "hostname", q.Hostname, "namespace", q.Namespace)
	}
	return api.BindingAnswer{Deleted: ok}, err
}

// drain stops new placements on a worker; its process keeps the drain over new
// sessions until undrain.
func (s *Server) drain(ctx context.Context, p *passport.Principal, q *api.Drain) (any, error) {
	return s.deliver(ctx, p, &api.Push{Select: q.Select, Type: "drain", Deadline: q.Deadline})
}

func (s *Server) undrain(ctx context.Context, p *passport.Principal, q *api.Select) (any, error) {
	return s.deliver(ctx, p, &api.Push{Select: *q, Type: "resume"})
}

// eject stops renewing a session; its lease runs out.
func (s *Server) eject(ctx context.Context, p *passport.Principal, q *api.Select) (any, error) {
	w, err := s.chosen(ctx, p, *q)
	if err != nil {
		return nil, err
	}
	n, err := s.Directory.Eject(ctx, directory.Selector{Session: w.Session})
	if err == nil {
		s.took(p, "eject", n > 0, "session", w.Session, "client", w.ClientID)
	}
	return api.EjectAnswer{Ejected: n}, err
}
