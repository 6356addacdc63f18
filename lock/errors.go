package lock

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// What callers branch on; every error of this package that is one of them matches it by errors.Is. Any other error of an
// operation wraps what go-redis reported: Redis being down is none of these.
var (
	// ErrNotAcquired says that someone else holds the lock; the error is a *HeldError.
	ErrNotAcquired = errors.New("lock: not acquired")
	// ErrLost says that this lease is not held any more: it lapsed, or somebody took the lock away. Of an acquisition it says
	// that the lease had lapsed when the reply came, of Adopt also that nobody holds the lock under the token.
	ErrLost = errors.New("lock: lost")
	// ErrNotReplicated says that fewer replicas than Options.Replicas confirmed an acquisition, which was released again.
	ErrNotReplicated = errors.New("lock: not replicated")
	// ErrNoQuorum says that too few nodes of a quorum answered; errors.As finds the *NodeError of each that failed.
	ErrNoQuorum = errors.New("lock: no quorum")
	// ErrUnknown, of ForceUnlock alone, says that it was sent and no reply came.
	ErrUnknown = errors.New("lock: outcome unknown")
	// ErrInvalidName says that a name cannot be used, and why.
	ErrInvalidName = errors.New("lock: invalid name")
	// ErrUnsupported says that this Locker cannot do this: see NewQuorum.
	ErrUnsupported = errors.New("lock: not supported by this locker")
	// ErrClosed says that the Locker has been closed.
	ErrClosed = errors.New("lock: locker closed")
)

// HeldError is an acquisition that another holder prevented: errors.Is(err, ErrNotAcquired). Where a context ended the
// wait it matches that context's error and its cause too. Its text never shows the owner, whose token can release.
type HeldError struct {
	Name  string
	Owner string        // token of the holder when last seen; "" for readers and permits
	TTL   time.Duration // what the holder had left when last seen; 0 where the lock has no expiry, or a writer waits
	Err   error         // what ended the wait; nil from Try…
}

func (e *HeldError) Error() string {
	left := "with no end known"
	if e.TTL > 0 {
		left = fmt.Sprintf("for another %v unless renewed", e.TTL)
	}
	if e.Err != nil {
		return fmt.Sprintf("lock: acquire %q: held %s: %v", e.Name, left, e.Err)
	}
	return fmt.Sprintf("lock: acquire %q: held %s", e.Name, left)
}

// Is matches ErrNotAcquired.
func (e *HeldError) Is(target error) bool { return target == ErrNotAcquired }

// Unwrap returns Err.
func (e *HeldError) Unwrap() error { return e.Err }

var errNoAnswer = errors.New("redis does not answer")

// ownBound takes the place of the error of a context that this package made, when that has ended: a caller would take it for
// its own context's, which lives.
func ownBound(own context.Context, err error) error {
	if own.Err() != nil && (errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled)) {
		return fmt.Errorf("%w: %v", errNoAnswer, err)
	}
	return err
}

// ended is why ctx ended: its error, and its cause where that says more.
func ended(ctx context.Context) error {
	err, cause := ctx.Err(), context.Cause(ctx)
	if err == nil || cause == nil || errors.Is(err, cause) {
		return err
	}
	return fmt.Errorf("%w: %w", err, cause)
}
