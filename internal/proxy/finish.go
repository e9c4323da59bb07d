package proxy

// finish observes the exchange and gives it back.
func (x *exchange) finish() {
	c := x.c
	now := c.p.cfg.Now()
	if x.obs.Start.IsZero() { // the head never came whole
		x.obs.Start = now
	}
	x.obs.Total = now.Sub(x.obs.Start)
	if x.obs.Method == "" {
		x.obs.Method = otherMethod
	}
	if !x.resolved.IsZero() {
		x.obs.Resolved = x.resolved.Sub(x.obs.Start)
	}
	x.obs.Epoch, x.obs.Worker, x.obs.Fresh, x.obs.Fault = x.place.Epoch, x.place.Worker, x.fresh, x.fault
	if x.obs.Forwards = x.forwards; x.forwards > 0 && len(x.body) > 0 {
		x.obs.BytesIn = int64(len(x.body))
	}
	if x.counted {
		c.p.counts[x.obs.Kind].Add(-1)
	}
	c.x = nil
	x.obs.Peer = c.peer.text
	c.p.cfg.Observe(&x.obs)
	x.give()
	c.pause(now)
}

// maxKept bounds what a pooled exchange keeps of an unusually large head.
const maxKept = 256

func (x *exchange) give() {
	x.dropOut()
	req, res, fields := x.req.Fields[:0], x.res.Fields[:0], x.fields[:0]
	if cap(req) > maxKept {
		req = nil
	}
	if cap(res) > maxKept {
		res = nil
	}
	done := x.up.done
	*x = exchange{fields: fields}
	x.req.Fields, x.res.Fields, x.up.done = req, res, done
	exchanges.Put(x)
}
