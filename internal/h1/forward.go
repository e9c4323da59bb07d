package h1

import "bytes"

// HopByHop are the kinds no gateway passes on (RFC 9110 7.6.1).
// Transfer-Encoding is not among them: a chunked body keeps its framing.
var HopByHop = SetOf(Connection, Hop, KeepAlive, TE, Upgrade)

// FromWorker are the kinds a client hears from Pinboard or not at all: every
// name that Pinboard and its workers use among themselves.
var FromWorker = SetOf(From, Session, SessionSecret, Depth, Attestation, Hops, OwnError, Refusal, Internal)

// FromClient are the kinds a worker hears from Pinboard or not at all.
var FromClient = FromWorker | SetOf(ForwardedForm)

// notInTrailers are kinds that steer framing, routing or the hop: never
// accepted behind a body (RFC 9110 6.5.1).
var notInTrailers = HopByHop | FromClient |
	SetOf(Host, ContentLength, TransferEncoding, Trailer, Expect, MaxForwards,
		ForwardedFor, ForwardedHost, ForwardedProto, Forwarded, RealIP)

// unlistable are kinds that a Connection field cannot remove: without them
// the message means something else.
var unlistable = SetOf(Host, ContentLength, TransferEncoding, Trailer)

// AppendFields appends the lines of fields whose kind is not in drop and,
// when listed, which no Connection field names. Lines keep order, case,
// multiplicity and every byte but white space before the colon.
func AppendFields(dst, b []byte, fields []Field, drop Set, listed bool) []byte {
	if len(fields) == 0 {
		return dst
	}
	from := fields[0].Name.Start
	for i := range fields {
		f := &fields[i]
		switch {
		case drop.Has(f.Kind) || listed && isListed(b, fields, f):
			dst = append(dst, b[from:f.Name.Start]...)
			from = f.End
		case b[f.Name.End] != ':':
			dst = append(dst, b[from:f.Name.End]...)
			from = f.Name.End + uint32(bytes.IndexByte(b[f.Name.End:f.End], ':'))
		}
	}
	return append(dst, b[from:fields[len(fields)-1].End]...)
}

// AppendTrailers appends a trailer section with its blank line, without the
// fields that have no business there.
func AppendTrailers(dst, b []byte, fields []Field) []byte {
	dst = AppendFields(dst, b, fields, notInTrailers, false)
	return append(dst, '\r', '\n')
}

func isListed(b []byte, fields []Field, f *Field) bool {
	if unlistable.Has(f.Kind) {
		return false
	}
	name := f.Name.Of(b)
	for i := range fields {
		if fields[i].Kind != Connection {
			continue
		}
		v := fields[i].Value.Of(b)
		for len(v) > 0 {
			var e []byte
			if e, v = element(v); equalName(e, name) {
				return true
			}
		}
	}
	return false
}

func equalName(a, b []byte) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		x, y := a[i], b[i]
		if 'A' <= x && x <= 'Z' {
			x |= 0x20
		}
		if 'A' <= y && y <= 'Z' {
			y |= 0x20
		}
		if x != y {
			return false
		}
	}
	return true
}
