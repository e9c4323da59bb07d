package load

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"
)

// A Kind is what an idle connection is.
type Kind string

// The kinds, named as the last path segment the upstream knows them by.
const (
	WebSocket   Kind = "socket" // upgraded, one message echoed, then silent
	EventStream Kind = "events" // one event received, then silent
)

// dialers bounds how many idle connections are being opened at one time.
const dialers = 16

// Idle opens n connections of a kind through the target and leaves them
// silent; end closes them.
func Idle(ctx context.Context, address string, kind Kind, n, ids int) (end func(), err error) {
	conns := make([]net.Conn, n)
	end = func() {
		for _, c := range conns {
			if c != nil {
				c.Close()
			}
		}
	}
	err = each(dialers, func(k int) error {
		for i := k; i < n; i += dialers {
			c, err := openIdle(ctx, address, kind, i%ids)
			if err != nil {
				return fmt.Errorf("idle %s %d of %d: %w", kind, i, n, err)
			}
			conns[i] = c
		}
		return nil
	})
	if err != nil {
		end()
		return nil, err
	}
	return end, nil
}

func openIdle(ctx context.Context, address string, kind Kind, id int) (net.Conn, error) {
	var d net.Dialer
	c, err := d.DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	c.SetDeadline(time.Now().Add(30 * time.Second))
	if kind == WebSocket {
		err = greet(c, address, Path("t_", id, string(kind)))
	} else {
		err = subscribe(c, address, Path("t_", id, string(kind)))
	}
	if err != nil {
		c.Close()
		return nil, err
	}
	return c, c.SetDeadline(time.Time{})
}

// greet upgrades (RFC 6455 section 4.1) and sees one message come back.
func greet(c net.Conn, host, path string) error {
	_, err := io.WriteString(c, "GET "+path+" HTTP/1.1\r\nHost: "+host+"\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"+
		"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n")
	if err != nil {
		return err
	}
	in := bufio.NewReaderSize(c, 1024)
	resp, err := http.ReadResponse(in, nil)
	if err != nil {
		return err
	}
	if resp.StatusCode != http.StatusSwitchingProtocols {
		return fmt.Errorf("upgrade answered %d", resp.StatusCode)
	}
	message := strings.Repeat("x", 64)
	frame := append([]byte{0x81, 0x80 | byte(len(message)), 0, 0, 0, 0}, message...) // a mask of zero
	if _, err := c.Write(frame); err != nil {
		return err
	}
	back := make([]byte, 2+len(message))
	if _, err := io.ReadFull(in, back); err != nil {
		return err
	}
	if string(back[2:]) != message {
		return fmt.Errorf("echo returned %q", back[2:])
	}
	return nil
}

// subscribe reads the head and the first event of a stream.
func subscribe(c net.Conn, host, path string) error {
	if _, err := io.WriteString(c, "GET "+path+" HTTP/1.1\r\nHost: "+host+"\r\nAccept: text/event-stream\r\n\r\n"); err != nil {
		return err
	}
	resp, err := http.ReadResponse(bufio.NewReaderSize(c, 1024), nil)
	if err != nil {
		return err
	}
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("event stream answered %d", resp.StatusCode)
	}
	event := make([]byte, len("data: hello\n\n"))
	_, err = io.ReadFull(resp.Body, event)
	return err
}
