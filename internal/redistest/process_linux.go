package redistest

import "syscall"

// dieWithParent has the kernel kill the server when the test binary dies, even by SIGKILL.
func dieWithParent() *syscall.SysProcAttr { return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }
