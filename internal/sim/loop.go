package sim

import (
	"container/heap"
	"iter"
	"time"
)

// A Loop is the fake clock and everything that will happen by it.
type Loop struct {
	Now    time.Duration
	queue  queue
	seq    uint64
	cur    *Task
	tasks  map[*Task]struct{}
	failed any // panic of a task, raised again by Step
}

func newLoop() *Loop { return &Loop{tasks: map[*Task]struct{}{}} }

type event struct {
	at  time.Duration
	seq uint64
	do  func()
}

type queue []event

func (q queue) Len() int { return len(q) }
func (q queue) Less(i, j int) bool {
	return q[i].at < q[j].at || q[i].at == q[j].at && q[i].seq < q[j].seq
}
func (q queue) Swap(i, j int) { q[i], q[j] = q[j], q[i] }
func (q *queue) Push(x any)   { *q = append(*q, x.(event)) }
func (q *queue) Pop() any {
	old := *q
	e := old[len(old)-1]
	old[len(old)-1] = event{}
	*q = old[:len(old)-1]
	return e
}

// At makes do happen once, d from now.
func (l *Loop) At(d time.Duration, do func()) {
	l.seq++
	heap.Push(&l.queue, event{l.Now + max(d, 0), l.seq, do})
}

// Step makes the next thing happen; false when it lies beyond until.
func (l *Loop) Step(until time.Duration) bool {
	if len(l.queue) == 0 || l.queue[0].at > until {
		l.Now = max(l.Now, until)
		return false
	}
	e := heap.Pop(&l.queue).(event)
	l.Now = e.at
	e.do()
	if l.failed != nil {
		panic(l.failed)
	}
	return true
}

// A Host runs tasks; it can freeze and die.
type Host struct {
	Name    string
	loop    *Loop
	frozen  bool
	dead    bool
	trip    int      // it stops before the so many-th thing it does from now; 0: never
	tripped func()   // ... what then happens beside that
	wait    []func() // what a frozen host will do first when it thaws
}

// Freeze stops the host as SIGSTOP does: sockets stay open, clocks run on.
func (h *Host) Freeze() { h.frozen = true }

// Thaw lets it go on where it stopped.
func (h *Host) Thaw() {
	h.frozen = false
	wait := h.wait
	h.wait = nil
	for _, f := range wait {
		h.loop.At(0, func() { h.run(f) })
	}
}

// Kill ends the host and all it does at once.
func (h *Host) Kill() {
	h.dead, h.wait = true, nil
	for t := range h.loop.tasks {
		if t.host == h && t != h.loop.cur {
			t.end()
		}
	}
}

// run does f on the host: later if it is frozen, never if it is dead.
func (h *Host) run(f func()) {
	switch {
	case h == nil:
		f()
	case h.dead:
	case h.frozen:
		h.wait = append(h.wait, f)
	case h.trip == 1:
		h.trip = 0
		h.Freeze()
		h.wait = append(h.wait, f)
		h.tripped()
	default:
		h.trip = max(h.trip-1, 0)
		f()
	}
}

// A Task is one activity. It runs until it waits for something.
type Task struct {
	loop  *Loop
	host  *Host
	next  func() (struct{}, bool)
	stop  func()
	yield func(struct{}) bool
	waits uint64 // counts waits, so that an old wake-up wakes nobody
	done  bool
}

// killed unwinds a task whose host died.
type killed struct{}

// Go starts f on host as a task of its own.
func (l *Loop) Go(host *Host, f func()) *Task {
	t := &Task{loop: l, host: host}
	t.next, t.stop = iter.Pull(func(yield func(struct{}) bool) {
		t.yield = yield
		defer func() {
			if p := recover(); p != nil && p != (killed{}) {
				l.failed = p
			}
		}()
		f()
	})
	l.tasks[t] = struct{}{}
	l.At(0, t.resume)
	return t
}

func (t *Task) resume() {
	t.host.run(func() {
		if t.done {
			return
		}
		before := t.loop.cur
		t.loop.cur = t
		_, more := t.next()
		t.loop.cur = before
		if !more {
			t.done = true
			delete(t.loop.tasks, t)
		}
	})
}

func (t *Task) end() {
	t.done = true
	delete(t.loop.tasks, t)
	t.stop()
}

// park gives way until somebody wakes this wait.
func (l *Loop) park() {
	if !l.cur.yield(struct{}{}) {
		panic(killed{})
	}
}

// waker ends the wait that the current task is about to begin, once.
func (l *Loop) waker() func() {
	t := l.cur
	t.waits++
	n := t.waits
	return func() {
		if t.waits == n {
			t.waits++
			l.At(0, t.resume)
		}
	}
}

// Sleep lets d pass for the current task.
func (l *Loop) Sleep(d time.Duration) {
	l.At(d, l.waker())
	l.park()
}

// A reply is something that another party will say, or not; any number of
// tasks may wait for it.
type reply[T any] struct {
	loop  *Loop
	said  bool
	value T
	wakes []func()
}

func newReply[T any](l *Loop) *reply[T] { return &reply[T]{loop: l} }

func (r *reply[T]) say(v T) {
	if r.said {
		return
	}
	r.said, r.value = true, v
	for _, wake := range r.wakes {
		wake()
	}
	r.wakes = nil
}

// await waits for the reply, d at most (0: without end).
func (r *reply[T]) await(d time.Duration) (v T, ok bool) {
	if !r.said {
		wake := r.loop.waker()
		r.wakes = append(r.wakes, wake)
		if d > 0 {
			r.loop.At(d, wake)
		}
		r.loop.park()
	}
	return r.value, r.said
}

// Fan runs do for 0..n-1, each as a task of its own, and waits for all.
func (l *Loop) Fan(n int, do func(int)) {
	if n == 1 {
		do(0)
		return
	}
	all, left := newReply[bool](l), n
	for i := range n {
		l.Go(l.cur.host, func() {
			do(i)
			if left--; left == 0 {
				all.say(true)
			}
		})
	}
	all.await(0)
}

// Close ends every task.
func (l *Loop) Close() {
	for t := range l.tasks {
		t.end()
	}
}
