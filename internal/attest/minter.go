package attest

import (
	"sync"
	"sync/atomic"
	"time"
)

// A Minter mints tokens for forwards. Plain tokens (no caller) are the same
// for every forward to one worker within one second, so they are signed once
// and copied: a forward on the hit path allocates nothing here.
//
// W is the caller's own worker record; a *W must stand for one session for as
// long as it is used.
type Minter[W any] struct {
	now      func() time.Time
	identity func(*W) (session, secret string)
	current  atomic.Pointer[generation]
}

// A generation holds the plain tokens of one second. It is replaced as a
// whole, so memory is bounded by the workers forwarded to within a second and
// no token is ever used past its second.
type generation struct {
	second int64
	tokens sync.Map // *W -> []byte, immutable
}

// NewMinter returns a Minter on the wall clock now, which workers compare with
// their own.
func NewMinter[W any](now func() time.Time, identity func(*W) (session, secret string)) *Minter[W] {
	m := &Minter[W]{now: now, identity: identity}
	m.current.Store(new(generation))
	return m
}

// Mint appends a token for a forward to w. caller is "<namespace>/<id>" of a
// proven calling instance, or "".
func (m *Minter[W]) Mint(dst []byte, w *W, caller string, depth int) []byte {
	now := m.now()
	if caller != "" {
		session, secret := m.identity(w)
		return Append(dst, secret, session, caller, depth, now)
	}
	g := m.current.Load()
	if second := now.Unix(); g.second != second {
		fresh := &generation{second: second}
		if m.current.CompareAndSwap(g, fresh) {
			g = fresh
		} else if g = m.current.Load(); g.second != second {
			g = fresh // another second won; this token lives for one forward only
		}
	}
	if token, ok := g.tokens.Load(w); ok {
		return append(dst, token.([]byte)...)
	}
	session, secret := m.identity(w)
	token := Append(nil, secret, session, "", 0, now)
	g.tokens.Store(w, token)
	return append(dst, token...)
}
