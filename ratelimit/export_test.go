package ratelimit

import "time"

// Skew makes the process clock of l differ from this machine's by d.
func Skew(l *Limiter, d time.Duration) {
	if f, ok := l.algorithm.(*fixedWindow); ok {
		f.clock.offset.Add(d.Microseconds())
	}
}

var (
	Label       = label
	EndsInLabel = endsInLabel
)
