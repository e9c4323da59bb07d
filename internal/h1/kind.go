package h1

// A Kind says what a field name means to a gateway; Other means nothing.
type Kind uint8

// The names a gateway acts upon.
const (
	Other Kind = iota
	Host
	ContentLength
	TransferEncoding
	Connection
	Hop // goes no further whatever Connection says
	KeepAlive
	TE
	Trailer
	Upgrade
	Expect
	MaxForwards
	ForwardedFor   // X-Forwarded-For
	ForwardedHost  // X-Forwarded-Host
	ForwardedProto // X-Forwarded-Proto
	Forwarded      // RFC 7239
	RealIP         // X-Real-IP
	ForwardedForm  // an underscore form of the five before
	Origin
	From          // Pinboard-From
	Session       // Pinboard-Session
	SessionSecret // Pinboard-Session-Secret
	Depth         // Pinboard-Subrequest-Depth
	Attestation   // Pinboard-Attestation
	Hops          // Pinboard-Hops
	OwnError      // Pinboard-Error: only Pinboard says it
	Refusal       // Pinned-Refusal
	Internal      // any other Pinboard-*, X-Pinboard-*, Pinned-*, X-Pinned-*, and every underscore form
)

// A Set is a set of Kinds.
type Set uint32

// SetOf is the set of ks.
func SetOf(ks ...Kind) (s Set) {
	for _, k := range ks {
		s |= 1 << k
	}
	return s
}

// Has reports whether k is in s.
func (s Set) Has(k Kind) bool { return s>>k&1 != 0 }

// kindOf classifies a valid token.
func kindOf(name []byte) Kind {
	switch name[0] | 0x20 {
	case 'p':
		if k := pKind(name); k != Other {
			return k
		}
	case 'x':
		return xKind(name)
	case 'f':
		if is(name, "forwarded") {
			return Forwarded
		}
	case 'h':
		switch {
		case is(name, "host"):
			return Host
		case is(name, "http2-settings"):
			return Hop
		}
	case 'c':
		switch {
		case is(name, "connection"):
			return Connection
		case is(name, "content-length"):
			return ContentLength
		}
	case 't':
		switch {
		case is(name, "te"):
			return TE
		case is(name, "trailer"):
			return Trailer
		case is(name, "transfer-encoding"):
			return TransferEncoding
		}
	case 'k':
		if is(name, "keep-alive") {
			return KeepAlive
		}
	case 'u':
		if is(name, "upgrade") {
			return Upgrade
		}
	case 'e':
		if is(name, "expect") {
			return Expect
		}
	case 'm':
		if is(name, "max-forwards") {
			return MaxForwards
		}
	case 'o':
		if is(name, "origin") {
			return Origin
		}
	}
	return Other
}

func pKind(name []byte) Kind {
	switch {
	case is(name, "proxy-connection"), is(name, "proxy-authenticate"), is(name, "proxy-authorization"):
		return Hop
	case is(name, "pinned-refusal"):
		return Refusal
	case under(name, "pinned-"):
		return Internal
	case !under(name, "pinboard-"):
		return Other
	case is(name, "pinboard-from"):
		return From
	case is(name, "pinboard-session"):
		return Session
	case is(name, "pinboard-session-secret"):
		return SessionSecret
	case is(name, "pinboard-subrequest-depth"):
		return Depth
	case is(name, "pinboard-attestation"):
		return Attestation
	case is(name, "pinboard-hops"):
		return Hops
	case is(name, "pinboard-error"):
		return OwnError
	}
	return Internal
}

func xKind(name []byte) Kind {
	switch {
	case under(name, "x-pinned-"), under(name, "x-pinboard-"):
		return Internal
	case is(name, "x-forwarded-for"):
		return ForwardedFor
	case is(name, "x-forwarded-host"):
		return ForwardedHost
	case is(name, "x-forwarded-proto"):
		return ForwardedProto
	case is(name, "x-real-ip"):
		return RealIP
	case under(name, "x-forwarded-"), len(name) == len("x-real-ip") && under(name, "x-real-ip"):
		if hasUnderscore(name) {
			return ForwardedForm
		}
	}
	return Other
}

// is reports whether the token name equals lower (lower-case letters, digits
// and "-") in any case.
func is(name []byte, lower string) bool {
	if len(name) != len(lower) {
		return false
	}
	for i := 0; i < len(lower); i++ {
		if name[i] == '_' || name[i]|0x20 != lower[i] {
			return false
		}
	}
	return true
}

// under reports whether the token name starts with lower, where "_" counts as
// "-": CGI-like readers cannot tell them apart.
func under(name []byte, lower string) bool {
	if len(name) < len(lower) {
		return false
	}
	for i := 0; i < len(lower); i++ {
		c := name[i]
		if c == '_' {
			c = '-'
		}
		if c|0x20 != lower[i] {
			return false
		}
	}
	return true
}

func hasUnderscore(name []byte) bool {
	for _, c := range name {
		if c == '_' {
			return true
		}
	}
	return false
}

// EqualFold reports whether b is lower in any case; lower is lower-case ASCII.
func EqualFold(b []byte, lower string) bool {
	if len(b) != len(lower) {
		return false
	}
	for i := 0; i < len(lower); i++ {
		c := b[i]
		if 'A' <= c && c <= 'Z' {
			c |= 0x20
		}
		if c != lower[i] {
			return false
		}
	}
	return true
}
