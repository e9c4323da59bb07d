package seam

import (
	"net/http"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// A wait ends with the first of what it waits for, or with its time.
func TestWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		never, said, ended := make(chan struct{}), make(chan struct{}, 1), make(chan struct{})
		said <- struct{}{}
		close(ended)
		for _, c := range []struct {
			d    time.Duration
			on   []<-chan struct{}
			want int
			took time.Duration
		}{
			{time.Second, nil, -1, time.Second},
			{time.Second, []<-chan struct{}{never, never}, -1, time.Second},
			{Forever, []<-chan struct{}{never, said}, 1, 0},
			{Forever, []<-chan struct{}{ended, never}, 0, 0},
			{time.Second, []<-chan struct{}{said}, -1, time.Second}, // what it said was taken
		} {
			begin := time.Now()
			if got := (Real{}).Wait(c.d, c.on...); got != c.want || time.Since(begin) != c.took {
				t.Errorf("%v: got %d after %v", c, got, time.Since(begin))
			}
		}
	})
}

// A group is over when the last activity is, also those that began later.
func TestGroup(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, ended := Group{On: Real{}}, atomic.Int32{}
		g.Wait() // nothing to wait for
		for i := range 3 {
			g.Go(func() {
				time.Sleep(time.Duration(i) * time.Second)
				g.Go(func() { time.Sleep(time.Second); ended.Add(1) })
			})
		}
		g.Wait()
		if got := ended.Load(); got != 3 {
			t.Errorf("%d of 3 had ended", got)
		}
		g.Go(func() { ended.Add(1) })
		g.Wait()
		if got := ended.Load(); got != 4 {
			t.Error("a second use does not wait")
		}
	})
}

func TestOf(t *testing.T) {
	if _, real := Of(nil).(Real); !real {
		t.Error("no transport: not the real machine")
	}
	if _, real := Of(http.DefaultTransport).(Real); !real {
		t.Error("a plain transport: not the real machine")
	}
	own := struct {
		http.RoundTripper
		Machine
	}{}
	if Of(own) != Machine(own) {
		t.Error("a transport that is a machine is not used as one")
	}
}
