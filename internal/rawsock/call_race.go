//go:build race

package rawsock

import "syscall"

// transfer under the race detector goes through package syscall, which tells
// it that what is read happened after what was written.
func transfer(d direction, fd uintptr, b []byte) (n int, errno syscall.Errno) {
	var err error
	if d == send {
		n, err = syscall.Write(int(fd), b)
	} else {
		n, err = syscall.Read(int(fd), b)
	}
	errno, _ = err.(syscall.Errno)
	return max(n, 0), errno
}
