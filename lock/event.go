package lock

import (
	"context"
	"errors"
	"time"
)

// Event is something that happened to a lease, or to the attempt to get one.
type Event struct {
	Kind     EventKind
	Name     string        // of the lock
	Waited   time.Duration // of Acquired and NotAcquired: how long the call took
	Attempts int           // of Acquired and NotAcquired: how often Redis was asked for the lock
	Held     time.Duration // of Released and Lost: since it was acquired
	Err      error         // of NotAcquired and Lost; of Renewed where it failed
}

// EventKind says what happened.
type EventKind uint8

// The kinds of events. A lease that ends because its Locker is closed is neither released nor lost.
const (
	Acquired    EventKind = iota // by Lock, TryLock, RLock, TryRLock, Acquire, TryAcquire or Adopt
	NotAcquired                  // another holder prevented it, or Redis failed
	Renewed                      // in the background; Err says that it failed, and will be tried again
	Released                     // by Release or Leave
	Lost                         // it lapsed, or somebody took the lock away
)

func (k EventKind) String() string {
	switch k {
	case Acquired:
		return "acquired"
	case NotAcquired:
		return "not acquired"
	case Renewed:
		return "renewed"
	case Released:
		return "released"
	case Lost:
		return "lost"
	}
	return "unknown"
}

func (l *Locker) observe(ctx context.Context, e Event) {
	if l.opts.Observe != nil {
		l.opts.Observe(ctx, e)
	}
}

// acquired ends a call that was to get a lease: replicas confirm it, if they must, and the outcome is reported.
func (m *Mutex) acquired(ctx context.Context, began time.Time, attempts int, lease *Lease, err error) (*Lease, error) {
	if err == nil && m.locker.opts.Replicas > 0 {
		if failure := lease.replicated(ctx); failure != nil {
			_ = lease.Release(ctx)
			lease, err = nil, failed(ctx, "acquire", m.name, failure)
		}
	}
	if m.locker.opts.Observe != nil {
		e := Event{Kind: Acquired, Name: m.name, Waited: time.Since(began), Attempts: attempts, Err: err}
		if err != nil {
			e.Kind = NotAcquired
		}
		m.locker.observe(ctx, e)
		if err == nil {
			acquiredIn := ctx
			lease.observed.Store(&acquiredIn) // from now on more is told of it
			lease.observeLoss()
		}
	}
	return lease, err
}

// observeLoss reports, once, that a lease was lost: when it is, or after its acquisition where that was reported later.
func (l *Lease) observeLoss() {
	l.mu.Lock()
	cause := l.cause
	tell := !l.lost && errors.Is(cause, ErrLost) && l.observed.Load() != nil
	l.lost = l.lost || tell
	l.mu.Unlock()
	if tell {
		l.observe(Lost, cause)
	}
}

// observe reports what happens to a lease, with the values of the context in which it was acquired.
func (l *Lease) observe(kind EventKind, err error) {
	acquired := l.observed.Load()
	if l.locker.opts.Observe == nil || acquired == nil {
		return // of an acquisition that was not reported
	}
	ctx := context.WithoutCancel(*acquired)
	e := Event{Kind: kind, Name: l.mutex.name, Err: err}
	if kind != Renewed {
		e.Held = time.Since(l.began)
	}
	l.locker.observe(ctx, e)
}
