//go:build !race

package rawsock

import (
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

func transfer(d direction, fd uintptr, b []byte) (int, syscall.Errno) {
	number, flags := uintptr(unix.SYS_RECVFROM), uintptr(unix.MSG_DONTWAIT)
	if d == send {
		number, flags = unix.SYS_SENDTO, unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL
	}
	n, _, errno := syscall.RawSyscall6(number, fd, uintptr(unsafe.Pointer(unsafe.SliceData(b))), uintptr(len(b)), flags, 0, 0)
	return int(n), errno
}
