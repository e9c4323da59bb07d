package registry

import (
	"context"
	"slices"
	"time"

	"pinboard/api"
	"pinboard/internal/directory"
	"pinboard/internal/outbound"
	"pinboard/internal/ownership"
	"pinboard/internal/passport"
)

// push takes an order in the words of the oldest clients.
func (s *Server) push(ctx context.Context, p *passport.Principal, q *api.Push) (any, error) {
	return s.deliver(ctx, p, q)
}

// deliver records an order for a worker in the directory, where it outlives
// this node and rides the worker's heartbeats; a worker of the push dialect is
// called back at once as well, and the operator told how that went.
func (s *Server) deliver(ctx context.Context, p *passport.Principal, q *api.Push) (any, error) {
	w, err := s.chosen(ctx, p, q.Select)
	if err != nil {
		return nil, err
	}
	queued, err := s.record(ctx, w, q)
	if err == nil {
		s.took(p, q.Type, queued, "session", w.Session, "client", w.ClientID, "namespace", q.Namespace, "id", q.ID)
	}
	if err != nil || !queued || !pushed(w) {
		return api.PushAnswer{Queued: queued}, err
	}
	r := s.Workers.Push(ctx, worded(w, q))
	return api.PushAnswer{Queued: true, Delivered: &r.Delivered, Attempts: r.Attempts, Reason: r.Reason}, nil
}

// chosen finds the worker that a selector names; the token must be allowed
// everything that the worker serves.
func (s *Server) chosen(ctx context.Context, p *passport.Principal, sel api.Select) (*ownership.Worker, error) {
	sid := sel.SessionID
	if sid == "" {
		var err error
		if sid, err = s.newest(ctx, sel.ClientID); err != nil {
			return nil, err
		}
	}
	w, err := s.Directory.WorkerOf(ctx, sid)
	if err != nil {
		if ends(err) {
			err = missing("no such session")
		}
		return nil, err
	}
	return w, s.mayOrder(ctx, p, w.Hostname, w.Namespaces...)
}

// newest is the session that a client serves with now.
func (s *Server) newest(ctx context.Context, client string) (sid string, err error) {
	var youngest int64
	for after, more := "", true; more; more = after != "" {
		var list []directory.WorkerInfo
		if list, after, err = s.Directory.Workers(ctx, after, pageMost); err != nil {
			return "", err
		}
		for _, info := range list {
			ended := info.State == "ended" || info.State == "succeeded"
			if info.ClientID == client && !ended && (sid == "" || info.RegisteredFor < youngest) {
				sid, youngest = info.SessionID, info.RegisteredFor
			}
		}
	}
	if sid == "" {
		return "", missing("no such client")
	}
	return sid, nil
}

// record hands an order to the directory.
func (s *Server) record(ctx context.Context, w *ownership.Worker, q *api.Push) (queued bool, err error) {
	sel := directory.Selector{Session: w.Session}
	var n int
	switch {
	case q.Type == "drain":
		n, err = s.Directory.Drain(ctx, sel, q.Deadline)
	case q.Type == "resume" && q.ID == "":
		n, err = s.Directory.Undrain(ctx, sel)
	default:
		return s.recordOne(ctx, w, q)
	}
	return n > 0, err
}

// recordOne is an order for one id of the worker's.
func (s *Server) recordOne(ctx context.Context, w *ownership.Worker, q *api.Push) (bool, error) {
	o := directory.WindDown{Namespace: q.Namespace, ID: q.ID, Process: w.Process}
	if o.Namespace == "" {
		if len(w.Namespaces) != 1 {
			return false, &api.FieldError{Field: "namespace", Want: "required: the worker serves several"}
		}
		o.Namespace = w.Namespaces[0]
	}
	if !slices.Contains(w.Namespaces, o.Namespace) { // the token is judged by what the worker serves
		return false, &api.FieldError{Field: "namespace", Want: "want one that the worker serves"}
	}
	if w.Hostname != ownership.World {
		o.Host = w.Hostname
	}
	if q.Type != "resume" {
		o.Deadline = q.Wind()
	}
	return s.Directory.WindDown(ctx, o)
}

// worded is an order for the worker's own routes.
func worded(w *ownership.Worker, q *api.Push) outbound.Push {
	c := outbound.Push{URL: w.URL, Secret: w.Secret, ID: q.ID}
	switch q.Type {
	case "drain":
		c.Path, c.Deadline = api.PathDrain, q.Deadline
	case "resume":
		c.Path = api.PathResume
	default:
		left := max(*q.Wind(), time.Duration(w.LeaseMs)*time.Millisecond) // the floor of every order
		c.Path, c.Deadline = api.PathWindDown, &left
	}
	return c
}

// relay delivers the messages of a beat to a worker that does not read
// them, beside the answer: the beat must not wait for the very process that
// waits for its answer.
func (s *Server) relay(w *ownership.Worker, messages []ownership.Message) {
	if len(messages) == 0 {
		return
	}
	began := time.Now()
	s.pushes.Go(func() {
		for _, m := range messages {
			c := outbound.Push{URL: w.URL, Secret: w.Secret, ID: m.ID, Path: api.PathResume}
			if m.Deadline != nil {
				left := *m.Deadline - time.Since(began)
				c.Path, c.Deadline = api.PathWindDown, &left
			}
			if r := s.Workers.Push(s.closed, c); !r.Delivered {
				s.Log.Warn("order not delivered", "session", w.Session, "namespace", m.NS, "id", m.ID, "reason", r.Reason)
			}
		}
	})
}
