package lock_test

import (
	"context"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/redispatterns/redispatterns/internal/redistest"
	"github.com/redispatterns/redispatterns/lock"
)

// inTime acquires again where the reply took longer than the TTL, since this machine stood still.
func inTime(t *testing.T, acquire func(context.Context) (*lock.Lease, error)) *lock.Lease {
	t.Helper()
	for {
		lease, err := acquire(context.Background())
		if !errorIs(err, lock.ErrLost) {
			require.NoError(t, err)
			return lease
		}
	}
}

// A holder whose network swallows everything finds its context over before the lock is free in Redis, however it came by
// its lease. Nothing here depends on how fast the test is: a context that is alive after the lock was seen free is the failure.
func TestABlackHoleEndsTheContextFirst(t *testing.T) {
	t.Parallel()
	for kind, acquire := range map[string]func(t *testing.T, s *redistest.Server, locks *lock.Locker, name string) *lock.Lease{
		"mutex": func(t *testing.T, _ *redistest.Server, locks *lock.Locker, name string) *lock.Lease {
			return inTime(t, locks.Mutex(name).Lock)
		},
		"renewed": func(t *testing.T, _ *redistest.Server, locks *lock.Locker, name string) *lock.Lease {
			for {
				lease := inTime(t, locks.Mutex(name).Lock)
				until := lease.Until()
				redistest.Eventually(t, func() bool { return lease.Until().After(until) || !lease.Held() }, "renewed")
				if lease.Held() {
					return lease
				}
				_ = lease.Release(context.Background())
			}
		},
		"granted": func(t *testing.T, s *redistest.Server, locks *lock.Locker, name string) *lock.Lease {
			holder := mustLock(t, newLocker(t, s.Client(t), nil).Mutex(name))
			got := waiting(t, s.Client(t), locks.Mutex(name), name, 1)
			require.NoError(t, holder.Release(context.Background()))
			return <-got
		},
		"reader": func(t *testing.T, _ *redistest.Server, locks *lock.Locker, name string) *lock.Lease {
			return inTime(t, locks.RWMutex(name).RLock)
		},
		"permit": func(t *testing.T, _ *redistest.Server, locks *lock.Locker, name string) *lock.Lease {
			return inTime(t, locks.Semaphore(name, 2).Acquire)
		},
	} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			s := redistest.Real(t)
			direct, p, name := s.Client(t), s.Proxy(t), redistest.ID()
			locks := newLocker(t, p.Client(t), &lock.Options{TTL: time.Second})
			late := redistest.Lateness(t, direct)
			lease := acquire(t, s, locks, name)
			held := lease.Context(context.Background())
			p.BlackHole(true)
			defer p.BlackHole(false)
			done := make(chan time.Time, 1)
			go func() { <-held.Done(); done <- time.Now() }()

			for {
				until, free := lease.Until(), freeAt(t, direct, name) // in this order: what is left only grows
				if !free.IsZero() {
					require.Less(t, until, free)
				}
				if held.Err() != nil {
					break
				}
				require.False(t, free.IsZero(), "it runs on though the lock is free")
				time.Sleep(time.Millisecond)
			}
			require.ErrorIs(t, context.Cause(held), lock.ErrLost)
			require.False(t, lease.Held())
			told := <-done
			require.Less(t, told.Sub(lease.Until()), 2*late()+50*time.Millisecond, "who does not look is told in time, too")
		})
	}
}

// freeAt is when the lock of a name lapses if nothing renews it, by the server's clock; zero where nobody has it.
func freeAt(t *testing.T, c *redis.Client, name string) time.Time {
	t.Helper()
	at, err := c.PExpireTime(context.Background(), key(name)).Result()
	require.NoError(t, err)
	if at <= 0 {
		return time.Time{}
	}
	return time.UnixMilli(at.Milliseconds())
}
