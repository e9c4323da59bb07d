package redisstore

import (
	"context"
	"crypto/sha1"
	_ "embed"
	"encoding/hex"
	"strconv"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"pinboard/internal/guard"
	"pinboard/internal/ownership"
	"pinboard/internal/wait"
)

//go:embed read.lua
var readSource string

//go:embed commit.lua
var commitSource string

//go:embed clock.lua
var clockSource string

// What every script begins with: the server's clock in microseconds and how
// far it is from the one that expires keys (tests replace it), and the run id
// of the server, "" on a replica: what one shows may be old.
const (
	realClock = "local function clock() local t = redis.call('TIME') return t[1] * 1000000 + t[2], 0 end\n"
	identity  = `local function server()
  if not string.find(redis.call('INFO', 'replication'), 'role:master', 1, true) then return '' end
  return string.match(redis.call('INFO', 'server'), 'run_id:(%x+)')
end
`
)

type script struct {
	source, sha string
	read        bool // may be repeated
}

func newScript(clock, source string, read bool) *script {
	s := clock + identity + source
	sum := sha1.Sum([]byte(s))
	return &script{source: s, sha: hex.EncodeToString(sum[:]), read: read}
}

type scripts struct{ read, commit, clock *script }

func newScripts(clock string) scripts {
	return scripts{newScript(clock, readSource, true), newScript(clock, commitSource, false), newScript(clock, clockSource, true)}
}

// A reply is what every script answers: its part from the third value on,
// with the time around the call by the node's clock.
type reply struct {
	gen            string
	now            ownership.Micros
	body           []rueidis.RedisMessage
	sent, received time.Time
	asked, came    guard.Local // the same by the clock that is neither set nor slewed
	verdict        guard.Verdict
}

// run executes a script on n, by its hash if the server has it. The first
// argument is a nonce that the reply repeats: a reply to another call is
// never taken for this one's.
func (s *Store) run(ctx context.Context, n *node, sc *script, keys, args []string) (*reply, error) {
	args[0] = s.nonce + strconv.FormatUint(s.calls.Add(1), 36)
	c, err := n.conn(ctx)
	if err != nil {
		return nil, err
	}
	r := &reply{sent: s.clocks.now(), asked: s.raw()}
	m, err := c.Do(ctx, c.B().Evalsha().Sha1(sc.sha).Numkeys(int64(len(keys))).Key(keys...).Arg(args...).Build()).ToArray()
	if e, ok := rueidis.IsRedisErr(err); ok && e.IsNoScript() {
		r.sent, r.asked = s.clocks.now(), s.raw()
		m, err = c.Do(ctx, c.B().Eval().Script(sc.source).Numkeys(int64(len(keys))).Key(keys...).Arg(args...).Build()).ToArray()
	}
	r.received, r.came = s.clocks.now(), s.raw()
	if err = n.ours(ctx, c, err); err != nil && !rueidis.IsRedisNil(err) {
		return nil, err
	}
	if err := r.open(m, args[0]); err != nil {
		n.drop(c)
		return nil, err
	}
	s.sampled(r)
	return r, nil
}

func (r *reply) reading() guard.Reading {
	return guard.Reading{Server: r.gen, Now: r.now, Sent: r.asked, Received: r.came}
}

func (r *reply) open(m []rueidis.RedisMessage, nonce string) error {
	if len(m) < 3 || text(m[0]) != nonce {
		return unavailable("a reply to something else")
	}
	var err error
	r.gen, r.body = text(m[1]), m[3:]
	if r.gen == "" {
		return unavailable("the server is a replica")
	}
	if r.now, err = strconv.ParseInt(text(m[2]), 10, 64); err != nil {
		return unavailable("a reply without a time")
	}
	return nil
}

// text is the value of a bulk string, "" when absent. Nothing the store
// writes is empty.
func text(m rueidis.RedisMessage) string {
	s, err := m.ToString()
	if err != nil {
		return ""
	}
	return s
}

func texts(m rueidis.RedisMessage) []string {
	list, err := m.ToArray()
	if err != nil {
		return nil
	}
	out := make([]string, len(list))
	for i := range list {
		out[i] = text(list[i])
	}
	return out
}

// migrating bounds how long a script waits for a slot on its way to another
// server; it never follows the keys there (G7).
const migrating = time.Second

// onBucket runs a script at the server of bucket b, following the bucket when
// the cluster says that it lives elsewhere. A script that changes something
// is repeated only after an answer that says it was not executed.
func (s *Store) onBucket(ctx context.Context, b int, sc *script, keys, args []string) (*reply, *node, error) {
	var movingSince time.Time
	for broken, moved := 0, 0; ; {
		n, err := s.topo.node(ctx, b)
		if err != nil {
			return nil, nil, err
		}
		r, err := s.run(ctx, n, sc, keys, args)
		if err == nil {
			return r, n, nil
		}
		e, ok := rueidis.IsRedisErr(err)
		switch {
		case !ok && ctx.Err() == nil && sc.read && broken == 0:
			broken++ // a connection that had died unnoticed: once more on a new one
			s.topo.suspect(n)
			continue
		case !ok:
			s.topo.suspect(n)
			return nil, nil, err
		}
		if _, is := e.IsMoved(); is && moved < 5 {
			moved++
			if err := s.topo.refresh(ctx, moved > 1); err != nil {
				return nil, nil, err
			}
			continue
		}
		if _, is := e.IsAsk(); is || e.IsTryAgain() {
			if movingSince.IsZero() {
				movingSince = s.clocks.now()
			}
			if s.clocks.now().Sub(movingSince) < migrating && wait.For(ctx, 20*time.Millisecond) {
				continue
			}
		}
		if word, _, _ := strings.Cut(e.Error(), " "); word == "READONLY" || word == "MASTERDOWN" || word == "CLUSTERDOWN" || word == "LOADING" {
			s.topo.suspect(n)
		}
		return nil, nil, unavailable("%s", e.Error())
	}
}
