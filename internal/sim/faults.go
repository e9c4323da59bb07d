package sim

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"pinboard/internal/directory"
	"pinboard/internal/memstore"
)

// A Fault is one thing that goes wrong or is ordered, at a time; it ends by
// itself after For.
type Fault struct {
	At   time.Duration
	Kind string
	A, B int // whom: numbers of workers, nodes or ids, modulo what there is
	For  time.Duration
	Size time.Duration // of a step, a delay, a lag
	P    float64       // chance
}

func (f Fault) String() string {
	return fmt.Sprintf("%v %s a=%d b=%d for=%v size=%v p=%.2f", f.At.Round(time.Millisecond), f.Kind, f.A, f.B, f.For.Round(time.Millisecond), f.Size.Round(time.Millisecond), f.P)
}

// kinds of faults; a plan draws from them.
var kinds = []string{
	"cut node worker", "cut node store", "cut worker node", "deaf", "lose", "slow", "repeat",
	"freeze worker", "freeze node", "kill worker", "leave worker", "new worker", "kill node",
	"wipe", "restart", "restart empty", "restore", "failover", "split", "rewind", "there and back", "other header",
	"step", "large step", "small steps", "slew", "sleep node", "sleep host",
	"stop node somewhere", "stop worker somewhere", "sleep node somewhere", "stop before write",
	"store away", "bucket away", "full", "slow store", "lost replies", "failed commands",
	"wind down", "revoke", "drain", "drain by", "eject", "slow closes", "address reuse", "rebind", "unbind",
}

// draw makes a plan of n faults over a time.
func draw(r *rand.Rand, n int, over time.Duration) []Fault {
	out := make([]Fault, n)
	for i := range out {
		out[i] = Fault{
			At: time.Duration(r.Int64N(int64(over))), Kind: kinds[r.IntN(len(kinds))], A: r.IntN(64), B: r.IntN(64),
			For:  time.Duration(100+r.Int64N(1<<r.IntN(16)+1)) * time.Millisecond,
			Size: time.Duration(r.Int64N(8000)) * time.Millisecond, P: r.Float64() * 0.4,
		}
	}
	return out
}

// watching reports that every node runs, or stands still, and has seen the
// clock before.
func (w *World) watching() bool {
	for _, n := range w.nodes {
		if n.dead || w.Now-n.since < watchTime {
			return false
		}
	}
	return true
}

const watchTime = 6 * time.Second // long enough to read the clock, whatever else goes wrong

// inflict schedules the plan.
func (w *World) inflict(plan []Fault) {
	for _, f := range plan {
		w.At(f.At-w.Now, func() {
			w.note("fault: %s", f.Kind)
			if undo := w.fault(f); undo != nil {
				w.At(f.For, func() {
					if !w.healing {
						undo()
					}
				})
			}
		})
	}
}

// running lists the processes that have not ended, oldest first.
func (w *World) running() (out []*Proc) {
	for _, p := range w.procs {
		if !p.dead {
			out = append(out, p)
		}
	}
	return out
}

func pickOf[T any](list []T, i int) (v T, ok bool) {
	if len(list) == 0 {
		return v, false
	}
	return list[i%len(list)], true
}

// fault makes f happen and returns how it ends, nil if it does not.
func (w *World) fault(f Fault) (undo func()) {
	n := w.nodes[f.A%len(w.nodes)]
	p, ok := pickOf(w.running(), f.B)
	if !ok && strings.Contains(f.Kind, "worker") && f.Kind != "new worker" {
		return nil
	}
	switch f.Kind {
	case "cut node worker", "cut worker node", "cut node store", "deaf":
		return w.cutFault(f, n, p)
	case "lose":
		w.net.loss += f.P / 2
		return func() { w.net.loss -= f.P / 2 }
	case "slow":
		w.net.slow += f.Size / 4
		return func() { w.net.slow -= f.Size / 4 }
	case "repeat":
		w.net.again += f.P
		return func() { w.net.again -= f.P }
	case "freeze worker":
		if p.sdk != nil {
			return p.sdk.stopSoon(f.A%32, f.For)
		}
		p.Freeze()
		return p.Thaw
	case "freeze node":
		n.Freeze()
		return func() { n.Thaw(); n.since = w.Now }
	case "step", "large step", "small steps", "slew", "sleep node", "sleep host":
		return w.clockFault(f, n)
	case "rewind", "there and back":
		return w.historyFault(f)
	case "stop node somewhere", "stop worker somewhere", "sleep node somewhere", "stop before write":
		return w.stopFault(f, n, p)
	case "kill worker", "leave worker", "new worker", "address reuse", "slow closes", "rebind":
		return w.workerFault(f, p)
	case "kill node":
		if n.dead || w.slewing || w.Now-w.stepped < watchTime {
			return nil
		}
		n.Kill()
		return func() { w.boot(n.at) }
	case "wind down", "revoke", "drain", "drain by", "eject", "unbind":
		w.order(f, n, p)
		return nil
	}
	return w.storeFault(f, n)
}

func (w *World) cutFault(f Fault, n *Node, p *Proc) func() {
	a, b, oneWay := n.Name, "store", false
	switch {
	case f.Kind == "cut node store":
	case p == nil:
		return nil
	case f.Kind == "cut node worker":
		b = p.Name
	default:
		a, b, oneWay = p.Name, n.Name, true
		if f.Kind == "deaf" {
			a, b = b, a
		}
	}
	w.net.Cut(a, b, 1, oneWay)
	return func() { w.net.Cut(a, b, -1, oneWay) }
}

// workerFault starts and ends processes.
func (w *World) workerFault(f Fault, p *Proc) func() {
	switch f.Kind {
	case "kill worker":
		p.Crash()
		return func() { w.follow(p, p.url) }
	case "leave worker":
		if !p.leaving && !p.super {
			p.Leave()
		}
		return func() { w.follow(p, p.url) }
	case "new worker":
		if len(w.running()) < 7 {
			w.follow(w.procs[f.B%len(w.procs)], fmt.Sprint("http://extra", len(w.procs)))
		}
	case "address reuse": // a stranger listens where p did; for a while, or for good
		if p == nil || len(w.running()) > 6 {
			return nil
		}
		q := w.follow(p, p.url)
		if f.P < 0.2 {
			return func() {
				q.Crash()
				if !p.dead && !p.leaving {
					w.listen[p.url] = p
				}
			}
		}
	case "slow closes":
		if p != nil {
			was := p.Close
			p.Close = f.Size * 5
			return func() { p.Close = was }
		}
	case "rebind":
		if w.Hostnames && p != nil {
			k := p.Kind
			k.BindEpoch, k.Env = p.BindEpoch+int64(f.A%2), []string{"blue", "green"}[f.A%2]
			q := w.Spawn(fmt.Sprint("w", len(w.procs)+1), fmt.Sprint("http://rebound", len(w.procs)), k)
			q.Start()
		}
	}
	return nil
}

// follow starts a new process of the same kind at a URL.
func (w *World) follow(p *Proc, url string) *Proc {
	if len(w.running()) > 8 {
		return nil
	}
	if other := w.listen[url]; other != nil && other != p {
		url = fmt.Sprint("http://moved", len(w.procs))
	}
	q := w.Spawn(fmt.Sprint("w", len(w.procs)+1), url, p.Kind)
	q.Start()
	return q
}

// order is an operator's.
func (w *World) order(f Fault, n *Node, p *Proc) {
	if n.dead {
		return
	}
	host, _ := pickOf(w.hosts(), f.A)
	id := directory.WindDown{Host: host, Namespace: "/t", ID: fmt.Sprint("id", f.B%ids)}
	w.Go(&n.Host, func() {
		bg := context.Background()
		var err error
		switch f.Kind {
		case "wind down":
			d := f.Size
			id.Deadline = &d
			_, err = n.dir.WindDown(bg, id)
		case "revoke":
			_, err = n.dir.WindDown(bg, id)
		case "drain", "drain by":
			sel := directory.Selector{ClientID: clientOf(p)}
			d := f.Size
			at := &d
			if f.Kind == "drain" {
				at = nil
			}
			if _, err = n.dir.Drain(bg, sel, at); err == nil {
				w.Sleep(f.For)
				w.undrain(sel)
			}
		case "eject":
			_, err = n.dir.Eject(bg, directory.Selector{ClientID: clientOf(p)})
		case "unbind":
			if w.Hostnames && f.P < 0.1 {
				_, err = n.dir.DeleteBinding(bg, host, "/t")
			}
		}
		w.note("%s: order %s: %v", n.Name, f.Kind, err == nil)
	})
}

// undrain goes on until it is done: an operator would not give up.
func (w *World) undrain(sel directory.Selector) {
	w.Go(nil, func() {
		for {
			if n := w.nodes[0]; !n.dead {
				if _, err := n.dir.Undrain(context.Background(), sel); err == nil {
					return
				}
			}
			w.Sleep(time.Second)
		}
	})
}

func clientOf(p *Proc) string {
	if p == nil {
		return "nobody"
	}
	return p.client
}

// storeFault is what a store can do to its clients.
func (w *World) storeFault(f Fault, n *Node) func() {
	s := w.server
	switch f.Kind {
	case "wipe":
		if w.mayForget(s.ahead()) {
			s.wipe()
		}
	case "restart", "restart empty":
		im := s.mem.Image()
		if f.Kind == "restart empty" {
			im = nil
		}
		return w.replaceAfter(im, s.ahead())
	case "restore":
		if x := w.older(f.Size); x != nil && !w.mixed() && w.Now > s.since+w.Lease {
			return w.replaceAfter(x.image, s.ahead())
		}
	case "failover", "split":
		if w.Now < s.since+2*time.Second {
			return nil // the replica would miss the very beginning of this server
		}
		return w.failover(f, n)
	case "other header":
		return w.mix(n)
	case "store away":
		s.down = true
		return func() { s.down = false; w.server.down = false }
	case "bucket away":
		b := f.A % w.Buckets
		s.cut[b]++
		return func() { s.cut[b]-- }
	case "full":
		s.full = true
		return func() { s.full = false }
	case "slow store":
		s.slow += f.Size / 8
		return func() { s.slow -= f.Size / 8 }
	case "lost replies":
		s.mute += 1 + f.A%8
	case "failed commands":
		s.drop += 1 + f.A%8
	}
	return nil
}

// failover puts a replica in the place of the primary. Either it misses the
// last writes, or the old primary goes on for a while, without replicas.
func (w *World) failover(f Fault, n *Node) func() {
	s := w.server
	switch f.Kind {
	case "failover": // to a replica that misses the last writes
		im, skew := s.mem.Image(), w.skew(f)
		lag := min(f.Size/4, time.Second)
		w.At(lag, func() {
			if !s.gone && w.Now-lag >= s.since {
				w.Replace(im, skew)
			}
		})
	case "split": // the old primary serves some nodes on for as long as its replicas' lag allows
		im, skew := s.mem.Image(), w.skew(f)
		old := s
		w.Replace(im, skew)
		old.gone = false
		n.conn.to = old
		w.At(min(f.For, w.Lag), func() { old.still = true })
		return func() { old.gone = true }
	}
	return nil
}

// replaceAfter takes the server away and brings up another one with im.
func (w *World) replaceAfter(im *memstore.Image, offset time.Duration) func() {
	s := w.server
	s.down = true
	return func() {
		if s.gone {
			return
		}
		s.down = false
		if w.mayForget(offset) {
			w.Replace(im, offset)
		}
	}
}

// skew is a clock's offset, not far from what steps have made of it: what
// several steps and servers add up to otherwise stays below a lease, which is
// what the promise about epochs allows.
func (w *World) skew(f Fault) time.Duration {
	half := min(w.Lease/2, 4*time.Second) - 100*time.Millisecond
	return w.level + f.Size%(2*half) - half
}
