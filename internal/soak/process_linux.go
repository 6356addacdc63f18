package main

import (
	"os/exec"
	"syscall"
)

// dieWithParent has the kernel kill a worker when this process dies, also while it is stopped.
func dieWithParent(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }

// freeze stops a worker as a hypervisor or a swapping machine does, and thaw lets it go on.
func freeze(cmd *exec.Cmd) error { return cmd.Process.Signal(syscall.SIGSTOP) }
func thaw(cmd *exec.Cmd) error   { return cmd.Process.Signal(syscall.SIGCONT) }
