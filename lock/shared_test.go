package lock_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/redispatterns/redispatterns/internal/redistest"
	"github.com/redispatterns/redispatterns/lock"
)

func must(t testing.TB) func(lease *lock.Lease, err error) *lock.Lease {
	return func(lease *lock.Lease, err error) *lock.Lease {
		t.Helper()
		require.NoError(t, err)
		return lease
	}
}

func refused(t testing.TB, lease *lock.Lease, err error) *lock.HeldError {
	t.Helper()
	require.Nil(t, lease)
	require.ErrorIs(t, err, lock.ErrNotAcquired)
	var held *lock.HeldError
	require.ErrorAs(t, err, &held)
	return held
}

func TestReadersAndWriter(t *testing.T) {
	t.Parallel()
	redistest.Run(t, func(t *testing.T, s *redistest.Server) {
		c, ctx, name := s.Client(t), context.Background(), redistest.ID()
		rw := newLocker(t, c, nil).RWMutex(name)
		one := must(t)(rw.TryRLock(ctx))
		two := must(t)(newLocker(t, c, nil).RWMutex(name).RLock(ctx))
		require.Zero(t, one.Fence())
		require.EqualValues(t, 2, c.ZCard(ctx, key(name)).Val())
		held := func() error { _, err := rw.TryLock(ctx); return err }
		require.ErrorIs(t, held(), lock.ErrNotAcquired)
		lease, err := newLocker(t, c, nil).Mutex(name).TryLock(ctx)
		require.Empty(t, refused(t, lease, err).Owner)
		status, err := newLocker(t, c, nil).Mutex(name).Status(ctx)
		require.NoError(t, err)
		require.True(t, status.Held)
		left(t, 10*time.Second, status.TTL)

		require.NoError(t, one.Extend(ctx, time.Minute))
		ttl, err := one.TTL(ctx)
		require.NoError(t, err)
		left(t, time.Minute, ttl)
		ttl, err = two.TTL(ctx)
		require.NoError(t, err)
		left(t, 10*time.Second, ttl, "its own")
		require.NoError(t, two.Extend(ctx, 20*time.Second))
		left(t, time.Minute, c.PTTL(ctx, key(name)).Val(), "and none is shortened")

		require.NoError(t, one.Release(ctx))
		require.ErrorIs(t, held(), lock.ErrNotAcquired)
		require.NoError(t, two.Release(ctx))
		require.NoError(t, two.Release(ctx))
		writer := must(t)(rw.TryLock(ctx))
		require.NotZero(t, writer.Fence())
		require.Equal(t, writer.Token(), owner(t, c, name), "a writer's lock is a mutex")
		lease, err = rw.TryRLock(ctx)
		require.Equal(t, writer.Token(), refused(t, lease, err).Owner)
		require.NoError(t, writer.Release(ctx))
	})
}

// A writer that waits keeps new readers out, and has the lock the moment that the last reader leaves.
func TestWriterIsNotStarved(t *testing.T) {
	t.Parallel()
	redistest.Run(t, func(t *testing.T, s *redistest.Server) {
		c, ctx, name := s.Client(t), context.Background(), redistest.ID()
		rw := newLocker(t, c, nil).RWMutex(name)
		one, two := must(t)(rw.RLock(ctx)), must(t)(rw.RLock(ctx))
		got := waiting(t, c, newLocker(t, c, nil).Mutex(name), name, 1)
		lease, err := rw.TryRLock(ctx)
		refused(t, lease, err)
		read := make(chan *lock.Lease)
		go func() { read <- must(t)(rw.RLock(ctx)) }()
		require.NoError(t, one.Release(ctx))
		late, began := redistest.Lateness(t, c), time.Now()
		require.NoError(t, two.Release(ctx))
		writer := <-got
		require.Less(t, time.Since(began), 900*time.Millisecond+3*late())
		require.NoError(t, writer.Release(ctx))
		require.NoError(t, (<-read).Release(ctx))
		require.Zero(t, c.Exists(ctx, key(name), queueKey(name)).Val())
	})
}

// A reader that crashed lapses by itself, also while others are renewed; and no reader renews a dead one.
func TestReadersLapse(t *testing.T) {
	t.Parallel()
	redistest.Virtual(t, func(t *testing.T, s *redistest.Server) {
		ctx := context.Background()
		crashed, err := lock.New(s.Client(t), nil)
		require.NoError(t, err)
		locks, err := lock.New(s.Client(t), nil)
		require.NoError(t, err)
		defer locks.Close()
		_, err = crashed.RWMutex("x").RLock(ctx)
		require.NoError(t, err)
		require.NoError(t, crashed.Close())
		reader := must(t)(locks.RWMutex("x").RLock(ctx))
		redistest.Sleep(35 * time.Second)
		require.True(t, reader.Held())
		ttl, err := reader.TTL(ctx)
		require.NoError(t, err)
		require.Greater(t, ttl, 6*time.Second)
		third := must(t)(locks.RWMutex("x").RLock(ctx))
		members, _ := s.Mini.ZMembers("lock:x")
		require.Len(t, members, 2, "the dead one is gone")
		require.NoError(t, third.Leave(ctx, time.Second))
		require.NoError(t, reader.Release(ctx))
		_, err = locks.Mutex("x").TryLock(ctx)
		require.ErrorIs(t, err, lock.ErrNotAcquired)
		redistest.Sleep(time.Second)
		mustLock(t, locks.Mutex("x"))

		lost := must(t)(locks.RWMutex("y").RLock(ctx))
		held := lost.Context(ctx)
		s.Mini.Del("lock:y")
		redistest.Sleep(4 * time.Second)
		require.ErrorIs(t, context.Cause(held), lock.ErrLost)
		require.False(t, s.Mini.Exists("lock:y"))
		require.ErrorIs(t, lost.Release(ctx), lock.ErrLost)
	})
}

func TestSemaphore(t *testing.T) {
	t.Parallel()
	redistest.Run(t, func(t *testing.T, s *redistest.Server) {
		c, ctx, name := s.Client(t), context.Background(), redistest.ID()
		locks := newLocker(t, c, nil)
		sem := locks.Semaphore(name, 3)
		inUse := func(want int) {
			t.Helper()
			n, err := sem.InUse(ctx)
			require.NoError(t, err)
			require.Equal(t, want, n)
		}
		inUse(0)
		var leases []*lock.Lease
		for i := range 3 {
			leases = append(leases, must(t)(newLocker(t, c, nil).Semaphore(name, 3).Acquire(ctx)))
			inUse(i + 1)
		}
		lease, err := sem.TryAcquire(ctx)
		left(t, 10*time.Second, refused(t, lease, err).TTL)
		_, err = sem.Acquire(short(t, 50*time.Millisecond))
		require.ErrorIs(t, err, lock.ErrNotAcquired)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		_, err = locks.Semaphore(name, 4).TryAcquire(ctx)
		require.ErrorContains(t, err, "the semaphore has 4 permits here and 3 elsewhere")
		require.NotErrorIs(t, err, lock.ErrNotAcquired)
		_, err = locks.Mutex(name).TryLock(ctx)
		require.ErrorIs(t, err, lock.ErrNotAcquired)
		_, err = locks.RWMutex(name).TryRLock(ctx)
		require.ErrorIs(t, err, lock.ErrNotAcquired)

		got := make(chan *lock.Lease)
		go func() { got <- must(t)(sem.Acquire(ctx)) }()
		require.NoError(t, leases[0].Release(ctx))
		leases[0] = <-got
		inUse(3)
		for _, lease := range leases {
			require.NoError(t, lease.Release(ctx))
		}
		inUse(0)
		require.Zero(t, c.Exists(ctx, key(name)).Val())

		brief := must(t)(locks.Semaphore(name, 1).WithTTL(time.Second).Acquire(ctx))
		require.NoError(t, locks.Mutex(name).ForceUnlock(ctx))
		require.ErrorIs(t, brief.Release(ctx), lock.ErrLost, "a permit that lapsed frees nothing")
		inUse(0)

		_, err = locks.Semaphore(name, 0).TryAcquire(ctx)
		require.ErrorContains(t, err, "the number of permits is 0, must be at least 1")
		_, err = locks.Semaphore("", 1).TryAcquire(ctx)
		require.ErrorIs(t, err, lock.ErrInvalidName)
		_, err = locks.Semaphore(name, 1).WithTTL(-1).Acquire(ctx)
		require.ErrorContains(t, err, "at least 1ms")
	})
}

// Never more than its permits, among many that ask.
func TestSemaphoreUnderLoad(t *testing.T) {
	t.Parallel()
	redistest.Run(t, func(t *testing.T, s *redistest.Server) {
		c, ctx, name := s.Client(t), context.Background(), redistest.ID()
		var inside, most, total atomic.Int32
		var all sync.WaitGroup
		for range 12 {
			sem := newLocker(t, c, nil).Semaphore(name, 3)
			all.Go(func() {
				for range 5 {
					err := lock.Do(ctx, sem.Acquire, func(context.Context, *lock.Lease) error {
						n := inside.Add(1)
						for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
						}
						total.Add(1)
						inside.Add(-1)
						return nil
					})
					if err != nil {
						t.Error(err)
					}
				}
			})
		}
		all.Wait()
		require.EqualValues(t, 60, total.Load())
		require.LessOrEqual(t, most.Load(), int32(3))
	})
}

func TestSharedLostReplies(t *testing.T) {
	t.Parallel()
	for fault, lose := range faults {
		t.Run(fault, func(t *testing.T) {
			t.Parallel()
			s := redistest.Real(t)
			p, ctx, direct, name := s.Proxy(t), context.Background(), s.Client(t), redistest.ID()
			sem := newLocker(t, p.Client(t), nil).Semaphore(name, 2)
			require.NoError(t, must(t)(sem.TryAcquire(ctx)).Release(ctx))
			lose(p, 2)
			lease := must(t)(sem.TryAcquire(ctx))
			require.EqualValues(t, 1, direct.ZCard(ctx, key(name)).Val())
			lose(p, 1)
			require.NoError(t, lease.Extend(ctx, time.Minute))
			lose(p, 1)
			require.NoError(t, lease.Release(ctx))
			require.Zero(t, direct.Exists(ctx, key(name)).Val())
		})
	}
}

// A sorted set that is no lock stays as it is.
func TestForeignSortedSet(t *testing.T) {
	t.Parallel()
	redistest.Run(t, func(t *testing.T, s *redistest.Server) {
		c, ctx, name := s.Client(t), context.Background(), redistest.ID()
		locks := newLocker(t, c, nil)
		m := locks.Mutex(name)
		require.NoError(t, c.ZAdd(ctx, key(name), redis.Z{Score: 1, Member: "player:alice"}).Err())
		t.Cleanup(func() { c.Del(ctx, key(name)) })
		for op, run := range map[string]func() error{
			"Lock":        func() error { _, err := m.Lock(ctx); return err },
			"RLock":       func() error { _, err := locks.RWMutex(name).RLock(ctx); return err },
			"Acquire":     func() error { _, err := locks.Semaphore(name, 1).Acquire(ctx); return err },
			"InUse":       func() error { _, err := locks.Semaphore(name, 1).InUse(ctx); return err },
			"Status":      func() error { _, err := m.Status(ctx); return err },
			"ForceUnlock": func() error { return m.ForceUnlock(ctx) },
		} {
			err := run()
			require.ErrorContains(t, err, "WRONGTYPE", op)
			require.ErrorContains(t, err, name, op)
		}
		require.EqualValues(t, 1, c.ZCard(ctx, key(name)).Val())
	})
}

// A reader or a permit keeps the others out for as long as its lease says, wherever in a millisecond of the server's clock it
// begins or is extended.
func TestAShareOfAMillisecond(t *testing.T) {
	t.Parallel()
	virtual(t, &lock.Options{TTL: time.Millisecond, NoRenew: true}, func(t *testing.T, _ *redistest.Server, locks *lock.Locker) {
		ctx := context.Background()
		for kind, take := range map[string]func(context.Context) (*lock.Lease, error){
			"reader": locks.RWMutex("x").TryRLock, "permit": locks.Semaphore("x", 2).TryAcquire,
		} {
			for micros := time.Duration(0); micros < 1000; micros += 100 {
				time.Sleep(time.Until(time.Now().Truncate(time.Millisecond).Add(5*time.Millisecond + micros*time.Microsecond)))
				lease := must(t)(take(ctx))
				ttl, err := lease.TTL(ctx)
				require.NoError(t, err)
				require.LessOrEqual(t, ttl, time.Millisecond)
				for extended := false; lease.Held(); time.Sleep(100 * time.Microsecond) {
					_, err := locks.Mutex("x").TryLock(ctx)
					require.ErrorIs(t, err, lock.ErrNotAcquired, "%s that began at %dµs, extended %v", kind, micros, extended)
					if !extended && time.Until(lease.Until()) < 300*time.Microsecond {
						require.NoError(t, lease.Extend(ctx, time.Millisecond))
						extended = true
					}
				}
			}
		}
	})
}
