package proxy

import (
	"bytes"
	"math/rand/v2"
	"strings"
)

// A request is named by the X-Request-Id of its client, else by a name made
// here, in our own errors and wherever an observer asks for it. Requests that
// a worker answers carry what the client sent and nothing else.
const requestIDName = "X-Request-Id"

// maxRequestID bounds a name that a client brings.
const maxRequestID = 128

// noteRequestID remembers the client's name of a request while its head is
// there. Only a single, bounded and plain one counts.
func (x *exchange) noteRequestID() {
	if x.head == nil || x.obs.RequestID != "" {
		return
	}
	var found []byte
	for _, f := range x.req.Fields {
		if name := f.Name.Of(x.head); len(name) != len(requestIDName) || !bytes.EqualFold(name, []byte(requestIDName)) {
			continue
		}
		v := f.Value.Of(x.head)
		if found != nil || !plainID(v) {
			return
		}
		found = v
	}
	x.obs.RequestID = string(found)
}

func plainID(v []byte) bool {
	for _, c := range v {
		if !(c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || strings.IndexByte("-._~:/+=@", c) >= 0) {
			return false
		}
	}
	return len(v) > 0 && len(v) <= maxRequestID
}

// requestID names the request, with a name of our own if its client has none.
func (x *exchange) requestID() string {
	x.noteRequestID()
	if x.obs.RequestID == "" {
		x.obs.RequestID = madeID()
	}
	return x.obs.RequestID
}

// madeID is 64 random bits in letters that spell no word.
func madeID() string {
	const letters = "bcdfghjklmnpqrsv"
	var b [16]byte
	for i, n := 0, rand.Uint64(); i < len(b); i, n = i+1, n>>4 {
		b[i] = letters[n&15]
	}
	return string(b[:])
}

func (x *exchange) appendRequestID(b []byte) []byte {
	b = append(b, requestIDName+": "...)
	b = append(b, x.requestID()...)
	return append(b, "\r\n"...)
}
