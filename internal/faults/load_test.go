//go:build linux

package faults

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

const (
	clients = 5
	pace    = 40 * time.Millisecond // mean pause of a client between two requests
)

// A load is what clients do all the time: requests for random ids by random
// nodes, some of which keep the worker busy, some of which end the instance.
type load struct {
	ids   []string
	nodes []string // addresses
	wild  bool     // some requests end the instance
	http  *http.Client
	op    atomic.Int64
	stop  context.CancelFunc
	wg    sync.WaitGroup

	mu       sync.Mutex
	requests []request
	last     map[string]int64 // when the latest successful request of each id was sent
}

func startLoad(ids, nodes []string, seed uint64, wild bool) *load {
	ctx, stop := context.WithCancel(context.Background())
	l := &load{ids: ids, nodes: nodes, wild: wild, last: map[string]int64{}, stop: stop,
		http: &http.Client{Timeout: lease + lease/2, Transport: &http.Transport{MaxIdleConnsPerHost: clients}}}
	for c := range clients {
		l.wg.Go(func() { l.client(ctx, rand.New(rand.NewPCG(seed, uint64(c)))) })
	}
	return l
}

func (l *load) client(ctx context.Context, chance *rand.Rand) {
	for ctx.Err() == nil {
		id, node, query := l.ids[chance.IntN(len(l.ids))], l.nodes[chance.IntN(len(l.nodes))], ""
		switch chance.IntN(30) {
		case 0:
			if l.wild {
				query = "?close"
			}
		case 1, 2:
			query = "?hold=" + (50 * time.Millisecond).String()
		}
		l.request(id, node, query)
		time.Sleep(time.Duration(chance.Int64N(int64(2 * pace))))
	}
}

func (l *load) request(id, node, query string) {
	r := request{op: l.op.Add(1), id: id, node: node}
	req, err := http.NewRequest(http.MethodPost, "http://"+node+namespace+"/"+id+"/hit"+query, nil)
	if err != nil {
		panic(err)
	}
	req.Header.Set("X-Op", strconv.FormatInt(r.op, 10))
	r.call = monotonic()
	if res, err := l.http.Do(req); err == nil {
		body, err := io.ReadAll(res.Body)
		res.Body.Close()
		if err == nil {
			r.status, r.body, r.code = res.StatusCode, string(body), res.Header.Get("Pinboard-Error")
		}
	}
	r.end = monotonic()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.requests = append(l.requests, r)
	if r.status == http.StatusOK {
		l.last[id] = max(l.last[id], r.call)
	}
}

// served reports that every id has been served by a request sent after then;
// the text names those that were not.
func (l *load) served(then int64) (missing []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, id := range l.ids {
		if l.last[id] <= then {
			missing = append(missing, id)
		}
	}
	return missing
}

// answered counts the requests that a node served, of those sent after then.
func (l *load) answered(node string, then int64) (n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, r := range l.requests {
		if r.node == node && r.call > then && r.status == http.StatusOK {
			n++
		}
	}
	return n
}

func (l *load) end() []request {
	l.stop()
	l.wg.Wait()
	l.http.CloseIdleConnections()
	return l.requests
}

// account counts what was answered to requests sent after then.
func (l *load) account(then int64) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	count := map[string]int{}
	for _, r := range l.requests {
		if r.call > then {
			why := r.code
			if why == "" && r.status != http.StatusOK {
				why = r.body // the worker's own
			}
			count[strings.TrimSpace(fmt.Sprint(r.status, " ", why))]++
		}
	}
	return fmt.Sprint(count)
}
