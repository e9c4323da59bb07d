// Package upstream is the worker behind every target of the benchmark: a
// responder so cheap that the proxy in front of it dominates, which can also
// register with Pinboard as a real worker does (docs/protocol.md, "register").
package upstream

import (
	"bytes"
	"crypto/sha1"
	"encoding/base64"
	"io"
	"net"
	"strings"
)

// maxHead bounds a request head; benchmark requests are far smaller.
const maxHead = 16 << 10

var (
	okAnswer  = []byte("HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 2\r\n\r\nok")
	badAnswer = []byte("HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
	// One event, then silence: what an idle subscriber looks like.
	eventAnswer = []byte("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n" +
		"d\r\ndata: hello\n\n\r\n")
)

var endHead = []byte("\r\n\r\n")

// A Responder answers GETs by the last segment of their path: .../events is
// an event stream, .../socket a WebSocket echo, a challenge goes to Challenge,
// anything else is two bytes of text. It reads no request bodies.
type Responder struct {
	// Challenge answers Pinboard's probe: the value of a pair this process
	// posted, asked for with the secret it registered with.
	Challenge func(challenge, secret string) (value string, ok bool)
}

// Serve accepts until the listener is closed.
func (r *Responder) Serve(l net.Listener) error {
	for {
		c, err := l.Accept()
		if err != nil {
			return err
		}
		go r.serve(c)
	}
}

func (r *Responder) serve(c net.Conn) {
	defer c.Close()
	buf, n := make([]byte, maxHead), 0
	for {
		end := bytes.Index(buf[:n], endHead)
		for end < 0 {
			m, err := c.Read(buf[n:])
			if n += m; err != nil || n == len(buf) {
				return
			}
			end = bytes.Index(buf[:n], endHead)
		}
		end += len(endHead)
		if !r.answer(c, buf[:end], buf[end:n]) {
			return
		}
		n = copy(buf, buf[end:n])
	}
}

// answer handles one exchange and reports whether the connection goes on.
func (r *Responder) answer(c net.Conn, head, early []byte) bool {
	path, query := target(head)
	switch last := path[bytes.LastIndexByte(path, '/')+1:]; string(last) {
	case "socket":
		echo(c, head, early)
		return false
	case "events":
		if _, err := c.Write(eventAnswer); err == nil {
			io.Copy(io.Discard, c) // until the client leaves
		}
		return false
	case "challenge":
		return r.challenge(c, head, query)
	case "":
		c.Write(badAnswer)
		return false
	}
	_, err := c.Write(okAnswer)
	return err == nil
}

func (r *Responder) challenge(c net.Conn, head []byte, query string) bool {
	value, ok := "", false
	if r.Challenge != nil {
		value, ok = r.Challenge(strings.TrimPrefix(query, "challenge="), field(head, "pinboard-proxy-secret"))
	}
	answer := "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n"
	if ok {
		body := `{"value":"` + value + `"}`
		answer = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: " + itoa(len(body)) + "\r\n\r\n" + body
	}
	_, err := io.WriteString(c, answer)
	return err == nil
}

// target is the path and query of a GET; the path is empty for anything else.
func target(head []byte) (path []byte, query string) {
	rest, ok := bytes.CutPrefix(head, []byte("GET "))
	if !ok {
		return nil, ""
	}
	path, _, _ = bytes.Cut(rest, []byte(" "))
	path, q, found := bytes.Cut(path, []byte("?"))
	if found {
		query = string(q)
	}
	return path, query
}

// field is the first value of a header field, named in lower case.
func field(head []byte, name string) string {
	lower := bytes.ToLower(head)
	i := bytes.Index(lower, []byte("\r\n"+name+":"))
	if i < 0 {
		return ""
	}
	value := head[i+len(name)+3:]
	value = value[:bytes.IndexByte(value, '\r')]
	return string(bytes.TrimSpace(value))
}

// accept is Sec-WebSocket-Accept of a key (RFC 6455 section 4.2.2).
func accept(key string) string {
	sum := sha1.Sum([]byte(key + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"))
	return base64.StdEncoding.EncodeToString(sum[:])
}
