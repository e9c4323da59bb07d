package sim

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"pinboard"
	"pinboard/api"
	"pinboard/internal/attest"
	"pinboard/worker"
)

// A sdkApp is the application's side of an instance, and x what the checker
// knows of it: live from the beginning of Open to the end of the close hook.
type sdkApp struct {
	m  *goSDK
	in *worker.Instance
	x  *Instance
}

var errFenced = errors.New("the store fenced the writer off")

// open is the application's Open.
func (m *goSDK) open(in *worker.Instance) (http.Handler, error) {
	p := m.p
	m.begins("Open of " + in.ID)
	x := &Instance{p: p, key: p.key(in.Namespace, in.ID), epoch: m.epoch(in),
		built: newReply[bool](m.w.Loop), closed: newReply[bool](m.w.Loop), live: true, used: m.w.Now}
	a := &sdkApp{m: m, in: in, x: x}
	p.instances[x.key], m.apps = x, append(m.apps, a)
	m.w.check.starts(x)
	m.w.note("%s: starts %s @%s", p.Name, in.ID, m.w.check.name(x.key, x.epoch))
	in.OnClose(a.close)
	in.Go(a.work)
	m.Wait(p.Build)
	m.w.check.acquire(x)
	return a, nil
}

// epoch is what the SDK says, read without being in its way.
func (m *goSDK) epoch(in *worker.Instance) (e pinboard.Epoch) {
	m.silent = true
	defer func() { m.silent = false }()
	return in.Epoch()
}

// close is the application's hook: it takes its time, whatever its context
// says, and stores what memory holds.
func (a *sdkApp) close(context.Context) error {
	m, p := a.m, a.m.p
	a.x.closing = true
	m.w.note("%s: closes %s", p.Name, a.in.ID)
	m.Wait(m.w.between("close", p.Close, p.Close*2))
	persisted := !p.lossy && m.w.check.write(a.x)
	a.x.live = false
	m.w.check.ended(a.x)
	if p.instances[a.x.key] == a.x {
		delete(p.instances, a.x.key)
	}
	for i := range m.apps {
		if m.apps[i] == a {
			m.apps = append(m.apps[:i:i], m.apps[i+1:]...)
			break
		}
	}
	m.w.note("%s: has closed %s", p.Name, a.in.ID)
	if !persisted {
		return errFenced
	}
	return nil
}

// work is what an instance does besides requests, for a moment.
func (a *sdkApp) work(ctx context.Context) {
	a.m.begins("work of " + a.in.ID)
	a.m.Wait(300*time.Millisecond, ctx.Done())
}

type hitKey struct{}

// ServeHTTP is the application's handler: the same work that the model does
// for a hit.
func (a *sdkApp) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
	m, h := a.m, r.Context().Value(hitKey{}).(hit)
	m.begins("a request to " + a.in.ID)
	if e := m.epoch(a.in); e > a.x.epoch {
		m.w.check.adopts(a.x, e)
		a.x.epoch = e
	}
	switch {
	case h.stray:
		http.NotFound(rw, r)
		return
	case h.deny:
		if !a.x.served {
			a.in.Close()
		}
		http.Error(rw, denied, http.StatusForbidden)
		return
	}
	a.x.served = true
	m.w.check.write(a.x)
	if m.Wait(h.busy, r.Context().Done()) == 0 {
		return // the SDK says that it was cut
	}
	m.w.check.write(a.x)
	fmt.Fprint(rw, served)
	if h.flow != nil {
		a.emit(rw, r, h)
	}
}

// emit sends a stream's bytes for as long as it may.
func (a *sdkApp) emit(rw http.ResponseWriter, r *http.Request, h hit) {
	if http.NewResponseController(rw).Flush() != nil {
		return
	}
	for end := a.m.w.Now + h.stream; a.m.w.Now < end && h.flow.open; {
		if a.m.Wait(time.Second, r.Context().Done()) == 0 {
			return
		}
		if _, err := fmt.Fprint(rw, "more"); err != nil {
			return
		}
	}
}

// handle takes a forward to the SDK and says what the node reads of its answer.
func (m *goSDK) handle(h hit) string {
	r := must(http.NewRequest(http.MethodGet, m.p.url+h.key.Namespace+"/"+h.key.ID, nil))
	r.Header.Set(api.HeaderEpoch, h.epoch.String())
	r.Header.Set(api.HeaderAttestation, string(attest.Append(nil, h.secret, h.aud, "", 0, m.w.time())))
	said := newReply[string](m.w.Loop)
	rec := &recorder{header: http.Header{}, flushed: func() { said.say(served) }, writes: func([]byte) { m.bytes(h) }}
	m.Go(func() {
		m.h.ServeHTTP(rec, r.WithContext(context.WithValue(context.Background(), hitKey{}, h)))
		if h.flow != nil && rec.flushed == nil {
			h.flow.open = false
		}
		said.say(rec.text())
	})
	text, _ := said.await(0)
	return text
}

// bytes of a stream leave the process.
func (m *goSDK) bytes(h hit) {
	x := m.p.instances[h.key]
	if x == nil {
		x = &Instance{p: m.p, key: h.key} // it has ended, its bytes go on
	}
	if d, arrives := m.w.net.leg(m.p.Name, h.flow.n.Name); arrives {
		by := m.w.check.ownerBut(x)
		m.w.At(d, func() { h.flow.n.run(func() { h.flow.bytes(x, by) }) })
	}
}

// text is the answer in the words of the model.
func (r *recorder) text() string {
	var d struct{ Detail string }
	_ = json.Unmarshal(r.body.Bytes(), &d) // what is no denial has no detail
	switch {
	case r.status == http.StatusOK:
		return served
	case r.status == http.StatusForbidden && d.Detail == stranger:
		return stranger
	case r.status == http.StatusForbidden:
		return denied
	case r.header.Get(api.HeaderRefusal) == api.RefusalUnhealthy:
		return unhealthy
	case r.status == http.StatusNotFound:
		return notFound
	}
	return d.Detail
}
