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
	SetHeaders  = setHeaders
)

// Remembered is how many denials l remembers.
func Remembered(l *Limiter) (n int) {
	for i := range l.denials.places {
		if l.denials.places[i].Load() != nil {
			n++
		}
	}
	return n
}

// Parked is how many calls l has given up that still wait.
func Parked(l *Limiter) int64 { return l.guard.parked.Load() }
