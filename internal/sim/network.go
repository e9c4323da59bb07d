package sim

import "time"

// A network carries messages between parties, by name. It may lose, delay,
// repeat and so reorder them; a cut pair hears nothing of each other.
type network struct {
	w     *World
	cut   map[[2]string]int // directed; counts overlapping faults
	loss  float64
	again float64       // chance that a call arrives twice
	slow  time.Duration // at most this much more
}

// leg is the fate of one message.
func (n *network) leg(from, to string) (d time.Duration, arrives bool) {
	if n.w.Still {
		return time.Millisecond, n.cut[[2]string{from, to}] == 0
	}
	d = n.w.between("net", 100*time.Microsecond, 2*time.Millisecond)
	if n.slow > 0 {
		d += n.w.between("net", 0, n.slow)
	}
	return d, n.cut[[2]string{from, to}] == 0 && !n.w.chance("net", n.loss)
}

// Cut parts a and b; by adds up and is taken back by its negative.
func (n *network) Cut(a, b string, by int, oneWay bool) {
	n.cut[[2]string{a, b}] += by
	if !oneWay {
		n.cut[[2]string{b, a}] += by
	}
}

// call sends a request from the current task's host to a host and waits for
// the answer, timeout at most. ok is false when none came: then nobody knows
// what happened there. A dead host refuses at once.
func call[T any](w *World, from, to string, host *Host, timeout time.Duration, handle func() T) (answer T, ok bool) {
	type said struct {
		v  T
		ok bool
	}
	r := newReply[said](w.Loop)
	deliver := func(d time.Duration, first bool) {
		w.At(d, func() {
			if host.dead {
				r.say(said{})
				return
			}
			host.run(func() {
				w.Go(host, func() {
					v := handle()
					if d, arrives := w.net.leg(to, from); arrives && first {
						w.At(d, func() { r.say(said{v, true}) })
					}
				})
			})
		})
	}
	d, arrives := w.net.leg(from, to)
	if arrives {
		deliver(d, true)
		if w.chance("net", w.net.again) {
			deliver(d+w.between("net", 0, 3*time.Second), false)
		}
	}
	got, answered := r.await(timeout)
	return got.v, answered && got.ok
}
