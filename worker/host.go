package worker

import (
	"cmp"
	"errors"
	"maps"
	"slices"
	"time"

	"pinboard/api"
	"pinboard/client"
)

// ErrStopped is the cause with which contexts of an instance end: it was
// released, evicted, or its lease is about to end.
var ErrStopped = errors.New("instance stopped")

// errLapsed ends close hooks that outlast the lease.
var errLapsed = errors.New("lease lapsed")

// held lists every id in the table, for a registration.
func (h *Handler) held() map[string][]string {
	h.mu.Lock()
	defer h.mu.Unlock()
	out := map[string][]string{}
	for k := range h.table {
		out[k.ns] = append(out[k.ns], k.id)
	}
	for _, ids := range out {
		slices.Sort(ids)
	}
	return out
}

// instancesLocked lists the table in one order, always the same: a simulation
// must repeat itself.
func (h *Handler) instancesLocked() []*Instance {
	return slices.SortedFunc(maps.Values(h.table), func(a, b *Instance) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.ID, b.ID))
	})
}

// quit closes what may have another owner. What had closed already when the
// registration listed it is given back once more: a release that was under way
// may have arrived before the registration, and Pinboard waits for one behind
// it.
func (h *Handler) quit(duplicates []api.Instance) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, d := range duplicates {
		k := key{d.NS, d.ID}
		if last := h.fences[k]; last.given {
			h.session.releases.repeat(k, last.epoch)
		} else if in := h.table[k]; in != nil {
			h.closeLocked(in)
		}
	}
}

// renewed arms the timers of the lease and forgets old fences.
func (h *Handler) renewed() {
	h.mu.Lock()
	defer h.mu.Unlock()
	lease, now := h.look()
	h.timers.stop.arm(h.m, lease.stopAt().Sub(now), h.leaseEnds)
	h.timers.lapse.arm(h.m, lease.until.Sub(now), h.leaseLapsed)
	if l, now := h.look(); l.ending(now) {
		h.abortLocked() // stopped since the first look: the timers come late
	}
	h.fences.sweep(now, lease.fenceMemory())
}

// windDown applies an order of the operator to one instance.
func (h *Handler) windDown(m client.Message) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if _, known := h.classes[m.NS]; m.Bad || !known {
		return false
	}
	in := h.table[key{m.NS, m.ID}]
	if in == nil || in.closing {
		return true
	}
	in.deadline = time.Time{}
	if m.Deadline != nil {
		in.deadline = h.m.Now().Add(*m.Deadline)
	}
	h.settleLocked(in)
	return true
}

// operatorDrain applies the operator's drain of this worker.
func (h *Handler) operatorDrain(d drain) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.operator = d
	h.drainChangedLocked()
}

// stopAll closes everything for good.
func (h *Handler) stopAll() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.over = true
	h.abortLocked()
}

func (h *Handler) abortLocked() {
	for _, in := range h.instancesLocked() {
		h.closeLocked(in)
	}
}

// leaseEnds runs half a buffer before the lease can have lapsed.
func (h *Handler) leaseEnds() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if l, now := h.look(); !l.ending(now) || len(h.table) == 0 {
		return // renewed meanwhile, or nothing to lose
	}
	h.cfg.Log.Warn("lease ends without a renewal: closing all instances", "instances", len(h.table))
	h.abortLocked()
}

// leaseLapsed takes from closing instances what they still hold on to.
func (h *Handler) leaseLapsed() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if l, now := h.look(); !l.lapsed(now) {
		return
	}
	for _, in := range h.instancesLocked() {
		in.endHooks(errLapsed)
	}
}

// drainingLocked reports whether nothing new may open.
func (h *Handler) drainingLocked() bool { return h.own.on || h.operator.on }

// deadlineLocked is when an instance must have stopped; zero for never.
func (h *Handler) deadlineLocked(in *Instance) time.Time {
	return earliest(earliest(in.deadline, in.asked), earliest(h.own.at, h.operator.at))
}

// drainChangedLocked gives effect to a new pair of drains.
func (h *Handler) drainChangedLocked() {
	h.session.cap(earliest(h.own.at, h.operator.at))
	for _, in := range h.instancesLocked() {
		h.settleLocked(in)
	}
}

// drainFor begins this process's own drain.
func (h *Handler) drainFor(d time.Duration) {
	h.session.setDraining(true)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.own = drain{on: true, at: h.m.Now().Add(d)}
	h.drainChangedLocked()
}

// awaitEmpty waits until nothing lives here, d at most.
func (h *Handler) awaitEmpty(d time.Duration) (left int) {
	for end := h.m.Now().Add(d); ; {
		h.mu.Lock()
		left = len(h.table)
		h.mu.Unlock()
		if left == 0 || h.m.Wait(max(0, end.Sub(h.m.Now())), h.emptied) < 0 {
			return left
		}
	}
}
