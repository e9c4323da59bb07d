package redisstore

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"math"
	"slices"
	"strconv"

	"pinboard"
	"pinboard/internal/guard"
	"pinboard/internal/ownership"
)

// A verdict is commit.lua's.
type verdict string

const (
	committed verdict = "ok"
	conflict  verdict = "conflict"  // something that was read has changed
	otherGen  verdict = "server"    // another server answers than at the read (G1)
	wentBack  verdict = "back"      // its clock shows less than at the read
	tooFar    verdict = "ahead"     // ... or more than the node believes possible (G4)
	late      verdict = "late"      // not-after has passed
	exhausted verdict = "exhausted" // no epoch is left below 2^63
)

// A change is the call of commit.lua under construction.
type change struct {
	s    *Store
	b    int
	run  string // the server
	gen  string // the bucket's generation
	v    *view
	keys []string
	args []string
	at   map[string]int // position of a key in KEYS
}

// commit applies what the rule wrote if everything it read is unchanged.
func (s *Store) commit(ctx context.Context, b int, v *view, tx *ownership.Tx) (verdict, error) {
	c := &change{s: s, b: b, run: tx.Server, gen: tx.Meta.Gen, v: v, at: map[string]int{}}
	c.head(tx, s.limits(ctx, v, tx))
	c.compared()
	if err := c.writes(&tx.Out); err != nil {
		return "", err
	}
	r, _, err := s.onBucket(ctx, b, s.scripts.commit, c.keys, c.args)
	if err != nil {
		return "", err
	}
	if len(r.body) != 3 {
		return "", errCorrupt
	}
	got := verdict(text(r.body[0]))
	if got != committed {
		return got, nil
	}
	commits, err := strconv.ParseInt(text(r.body[2]), 10, 64)
	if err != nil {
		return "", errCorrupt
	}
	if tx.Meta.Gen != v.gen {
		s.header.verified[b].Store(&tx.Meta.Gen) // read for the generation before, and nothing was in between
	}
	s.guard.Committed(b, r.reading(), guard.State{Gen: tx.Meta.Gen, Since: tx.Meta.Since, Commits: commits, Longest: tx.Meta.Longest}, tx.Meta.Gen != v.gen)
	minted := texts(r.body[1])
	if len(minted) != len(tx.Out.Minted) {
		return "", errCorrupt
	}
	for i, m := range tx.Out.Minted {
		if len(minted[i]) != 8 {
			return "", errCorrupt
		}
		m.Epoch = pinboard.Epoch(binary.BigEndian.Uint64([]byte(minted[i])))
	}
	return committed, nil
}

// limits are the times between which a commit may happen, by the server.
type limits struct {
	from, believed, notAfter ownership.Micros
}

func (c *change) arg(words ...string) { c.args = append(c.args, words...) }

func (c *change) num(n int64) { c.args = append(c.args, strconv.FormatInt(n, 10)) }

func (c *change) head(tx *ownership.Tx, l limits) {
	c.keys = c.s.keys.fixed(c.b)
	c.arg("", tx.Server)
	c.num(l.from)
	c.num(l.believed)
	c.num(l.notAfter)
	gen := ""
	if tx.Out.Meta != nil {
		gen = tx.Out.Meta.Gen
	}
	c.arg(c.v.meta, c.v.digest)
	c.num(c.v.commits)
	c.arg(gen)
}

// compared lists everything that was read, and the keys of it.
func (c *change) compared() {
	v := c.v
	c.num(int64(len(v.rows) + len(v.bindings)))
	c.num(int64(len(v.alone)))
	c.num(int64(len(v.index)))
	c.num(int64(len(v.orders)))
	for i, k := range v.want.rows.names {
		c.key(c.s.keys.row(c.b, k))
		c.arg(v.rows[i].raw)
	}
	for i, k := range v.want.bindings.names {
		c.key(c.s.keys.binding(c.b, k))
		c.arg(v.bindings[i].raw)
	}
	for _, id := range v.alone {
		c.arg(packed(id), v.sessions[id].raw)
	}
	for i, name := range v.want.index.names {
		c.arg(name, v.rawIndex[i])
	}
	for i, process := range v.want.orders.names {
		c.arg(process, v.orders[i].raw)
	}
}

// key is the position of name in KEYS, declared when first used.
func (c *change) key(name string) string {
	i, ok := c.at[name]
	if !ok {
		c.keys = append(c.keys, name)
		i = len(c.keys)
		c.at[name] = i
	}
	return strconv.Itoa(i)
}

func (c *change) writes(out *ownership.Writes) error {
	mintedAt := c.epochs(out)
	for k, r := range out.Rows {
		key := c.key(c.s.keys.row(c.b, k))
		switch n, isMint := mintedAt[k]; {
		case r == nil:
			c.arg("del", key)
		case isMint:
			c.arg("place", key, encodeRow(r), strconv.Itoa(n))
		default:
			c.arg("set", key, encodeRow(r))
		}
	}
	if out.Meta != nil {
		c.hset(keyMeta, "m", encodeMeta(out.Meta))
	}
	for name, id := range out.Index {
		if id == "" {
			c.hdel(keyIndex, name)
		} else {
			c.hset(keyIndex, name, packed(id))
		}
	}
	for k, b := range out.Bindings {
		if key := c.key(c.s.keys.binding(c.b, k)); b == nil {
			c.arg("del", key)
		} else {
			c.arg("set", key, encodeBinding(b))
		}
	}
	for process, o := range out.Orders {
		if len(o) == 0 {
			c.hdel(keyOrders, process)
		} else {
			c.hset(keyOrders, process, encodeOrders(o))
		}
	}
	for name, d := range out.Counts {
		if d != 0 {
			c.arg("add", name, strconv.FormatInt(d, 10))
		}
	}
	for id, s := range out.Sessions {
		c.session(id, s)
	}
	return c.entries(out)
}

// epochs come before all other writes; the result is the place of each
// minted row's epoch in the script's list, counting from one.
func (c *change) epochs(out *ownership.Writes) map[ownership.Key]int {
	mintedAt := make(map[ownership.Key]int, len(out.Minted))
	if f := out.Floor; f > 0 {
		c.arg("floor")
		c.halves(f)
	}
	if out.Leap > 0 {
		c.arg("leap")
		c.halves(pinboard.Epoch(out.Leap))
	}
	for i, m := range out.Minted {
		c.arg("mint")
		c.halves(above(m.Seen))
		mintedAt[m.Key] = i + 1
	}
	return mintedAt
}

// above is the least epoch a mint may use after e was seen.
func above(e pinboard.Epoch) pinboard.Epoch {
	if e == math.MaxUint64 {
		return e
	}
	return e + 1
}

func (c *change) halves(e pinboard.Epoch) {
	c.num(int64(e >> 32))
	c.num(int64(e & math.MaxUint32))
}

func (c *change) hset(hash int, field, value string) {
	c.arg("hset", strconv.Itoa(hash), field, value)
}

func (c *change) hdel(hash int, field string) {
	c.arg("hdel", strconv.Itoa(hash), field)
}

func (c *change) session(id string, s *ownership.Session) {
	t, key := packed(id), c.key(c.s.keys.lease(c.b, c.run, id))
	if s == nil {
		c.hdel(keySessions, t)
		c.hdel(keyWorkers, t)
		c.hdel(keyCounts, ownership.PlaceCount(id))
		c.arg("del", key)
		return
	}
	digest, known := c.s.workers.digest(s.Worker)
	if old := c.v.sessions[id]; !known || old == nil || old.raw == "" || old.digest != digest {
		var record string
		record, digest = encodeWorker(s.Worker)
		c.hset(keyWorkers, t, record)
	}
	c.hset(keySessions, t, encodeLease(digest, &s.Lease))
	if s.Forwardable(c.gen) {
		c.arg("lease", key, encodeHit(s), strconv.FormatInt(s.Until, 10))
	} else {
		c.arg("del", key)
	}
}

// entries go to the ring behind their epoch, which the script may have to mint
// first.
func (c *change) entries(out *ownership.Writes) error {
	for _, e := range out.Entries {
		minted := slices.Index(out.Minted, e.Mint) + 1
		epoch := binary.BigEndian.AppendUint64(nil, uint64(e.Epoch))
		e.Epoch = 0
		b, err := json.Marshal(&e)
		if err != nil {
			return err
		}
		c.arg("log", string(append(epoch, b...)), strconv.Itoa(minted))
	}
	return nil
}
