package rawtest

import (
	"fmt"
	"net"
	"syscall"
	"testing"
	"time"
)

// BlackHole is an address whose connects neither succeed nor fail: a listener
// nobody accepts from, its backlog filled.
func BlackHole(tb testing.TB) string {
	tb.Helper()
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		tb.Fatalf("rawtest: %v", err)
	}
	tb.Cleanup(func() { syscall.Close(fd) })
	if err := syscall.Bind(fd, &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		tb.Fatalf("rawtest: %v", err)
	}
	if err := syscall.Listen(fd, 0); err != nil {
		tb.Fatalf("rawtest: %v", err)
	}
	name, err := syscall.Getsockname(fd)
	if err != nil {
		tb.Fatalf("rawtest: %v", err)
	}
	addr := fmt.Sprintf("127.0.0.1:%d", name.(*syscall.SockaddrInet4).Port)
	for range 16 {
		c, err := net.DialTimeout("tcp", addr, 100*time.Millisecond)
		if err != nil {
			return addr
		}
		tb.Cleanup(func() { c.Close() })
	}
	tb.Fatal("rawtest: the backlog does not fill")
	return ""
}
