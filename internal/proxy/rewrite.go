package proxy

import (
	"strconv"

	"pinboard/internal/h1"
)

var (
	// toWorker are the kinds of a client's head that are dropped or replaced.
	toWorker = h1.HopByHop | h1.FromClient
	// fromWorker are the kinds of a worker's head that are dropped.
	fromWorker = h1.HopByHop | h1.FromWorker
)

// compose implements sender. The client's lines pass as bytes; what Pinboard
// adds comes behind them.
func (x *exchange) compose(b []byte, k *worker) []byte {
	r, head := &x.req, x.head
	b = append(b, r.Method.Of(head)...)
	b = append(b, ' ')
	b = append(b, k.base...)
	path := r.Path.Of(head)
	if x.place.Worker.PathInURL {
		path = path[len(x.obs.Address.Namespace):]
	}
	b = append(b, path...)
	b = append(b, r.Query.Of(head)...)
	b = append(b, " HTTP/1.1\r\n"...)
	drop := toWorker | x.c.peer.replaced()
	if !r.Authority.Empty() || !r.HasHost {
		b = x.appendHost(b, k)
		drop |= h1.SetOf(h1.Host)
	}
	if r.Body != h1.Chunked {
		drop |= h1.SetOf(h1.Trailer)
	}
	if r.Minor == 0 {
		drop |= h1.SetOf(h1.Expect)
	}
	if r.WebSocket { // a length of 0, which some workers take for a body
		drop |= h1.SetOf(h1.ContentLength)
	}
	hops, limited := x.maxForwards()
	if limited {
		drop |= h1.SetOf(h1.MaxForwards)
	}
	b = h1.AppendFields(b, head, r.Fields, drop, r.Listed)
	if limited {
		b = append(b, "Max-Forwards: "...)
		b = strconv.AppendUint(b, hops-1, 10)
		b = append(b, "\r\n"...)
	}
	if r.WebSocket {
		b = append(b, "Connection: Upgrade\r\nUpgrade: websocket\r\n"...)
	} else if r.Trailers {
		b = append(b, "Connection: TE\r\nTE: trailers\r\n"...) // RFC 9110 10.1.4: one never without the other
	}
	return x.appendForwarded(b)
}

func (x *exchange) appendHost(b []byte, k *worker) []byte {
	b = append(b, "Host: "...)
	if site := x.site(); len(site) > 0 {
		b = append(b, site...)
	} else {
		b = append(b, k.site...)
	}
	return append(b, "\r\n"...)
}

// maxForwards reads the field on OPTIONS, the only method here that obeys it
// (RFC 9110 7.6.2; TRACE is refused).
func (x *exchange) maxForwards() (hops uint64, limited bool) {
	if !x.req.Has.Has(h1.MaxForwards) || x.obs.Method != "OPTIONS" {
		return 0, false
	}
	for _, f := range x.req.Fields {
		if f.Kind == h1.MaxForwards {
			n, err := strconv.ParseUint(string(f.Value.Of(x.head)), 10, 32)
			return n, err == nil
		}
	}
	return 0, false
}

// methods are the names that observers may see; any other is "other", so that
// clients cannot invent label values.
var methods = map[string]string{
	"GET": "GET", "HEAD": "HEAD", "POST": "POST", "PUT": "PUT", "PATCH": "PATCH", "DELETE": "DELETE",
	"OPTIONS": "OPTIONS", "CONNECT": "CONNECT", "TRACE": "TRACE",
}

const otherMethod = "other"

func methodName(b []byte) string {
	if m, ok := methods[string(b)]; ok {
		return m
	}
	return otherMethod
}
