package redisstore

import (
	"context"
	"encoding/json"
	"errors"
	"strconv"
	"strings"

	"pinboard/internal/ownership"
)

// walkMost bounds the keys of the server that one step of Walk looks at (a few
// tenths of a millisecond of its time, which hits wait for).
const walkMost = 1000

// Walk implements ownership.Store by SCAN in bounded steps. The cursor carries
// the server it belongs to; on another one the walk begins again, so that rows
// which exist throughout are met.
func (s *Store) Walk(ctx context.Context, b int, cursor string, n int) (rows []ownership.Walked, next string, err error) {
	ctx, cancel := bounded(ctx, opTimeout)
	defer cancel()
	if s.Disagrees() != "" {
		return nil, "", errors.Join(ErrUnavailable, ErrDisagrees)
	}
	return s.walk(ctx, b, cursor, n)
}

func (s *Store) walk(ctx context.Context, b int, cursor string, n int) ([]ownership.Walked, string, error) {
	sv, err := s.topo.node(ctx, b)
	if err != nil {
		return nil, "", err
	}
	info, err := sv.do(ctx, "INFO", "server")
	if err != nil {
		return nil, "", s.outside(sv, err)
	}
	here := infoField(text(info), "run_id") + ":"
	at := "0"
	if rest, ok := strings.CutPrefix(cursor, here); ok {
		at = rest
	}
	// The buckets of one server share its key space.
	count := strconv.Itoa(max(1, min(n*len(s.topo.buckets(sv)), walkMost)))
	m, err := sv.do(ctx, "SCAN", at, "MATCH", globEscaper.Replace(s.keys.tags[b])+"*", "COUNT", count, "TYPE", "string")
	if err != nil {
		return nil, "", s.outside(sv, err)
	}
	f, err := m.ToArray()
	if err != nil || len(f) != 2 {
		return nil, "", errCorrupt
	}
	rows, err := s.fetch(ctx, sv, b, texts(f[1]))
	if next := text(f[0]); next != "0" {
		return rows, here + next, err
	}
	return rows, "", err
}

var globEscaper = strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`, `]`, `\]`)

// fetch reads the rows among keys; those that have gone meanwhile are left out.
func (s *Store) fetch(ctx context.Context, n *node, b int, keys []string) ([]ownership.Walked, error) {
	var rows []ownership.Walked
	cmd := []string{"MGET"}
	for _, name := range keys {
		if k, ok := s.keys.parseRow(b, name); ok {
			rows = append(rows, ownership.Walked{Key: k})
			cmd = append(cmd, name)
		}
	}
	if len(rows) == 0 {
		return nil, nil
	}
	m, err := n.do(ctx, cmd...)
	if err != nil {
		return nil, s.outside(n, err)
	}
	raw := texts(m)
	if len(raw) != len(rows) {
		return nil, errCorrupt
	}
	kept := rows[:0]
	for i, w := range rows {
		if raw[i] == "" {
			continue
		}
		if w.Row, err = decodeRow(raw[i]); err != nil {
			return nil, err
		}
		kept = append(kept, w)
	}
	return kept, nil
}

// Entries implements ownership.Store.
func (s *Store) Entries(ctx context.Context, b int, n int) (list []ownership.Entry, err error) {
	if n < 1 {
		return nil, nil
	}
	ctx, cancel := bounded(ctx, opTimeout)
	defer cancel()
	return s.entries(ctx, b, n)
}

func (s *Store) entries(ctx context.Context, b int, n int) ([]ownership.Entry, error) {
	sv, err := s.topo.node(ctx, b)
	if err != nil {
		return nil, err
	}
	m, err := sv.do(ctx, "LRANGE", s.keys.fixed(b)[keyRing-1], "0", strconv.Itoa(n-1))
	if err != nil {
		return nil, s.outside(sv, err)
	}
	list := texts(m)
	out := make([]ownership.Entry, len(list))
	for i, e := range list {
		if len(e) < 8 || json.Unmarshal([]byte(e[8:]), &out[i]) != nil {
			return nil, errCorrupt
		}
		out[i].Epoch = epochOf([]byte(e))
	}
	return out, nil
}

// outside is the error of a plain read: reported, never followed.
func (s *Store) outside(n *node, err error) error {
	s.topo.suspect(n)
	if errors.Is(err, ErrUnavailable) {
		return err
	}
	return unavailable("%v", err)
}
