package proxy

import (
	"bytes"
	"strings"

	"pinboard"
	"pinboard/internal/h1"
)

// maxInterim bounds the interim answers of one exchange.
const maxInterim = 100

// awaitHead reads up to the final head, which stays unread, and passes interim
// ones on.
func (d *delivery) awaitHead() outcome {
	var scan h1.Scan
	for u := d.u; ; {
		n, ok := scan.Find(u.unread())
		switch {
		case !ok || n > h1.MaxHead || n == 0 && len(u.unread()) >= h1.MaxHead:
			return d.invalid()
		case n == 0:
			if err := u.fill(); err != nil {
				return d.lost(err)
			}
			d.from.heard()
			continue
		}
		head := u.unread()[:n]
		if !h1.ParseResponse(head, d.headOnly, &d.res) {
			return d.invalid()
		}
		if !d.res.Interim() {
			return d.judge(n)
		}
		if d.interim++; d.interim > maxInterim {
			return d.invalid()
		}
		if !d.from.pass(head) {
			d.discard()
			return interrupted
		}
		u.consume(n)
		scan = h1.Scan{}
	}
}

// The exact forms in which a worker says no (docs/protocol.md, "What Pinboard says to workers").
const (
	leaseUnhealthy     = "lease-unhealthy"
	invalidAttestation = `{"detail":"invalid attestation"}`
)

// judge looks at a final head of n bytes for what never reaches a sender.
func (d *delivery) judge(n int) outcome {
	d.u.worker.served(d.u)
	switch {
	case d.res.Status == 101 && !(d.res.WebSocket && d.upgrade):
		return d.invalid()
	case d.res.Status == 503 && d.isRefusal(d.u.unread()[:n]):
		d.settle(n)
		return refused
	case d.res.Status == 403:
		bad, err := d.isBadAttestation(n)
		if err != nil {
			return d.lost(err)
		}
		if bad {
			d.p.cfg.Mistrusted(d.place.Worker, d.date(d.u.unread()[:n]))
			d.settle(n)
			return mistrusted
		}
	}
	return answered
}

func (d *delivery) isRefusal(head []byte) bool {
	found := false
	for _, f := range d.res.Fields {
		if f.Kind == h1.Refusal {
			if found || string(f.Value.Of(head)) != leaseUnhealthy {
				return false
			}
			found = true
		}
	}
	return found
}

// date is the worker's Date, "" without one.
func (d *delivery) date(head []byte) string {
	for _, f := range d.res.Fields {
		if bytes.EqualFold(f.Name.Of(head), []byte("date")) {
			return string(f.Value.Of(head))
		}
	}
	return ""
}

// isBadAttestation tells this 403 from others by its short body. It waits for a
// body of that length while what has come of it could become it; one in chunks
// may be a stream, and counts only if it came with the head.
func (d *delivery) isBadAttestation(n int) (bool, error) {
	length := int64(len(invalidAttestation))
	switch {
	case d.res.Body == h1.Chunked:
	case d.res.Body != h1.Length:
		return false, nil
	case d.res.ContentLength == 0 && d.upgrade && d.place.Settling:
		return true, nil
	case d.res.ContentLength != length:
		return false, nil
	}
	for {
		body := h1.NewBody(d.res.Body, length)
		body.Spaced = true
		var data [len(invalidAttestation) + 1]byte
		m, _, ok := body.Read(data[:], d.u.unread()[n:])
		switch {
		case !ok || !strings.HasPrefix(invalidAttestation, string(data[:m])):
			return false, nil
		case m == len(invalidAttestation) && (body.Ended() || body.AtLast()):
			return true, nil
		case d.res.Body == h1.Chunked:
			return false, nil
		}
		if err := d.u.fill(); err != nil {
			if !d.from.cut(nil) {
				return false, nil // relayed as it was cut
			}
			return false, err
		}
	}
}

// settle disposes of u, whose answer of n head bytes the sender does not see:
// kept when the answer is complete, else closed.
func (d *delivery) settle(n int) {
	length := int64(0)
	if d.res.Body == h1.Length {
		length = d.res.ContentLength
	}
	known := d.res.Body == h1.NoBody || d.res.Body == h1.Length
	if !d.whole || d.res.Close || !known || int64(len(d.u.unread())-n) != length {
		d.discard()
		return
	}
	d.u.release()
	d.from.back(d.u)
	d.putBack()
}

// lost closes u, which failed before the worker's head was complete.
func (d *delivery) lost(err error) outcome {
	u := d.u
	d.discard()
	if d.from.cut(err) {
		return interrupted
	}
	u.worker.failed(u)
	return d.reject(pinboard.WorkerBroken)
}

// faultOf says what is wrong with an answer that cannot be passed on.
func (d *delivery) faultOf(u *upstream) string {
	switch {
	case d.interim > maxInterim:
		return "too many interim answers"
	case d.res.Status == 101:
		return "an upgrade that was not asked for"
	case len(u.unread()) >= h1.MaxHead:
		return "a response head that is too large"
	}
	return "no valid HTTP response head"
}

// invalid closes u, whose worker speaks no HTTP that can be passed on.
func (d *delivery) invalid() outcome {
	d.fault = d.faultOf(d.u)
	d.discard()
	if d.from.cut(nil) {
		return interrupted
	}
	return d.reject(pinboard.WorkerInvalid)
}
