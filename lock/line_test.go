package lock_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redispatterns/redispatterns/internal/redistest"
	"github.com/redispatterns/redispatterns/lock"
)

// Ten thousand goroutines may wait for a name; one more is told at once that it cannot.
func TestTheLineIsBounded(t *testing.T) {
	if redistest.Race {
		t.Skip("the race detector allows 8128 goroutines")
	}
	redistest.Run(t, func(t *testing.T, s *redistest.Server) {
		const bound = 10_000
		ctx, name := context.Background(), redistest.ID()
		lease := mustLock(t, newLocker(t, s.Client(t), nil).Mutex(name))
		m := newLocker(t, s.Client(t), nil).Mutex(name)
		first := waiting(t, s.Client(t), m, name, 1)
		waiting, leave := context.WithCancel(ctx)
		defer leave()
		errs := make(chan error, bound)
		for range bound {
			go func() {
				lease, err := m.Lock(waiting)
				if err == nil {
					err = lease.Release(ctx)
				}
				errs <- err
			}()
		}
		err := <-errs // of the one for which there is no room, while the others wait
		var held *lock.HeldError
		require.ErrorAs(t, err, &held)
		require.ErrorIs(t, err, lock.ErrNotAcquired)
		require.ErrorContains(t, err, "10000 of this process wait for it already")
		require.Equal(t, name, held.Name)
		require.Equal(t, lease.Token(), held.Owner)
		require.Greater(t, held.TTL, time.Second)
		require.Empty(t, errs)
		_, err = m.TryLock(ctx)
		require.ErrorIs(t, err, lock.ErrNotAcquired)
		require.NotContains(t, err.Error(), "wait for it")

		leave()
		for range bound - 1 {
			require.ErrorIs(t, <-errs, context.Canceled)
		}
		require.NoError(t, lease.Release(ctx))
		require.NoError(t, (<-first).Release(ctx))
		lease, err = m.Lock(ctx) // there is room again
		require.NoError(t, err)
		require.NoError(t, lease.Release(ctx))
	})
}
