package proxy

import (
	"fmt"
	"strings"
	"sync"
	"testing"
)

// Whatever shares a place, every path is told as it came.
func TestPathsAreTheirOwn(t *testing.T) {
	p := &paths{}
	var wg sync.WaitGroup
	for g := range 4 {
		wg.Go(func() {
			for i := range 4 * recentPaths {
				want := fmt.Sprintf("/t/%d/%s", (i*7+g)%(2*recentPaths), strings.Repeat("x", i%(2*longestPath)))
				b := []byte(want)
				got := p.text(b)
				clear(b) // the block goes on to other uses
				if got != want {
					t.Errorf("%q told as %q", want, got)
					return
				}
			}
		})
	}
	wg.Wait()
}

func TestARecentPathAllocatesNothing(t *testing.T) {
	p := &paths{}
	b := []byte("/threads/t_8f2a/ok")
	if n := testing.AllocsPerRun(100, func() { p.text(b) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
	long := []byte(strings.Repeat("x", longestPath+1))
	p.text(long)
	for i := range p.recent {
		if s := p.recent[i].Load(); s != nil && len(*s) > longestPath {
			t.Errorf("kept %d bytes", len(*s))
		}
	}
}
