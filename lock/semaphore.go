package lock

import (
	"context"
	"fmt"
	"strconv"
	"time"
)

// Semaphore is a number of permits for a resource. Each is a Lease of its own, and lapses where its holder crashed. A Mutex of
// the name and the permits exclude each other. It holds no state of an acquisition: any number of goroutines may share one.
type Semaphore struct{ shared }

// Semaphore is the semaphore of a name with a number of permits, on which all who use the name must agree: where permits are
// in use that were taken out of another number, an acquisition is an error. What is said of names at Mutex holds here.
func (l *Locker) Semaphore(name string, permits int) *Semaphore {
	m := l.Mutex(name)
	if permits < 1 && m.err == nil {
		m.err = fmt.Errorf("the number of permits is %d, must be at least 1", permits)
	}
	return &Semaphore{shared{m, "p" + strconv.Itoa(permits) + ":", permits}}
}

// WithTTL returns a copy whose leases have this length: at least 1ms, of which whole milliseconds count.
func (s *Semaphore) WithTTL(ttl time.Duration) *Semaphore {
	return &Semaphore{shared{s.mutex.WithTTL(ttl), s.kind, s.permits}}
}

// Acquire takes a permit, waiting while all are in use; it looks again at random intervals of 5 to 300ms, and who waits
// longest is not served first. The lease has no fence. What is said of the context and of errors at Mutex.Lock holds here.
func (s *Semaphore) Acquire(ctx context.Context) (*Lease, error) { return s.lock(ctx) }

// TryAcquire takes a permit if one is free, else it returns a *HeldError, or ErrLost as Mutex.TryLock does.
func (s *Semaphore) TryAcquire(ctx context.Context) (*Lease, error) { return s.tryLock(ctx) }

// InUse is how many permits are in use.
func (s *Semaphore) InUse(ctx context.Context) (int, error) {
	_, n, err := s.mutex.status(ctx)
	return n, err
}
