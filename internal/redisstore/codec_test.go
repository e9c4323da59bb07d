package redisstore

import (
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"pinboard"
	"pinboard/internal/ownership"
)

var (
	anySession = rapid.OneOf(rapid.StringMatching(`[A-Za-z0-9_-]{16}`), rapid.StringMatching(`[ -~]{1,40}`))
	anyMicros  = rapid.OneOf(rapid.Just(int64(0)), rapid.Int64())
	anyText    = rapid.OneOf(rapid.Just(""), rapid.String())
)

func anyRow(t *rapid.T) ownership.Row {
	r := ownership.Row{
		Kind:  rapid.SampledFrom([]ownership.Kind{ownership.Placed, ownership.Closing, ownership.Held}).Draw(t, "kind"),
		Epoch: pinboard.Epoch(rapid.Uint64().Draw(t, "epoch")),
		Until: anyMicros.Draw(t, "until"), Made: anyMicros.Draw(t, "made"),
		Wind: anyMicros.Draw(t, "wind"), Taken: anyMicros.Draw(t, "taken"),
		Since: pinboard.Epoch(anyMicros.Draw(t, "since")),
		Claim: anyText.Draw(t, "claim"), Tag: anyText.Draw(t, "tag"), Others: anyText.Draw(t, "others"), Twin: anyText.Draw(t, "twin"),
	}
	if r.Kind != ownership.Held {
		r.Session = anySession.Draw(t, "session")
	}
	if rapid.Bool().Draw(t, "unconfirmed") {
		copy(r.Nonce[:], rapid.SliceOfN(rapid.Byte(), 7, 7).Draw(t, "nonce"))
	}
	return r
}

func TestRowsRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := anyRow(t)
		s := encodeRow(&want)
		got, err := decodeRow(s)
		if err != nil || got != want {
			t.Fatalf("%+v became %+v (%v)", want, got, err)
		}
		for n := range s { // a prefix is never a row, except a nonce cut off whole
			if cut, err := decodeRow(s[:n]); err == nil && cut == want {
				t.Fatalf("%d of %d bytes read as the whole row", n, len(s))
			}
		}
	})
}

// docs/performance.md, T12: these two sizes decide the memory of a row.
func TestRowSizes(t *testing.T) {
	plain := ownership.Row{Kind: ownership.Placed, Session: "abcdefghijkl_-01", Epoch: 1 << 60}
	if n := len(encodeRow(&plain)); n != plainRow {
		t.Errorf("plain row takes %d bytes", n)
	}
	plain.Nonce[3] = 1
	if n := len(encodeRow(&plain)); n != 28 {
		t.Errorf("unconfirmed row takes %d bytes", n)
	}
}

func TestLeasesRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := func(name string) bool { return rapid.Bool().Draw(t, name) }
		n := func(name string) int64 { return anyMicros.Draw(t, name) }
		s := func(name string) string { return anyText.Draw(t, name) }
		want := ownership.Lease{
			Gen: s("gen"), Until: n("until"), TTL: n("ttl"), At: n("at"), Headroom: rapid.Float64().Draw(t, "headroom"), HeardAt: n("heard"),
			Beaten: b("beaten"), OwnDrain: b("own"), Drain: b("drain"), DrainAt: n("drainat"),
			Degraded: ownership.Degrade(rapid.Byte().Draw(t, "degraded")), FailSince: n("fail"), ProvedAt: n("proved"),
			ReplacedBy: s("replaced"), Ordered: n("ordered"), Acks: b("acks"), Aborts: b("aborts"), Ejected: b("ejected"),
			DisplacedBy: s("displacedby"), DisplacedAt: n("displacedat"),
			State: ownership.State{Phase: ownership.Phase(rapid.Byte().Draw(t, "phase")), Asked: n("asked"), Free: n("free"), Next: s("next")},
		}
		if l := rapid.SliceOf(rapid.String()).Draw(t, "behind"); len(l) > 0 {
			want.Behind = l
		}
		digest := rapid.Uint64().Draw(t, "digest")
		d, got, err := decodeLease(encodeLease(digest, &want))
		if err != nil || d != digest || !cmp.Equal(got, want) {
			t.Fatalf("%v %s", err, cmp.Diff(want, got))
		}
	})
}

// Every field of a lease must be stored: a new one that visitLease forgets
// fails here.
func TestLeaseHasNoForgottenField(t *testing.T) {
	full := ownership.Lease{
		Gen: "g", Until: 1, TTL: 2, At: 3, Headroom: 4, HeardAt: 14, Beaten: true, OwnDrain: true, Drain: true, DrainAt: 5, Degraded: 6,
		FailSince: 7, ProvedAt: 8, ReplacedBy: "r", Ordered: 11, Acks: true, Aborts: true, Ejected: true, DisplacedBy: "e", DisplacedAt: 13,
		State: ownership.State{Phase: ownership.LetGo, Asked: 10, Free: 9, Next: "s", Behind: []string{"b"}},
	}
	w := leaseWriter{}
	visitLease(&w, &full)
	if fields := fieldCount(full); w.n != fields || w.present != 1<<fields-1 {
		t.Fatalf("%d fields, %d visited, %b present", fields, w.n, w.present)
	}
}

func TestTokensRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := anySession.Draw(t, "session")
		if got, ok := unpacked(packed(want)); !ok || got != want {
			t.Fatalf("%q became %q", want, got)
		}
	})
}

func TestOtherRecordsRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := ownership.Meta{Gen: anyText.Draw(t, "gen"), Since: anyMicros.Draw(t, "since"), Cold: anyMicros.Draw(t, "cold"), Longest: anyMicros.Draw(t, "longest")}
		if got, err := decodeMeta(encodeMeta(&m)); err != nil || got != m {
			t.Fatalf("%+v became %+v (%v)", m, got, err)
		}
		b := ownership.Binding{Env: anyText.Draw(t, "env"), Epoch: anyMicros.Draw(t, "epoch"), Wait: anyMicros.Draw(t, "wait")}
		if got, err := decodeBinding(encodeBinding(&b)); err != nil || got != b {
			t.Fatalf("%+v became %+v (%v)", b, got, err)
		}
	})
}

// Keys of rows are Key.String behind the tag, and no other key of a bucket is
// taken for one, whatever env, host, namespace or session are called.
func TestKeysAreUnambiguous(t *testing.T) {
	k := newKeyspace("pb", 4)
	rapid.Check(t, func(t *rapid.T) {
		key := ownership.Key{
			Env:       rapid.StringMatching(`[%/*a-zA-Z0-9.:-]{1,12}`).Draw(t, "env"),
			Namespace: rapid.StringMatching(`(/[a-z0-9.~-]{1,8}){1,3}`).Draw(t, "ns"),
			ID:        rapid.StringMatching(`[A-Za-z0-9_~-]{1,16}`).Draw(t, "id"),
		}
		s := k.row(2, key)
		if s != "pb{2}"+key.String() || len(s) != k.rowLen(2, key) {
			t.Fatalf("%q", s)
		}
		if got, ok := k.parseRow(2, s); !ok || got != key {
			t.Fatalf("%q read as %+v", s, got)
		}
		bind := ownership.BindKey{Host: rapid.StringMatching(`[%|a-z:]{0,8}`).Draw(t, "host"), Namespace: key.Namespace}
		if len(k.binding(2, bind)) != k.bindingLen(2, bind) {
			t.Fatal("binding length")
		}
		others := append(k.fixed(2), k.header(), k.binding(2, bind), k.lease(2, "0123456789abcdef", anySession.Draw(t, "session")))
		for _, o := range others {
			if got, ok := k.parseRow(2, o); ok {
				t.Fatalf("%q read as row %+v", o, got)
			}
		}
	})
}

// FC-43: what cannot be read is an error, never absence.
func TestGarbageIsCorrupt(t *testing.T) {
	for _, s := range []string{"", "P", "X00000000", strings.Repeat("P", 20), "p" + strings.Repeat("0", 20) + "\xff", "H00000000x"} {
		if r, err := decodeRow(s); err == nil {
			t.Errorf("row %q read as %+v", s, r)
		}
	}
	if _, _, err := decodeLease("short"); err == nil {
		t.Error("a short lease was read")
	}
	if _, err := decodeMeta("\x7f"); err == nil {
		t.Error("a short meta was read")
	}
	if _, err := decodeOrders("{"); err == nil {
		t.Error("broken orders were read")
	}
	rapid.Check(t, func(t *rapid.T) { // and nothing panics
		s := string(rapid.SliceOf(rapid.Byte()).Draw(t, "bytes"))
		decodeRow(s)
		decodeLease(s)
		decodeMeta(s)
		decodeBinding(s)
		decodeOrders(s)
		unpacked(s)
	})
}

// The reference values are those of the Redis Cluster specification.
func TestSlot(t *testing.T) {
	if slot("123456789") != 0x31C3 || slot("user1000") != 3443 {
		t.Fatalf("%#x %d", slot("123456789"), slot("user1000"))
	}
}

// fieldCount counts the fields of a struct, those of embedded ones each.
func fieldCount(v any) (n int) {
	for _, f := range reflect.VisibleFields(reflect.TypeOf(v)) {
		if !f.Anonymous {
			n++
		}
	}
	return n
}
