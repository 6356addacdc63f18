package lock

import (
	"context"
	"time"
)

// RWMutex is a lock of a resource that any number of readers, or one writer, have at a time. The writer's side is the Mutex
// of the name, and excludes it. A reader that comes while a writer waits waits behind it, so writers are not starved; under
// writers that never cease, readers can be. It holds no state of an acquisition: any number of goroutines may share one.
type RWMutex struct{ mutex *Mutex }

// RWMutex is the read-write lock of a name. What is said of names at Mutex holds here.
func (l *Locker) RWMutex(name string) *RWMutex {
	m := l.Mutex(name)
	if l.nodes != nil && m.err == nil {
		m.err = ErrUnsupported
	}
	return &RWMutex{m}
}

// WithTTL returns a copy whose leases have this length: at least 1ms, of which whole milliseconds count.
func (m *RWMutex) WithTTL(ttl time.Duration) *RWMutex { return &RWMutex{m.mutex.WithTTL(ttl)} }

// Lock takes the writer's side, as Mutex.Lock does.
func (m *RWMutex) Lock(ctx context.Context) (*Lease, error) { return m.mutex.Lock(ctx) }

// TryLock takes the writer's side if nobody has either, as Mutex.TryLock does.
func (m *RWMutex) TryLock(ctx context.Context) (*Lease, error) { return m.mutex.TryLock(ctx) }

// RLock takes a reader's side, waiting while a writer has the lock or waits for it; it looks again at random intervals of 5
// to 300ms. The lease is this reader's alone, and has no fence. What is said of the context and of errors at Mutex.Lock holds
// here.
func (m *RWMutex) RLock(ctx context.Context) (*Lease, error) { return m.readers().lock(ctx) }

// TryRLock takes a reader's side if no writer has the lock or waits for it, else it returns a *HeldError, or ErrLost as
// Mutex.TryLock does.
func (m *RWMutex) TryRLock(ctx context.Context) (*Lease, error) { return m.readers().tryLock(ctx) }

func (m *RWMutex) readers() *shared { return &shared{mutex: m.mutex, kind: "r"} }
