package rawsock

import (
	"net"
	"syscall"
)

// Of is the socket beneath a connection, nil if it has none of its own (TLS,
// a pipe).
func Of(c net.Conn) syscall.RawConn {
	sc, ok := c.(syscall.Conn)
	if !ok {
		return nil
	}
	raw, err := sc.SyscallConn()
	if err != nil {
		return nil
	}
	return raw
}
