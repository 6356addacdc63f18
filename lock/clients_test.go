package lock_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/redispatterns/redispatterns"
	"github.com/redispatterns/redispatterns/internal/redistest"
	"github.com/redispatterns/redispatterns/lock"
)

func errorIs(err, target error) bool { return errors.Is(err, target) }

func TestThroughEveryClient(t *testing.T) {
	t.Parallel()
	mini := func() string { return redistest.Mini(t).Options().Addr }
	ring := redis.NewRing(&redis.RingOptions{Addrs: map[string]string{"a": mini(), "b": mini()}})
	t.Cleanup(func() { _ = ring.Close() })
	plain, cluster := redistest.Real(t).Client(t), redistest.ThreeMasters(t).Client(t)
	ap, err := redistest.Real(t).Client(t).AutoPipeline()
	require.NoError(t, err)
	t.Cleanup(func() { _ = ap.Close() })
	async, err := redistest.Real(t).Client(t).AsyncAutoPipeline()
	require.NoError(t, err)
	t.Cleanup(func() { _ = async.Close() })
	clusterAP, err := redistest.ThreeMasters(t).Client(t).AutoPipeline()
	require.NoError(t, err)
	t.Cleanup(func() { _ = clusterAP.Close() })
	for name, c := range map[string]redispatterns.Client{
		"client": plain, "three masters": cluster, "one node": redistest.OneNode(t).Client(t), "ring": ring,
		"autopipeliner": ap, "asynchronous autopipeliner": async, "autopipelined cluster": clusterAP,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			locks := newLocker(t, c, nil)
			for _, name := range []string{"", "{tag}"} {
				for range 5 { // over all masters
					everything(t, locks, redistest.ID()+name)
				}
			}
		})
	}
}

// everything runs each operation of a lock once.
func everything(t *testing.T, locks *lock.Locker, name string) {
	t.Helper()
	ctx, m := context.Background(), locks.Mutex(name)
	lease, err := m.Lock(ctx)
	require.NoError(t, err)
	_, err = m.TryLock(ctx)
	require.ErrorIs(t, err, lock.ErrNotAcquired)
	require.NoError(t, lease.Extend(ctx, time.Minute))
	isLeft(t, lease, time.Minute)
	adopted, err := m.Adopt(ctx, lease.Token())
	require.NoError(t, err)
	require.ErrorIs(t, lease.Release(ctx), lock.ErrLost)
	status, err := m.Status(ctx)
	require.NoError(t, err)
	require.True(t, status.Held)
	require.Equal(t, adopted.Fence(), status.Fence)
	require.NoError(t, adopted.Release(ctx))
	lease, err = m.TryLock(ctx)
	require.NoError(t, err)
	require.NoError(t, m.ForceUnlock(ctx))
	require.ErrorIs(t, lease.Release(ctx), lock.ErrLost)

	lease, err = m.Lock(ctx)
	require.NoError(t, err)
	got := make(chan error)
	go func() {
		got <- lock.Do(ctx, m.Lock, func(context.Context, *lock.Lease) error { return nil })
	}()
	require.NoError(t, lease.Release(ctx))
	require.NoError(t, <-got)

	lease = must(t)(m.WithTTL(time.Minute).TryLock(ctx))
	isLeft(t, lease, time.Minute)
	require.NoError(t, lease.Leave(ctx, time.Hour))
	status, err = m.Status(ctx)
	require.NoError(t, err)
	left(t, time.Hour, status.TTL)
	require.NoError(t, m.ForceUnlock(ctx))

	rw, sem := locks.RWMutex(name), locks.Semaphore(name, 2)
	one, two := must(t)(rw.RLock(ctx)), must(t)(rw.WithTTL(time.Minute).TryRLock(ctx))
	isLeft(t, two, time.Minute)
	require.NoError(t, one.Extend(ctx, time.Hour))
	isLeft(t, one, time.Hour)
	_, err = rw.TryLock(ctx)
	require.ErrorIs(t, err, lock.ErrNotAcquired)
	require.NoError(t, one.Release(ctx))
	require.NoError(t, two.Release(ctx))
	writer := must(t)(rw.Lock(ctx))
	_, err = rw.TryRLock(ctx)
	require.ErrorIs(t, err, lock.ErrNotAcquired)
	require.NoError(t, writer.Release(ctx))
	require.NoError(t, must(t)(rw.TryLock(ctx)).Release(ctx))

	one, two = must(t)(sem.Acquire(ctx)), must(t)(sem.WithTTL(time.Minute).TryAcquire(ctx))
	isLeft(t, two, time.Minute)
	require.NoError(t, one.Extend(ctx, time.Hour))
	isLeft(t, one, time.Hour)
	_, err = sem.TryAcquire(ctx)
	require.ErrorIs(t, err, lock.ErrNotAcquired)
	require.NoError(t, two.Release(ctx))
	n, err := sem.InUse(ctx)
	require.NoError(t, err)
	require.Equal(t, 1, n)
	require.NoError(t, one.Leave(ctx, time.Minute))
	require.NoError(t, m.ForceUnlock(ctx))
	require.NoError(t, must(t)(m.TryLock(ctx)).Release(ctx))
}

// isLeft holds that about this is left of a lease.
func isLeft(t *testing.T, lease *lock.Lease, want time.Duration) {
	t.Helper()
	ttl, err := lease.TTL(context.Background())
	require.NoError(t, err)
	left(t, want, ttl)
}
