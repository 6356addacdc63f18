package lock

import "context"

// Context returns a child of parent that ends with the lease: with cause ErrLost when it is lost, ErrClosed when the Locker
// is closed, and context.Canceled when it is released. A local timer notices that a lease lapsed, with no need of a network,
// and before the lock is free in Redis. It takes some memory until parent or the lease ends, so one for a lease is enough.
func (l *Lease) Context(parent context.Context) context.Context {
	ctx, cancel := context.WithCancelCause(parent)
	if l == nil || l.locker == nil {
		cancel(ErrLost)
		return ctx
	}
	c := &leaseContext{Context: ctx, lease: l, cancel: cancel}
	// Without the mutex: parent may be a context of this lease, or of another, and looks at it when it is asked.
	c.forget = context.AfterFunc(parent, func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		delete(l.children, c)
	})
	l.mu.Lock()
	over, cause := l.over, l.cause
	if !over && ctx.Err() == nil {
		if l.children == nil {
			l.children = map[*leaseContext]struct{}{}
		}
		l.children[c] = struct{}{}
	}
	l.mu.Unlock()
	if over {
		c.forget()
		cancel(cause)
	}
	return c
}

// leaseContext also looks at the clock itself: a process that was stopped past its lease and goes on must not see the
// context alive until its timers have fired, nor until whoever ended the lease has come to its contexts.
type leaseContext struct {
	context.Context
	lease  *Lease
	cancel context.CancelCauseFunc
	forget func() bool
}

func (c *leaseContext) Done() <-chan struct{} {
	c.look()
	return c.Context.Done()
}

func (c *leaseContext) Err() error {
	c.look()
	return c.Context.Err()
}

func (c *leaseContext) look() {
	if c.lease.look() == nil {
		return
	}
	c.lease.mu.Lock()
	cause := c.lease.cause
	c.lease.mu.Unlock()
	c.cancel(cause)
}
