package redisstore

import (
	"encoding/binary"
	"errors"
	"math"

	"pinboard"
	"pinboard/internal/ownership"
)

// errCorrupt is a value nobody of this format version can have written. It is
// an error, never "absent".
var errCorrupt = errors.New("the store holds a value that cannot be read")

// A row is
//
//	kind     1 byte: 'P' 'C' 'H', +0x20 when fields follow, +0x80 for a text session
//	epoch    8 bytes, big endian
//	session  12 bytes; one byte length and text with 0x80; nothing in a Held row
//	         without 0x80
//	rest     nothing, the 7 bytes of a nonce, or with 0x20 tagged fields
//
// so a confirmed placement takes 21 bytes and an unconfirmed one 28: both fit
// the smallest allocation Redis can make for them. read.lua knows the first
// three parts, commit.lua where the epoch is.
const (
	withFields  = 0x20
	textSession = 0x80
	plainRow    = 21
	epochAt     = 1
	sessionAt   = 9
)

// Tags of a row's rare fields.
const (
	fieldNonce = iota + 1
	fieldSince
	fieldUntil
	fieldMade
	fieldWind
	fieldTaken
	fieldClaim
	fieldTag
	fieldOthers
	fieldTwin
)

func encodeRow(r *ownership.Row) string {
	b := make([]byte, 0, 32)
	kind := byte(r.Kind)
	var raw [12]byte
	packed := compact(&raw, r.Session)
	if !packed && (r.Kind != ownership.Held || r.Session != "") {
		kind |= textSession
	}
	fields := appendFields(nil, r)
	if len(fields) > 0 {
		kind |= withFields
	}
	b = append(b, kind)
	b = binary.BigEndian.AppendUint64(b, uint64(r.Epoch))
	switch {
	case kind&textSession != 0:
		b = append(b, byte(len(r.Session)))
		b = append(b, r.Session...)
	case packed:
		b = append(b, raw[:]...)
	}
	if len(fields) > 0 {
		return string(append(b, fields...))
	}
	if r.Nonce != (ownership.Nonce{}) {
		b = append(b, r.Nonce[:]...)
	}
	return string(b)
}

func appendFields(b []byte, r *ownership.Row) []byte {
	for _, f := range [...]struct {
		tag byte
		v   int64
	}{
		{fieldSince, int64(r.Since)}, {fieldUntil, r.Until}, {fieldMade, r.Made},
		{fieldWind, r.Wind}, {fieldTaken, r.Taken},
	} {
		if f.v != 0 {
			b = binary.AppendVarint(append(b, f.tag), f.v)
		}
	}
	if r.Claim != "" {
		b = appendText(append(b, fieldClaim), r.Claim)
	}
	if r.Tag != "" {
		b = appendText(append(b, fieldTag), r.Tag)
	}
	if r.Others != "" {
		b = appendText(append(b, fieldOthers), r.Others)
	}
	if r.Twin != "" {
		b = appendText(append(b, fieldTwin), r.Twin)
	}
	if len(b) > 0 && r.Nonce != (ownership.Nonce{}) {
		b = append(append(b, fieldNonce), r.Nonce[:]...)
	}
	return b
}

func decodeRow(s string) (ownership.Row, error) {
	d := decoder{s: s}
	kind := d.byte()
	r := ownership.Row{Kind: ownership.Kind(kind &^ (withFields | textSession)), Epoch: pinboard.Epoch(d.uint64())}
	switch {
	case kind&textSession != 0:
		r.Session = d.take(int(d.byte()))
	case r.Kind != ownership.Held:
		if raw := d.take(12); len(raw) == 12 {
			r.Session = expand([]byte(raw))
		}
	}
	if kind&withFields == 0 {
		if len(d.s) > 0 {
			copy(r.Nonce[:], d.take(len(r.Nonce)))
		}
	} else {
		d.fields(&r)
	}
	if d.bad || len(d.s) > 0 || r.Kind != ownership.Placed && r.Kind != ownership.Closing && r.Kind != ownership.Held {
		return ownership.Row{}, errCorrupt
	}
	return r, nil
}

func (d *decoder) fields(r *ownership.Row) {
	for len(d.s) > 0 && !d.bad {
		switch d.byte() {
		case fieldNonce:
			copy(r.Nonce[:], d.take(len(r.Nonce)))
		case fieldSince:
			r.Since = pinboard.Epoch(d.varint())
		case fieldUntil:
			r.Until = d.varint()
		case fieldMade:
			r.Made = d.varint()
		case fieldWind:
			r.Wind = d.varint()
		case fieldTaken:
			r.Taken = d.varint()
		case fieldClaim:
			r.Claim = d.text()
		case fieldTag:
			r.Tag = d.text()
		case fieldOthers:
			r.Others = d.text()
		case fieldTwin:
			r.Twin = d.text()
		default:
			d.bad = true
		}
	}
}

// A decoder consumes s; bad stays set after the first thing that does not fit.
type decoder struct {
	s   string
	bad bool
}

func (d *decoder) take(n int) string {
	if n < 0 || n > len(d.s) {
		d.bad, d.s = true, ""
		return ""
	}
	v := d.s[:n]
	d.s = d.s[n:]
	return v
}

func (d *decoder) byte() byte {
	if v := d.take(1); v != "" {
		return v[0]
	}
	return 0
}

func (d *decoder) uint64() uint64 {
	if v := d.take(8); v != "" {
		return binary.BigEndian.Uint64([]byte(v))
	}
	return 0
}

func (d *decoder) float() float64 { return math.Float64frombits(d.uint64()) }

func (d *decoder) varint() int64 {
	v, n := binary.Varint([]byte(d.s[:min(len(d.s), binary.MaxVarintLen64)]))
	d.take(max(n, 0))
	if n <= 0 {
		d.bad = true
	}
	return v
}

func (d *decoder) text() string { return d.take(int(d.varint())) }

func appendText(b []byte, s string) []byte {
	return append(binary.AppendVarint(b, int64(len(s))), s...)
}
