//go:build unix

package redistest

import "syscall"

func (p *Process) pause() error { return p.Signal(syscall.SIGSTOP) }

func (p *Process) resume() error { return p.Signal(syscall.SIGCONT) }
