package faults_test

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redispatterns/redispatterns/internal/redistest"
	"github.com/redispatterns/redispatterns/lock"
)

// notTaken are the answers that a broken Redis must not be taken for.
var notTaken = []error{lock.ErrNotAcquired, lock.ErrLost, lock.ErrNotReplicated, lock.ErrNoQuorum, lock.ErrClosed}

// lease is the TTL of the leases here: short, so that a lease that is lost is soon over. Those that must outlive a fault have
// a longLease.
const (
	lease     = 1500 * time.Millisecond
	longLease = 4 * lease
)

// soon is how late a timer may be on a busy machine.
const soon = 10 * time.Second

func (c *check) locker(opts *lock.Options) *lock.Locker {
	if opts == nil {
		opts = &lock.Options{}
	}
	if opts.TTL == 0 {
		opts.TTL = lease
	}
	l, err := lock.New(c.client, opts)
	require.NoError(c, err)
	c.cleanup(func() { _ = l.Close() })
	return l
}

// name is a lock that nothing else uses.
func (c *check) name() string { return redistest.ID() + c.world.tag }

func (c *check) hold(l *lock.Locker, name string) *lock.Lease {
	held, err := c.acquire(l.Mutex(name).Lock)
	require.NoError(c, err)
	return held
}

// acquire acquires again where the reply took longer than the TTL, since this machine stood still.
func (c *check) acquire(from func(context.Context) (*lock.Lease, error)) (*lock.Lease, error) {
	for {
		held, err := from(c)
		if c.Err() != nil || !errors.Is(err, lock.ErrLost) {
			return held, err
		}
	}
}

func (c *check) lockReads(l *lock.Locker) ops {
	name := c.name()
	return ops{
		"Status": func(ctx context.Context) error { _, err := l.Mutex(name).Status(ctx); return err },
		"InUse":  func(ctx context.Context) error { _, err := l.Semaphore(name, 2).InUse(ctx); return err },
	}
}

// acquisitions are of names that nobody holds, and that were used before.
func (c *check) acquisitions(l *lock.Locker) ops {
	all := ops{}
	for what, acquire := range map[string]func(name string) (*lock.Lease, error){
		"Lock":    func(name string) (*lock.Lease, error) { return c.acquire(l.Mutex(name).Lock) },
		"TryLock": func(name string) (*lock.Lease, error) { return c.acquire(l.Mutex(name).TryLock) },
		"RLock":   func(name string) (*lock.Lease, error) { return c.acquire(l.RWMutex(name).RLock) },
		"Acquire": func(name string) (*lock.Lease, error) { return c.acquire(l.Semaphore(name, 2).Acquire) },
	} {
		name := c.name()
		require.NoError(c, c.hold(l, name).Release(c))
		all[what] = func(context.Context) error {
			held, err := acquire(name)
			if err == nil {
				err = held.Release(c)
			}
			return err
		}
	}
	return all
}

// lostInTime requires that a lease's context ends with ErrLost, a TTL after now at the latest.
func (c *check) lostInTime(held *lock.Lease) {
	ctx, began := held.Context(c), time.Now()
	select {
	case <-ctx.Done():
	case <-c.Done():
	case <-time.After(redistest.Patience):
	}
	require.ErrorIs(c, context.Cause(ctx), lock.ErrLost)
	require.Less(c, time.Since(began), lease+soon)
	require.False(c, held.Held())
}

// holdLong is a lease of which so much is left that only a loss frees its name.
func (c *check) holdLong() *lock.Lease {
	return c.hold(c.locker(&lock.Options{TTL: 2 * redistest.Patience}), c.name())
}

// overtaken requires that another can take what a lease still stands for, with a larger fence, and that its holder learns of
// it with the next thing that it asks Redis.
func (c *check) overtaken(held *lock.Lease) {
	other := c.takenOver(held.Name(), held.Fence())
	require.ErrorIs(c, held.Extend(c, lease), lock.ErrLost)
	require.ErrorIs(c, context.Cause(held.Context(c)), lock.ErrLost)
	require.ErrorIs(c, held.Release(c), lock.ErrLost)
	require.NoError(c, other.Release(c), "the one who lost it has not released the other's")
}

// takenOver requires that another takes the name at once, with a larger fence, and returns its lease.
func (c *check) takenOver(name string, before int64) *lock.Lease {
	other, err := c.acquire(c.locker(&lock.Options{TTL: longLease}).Mutex(name).TryLock)
	require.NoError(c, err)
	require.Greater(c, other.Fence(), before)
	return other
}

// countedLocks has goroutines take one lock under load. Each acquisition has a larger fence than all that were over before
// it was asked for; no two hold it at once, unless the fault loses writes.
func (c *check) countedLocks(loses bool) {
	var fence atomic.Int64
	var latest atomic.Pointer[lock.Lease]
	name := c.name()
	lockers := make([]*lock.Locker, 8)
	for i := range lockers {
		lockers[i] = c.locker(nil)
	}
	c.underLoad(func(worker int) error {
		ctx, cancel := context.WithTimeout(c, redistest.Patience)
		defer cancel()
		highest := fence.Load()
		held, err := c.acquire(func(context.Context) (*lock.Lease, error) { return lockers[worker].Mutex(name).Lock(ctx) })
		if err != nil {
			return err
		}
		if held.Fence() <= highest {
			c.Errorf("the fence is %d, and was %d", held.Fence(), highest)
		}
		for old := fence.Load(); old < held.Fence() && !fence.CompareAndSwap(old, held.Fence()); old = fence.Load() {
		}
		if other := latest.Swap(held); other.Held() && held.Held() && !loses {
			c.Errorf("two hold the lock, with the fences %d and %d", other.Fence(), held.Fence())
		}
		until := held.Until()
		err = held.Release(c)
		if errors.Is(err, lock.ErrLost) && (loses || time.Now().After(until)) {
			err = nil
		}
		return err
	}, notTaken...)
}
