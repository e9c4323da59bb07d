package sim

import (
	"time"

	"pinboard"
	"pinboard/internal/directory"
	"pinboard/internal/ownership"
)

// A hit is one forwarded request.
type hit struct {
	key    ownership.Key
	epoch  pinboard.Epoch
	aud    string        // session that the attestation is for
	secret string        // that it is signed with
	busy   time.Duration // work it causes
	stream time.Duration // bytes it goes on getting after its answer
	deny   bool          // the app says no before it builds anything
	stray  bool          // no such route
	flow   *flow         // where the bytes of a stream go
}

// What a worker answers: "ok", or a refusal as the real client says it.
const (
	served    = "ok"
	stranger  = "invalid attestation"
	unhealthy = "lease-unhealthy"
	notFound  = "no such route"
	denied    = "denied by the app"
)

// handle is the worker's side of a forward; the order of checks is that of
// the real client (TestModelAgreesWithTheRealClient).
func (p *Proc) handle(h hit) string {
	if p.sdk != nil {
		return p.sdk.handle(h)
	}
	if h.aud == "" || h.aud != p.session {
		return stranger
	}
	if h.stray {
		return notFound
	}
	if p.Lags {
		p.w.Sleep(p.w.between("lag", 500*time.Millisecond, time.Second))
	}
	if p.lease.Expired(p.w.Now) {
		return "lease expired; not serving"
	}
	if p.Epochs {
		if no := p.fence.Admit(h.key, h.epoch, p.w.Now); no != "" {
			return no
		}
	}
	in, no := p.get(h)
	if no != "" {
		return no
	}
	if h.deny {
		if !in.served {
			p.close(in, true)
		}
		return denied
	}
	in.served = true
	in.busy++
	in.built.await(0)
	defer func() { in.busy--; p.settled(in) }()
	p.w.check.write(in)
	p.w.Sleep(h.busy)
	if in.closing {
		return "instance aborted"
	}
	p.w.check.write(in)
	if h.flow != nil {
		in.busy++
		in.streams++
		p.w.Go(&p.Host, func() { p.emit(in, h) })
	}
	return served
}

// get finds or starts the instance.
func (p *Proc) get(h hit) (*Instance, string) {
	for {
		in := p.instances[h.key]
		if in == nil {
			switch {
			case !p.lease.Healthy(p.w.Now):
				return nil, unhealthy
			case p.draining || p.srvDrain:
				return nil, "host draining; retry"
			}
			in = p.activate(h)
		}
		if at := in.until(); at != 0 && p.w.Now >= at {
			return nil, "instance past its wind-down deadline; retry"
		}
		if in.closing {
			if !in.releasing {
				in.closed.await(0)
			}
			if in.releasing {
				return nil, "instance closing; retry"
			}
			continue
		}
		if h.epoch > in.epoch {
			p.w.check.adopts(in, h.epoch)
			in.epoch = h.epoch
		}
		return in, ""
	}
}

func (in *Instance) until() time.Duration {
	at := in.deadline
	for _, d := range []time.Duration{in.p.ownAt, in.p.srvAt} {
		if d != 0 && (at == 0 || d < at) {
			at = d
		}
	}
	return at
}

func (p *Proc) activate(h hit) *Instance {
	in := &Instance{p: p, key: h.key, epoch: h.epoch, built: newReply[bool](p.w.Loop), closed: newReply[bool](p.w.Loop), live: true, used: p.w.Now}
	p.instances[h.key] = in
	p.w.check.starts(in)
	p.w.note("%s: starts %s @%s", p.Name, h.key.ID, p.w.check.name(h.key, h.epoch))
	p.w.Go(&p.Host, func() {
		p.w.Sleep(p.Build)
		p.w.check.acquire(in)
		in.built.say(true)
	})
	return in
}

// close ends an instance: its tasks, its lifespan, its last write, and then
// its placement.
func (p *Proc) close(in *Instance, releasing bool) {
	if in.closing {
		in.releasing = in.releasing || releasing
		return
	}
	in.closing, in.releasing = true, releasing
	p.w.note("%s: closes %s", p.Name, in.key.ID)
	p.w.Go(&p.Host, func() {
		in.built.await(0)
		p.w.Sleep(p.w.between("close", p.Close, p.Close*2))
		persisted := !p.lossy && p.w.check.write(in)
		in.live = false
		p.w.check.ended(in)
		p.w.note("%s: has closed %s", p.Name, in.key.ID)
		if in.releasing && p.Epochs {
			p.fence.Release(in.key, in.epoch, p.w.Now)
		}
		if in.releasing && (persisted || !p.Acks) {
			r := directory.Release{Namespace: in.key.Namespace, ID: in.key.ID, Epoch: in.epoch, HasEpoch: p.Epochs}
			if !p.Epochs {
				r.Epoch = 0
			}
			p.queue = append(p.queue, r)
			p.flush().await(patience)
		}
		if p.instances[in.key] == in {
			delete(p.instances, in.key)
		}
		in.closed.say(true)
	})
}

// emit sends a stream's bytes for as long as the instance lives.
func (p *Proc) emit(in *Instance, h hit) {
	for end := p.w.Now + h.stream; p.w.Now < end && in.live && h.flow.open; {
		p.w.Sleep(time.Second)
		if !in.live {
			break
		}
		if d, arrives := p.w.net.leg(p.Name, h.flow.n.Name); arrives {
			by := p.w.check.ownerBut(in) // when the bytes are made, not when a frozen node reads them
			p.w.At(d, func() { h.flow.n.run(func() { h.flow.bytes(in, by) }) })
		}
	}
	h.flow.open = false
	in.streams--
	in.busy--
	p.settled(in)
}

// settled: an instance that is winding down goes as soon as nothing but
// streams is left of its work.
func (p *Proc) settled(in *Instance) {
	in.used = p.w.Now
	if (in.deadline != 0 || p.draining || p.srvDrain) && in.busy == in.streams {
		p.close(in, true)
	}
}
