package proxy_test

import (
	"errors"
	"syscall"
)

func denyAll(string, string, syscall.RawConn) error { return errors.New("denied") }
