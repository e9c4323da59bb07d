package directory

import (
	"strings"
	"sync"
	"time"
)

// limiterClients bounds what a limiter remembers; beyond it the clients that
// asked longest ago are forgotten, which only ever lets one start afresh.
const limiterClients = 100_000

// limiter bounds how many new ids one client may cause on this node. It is off
// unless a rate is set (which limit fits, only the operator knows).
type limiter struct {
	per   time.Duration // one id per this; 0 is off
	burst time.Duration // how far ahead of that a client may run

	mu         sync.Mutex
	young, old map[string]time.Time // client -> when it will have paid for its ids
}

// newLimiter allows rate ids a second and bursts of ten seconds' worth.
func newLimiter(rate float64) *limiter {
	l := &limiter{young: map[string]time.Time{}}
	if rate > 0 {
		l.per = time.Duration(float64(time.Second) / rate)
		l.burst = max(10*time.Second, l.per)
	}
	return l
}

// spend decides by the generic cell rate algorithm: paid is when the client
// will have paid for what it had so far.
func spend(now, paid time.Time, per, burst time.Duration) (time.Time, bool) {
	if paid.Before(now) {
		paid = now
	}
	if next := paid.Add(per); next.Sub(now) <= burst {
		return next, true
	}
	return paid, false
}

// allow takes one id for client; "" is nobody in particular and always may.
func (l *limiter) allow(now time.Time, client string) bool {
	if l.per == 0 || client == "" {
		return true
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	paid, ok := l.young[client]
	if !ok {
		paid = l.old[client]
		if len(l.young) >= limiterClients/2 {
			l.old, l.young = l.young, map[string]time.Time{}
		}
		client = strings.Clone(client)
	}
	next, allowed := spend(now, paid, l.per, l.burst)
	l.young[client] = next
	return allowed
}
