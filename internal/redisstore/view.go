package redisstore

import (
	"encoding/binary"
	"strconv"
	"time"

	"github.com/redis/rueidis"

	"pinboard/internal/guard"
	"pinboard/internal/ownership"
)

// A want is what the next read fetches: names in order, each once.
type want struct {
	rows     list[ownership.Key]
	sessions list[string]
	index    list[string]
	bindings list[ownership.BindKey]
	orders   list[string]
	counts   list[string]
	roster   bool
}

type list[T comparable] struct {
	names []T
	at    map[T]int
}

func (l *list[T]) add(names ...T) {
	for _, n := range names {
		if _, ok := l.at[n]; ok {
			continue
		}
		if l.at == nil {
			l.at = map[T]int{}
		}
		l.at[n] = len(l.names)
		l.names = append(l.names, n)
	}
}

func (w *want) add(s ownership.Select) {
	w.rows.add(s.Rows...)
	w.sessions.add(s.Sessions...)
	w.index.add(s.Index...)
	w.bindings.add(s.Bindings...)
	w.orders.add(s.Orders...)
	w.counts.add(s.Counts...)
	w.roster = w.roster || s.Roster
}

// A missing unwinds a rule that asked for something the view has not fetched.
type missing struct{ ownership.Select }

// A view is one consistent reading of a bucket and the ownership.Source of
// the rule that runs on it. It keeps every value as it was stored: commit
// compares them.
type view struct {
	want     *want
	meta     string
	rows     []stored[ownership.Row]
	bindings []stored[ownership.Binding]
	index    []string // session ids, "" absent
	rawIndex []string
	orders   []stored[[]ownership.Order]
	counts   []int64
	sessions map[string]*session
	alone    []string // ids of the sessions that were looked up one by one
	roster   []ownership.Session
	digest   string // of the roster, when it was read
	commits  int64  // of the bucket, all generations together
	gen      string // the bucket's generation as it was read
	received time.Time
	reading  guard.Reading
	sure     bool // the guard lets something be decided on it
}

type stored[T any] struct {
	raw string // "" absent
	v   T
}

// A session is one lookup; raw is "" when there is none.
type session struct {
	raw    string
	digest uint64
	s      ownership.Session
}

func (v *view) Row(k ownership.Key) (ownership.Row, bool) {
	i, ok := v.want.rows.at[k]
	if !ok || i >= len(v.rows) {
		panic(&missing{ownership.Select{Rows: []ownership.Key{k}}})
	}
	return v.rows[i].v, v.rows[i].raw != ""
}

func (v *view) Session(id string) (ownership.Session, bool) {
	s := v.sessions[id]
	if s == nil && v.digest == "" {
		panic(&missing{ownership.Select{Sessions: []string{id}}})
	}
	if s == nil || s.raw == "" {
		return ownership.Session{}, false
	}
	return s.s, true
}

func (v *view) Index(name string) string {
	i, ok := v.want.index.at[name]
	if !ok || i >= len(v.index) {
		panic(&missing{ownership.Select{Index: []string{name}}})
	}
	return v.index[i]
}

func (v *view) Binding(k ownership.BindKey) (ownership.Binding, bool) {
	i, ok := v.want.bindings.at[k]
	if !ok || i >= len(v.bindings) {
		panic(&missing{ownership.Select{Bindings: []ownership.BindKey{k}}})
	}
	return v.bindings[i].v, v.bindings[i].raw != ""
}

func (v *view) Orders(process string) []ownership.Order {
	i, ok := v.want.orders.at[process]
	if !ok || i >= len(v.orders) {
		panic(&missing{ownership.Select{Orders: []string{process}}})
	}
	return v.orders[i].v
}

func (v *view) Count(name string) int64 {
	i, ok := v.want.counts.at[name]
	if !ok || i >= len(v.counts) {
		panic(&missing{ownership.Select{Counts: []string{name}}})
	}
	return v.counts[i]
}

func (v *view) Roster() []ownership.Session {
	if v.digest == "" {
		panic(&missing{ownership.Select{Roster: true}})
	}
	return append([]ownership.Session(nil), v.roster...)
}

// request is the call of read.lua that fetches w.
func (w *want) request(k keyspace, b int) (keys, args []string) {
	keys = k.fixed(b)
	for _, key := range w.rows.names {
		keys = append(keys, k.row(b, key))
	}
	for _, key := range w.bindings.names {
		keys = append(keys, k.binding(b, key))
	}
	roster := "0"
	if w.roster {
		roster = "1"
	}
	args = append(make([]string, 0, 16), "", roster)
	for _, n := range [...]int{len(w.rows.names), len(w.sessions.names), len(w.index.names), len(w.orders.names), len(w.counts.names)} {
		args = append(args, strconv.Itoa(n))
	}
	for _, id := range w.sessions.names {
		args = append(args, packed(id))
	}
	args = append(args, w.index.names...)
	args = append(args, w.orders.names...)
	return keys, append(args, w.counts.names...)
}

// Positions in the part of read.lua's reply that is its own.
const (
	bodyMeta = iota
	bodyRows
	bodyBindings
	bodySessions
	bodyIndex
	bodyOrders
	bodyCounts
	bodyDigest
	bodyHistory
	bodyLen
)

// newView decodes everything but the workers of the sessions.
func newView(w *want, body []rueidis.RedisMessage) (*view, error) {
	if len(body) != bodyLen {
		return nil, errCorrupt
	}
	v := &view{want: w, meta: text(body[bodyMeta]), digest: text(body[bodyDigest]), sessions: map[string]*session{}}
	if h := text(body[bodyHistory]); len(h) >= historyGen {
		v.commits = int64(binary.BigEndian.Uint64([]byte(h)))
	}
	var err error
	if v.rows, err = decodeAll(body[bodyRows], len(w.rows.names), decodeRow); err != nil {
		return nil, err
	}
	if v.bindings, err = decodeAll(body[bodyBindings], len(w.bindings.names), decodeBinding); err != nil {
		return nil, err
	}
	if v.orders, err = decodeAll(body[bodyOrders], len(w.orders.names), decodeOrders); err != nil {
		return nil, err
	}
	v.rawIndex = texts(body[bodyIndex])
	counts := texts(body[bodyCounts])
	if len(v.rawIndex) != len(w.index.names) || len(counts) != len(w.counts.names) {
		return nil, errCorrupt
	}
	for _, t := range v.rawIndex {
		id, ok := unpacked(t)
		if !ok && t != "" {
			return nil, errCorrupt
		}
		v.index = append(v.index, id)
	}
	for _, c := range counts {
		n, err := strconv.ParseInt(c, 10, 64)
		if err != nil && c != "" {
			return nil, errCorrupt
		}
		v.counts = append(v.counts, n)
	}
	return v, v.leases(texts(body[bodySessions]))
}

func decodeAll[T any](m rueidis.RedisMessage, n int, decode func(string) (T, error)) ([]stored[T], error) {
	raw := texts(m)
	if len(raw) != n {
		return nil, errCorrupt
	}
	out := make([]stored[T], n)
	for i, s := range raw {
		if s == "" {
			continue
		}
		v, err := decode(s)
		if err != nil {
			return nil, err
		}
		out[i] = stored[T]{s, v}
	}
	return out, nil
}

func (v *view) leases(pairs []string) error {
	for i := 0; i+1 < len(pairs); i += 2 {
		id, ok := unpacked(pairs[i])
		if !ok {
			return errCorrupt
		}
		s := &session{raw: pairs[i+1]}
		if s.raw != "" {
			var err error
			if s.digest, s.s.Lease, err = decodeLease(s.raw); err != nil {
				return err
			}
		}
		v.sessions[id] = s
		if v.digest == "" {
			v.alone = append(v.alone, id)
		}
	}
	return nil
}
