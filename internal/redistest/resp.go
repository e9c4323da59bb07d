package redistest

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
)

// roundTrip sends one command and reads its RESP2 reply.
func roundTrip(c net.Conn, args []string) (any, error) {
	if _, err := c.Write(command(args)); err != nil {
		return nil, err
	}
	frame, err := readFrame(bufio.NewReader(c), nil)
	if err != nil {
		return nil, err
	}
	v, _, err := parse(frame)
	if e, ok := v.(error); ok {
		return nil, e
	}
	return v, err
}

func command(args []string) []byte {
	b := fmt.Appendf(nil, "*%d\r\n", len(args))
	for _, a := range args {
		b = fmt.Appendf(b, "$%d\r\n%s\r\n", len(a), a)
	}
	return b
}

// readFrame appends one whole RESP2 or RESP3 value to b.
func readFrame(r *bufio.Reader, b []byte) ([]byte, error) {
	line, err := r.ReadSlice('\n')
	b = append(b, line...)
	if err != nil {
		return b, err
	}
	if len(line) < 3 {
		return b, errors.New("short RESP line")
	}
	kind := line[0]
	n, sized := 0, strings.IndexByte("$=!*~%>|", kind) >= 0
	if sized {
		if n, err = strconv.Atoi(string(line[1 : len(line)-2])); err != nil {
			return b, err
		}
	}
	switch {
	case n < 0 || !sized:
		return b, nil
	case kind == '$' || kind == '=' || kind == '!':
		at := len(b)
		b = append(b, make([]byte, n+2)...)
		_, err = io.ReadFull(r, b[at:])
		return b, err
	case kind == '%':
		n *= 2
	case kind == '|':
		n = 2*n + 1 // attributes come before the value they belong to
	}
	for ; n > 0; n-- {
		if b, err = readFrame(r, b); err != nil {
			return b, err
		}
	}
	return b, nil
}

// parse reads a RESP2 frame that is known to be whole.
func parse(b []byte) (v any, rest []byte, err error) {
	head, tail, _ := bytes.Cut(b, []byte("\r\n"))
	line := string(head)
	switch line[0] {
	case '+':
		return line[1:], tail, nil
	case '-':
		return errors.New(line[1:]), tail, nil
	case ':':
		n, err := strconv.ParseInt(line[1:], 10, 64)
		return n, tail, err
	}
	n, err := strconv.Atoi(line[1:])
	if err != nil || n < 0 {
		return nil, tail, err
	}
	if line[0] == '$' {
		return string(tail[:n]), tail[n+2:], nil
	}
	list := make([]any, n)
	for i := range list {
		if list[i], tail, err = parse(tail); err != nil {
			return nil, nil, err
		}
	}
	return list, tail, nil
}

// words splits a command frame (an array of bulk strings).
func words(frame []byte) []string {
	v, _, err := parse(frame)
	list, ok := v.([]any)
	if err != nil || !ok {
		return nil
	}
	out := make([]string, 0, len(list))
	for _, w := range list {
		s, _ := w.(string)
		out = append(out, s)
	}
	return out
}
