package upstream

import (
	"io"
	"net"
	"strconv"
)

func itoa(n int) string { return strconv.Itoa(n) }

// echo accepts a WebSocket and returns every short frame to its sender. Early
// bytes are those that came with the request head.
func echo(c net.Conn, head, early []byte) {
	key := field(head, "sec-websocket-key")
	if key == "" {
		c.Write(badAnswer)
		return
	}
	answer := "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n" +
		"Sec-WebSocket-Accept: " + accept(key) + "\r\n\r\n"
	if _, err := io.WriteString(c, answer); err != nil {
		return
	}
	frame := make([]byte, 0, 256)
	frame = append(frame, early...)
	for {
		out, used := echoFrame(frame)
		if used == 0 {
			if len(frame) == cap(frame) {
				return
			}
			n, err := c.Read(frame[len(frame):cap(frame)])
			if frame = frame[:len(frame)+n]; err != nil {
				return
			}
			continue
		}
		frame = frame[:copy(frame, frame[used:])]
		if _, err := c.Write(out); err != nil {
			return
		}
	}
}

// echoFrame turns the masked frame at the start of in (RFC 6455 section 5.2,
// at most 125 bytes) into the same frame unmasked; used is 0 while the frame is
// incomplete.
func echoFrame(in []byte) (out []byte, used int) {
	if len(in) < 2 {
		return nil, 0
	}
	size := int(in[1] & 0x7f)
	used = 6 + size
	if len(in) < used {
		return nil, 0
	}
	out = append(out, in[0], byte(size))
	for i := range size {
		out = append(out, in[6+i]^in[2+i%4])
	}
	return out, used
}
