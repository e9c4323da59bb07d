// Package load makes the benchmark's own traffic: an open loop at a fixed
// rate, idle long-lived connections, and a walk over many ids. Closed loops
// are wrk's.
package load

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"time"
)

// Path is the request target of the i-th id.
func Path(prefix string, i int, last string) string {
	return fmt.Sprintf("/threads/%s%06d/%s", prefix, i, last)
}

// ErrAnswer reports an answer other than 200: the target did not do the work.
var ErrAnswer = errors.New("answer other than 200")

// An Open is an open loop: requests leave on schedule whatever the answers do.
type Open struct {
	Address string        // host:port of the target
	Conns   int           // keep-alive connections
	Rate    int           // requests per second over all of them
	For     time.Duration // how long
	IDs     int           // ids the requests cycle over
}

// Latencies are sorted; each is measured from the instant its request was due,
// so that a stalled target pays for the requests it held up.
type Latencies []time.Duration

// Quantile is the q-th quantile, the next measured value above it.
func (l Latencies) Quantile(q float64) time.Duration {
	if len(l) == 0 {
		return 0
	}
	i := int(q * float64(len(l)))
	return l[min(i, len(l)-1)]
}

// Run sends the whole schedule and returns the latency of every request.
func (o Open) Run(ctx context.Context) (Latencies, error) {
	total := int(float64(o.Rate) * o.For.Seconds())
	gap := time.Second / time.Duration(o.Rate)
	conns, err := dialAll(ctx, o.Address, o.Conns)
	if err != nil {
		return nil, err
	}
	defer closeAll(conns)
	start := time.Now().Add(10 * time.Millisecond)
	parts := make([]Latencies, o.Conns)
	err = each(o.Conns, func(k int) error {
		x := exchanger{conn: conns[k], in: bufio.NewReader(conns[k]), host: o.Address}
		for i := k; i < total; i += o.Conns {
			due := start.Add(time.Duration(i) * gap)
			time.Sleep(time.Until(due))
			if err := ctx.Err(); err != nil {
				return err
			}
			if err := x.get(Path("t_", i%o.IDs, "ok?x=1")); err != nil {
				return err
			}
			parts[k] = append(parts[k], time.Since(due))
		}
		return nil
	})
	all := slices.Concat(parts...)
	slices.Sort(all)
	return all, err
}

// Walk requests every id from 0 to n-1 once, over conns connections.
func Walk(ctx context.Context, address, prefix string, n, conns int) error {
	cs, err := dialAll(ctx, address, conns)
	if err != nil {
		return err
	}
	defer closeAll(cs)
	return each(conns, func(k int) error {
		x := exchanger{conn: cs[k], in: bufio.NewReader(cs[k]), host: address}
		for i := k; i < n; i += conns {
			if err := ctx.Err(); err != nil {
				return err
			}
			if err := x.get(Path(prefix, i, "ok")); err != nil {
				return err
			}
		}
		return nil
	})
}

// An exchanger sends one request at a time on one connection.
type exchanger struct {
	conn net.Conn
	in   *bufio.Reader
	host string
	out  []byte
}

func (x *exchanger) get(path string) error {
	x.out = append(x.out[:0], "GET "+path+" HTTP/1.1\r\nHost: "+x.host+"\r\n\r\n"...)
	if _, err := x.conn.Write(x.out); err != nil {
		return err
	}
	resp, err := http.ReadResponse(x.in, nil)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		body, _ := io.ReadAll(io.LimitReader(resp.Body, 200))
		return fmt.Errorf("%w: %s %q", ErrAnswer, strconv.Itoa(resp.StatusCode), body)
	}
	_, err = io.Copy(io.Discard, resp.Body)
	return err
}

func dialAll(ctx context.Context, address string, n int) ([]net.Conn, error) {
	var d net.Dialer
	conns := make([]net.Conn, 0, n)
	for range n {
		c, err := d.DialContext(ctx, "tcp", address)
		if err != nil {
			closeAll(conns)
			return nil, err
		}
		conns = append(conns, c)
	}
	return conns, nil
}

func closeAll(conns []net.Conn) {
	for _, c := range conns {
		c.Close()
	}
}

// each runs f(0..n-1) at once and joins their errors.
func each(n int, f func(k int) error) error {
	errs := make([]error, n)
	var wg sync.WaitGroup
	for k := range n {
		wg.Go(func() { errs[k] = f(k) })
	}
	wg.Wait()
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}
