package redistest

import "syscall"

// dieWithParent makes a server end with a test binary that was killed.
func dieWithParent() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}
