package proxy

import "testing"

// What a stalled upload holds back costs what it is, not a block.
func TestHeldBackBytesHoldNoBlock(t *testing.T) {
	const held = "0\r\nX-Sum: 1"
	s := socket{size: largeBlock}
	s.room()
	s.w = copy(s.block, "data"+held)
	s.consume(len("data"))
	s.slim()
	if string(s.unread()) != held || cap(s.block) > slimmest {
		t.Fatalf("%q in %d bytes", s.unread(), cap(s.block))
	}
	s.room()
	if string(s.unread()) != held || len(s.block) < largeBlock {
		t.Fatalf("grown: %q in %d bytes", s.unread(), len(s.block))
	}
	s.release()
}
