package lock_test

import (
	"context"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/redispatterns/redispatterns/internal/redistest"
	"github.com/redispatterns/redispatterns/lock"
)

func TestReadsWhatTheFirstVersionWrote(t *testing.T) {
	t.Parallel()
	redistest.Run(t, func(t *testing.T, s *redistest.Server) {
		s.OnlyOurs(t)
		c, ctx := s.Client(t), context.Background()
		redistest.Load(t, c, "testdata/v0.redis")
		locks := newLocker(t, c, nil)
		for name, want := range map[string]lock.Status{
			"order:12345":   {Held: true, Owner: "0190b3a5-5f0c-4b66-9d8e-2f1f6d1c7a10", Fence: 1764432000000000},
			"{user:7}:cart": {Held: true, Owner: "7c9e6679-7425-40de-944b-e07fc1f90ae7", Fence: 1764432000000002},
			"order:777":     {Fence: 1764432000000001},
		} {
			m := locks.Mutex(name)
			status, err := m.Status(ctx)
			require.NoError(t, err)
			if want.Held {
				require.InDelta(t, 10*time.Minute, status.TTL, float64(10*time.Second))
				_, err := m.TryLock(ctx)
				require.ErrorIs(t, err, lock.ErrNotAcquired)
				lease, err := m.Adopt(ctx, want.Owner)
				require.NoError(t, err)
				require.NoError(t, lease.Release(ctx))
			}
			status.TTL = 0
			require.Equal(t, want, status)
			lease := mustLock(t, m)
			require.Greater(t, lease.Fence(), want.Fence)
			require.NoError(t, lease.Release(ctx))
		}
	})
}

// The shape of what is written, as other programs read it.
func TestWhatIsWritten(t *testing.T) {
	t.Parallel()
	redistest.Run(t, func(t *testing.T, s *redistest.Server) {
		s.OnlyOurs(t)
		c, ctx := s.Client(t), context.Background()
		locks := newLocker(t, c, nil)
		for name, keys := range map[string][2]string{
			"order:12345":   {"lock:order:12345", "{lock:order:12345}~f"},
			"{user:7}:cart": {"lock:{user:7}:cart", "lock:{user:7}:cart~f"},
		} {
			lease := mustLock(t, locks.Mutex(name))
			require.ElementsMatch(t, keys[:], c.Keys(ctx, "*").Val())
			token := c.Get(ctx, keys[0]).Val()
			require.NoError(t, uuid.Validate(token))
			require.Equal(t, token, lease.Token())
			require.Regexp(t, `^\d{16}$`, c.Get(ctx, keys[1]).Val())
			left(t, 10*time.Second, c.PTTL(ctx, keys[0]).Val())
			left(t, 24*time.Hour, c.PTTL(ctx, keys[1]).Val())
			require.NoError(t, lease.Release(ctx))
			require.Equal(t, keys[1:], c.Keys(ctx, "*").Val(), "only the fence is left, with a TTL")
			c.Del(ctx, keys[1])
		}
	})
}
