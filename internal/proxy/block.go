package proxy

import (
	"sync"

	"pinboard/internal/h1"
)

// Blocks are pooled buffers of a few sizes. Whoever waits for a peer gives
// his back first, so that idle connections hold none.
const (
	smallBlock = 4 << 10
	largeBlock = 32 << 10
	headBlock  = h1.MaxHead + 8<<10 // a longest head and the read that completes it
)

var (
	smallBlocks = sync.Pool{New: func() any { return new([smallBlock]byte) }}
	largeBlocks = sync.Pool{New: func() any { return new([largeBlock]byte) }}
	headBlocks  = sync.Pool{New: func() any { return new([headBlock]byte) }}
)

// takeBlock returns a block of at least n bytes, n <= headBlock.
func takeBlock(n int) []byte {
	switch {
	case n <= smallBlock:
		return smallBlocks.Get().(*[smallBlock]byte)[:]
	case n <= largeBlock:
		return largeBlocks.Get().(*[largeBlock]byte)[:]
	}
	return headBlocks.Get().(*[headBlock]byte)[:]
}

// giveBlock returns a block; anything that is none is left to the collector.
func giveBlock(b []byte) {
	switch cap(b) {
	case smallBlock:
		smallBlocks.Put((*[smallBlock]byte)(b[:smallBlock]))
	case largeBlock:
		largeBlocks.Put((*[largeBlock]byte)(b[:largeBlock]))
	case headBlock:
		headBlocks.Put((*[headBlock]byte)(b[:headBlock]))
	}
}
