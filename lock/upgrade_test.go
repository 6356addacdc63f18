package lock_test

import (
	"context"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redispatterns/redispatterns/internal/redistest"
	"github.com/redispatterns/redispatterns/lock"
)

// Processes of the first version read, hold and wait while those of this one come and go.
func TestSharesALockWithTheFirstVersion(t *testing.T) {
	t.Parallel()
	redistest.Run(t, func(t *testing.T, s *redistest.Server) {
		s.OnlyOurs(t)
		c, ctx := s.Client(t), context.Background()
		redistest.Load(t, c, "testdata/v0-shared.redis")
		locks := newLocker(t, c, nil)

		// Readers.
		_, err := locks.Mutex("config").TryLock(ctx)
		require.ErrorIs(t, err, lock.ErrNotAcquired)
		_, err = locks.Semaphore("config", 2).TryAcquire(ctx)
		require.ErrorIs(t, err, lock.ErrNotAcquired)
		reader := must(t)(locks.RWMutex("config").TryRLock(ctx))
		require.EqualValues(t, 3, c.ZCard(ctx, "lock:config").Val())
		require.NoError(t, reader.Release(ctx))
		require.EqualValues(t, 2, c.ZCard(ctx, "lock:config").Val(), "theirs stay")
		status, err := locks.Mutex("config").Status(ctx)
		require.NoError(t, err)
		require.True(t, status.Held)

		// Permits, of which one lapsed.
		exports := locks.Semaphore("exports", 2)
		n, err := exports.InUse(ctx)
		require.NoError(t, err)
		require.Equal(t, 1, n)
		_, err = locks.Semaphore("exports", 3).TryAcquire(ctx)
		require.ErrorContains(t, err, "3 permits here and 2 elsewhere")
		permit := must(t)(exports.TryAcquire(ctx))
		_, err = exports.TryAcquire(ctx)
		require.ErrorIs(t, err, lock.ErrNotAcquired)
		require.NoError(t, permit.Release(ctx))
		require.EqualValues(t, 1, c.ZCard(ctx, "lock:exports").Val())

		// A queue: the release passes over the dead, and grants to the living as the first version does.
		const third, fourth = "33333333-3333-4333-8333-333333333333", "44444444-4444-4444-8444-444444444444"
		three := c.Subscribe(ctx, "{lock:order:12345}~q:PROCESSTHREE4567")
		defer three.Close()
		_, err = three.Receive(ctx)
		require.NoError(t, err)
		m := locks.Mutex("order:12345")
		lease := must(t)(m.Adopt(ctx, "0190b3a5-5f0c-4b66-9d8e-2f1f6d1c7a10"))
		require.Greater(t, lease.Fence(), int64(1764432000000000))
		require.NoError(t, lease.Release(ctx))
		require.Equal(t, third, owner(t, c, "order:12345"))
		message, err := three.ReceiveMessage(ctx)
		require.NoError(t, err)
		require.Equal(t, third, message.Payload[:36])
		fence, err := strconv.ParseInt(message.Payload[36:], 10, 64)
		require.NoError(t, err)
		require.Greater(t, fence, lease.Fence())
		require.LessOrEqual(t, c.PTTL(ctx, "lock:order:12345").Val(), 1500*time.Millisecond, "for as long as it asked")

		lease = must(t)(m.Adopt(ctx, third))
		require.Greater(t, lease.Fence(), fence)
		require.NoError(t, lease.Release(ctx))
		require.Equal(t, fourth, owner(t, c, "order:12345"), "though nobody heard it at this server")
		require.Zero(t, c.Exists(ctx, "{lock:order:12345}~q").Val())
	})
}

// What a waiter, readers and permits write, as another version reads it.
func TestWhatWaitersAndSharersWrite(t *testing.T) {
	t.Parallel()
	redistest.Run(t, func(t *testing.T, s *redistest.Server) {
		c, ctx, name := s.Client(t), context.Background(), redistest.ID()
		locks := newLocker(t, c, nil)
		now := float64(s.Now(t).UnixMilli())
		reader := must(t)(locks.RWMutex(name).RLock(ctx))
		z := c.ZRangeWithScores(ctx, key(name), 0, -1).Val()
		require.Len(t, z, 1)
		require.Equal(t, "r"+reader.Token(), z[0].Member)
		require.InDelta(t, now+10_000, z[0].Score, 5000)
		left(t, 10*time.Second, c.PTTL(ctx, key(name)).Val())

		got := waiting(t, c, locks.Mutex(name), name, 1)
		waiter := c.ZRangeWithScores(ctx, queueKey(name), 0, -1).Val()
		require.Len(t, waiter, 2)
		require.Regexp(t, `^[0-9a-f]{8}-[0-9a-f-]{27}02000[A-Z2-7]{16}$`, waiter[1].Member)
		require.Equal(t, "~"+waiter[1].Member.(string), waiter[0].Member)
		require.InDelta(t, 1000*now, waiter[1].Score, 5e6, "its arrival, in microseconds")
		require.InDelta(t, 2*(now+3000), waiter[0].Score, 10_000, "alive until, in half milliseconds")
		require.InDelta(t, 6*time.Second, c.PTTL(ctx, queueKey(name)).Val(), float64(time.Second))
		require.NoError(t, reader.Release(ctx))
		require.NoError(t, (<-got).Release(ctx))

		permit := must(t)(locks.Semaphore(name, 5).Acquire(ctx))
		require.Equal(t, []string{"p5:" + permit.Token()}, c.ZRange(ctx, key(name), 0, -1).Val())
		require.NoError(t, permit.Release(ctx))
	})
}
