package redisstore_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"testing"

	"pinboard"
	"pinboard/internal/ownership"
	"pinboard/internal/redisstore"
	"pinboard/internal/redistest"
)

// R1: 64-bit arithmetic in a language of doubles, around every size at which
// it could go wrong.
func TestEpochArithmetic(t *testing.T) {
	srv := redistest.Start(t)
	s := open(t, srv.URL())
	for _, last := range []uint64{1<<53 - 2, 1<<53 + 1, 1<<54 - 2, 1<<60 + 1<<32 - 2, 1<<62 - 1, 1<<63 - 4} {
		t.Run(fmt.Sprint("last ", last), func(t *testing.T) {
			setCounter(srv, s, last)
			m := mint(t, s, 0, 0, 0)
			for i, want := range []uint64{last + 1, last + 2, last + 3} {
				if uint64(m[i].Epoch) != want {
					t.Errorf("mint %d: %d, want %d", i, m[i].Epoch, want)
				}
			}
			if got := counter(srv, s); got != last+3 {
				t.Errorf("counter %d, want %d", got, last+3)
			}
			if got := stored(t, s, "id2"); uint64(got) != last+3 {
				t.Errorf("row says %d, want %d", got, last+3)
			}
		})
	}
	for _, seen := range []pinboard.Epoch{1<<53 - 1, 1 << 53, 1<<53 + 1, 1<<60 - 1, 1<<60 + 1<<32 - 1, 1<<62 + 12345} {
		t.Run(fmt.Sprint("seen ", seen), func(t *testing.T) {
			setCounter(srv, s, 5)
			if m := mint(t, s, seen); m[0].Epoch != seen+1 {
				t.Errorf("%d, want %d", m[0].Epoch, seen+1)
			}
		})
	}
}

// The clock counts when it is the highest of the three, to the microsecond.
func TestEpochFromTheClock(t *testing.T) {
	srv := redistest.Start(t)
	s := open(t, srv.URL())
	setCounter(srv, s, 1<<32-1)
	var m *ownership.Mint
	var before ownership.Micros
	update(t, s, func(tx *ownership.Tx) error {
		before = tx.Now
		m = tx.MintRow(key("a"), ownership.Row{Kind: ownership.Placed, Session: sessionA}, 9)
		return nil
	})
	if e := ownership.Micros(m.Epoch); e < before || e > before+5e6 {
		t.Fatalf("minted %d at %d", e, before)
	}
}

func TestFloorRaisesAndNeverLowers(t *testing.T) {
	srv := redistest.Start(t)
	s := open(t, srv.URL())
	for _, c := range [][3]uint64{{7, 1<<61 + 3, 1<<61 + 3}, {1<<61 + 3, 1<<53 + 1, 1<<61 + 3}, {1<<61 + 3, 1<<61 + 4, 1<<61 + 4}} {
		setCounter(srv, s, c[0])
		update(t, s, func(tx *ownership.Tx) error { tx.Out.Floor = pinboard.Epoch(c[1]); return nil })
		if got := counter(srv, s); got != c[2] {
			t.Errorf("from %d by %d: %d", c[0], c[1], got)
		}
	}
}

// Below 2^63 for ever: the last epoch can be used once, and what comes after
// it leaves no trace.
func TestEpochsEnd(t *testing.T) {
	srv := redistest.Start(t)
	s := open(t, srv.URL())
	setCounter(srv, s, 1<<63-2)
	if m := mint(t, s, 0); m[0].Epoch != pinboard.MaxEpoch {
		t.Fatalf("%d", m[0].Epoch)
	}
	for _, seen := range []pinboard.Epoch{0, pinboard.MaxEpoch, 1<<64 - 1} {
		err := s.Update(context.Background(), 0, ownership.Select{}, func(tx *ownership.Tx) error {
			tx.MintRow(key("late"), ownership.Row{Kind: ownership.Placed, Session: sessionA}, seen)
			return nil
		})
		if !errors.Is(err, redisstore.ErrExhausted) {
			t.Errorf("seen %d: %v", seen, err)
		}
	}
	if srv.Do("EXISTS", s.TagKey(0, key("late").String())) != int64(0) || counter(srv, s) != 1<<63-1 {
		t.Fatal("a trace was left")
	}
}

// A rule may change a row again after it minted; the epoch stays the mint's.
func TestMintSurvivesALaterPut(t *testing.T) {
	s := open(t, redistest.Start(t).URL())
	var m, gone *ownership.Mint
	update(t, s, func(tx *ownership.Tx) error {
		m = place(tx, key("a"), sessionA)
		tx.PutRow(key("a"), ownership.Row{Kind: ownership.Closing, Session: sessionB, Made: 1})
		gone = place(tx, key("b"), sessionA)
		tx.DropRow(key("b"))
		return nil
	})
	update(t, s, func(tx *ownership.Tx) error {
		if r := tx.Row(key("a")); r == nil || r.Kind != ownership.Closing || r.Session != sessionB || r.Epoch != m.Epoch || tx.Row(key("b")) != nil {
			t.Errorf("%+v, minted %d", r, m.Epoch)
		}
		return nil
	})
	if gone.Epoch != m.Epoch+1 {
		t.Errorf("%d then %d", m.Epoch, gone.Epoch)
	}
}

func setCounter(srv *redistest.Server, s *redisstore.Store, v uint64) {
	srv.Do("HSET", s.MetaKey(0), "e", string(binary.BigEndian.AppendUint64(nil, v)))
}

func counter(srv *redistest.Server, s *redisstore.Store) uint64 {
	return binary.BigEndian.Uint64([]byte(srv.Do("HGET", s.MetaKey(0), "e").(string)))
}

func mint(t *testing.T, s *redisstore.Store, seen ...pinboard.Epoch) (out []*ownership.Mint) {
	t.Helper()
	update(t, s, func(tx *ownership.Tx) error {
		out = nil
		for i, e := range seen {
			out = append(out, tx.MintRow(key(fmt.Sprint("id", i)), ownership.Row{Kind: ownership.Placed, Session: sessionA}, e))
		}
		return nil
	})
	return out
}

func stored(t *testing.T, s *redisstore.Store, id string) (e pinboard.Epoch) {
	t.Helper()
	update(t, s, func(tx *ownership.Tx) error { e = tx.Row(key(id)).Epoch; return nil })
	return e
}
