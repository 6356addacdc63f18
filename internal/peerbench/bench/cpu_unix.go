//go:build unix

package bench

import (
	"syscall"
	"time"
)

// selfCPU is the CPU time this process has used so far.
func selfCPU() time.Duration {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
