package ratelimit

import (
	"context"
	"time"
)

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

// OpenLate leaves the circuit as a failure does that ends while an answer closes it.
func OpenLate(l *Limiter) {
	cause := "no reply"
	l.guard.cause.Store(&cause)
	l.guard.probe.Store(1)
}

// Asked says whether a call asks again for a denial that has come to its second.
func Asked(l *Limiter) bool {
	for i := range l.denials.places {
		if e := l.denials.places[i].Load(); e != nil && e.asked.Load() {
			return true
		}
	}
	return false
}

// RemembersOfBefore remembers denials of before a Reset again and again, and says whether one of them was ever recalled.
func RemembersOfBefore(l *Limiter, id string, times int) (recalled bool) {
	d := l.denials
	of := d.epoch(id).Load()
	d.forget(id)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for range times {
			d.remember(id, nil, 1, Result{RetryAfter: time.Hour}, of)
		}
	}()
	for {
		_, known, _, _, _ := d.recall(context.Background(), id, nil, 1)
		recalled = recalled || known
		select {
		case <-done:
			return recalled
		default:
		}
	}
}
