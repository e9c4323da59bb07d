package redisstore

import (
	"context"
	"pinboard/internal/guard"
	"strconv"
	"time"
)

// OffsetClock is a prelude that shows the server's time plus the microseconds
// in the key "offset": tests step the clock of a server with it.
const OffsetClock = "local function clock() local t = redis.call('TIME') local o = tonumber(redis.call('GET', 'offset') or '0') " +
	"return t[1] * 1000000 + t[2] + o, o end\n"

// SetClock makes scripts read the clock of prelude.
func (o *Options) SetClock(prelude string) { o.clock = prelude }

// SetNow makes the node read its own time from now.
func (o *Options) SetNow(now func() time.Time) {
	begun := now()
	o.now, o.raw = now, func() guard.Local { return now().Sub(begun).Microseconds() }
}

// Look does at once what the background loop does each second.
func (s *Store) Look() {
	s.tick()
	s.look(context.Background(), 1)
}

// Assess does at once what the background loop does each half minute.
func (s *Store) Assess() Guarantee {
	s.assess(context.Background())
	return s.Guarantee()
}

// Lacks is lacks.
var Lacks = lacks

// Refresh looks at the topology now.
func (s *Store) Refresh() error { return s.topo.refresh(context.Background(), false) }

// MetaKey is where bucket b keeps its epoch counter.
func (s *Store) MetaKey(b int) string { return s.keys.fixed(b)[keyMeta-1] }

// TagKey is the key of the bucket's tag plus rest.
func (s *Store) TagKey(b int, rest string) string {
	return s.opt.Prefix + "{" + strconv.Itoa(b) + "}" + rest
}
