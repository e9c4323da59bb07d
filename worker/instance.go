package worker

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"time"

	"pinboard"
	"pinboard/internal/seam"
)

// An Instance is the one live object of its (namespace, id). It begins with
// Class.Open and ends when it was idle for long, when Pinboard orders it, when
// the worker drains, or before the lease can lapse. It ends in this order: no
// new request comes in, the contexts of its requests and of its background
// work end, all of them return, the hooks of OnClose run, the id goes back to
// Pinboard, and only then may the id live elsewhere.
type Instance struct {
	Namespace string
	ID        string

	h     *Handler
	k     key
	class Class

	ctx      context.Context // ends when closing begins
	cancel   context.CancelCauseFunc
	hooksCtx context.Context // ends when closing is over, or the lease lapsed
	endHooks context.CancelCauseFunc

	opened  chan struct{} // closed when Open has returned, or did not begin
	serving http.Handler  // what it returned; nil: there is none. Fixed once opened
	late    *denial       // why Open did not begin, nil if it did. Fixed once opened
	quiet   chan struct{} // closed when closing and nobody is inside any more
	gone    chan struct{} // closed when the table has forgotten the instance

	// The rest is guarded by h.mu.
	epoch    pinboard.Epoch // the highest it was addressed with
	inside   map[*answer]struct{}
	requests int // inside, streams not counted
	streams  int // inside; they keep nothing alive that winds down
	tasks    int // background work
	closing  bool
	retry    bool      // Open failed unasked: the id is not given back
	left     time.Time // when the last request or task left
	began    time.Time // when it was opened, zero before
	deadline time.Time // the operator's, zero for none
	asked    time.Time // the application's own, zero for none
	timer    timer     // of the next thing to happen by itself: idle or deadline
	hooks    []func(context.Context) error
}

// Context ends, with cause ErrStopped, when the instance must stop: for work
// that belongs to no request.
func (in *Instance) Context() context.Context { return in.ctx }

// Epoch is the highest placement epoch this instance was addressed with. Write
// it beside stored data and refuse a write whose stored epoch is higher: then
// not even a process that was frozen past its lease can overwrite its
// successor.
func (in *Instance) Epoch() pinboard.Epoch {
	in.h.mu.Lock()
	defer in.h.mu.Unlock()
	return in.epoch
}

// Go runs background work of the instance. Its context is Context; it keeps
// the instance from being idle, and closing waits for its return. False, and
// nothing runs, once closing has begun. Nor does it begin if the lease ends
// between this call and the first instruction of work; the instance closes.
func (in *Instance) Go(work func(context.Context)) bool {
	in.h.mu.Lock()
	defer in.h.mu.Unlock()
	if in.closing {
		return false
	}
	in.tasks++
	in.h.m.Go(func() {
		defer in.leave(func() { in.tasks-- })
		if l, now := in.h.look(); l.ending(now) {
			in.stop()
			return
		}
		work(in.ctx)
	})
	return true
}

// OnClose adds a hook to the closing of the instance; hooks run one by one,
// the last added first, when nothing else of the instance runs. Their context
// ends when the lease has lapsed. If one fails the id is not given back: it
// stays placed here until the lease decides.
func (in *Instance) OnClose(hook func(context.Context) error) {
	in.h.mu.Lock()
	defer in.h.mu.Unlock()
	in.hooks = append(in.hooks, hook)
}

// Close asks the instance to end, as soon as its requests and background work
// have, after Config.Drain at the latest; the id is then free. It returns at
// once.
func (in *Instance) Close() {
	in.h.mu.Lock()
	defer in.h.mu.Unlock()
	in.asked = earliest(in.asked, in.h.m.Now().Add(in.h.cfg.Drain))
	in.h.settleLocked(in)
}

// openLocked makes an instance and starts to open it.
func (h *Handler) openLocked(class Class, k key) *Instance {
	in := &Instance{
		Namespace: k.ns, ID: k.id, h: h, k: k, class: class,
		opened: make(chan struct{}), quiet: make(chan struct{}), gone: make(chan struct{}),
		inside: map[*answer]struct{}{},
	}
	in.ctx, in.cancel = context.WithCancelCause(context.Background())
	in.hooksCtx, in.endHooks = context.WithCancelCause(context.Background())
	h.table[k] = in
	h.counts[k.ns].resident++
	h.m.Go(in.open)
	return in
}

// open calls the application, unless the lease has become too short since the
// request was let in. What did not open is closed, but its id is not given
// back unless somebody asked: the next request tries again, here and at the
// same epoch.
func (in *Instance) open() {
	h := in.h
	var handler http.Handler
	var err error
	switch l, now := h.look(); {
	case l.expired(now):
		in.late, err = &leaseExpired, errLapsed
	case !l.healthy(now):
		in.late, err = &unhealthy, errLapsed
	default:
		handler, err = in.tryOpen()
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	in.left = h.m.Now()
	if err == nil {
		in.serving, in.began = handler, in.left
		h.counts[in.Namespace].Activations++
		close(in.opened)
		h.settleLocked(in)
		return
	}
	close(in.opened) // before its context ends: who waited must learn that it failed
	h.cfg.Log.Error("instance did not open", "namespace", in.Namespace, "id", in.ID, "error", err)
	in.retry = !in.closing
	h.closeLocked(in)
}

func (in *Instance) tryOpen() (handler http.Handler, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v", p)
		}
	}()
	handler, err = in.class.Open(in)
	if err == nil && handler == nil {
		err = errors.New("no handler from Open")
	}
	return handler, err
}

// leave ends the stay of a request, stream or task.
func (in *Instance) leave(count func()) {
	in.h.mu.Lock()
	defer in.h.mu.Unlock()
	count()
	in.left = in.h.m.Now()
	in.h.settleLocked(in)
}

// settleLocked looks at an instance after anything about it changed: closes it
// if it is time, else sees to it that somebody looks again when it is.
func (h *Handler) settleLocked(in *Instance) {
	busy := in.requests + in.tasks
	if in.closing {
		if busy+in.streams == 0 {
			select {
			case <-in.quiet:
			default:
				close(in.quiet)
			}
		}
		return
	}
	now := h.m.Now()
	deadline := h.deadlineLocked(in)
	winding := h.drainingLocked() || !in.deadline.IsZero() || !in.asked.IsZero()
	due := deadline
	switch {
	case winding && busy == 0 && !in.began.IsZero():
		due = now
	case busy+in.streams == 0 && !in.began.IsZero():
		due = in.left.Add(in.class.Idle)
	}
	switch {
	case due.IsZero():
		in.timer.stop()
	case now.Before(due):
		in.timer.arm(h.m, due.Sub(now), func() { h.settle(in) })
	default:
		h.closeLocked(in)
	}
}

func (h *Handler) settle(in *Instance) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.settleLocked(in)
}

// closeLocked begins the end of an instance: from here on no request gets in.
func (h *Handler) closeLocked(in *Instance) {
	if in.closing {
		return
	}
	in.closing = true
	in.timer.stop()
	in.cancel(ErrStopped)
	for a := range in.inside {
		a.cancel(ErrStopped)
	}
	h.settleLocked(in)
	h.closers.Go(in.close)
}

// stop is closeLocked for those who do not hold the lock.
func (in *Instance) stop() {
	in.h.mu.Lock()
	defer in.h.mu.Unlock()
	in.h.closeLocked(in)
}

// close carries the end through, in the order the type promises.
func (in *Instance) close() {
	h := in.h
	h.m.Wait(seam.Forever, in.opened)
	h.m.Wait(seam.Forever, in.quiet)
	clean := in.runHooks()
	in.endHooks(ErrStopped)
	if epoch, ok := h.fenceOff(in, clean); ok && clean {
		h.session.releases.add(in.k, epoch)
	}
	h.forget(in)
}

// fenceOff closes the epoch of an instance that is no more; false if the id is
// to be tried again at the same epoch.
func (h *Handler) fenceOff(in *Instance, given bool) (pinboard.Epoch, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if in.retry {
		return 0, false
	}
	h.counts[in.Namespace].Evictions++
	h.fences.release(in.k, in.epoch, h.m.Now(), given)
	return in.epoch, true
}

func (in *Instance) runHooks() (ok bool) {
	in.h.mu.Lock()
	hooks := slices.Clone(in.hooks)
	in.h.mu.Unlock()
	ok = true
	for _, hook := range slices.Backward(hooks) {
		if err := in.runHook(hook); err != nil {
			ok = false
			in.h.cfg.Log.Error("instance did not close well; its id is not given back",
				"namespace", in.Namespace, "id", in.ID, "error", err)
		}
	}
	return ok
}

func (in *Instance) runHook(hook func(context.Context) error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v", p)
		}
	}()
	if l, now := in.h.look(); l.lapsed(now) {
		in.endHooks(errLapsed) // its timer may not have run yet
	}
	return hook(in.hooksCtx)
}

func (h *Handler) forget(in *Instance) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.table, in.k)
	h.counts[in.k.ns].resident--
	close(in.gone)
	if len(h.table) == 0 {
		select {
		case h.emptied <- struct{}{}:
		default:
		}
	}
}

// serve takes an admitted request to the application.
func (in *Instance) serve(rw http.ResponseWriter, r *http.Request, rest string, caller *Caller) {
	ctx, cancel := context.WithCancelCause(withCaller(r.Context(), caller))
	defer cancel(nil)
	defer in.awaitGone(r.Context())
	a := &answer{ResponseWriter: rw, in: in, cancel: cancel}
	a.enter()
	defer a.over()

	in.h.m.Wait(seam.Forever, in.opened, ctx.Done())
	inside := below(r.WithContext(ctx), rest)
	if d := in.unusable(); d != nil {
		d.write(rw, r)
		return
	}
	in.serving.ServeHTTP(a, inside) // nothing comes between this and the look in unusable
	if (a.cut.Load() || in.ctx.Err() != nil) && !a.began.Load() {
		aborted.write(rw, r) // cut before it said anything: no empty 200
	}
}

// unusable says why a request that waited for Open cannot be served. The lease
// comes last: it may have ended during any wait since the request was let in.
func (in *Instance) unusable() *denial {
	select {
	case <-in.opened:
	default:
		return &closing
	}
	switch {
	case in.late != nil:
		return in.late
	case in.serving == nil:
		return &openFailed
	case in.ctx.Err() != nil:
		return &closing
	}
	switch l, now := in.h.look(); {
	case l.expired(now):
		return &leaseExpired
	case l.ending(now):
		return &closing
	}
	return nil
}

// awaitGone holds back the end of an answer of a closing instance until the id
// was given back: a client whose stream was cut and who redials at once then
// finds the id free.
func (in *Instance) awaitGone(request context.Context) {
	if in.ctx.Err() == nil {
		return
	}
	in.h.m.Wait(releaseWait, in.gone, request.Done())
}

// below is the request as the instance sees it: the path behind its id.
func below(r *http.Request, rest string) *http.Request {
	if rest == "" {
		rest = "/"
	}
	u := new(url.URL)
	*u = *r.URL
	if path, err := url.PathUnescape(rest); err == nil {
		u.Path, u.RawPath = path, rest
	} else {
		u.Path, u.RawPath = rest, ""
	}
	r.URL = u
	return r
}
