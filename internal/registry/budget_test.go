package registry

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"pinboard/api"
	"pinboard/internal/directory"
	"pinboard/internal/outbound"
	"pinboard/internal/ownership"
)

// accepting takes every registration, after a while.
type accepting struct{ *fake }

func (accepting) Register(context.Context, *directory.Registration) (directory.Grant, error) {
	time.Sleep(50 * time.Millisecond)
	return directory.Grant{Session: "s", ExpiresIn: time.Second}, nil
}

// peakHeap is how much the heap grew at most while f ran, garbage included.
func peakHeap(f func()) uint64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	base, peak := m.HeapAlloc, m.HeapAlloc
	end, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		tick := time.NewTicker(time.Millisecond)
		defer tick.Stop()
		for {
			runtime.ReadMemStats(&m)
			peak = max(peak, m.HeapAlloc)
			select {
			case <-end:
				return
			case <-tick.C:
			}
		}
	}()
	f()
	close(end)
	<-ended
	return peak - base
}

// Eight bodies of 16 MiB of one token, and several of three: what they hold at
// most is what docs/security.md says, whatever is in them. (scripts/test.sh runs
// tests of this name without the race detector.)
func TestGiantBodiesAllocateWithinTheBudget(t *testing.T) {
	const head = `{"clientId":"c1","secret":"k","namespaces":["/t"],"advertiseUrl":"http://w:1","headroom":1,"draining":false,"instances":{"/t":[`
	fill := func(each string, most int) string {
		n := min(most, (api.MaxBody-len(head)-3)/len(each))
		body := head + strings.TrimSuffix(strings.Repeat(each, n), ",") + `]}}`
		return body + strings.Repeat(" ", api.MaxBody-len(body))
	}
	for _, c := range []struct {
		name, body string
		status     int
		owners     []string
		each       int
		most       uint64
	}{
		{"empty ids", fill(`"",`, api.MaxBody), 400, []string{"worker-a"}, 8, 192 << 20},
		{"the longest that pass", fill(`"`+strings.Repeat("i", 160)+`",`, 100_000), 200, []string{"worker-a"}, 8, 192 << 20},
		{"the longest of three tokens", fill(`"`+strings.Repeat("i", 160)+`",`, 100_000), 200, []string{"worker-a", "worker-b", "root"}, 3, 384 << 20},
	} {
		n := start(t, func(c *Config) { c.Directory = accepting{c.Directory.(*fake)} })
		var mu sync.Mutex
		statuses := map[int]int{}
		peak := peakHeap(func() {
			var all sync.WaitGroup
			for _, owner := range c.owners {
				for range c.each {
					all.Go(func() {
						a := n.post("/registry/register", owner, c.body)
						mu.Lock()
						statuses[a.status]++
						mu.Unlock()
					})
				}
			}
			all.Wait()
		})
		t.Logf("%s: %d MiB, answers %v", c.name, peak>>20, statuses)
		if peak > c.most {
			t.Errorf("%s: %d MiB of heap", c.name, peak>>20)
		}
		if statuses[c.status] == 0 || statuses[c.status]+statuses[503] != c.each*len(c.owners) {
			t.Errorf("%s: answers %v", c.name, statuses)
		}
	}
}

// Two hundred bodies of 1 MiB of one token, the other shape of the flood.
func TestManyBodiesAllocateWithinTheBudget(t *testing.T) {
	const head = `{"clientId":"c1","secret":"k","namespaces":["/t"],"advertiseUrl":"http://w:1","headroom":1,"draining":false,"instances":{"/t":[`
	body := head + strings.Repeat(`"",`, 99_999) + `""]}}`
	body += strings.Repeat(" ", 1<<20-len(body))
	n := start(t, func(c *Config) { c.Directory = accepting{c.Directory.(*fake)} })
	peak := peakHeap(func() {
		var all sync.WaitGroup
		for range 200 {
			all.Go(func() {
				if a := n.post("/registry/register", "worker-a", body); a.status != 200 && a.status != 503 {
					t.Errorf("%d %s", a.status, a.text)
				}
			})
		}
		all.Wait()
	})
	t.Logf("%d MiB", peak>>20)
	if peak > 192<<20 {
		t.Errorf("%d MiB of heap", peak>>20)
	}
}

// A worker's text comes out as it came, not sixfold.
func TestAnswersAreNotEscaped(t *testing.T) {
	n := start(t, nil)
	n.infos = []directory.WorkerInfo{{SessionID: "s1", State: "live"}}
	n.session(ownership.Worker{Session: "s1", URL: "http://w1"})
	n.statsText = `{"a":"<&>"}`
	if a := n.call("GET", "/registry/stats", "ops", ""); !strings.Contains(a.text, `{"a":"<&>"}`) {
		t.Error(a.text)
	}
}

// A page ends where its bytes end, and goes on behind that.
func TestPagesAreCutByTheirBytes(t *testing.T) {
	n := start(t, nil)
	for i := range 300 {
		n.infos = append(n.infos, directory.WorkerInfo{SessionID: fmt.Sprintf("s%03d", i), Namespaces: []string{strings.Repeat("n", 60<<10)}})
	}
	seen, pages := 0, 0
	for after := ""; ; pages++ {
		a := n.call("GET", "/registry/workers?limit=1000&after="+after, "ops", "")
		if a.status != 200 || len(a.text) > listAnswer+64<<10 {
			t.Fatalf("%d, %d bytes", a.status, len(a.text))
		}
		seen += len(a.body["workers"].([]any))
		next, more := a.body["next"].(string)
		if !more {
			break
		}
		after = next
	}
	if seen != 300 || pages < 3 {
		t.Errorf("%d workers on %d pages", seen, pages+1)
	}
}

// Failed proofs of many workers write so many lines at most, and none is lost
// without a count.
func TestFailedProofsAreLoggedAtABoundedRate(t *testing.T) {
	n := start(t, nil)
	now := time.Unix(1, 0)
	n.server.unproved.now = func() time.Time { return now }
	n.proof = outbound.Proof{Detail: "refused"}
	lines := func() int { return strings.Count(n.logs.String(), "advertise URL not proved") }
	for i := range 1000 {
		n.post("/registry/register", "worker-a", strings.Replace(register, `"c1"`, fmt.Sprintf(`"c%d"`, i), 1))
	}
	if got := lines(); got != quotaLines {
		t.Errorf("%d lines, want %d", got, quotaLines)
	}
	now = now.Add(quotaTime)
	n.post("/registry/register", "worker-a", strings.Replace(register, `"c1"`, `"c-more"`, 1))
	if !strings.Contains(n.logs.String(), fmt.Sprintf("leftOut=%d", 1000-quotaLines)) || lines() != quotaLines+1 {
		t.Errorf("%d lines, the last: %s", lines(), n.logs.String()[max(0, n.logs.Len()-200):])
	}
}
