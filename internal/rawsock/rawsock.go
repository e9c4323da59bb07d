// Package rawsock makes single system calls on sockets that the runtime's
// poller watches, from inside syscall.RawConn's Read and Write.
package rawsock

import "syscall"

// Read and Write make one call that never waits: EAGAIN when it would. As it
// never waits the scheduler is not told of it. Told, it would take the processor
// from a goroutine whose call lasts longer than 20 us, as writes on a busy
// machine do, and start another thread. As calls for sockets, not files, they
// also skip a layer of the kernel. Read of 0 bytes is the peer's FIN.
func Read(fd uintptr, b []byte) (int, error) {
	return call(receive, fd, b)
}

// Write is described at Read. A peer that is gone is an error, never a signal.
func Write(fd uintptr, b []byte) (int, error) {
	return call(send, fd, b)
}

type direction uint8

const (
	receive direction = iota
	send
)

func call(d direction, fd uintptr, b []byte) (int, error) {
	for {
		n, errno := transfer(d, fd, b)
		switch errno {
		case 0:
			return n, nil
		case syscall.EINTR:
		case syscall.EAGAIN:
			return 0, errAgain
		default:
			return 0, errno
		}
	}
}

// errAgain is EAGAIN, converted once.
var errAgain error = syscall.EAGAIN

// WriteAll returns the callback that raw.Write is given to write all of *b
// unless *err; what has been written is cut off *b.
func WriteAll(b *[]byte, err *error) func(fd uintptr) (done bool) {
	return func(fd uintptr) bool {
		for len(*b) > 0 {
			n, e := Write(fd, *b)
			*b = (*b)[n:]
			switch {
			case e == errAgain:
				return false
			case e != nil:
				*err = e
				return true
			}
		}
		return true
	}
}
