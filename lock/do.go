package lock

import (
	"context"
	"errors"
	"fmt"
)

// Do runs fn under a lease that acquire takes (m.Lock, m.TryLock …) and releases it, also when fn panics. The context that
// fn gets is a child of ctx that ends, with cause ErrLost, when the lease is lost. The error is fn's; a lease that was lost,
// or a release that failed, is joined to it, and reported when fn returns nil.
func Do(ctx context.Context, acquire func(context.Context) (*Lease, error), fn func(context.Context, *Lease) error) (err error) {
	if acquire == nil || fn == nil {
		return errors.New("lock: do: a function is nil")
	}
	lease, err := acquire(ctx)
	if err != nil {
		return err
	}
	defer func() {
		failure := lease.Release(ctx)
		switch {
		case err == nil:
			err = failure
		case failure != nil && !(errors.Is(failure, ErrLost) && errors.Is(err, ErrLost)):
			err = fmt.Errorf("%w; %w", err, failure)
		}
	}()
	return fn(lease.Context(ctx), lease)
}
