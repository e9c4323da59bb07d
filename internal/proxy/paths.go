package proxy

import (
	"hash/maphash"
	"sync/atomic"
)

const (
	recentPaths = 1 << 13
	longestPath = 128 // kept: with recentPaths it bounds the memory to about a megabyte
)

// paths remembers the text of recent paths, so that a request for a path that
// was asked for lately allocates none. A path has one place; whoever comes last has it.
type paths struct {
	recent [recentPaths]atomic.Pointer[string]
}

// pathSeed keeps clients from choosing whom they drive out.
var pathSeed = maphash.MakeSeed()

// text is b as a string.
func (p *paths) text(b []byte) string {
	if len(b) > longestPath {
		return string(b)
	}
	place := &p.recent[maphash.Bytes(pathSeed, b)%recentPaths]
	if s := place.Load(); s != nil && *s == string(b) {
		return *s
	}
	s := string(b)
	place.Store(&s)
	return s
}
