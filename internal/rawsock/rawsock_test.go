package rawsock_test

import (
	"bytes"
	"io"
	"net"
	"syscall"
	"testing"

	"pinboard/internal/rawsock"
)

// pair is two ends of one TCP connection.
func pair(t *testing.T) (a, b net.Conn) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if a, err = net.Dial("tcp", l.Addr().String()); err != nil {
		t.Fatal(err)
	}
	if b, err = l.Accept(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { a.Close(); b.Close() })
	return a, b
}

func raw(t *testing.T, c net.Conn) syscall.RawConn {
	t.Helper()
	r, err := c.(syscall.Conn).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestReadTellsNothingFromTheEnd(t *testing.T) {
	a, b := pair(t)
	var buf [8]byte
	var n int
	var err error
	once := func(fd uintptr) { n, err = rawsock.Read(fd, buf[:]) }
	raw(t, a).Control(once)
	if n != 0 || err != syscall.EAGAIN {
		t.Fatalf("nothing there: %d, %v", n, err)
	}
	io.WriteString(b, "hello")
	raw(t, a).Read(func(fd uintptr) bool { once(fd); return err != syscall.EAGAIN })
	if string(buf[:n]) != "hello" || err != nil {
		t.Fatalf("%q, %v", buf[:n], err)
	}
	b.Close()
	raw(t, a).Read(func(fd uintptr) bool { once(fd); return err != syscall.EAGAIN })
	if n != 0 || err != nil {
		t.Fatalf("at the end: %d, %v", n, err)
	}
}

// More than the kernel takes at once is written as the peer reads it.
func TestWriteAllWaits(t *testing.T) {
	a, b := pair(t)
	want := bytes.Repeat([]byte("0123456789abcdef"), 1<<20)
	got := make(chan []byte)
	go func() {
		all, _ := io.ReadAll(b)
		got <- all
	}()
	rest, werr := want, error(nil)
	if err := raw(t, a).Write(rawsock.WriteAll(&rest, &werr)); err != nil || werr != nil || len(rest) != 0 {
		t.Fatalf("%v, %v, %d left", err, werr, len(rest))
	}
	a.Close()
	if !bytes.Equal(<-got, want) {
		t.Fatal("other bytes came")
	}
}

// A peer that has reset the connection is an error, not a signal that ends the process.
func TestWriteToNobody(t *testing.T) {
	a, b := pair(t)
	b.(*net.TCPConn).SetLinger(0)
	b.Close()
	var errs []error
	for range 3 {
		rest, werr := []byte("x"), error(nil)
		if err := raw(t, a).Write(rawsock.WriteAll(&rest, &werr)); err != nil {
			t.Fatal(err)
		}
		errs = append(errs, werr)
	}
	if errs[2] != syscall.EPIPE {
		t.Fatalf("%v", errs)
	}
}
