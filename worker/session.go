package worker

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"pinboard/api"
	"pinboard/client"
	"pinboard/internal/seam"
)

// ErrSuperseded ends Run when a newer deployment has taken every hostname
// binding of this worker: with this configuration it can never serve again.
var ErrSuperseded = errors.New("superseded by a newer deployment")

// A host is what a Session registers: the instances and their gate. It is
// called without the session's lock.
type host interface {
	// held lists every id in the tables, also those opening or closing.
	held() map[string][]string
	// quit closes instances that may have another owner. When it returns no
	// request reaches them.
	quit([]api.Instance)
	// renewed says that the session or its lease changed.
	renewed()
	// operatorDrain applies the operator's drain.
	operatorDrain(drain)
	// windDown applies an order for one id; false if it makes no sense here.
	windDown(client.Message) bool
	// stopAll closes every instance at once.
	stopAll()
}

// A Session is this process's registration at Pinboard: it registers, beats,
// registers again when told to, and holds the lease. Its own loop is the only
// one that talks about the session, never two calls at once; releases go
// beside it.
type Session struct {
	cfg    *Config
	m      seam.Machine
	client *client.Client
	host   host
	wake   chan struct{}  // beat now
	chance func() float64 // spreads retries

	// Identity of the process, in memory only: a restart is another process
	// and can claim nothing of its predecessor.
	clientID, secret string

	mu         sync.Locker
	id         string          // "" from the loss of a session until the next one is accepted
	prev       string          // the session last lost, until the next one is accepted
	lease      lease           // of the current or last session
	challenge  [2]string       // the pair of the call under way: challenge, value
	draining   bool            // our own drain, as Pinboard is told
	operator   drain           // the operator's drain, as Pinboard tells
	acks       map[string]bool // messages applied, to be confirmed
	superseded bool
	flaps      int // times the lease was unhealthy before it was renewed
	again      int // sessions lost

	failures int           // consecutive failed registrations; loop only
	deferred time.Duration // Retry-After of the last one; loop only

	releases releases
}

func newSession(cfg *Config, h host) *Session {
	m := seam.Of(cfg.Transport)
	s := &Session{
		cfg: cfg, m: m, host: h, mu: m.NewLock(),
		client: client.New(cfg.Pinboard, cfg.Token, cfg.Transport),
		wake:   make(chan struct{}, 1),
		chance: m.Float64,

		clientID: m.Text(16), secret: m.Text(32),
		lease: lease{buffer: cfg.Buffer},
		acks:  map[string]bool{},
	}
	s.releases = releases{session: s, mu: m.NewLock(), poster: seam.Group{On: m}}
	return s
}

// ID is the current session, "" while there is none.
func (s *Session) ID() string {
	id, _ := s.standing()
	return id
}

// Ready reports whether this worker can serve: registered and inside its
// lease.
func (s *Session) Ready() bool {
	id, l := s.standing()
	return id != "" && !l.expired(s.m.Now())
}

// Expires is when the right to serve ends unless it is renewed; zero before
// the first registration.
func (s *Session) Expires() time.Time {
	_, l := s.standing()
	return l.expiry()
}

// Superseded reports the terminal state of ErrSuperseded.
func (s *Session) Superseded() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.superseded
}

func (s *Session) standing() (id string, l lease) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.superseded {
		return "", s.lease
	}
	return s.id, s.lease
}

// cap lowers the lease to a drain deadline; zero lifts it.
func (s *Session) cap(at time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lease.limit = at
}

// setDraining tells Pinboard, at once, to place nothing new here.
func (s *Session) setDraining(on bool) {
	s.mu.Lock()
	s.draining = on
	s.mu.Unlock()
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// run keeps the session alive until ctx ends or the worker is superseded.
// Calls go out at a fixed rate, measured from their sending.
func (s *Session) run(ctx context.Context) error {
	for {
		sent := s.m.Now()
		if s.registered() {
			s.beat(ctx)
		} else {
			s.register(ctx)
		}
		if s.Superseded() {
			return ErrSuperseded
		}
		next := sent.Add(s.pause()).Sub(s.m.Now())
		if s.m.Wait(max(0, next), ctx.Done(), s.wake) == 0 {
			return ctx.Err()
		}
	}
}

func (s *Session) registered() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.id != ""
}

func (s *Session) pause() time.Duration {
	if s.registered() || s.failures == 0 {
		return s.cfg.Beat
	}
	return backoff(s.failures, s.cfg.Beat, s.deferred, s.chance())
}

// register announces the process. What it lost before is said in
// prevSessionId, what it still holds in instances: Pinboard gives back or
// calls duplicate.
func (s *Session) register(ctx context.Context) {
	held, headroom := s.host.held(), s.cfg.Headroom()
	s.mu.Lock()
	s.challenge = [2]string{s.m.Text(16), s.m.Text(16)}
	body := api.Register{
		ClientID: s.clientID, Secret: s.secret,
		Namespaces: s.cfg.namespaces, AdvertiseURL: s.cfg.Advertise,
		Headroom: headroom, Draining: s.draining,
		Challenge: s.challenge[0], ChallengeValue: s.challenge[1],
		Hostname: s.cfg.Hostname, Env: s.cfg.Env, Envs: s.cfg.Envs, Takeover: s.cfg.Takeover, Epoch: s.cfg.Epoch,
		Instances: held, PrevSessionID: s.prev,
	}
	s.mu.Unlock()

	sent := s.m.Now()
	grant, err := s.client.Register(ctx, body)
	if err != nil {
		s.notRegistered(ctx, err)
		return
	}
	s.failures, s.deferred = 0, 0
	// Duplicates close while no session is accepted, so that no request finds
	// an instance that another session owns.
	s.host.quit(grant.Duplicates)
	s.mu.Lock()
	s.id, s.prev = grant.Session, ""
	clear(s.acks)
	s.renewLocked(sent, grant)
	s.mu.Unlock()
	s.host.renewed()
	s.applyDrain(grant)
	s.cfg.Log.Info("registered with pinboard", "session", grant.Session, "duplicates", len(grant.Duplicates))
	s.releases.flush()
}

func (s *Session) notRegistered(ctx context.Context, err error) {
	if ctx.Err() != nil {
		return
	}
	s.failures++
	s.deferred = 0
	var e *client.Error
	if errors.As(err, &e) {
		s.deferred = e.RetryAfter
	}
	level := slog.LevelWarn
	switch {
	case errors.Is(err, client.Unauthorized):
		level = slog.LevelError
	case errors.Is(err, client.Deferred) && s.failures < 3:
		level = slog.LevelInfo
	}
	s.cfg.Log.Log(ctx, level, "pinboard took no registration", "attempt", s.failures, "error", err)
}

// beat renews the lease. An error leaves session, instances and lease as they
// are: only an answer that says so takes a session away.
func (s *Session) beat(ctx context.Context) {
	headroom := s.cfg.Headroom()
	s.mu.Lock()
	s.challenge = [2]string{s.m.Text(16), s.m.Text(16)}
	acks := sorted(s.acks)
	body := api.Heartbeat{
		SessionID: s.id, Headroom: headroom, Draining: s.draining,
		Challenge: s.challenge[0], ChallengeValue: s.challenge[1], Acks: acks,
	}
	s.mu.Unlock()

	sent := s.m.Now()
	grant, err := s.client.Heartbeat(ctx, body)
	switch {
	case err == nil:
		s.renewed(sent, grant, acks)
	case errors.Is(err, client.Superseded):
		s.mu.Lock()
		s.superseded = true
		s.mu.Unlock()
		s.cfg.Log.Error("pinboard superseded this worker", "error", err)
		s.host.stopAll()
	case errors.Is(err, client.Reregister):
		s.mu.Lock()
		s.prev, s.id = s.id, ""
		s.again++
		s.mu.Unlock()
		s.cfg.Log.Warn("pinboard wants a new registration; instances are kept")
		s.register(ctx)
	case ctx.Err() == nil:
		s.cfg.Log.Warn("pinboard heartbeat failed", "error", err)
	}
}

// renewed applies the answer to a beat in the order of the published
// clients: lease, drain, messages, acks.
func (s *Session) renewed(sent time.Time, grant client.Grant, acked []string) {
	s.mu.Lock()
	s.renewLocked(sent, grant)
	s.mu.Unlock()
	s.host.renewed()
	s.applyDrain(grant)

	confirm, intact := []string{}, true
	for _, m := range grant.Messages {
		if !s.host.windDown(m) {
			intact = false
			s.cfg.Log.Error("pinboard sent an order that makes no sense here", "msgId", m.MsgID)
		}
		if intact && m.MsgID != "" {
			confirm = append(confirm, m.MsgID)
		}
	}
	s.mu.Lock()
	for _, id := range acked {
		delete(s.acks, id)
	}
	for _, id := range confirm {
		s.acks[id] = true
	}
	s.mu.Unlock()
	s.releases.flush()
}

func (s *Session) renewLocked(sent time.Time, grant client.Grant) {
	if !s.lease.healthy(s.m.Now()) {
		s.flaps++
	}
	s.lease = s.lease.renewed(sent, grant.ExpiresIn)
}

func (s *Session) applyDrain(grant client.Grant) {
	if grant.Draining == nil {
		return
	}
	s.mu.Lock()
	next, changed := s.operator.echo(*grant.Draining, grant.DrainLeft, s.m.Now())
	s.operator = next
	s.mu.Unlock()
	if changed {
		s.host.operatorDrain(next)
	}
}
