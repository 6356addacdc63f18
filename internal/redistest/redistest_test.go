package redistest_test

import (
	"context"
	"errors"
	"net"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/redispatterns/redispatterns/internal/redistest"
)

func TestMain(m *testing.M) { redistest.Main(m) }

func TestAdvanceMovesTimeAndTTL(t *testing.T) {
	t.Parallel()
	redistest.Run(t, func(t *testing.T, s *redistest.Server) {
		c, ctx, key := s.Client(t), context.Background(), redistest.ID()
		require.NoError(t, c.Set(ctx, key, 1, 2*time.Second).Err())
		before := s.Now(t)
		s.Advance(t, 300*time.Millisecond)
		require.GreaterOrEqual(t, s.Now(t).Sub(before), 300*time.Millisecond)
		ttl, err := c.PTTL(ctx, key).Result()
		require.NoError(t, err)
		require.Greater(t, ttl, time.Duration(0))
		require.LessOrEqual(t, ttl, 1700*time.Millisecond)
		s.Advance(t, 1700*time.Millisecond)
		require.Zero(t, c.Exists(ctx, key).Val())
	})
}

func TestDatabasesAreApart(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	a, b := redistest.Real(t), redistest.Real(t)
	a.OnlyOurs(t)
	require.NoError(t, a.Client(t).Set(ctx, "key", 1, 0).Err())
	require.Zero(t, b.Client(t).DBSize(ctx).Val())
}

func TestOwnServerCanBeKilled(t *testing.T) {
	t.Parallel()
	s, p := redistest.Own(t)
	c, ctx := s.Client(t, func(o *redis.Options) { o.MaxRetries, o.DialerRetries = -1, 1 }), context.Background()
	require.NoError(t, c.Ping(ctx).Err())
	p.Stop()
	require.Error(t, c.Ping(ctx).Err())
}

func TestProxy(t *testing.T) {
	t.Parallel()
	redistest.Run(t, func(t *testing.T, s *redistest.Server) {
		p, ctx, key := s.Proxy(t), context.Background(), redistest.ID()
		c, direct := p.Client(t), s.Client(t)
		t.Cleanup(func() { direct.Del(ctx, key) })
		count := func() int { n, _ := direct.Get(ctx, key).Int(); return n }
		require.NoError(t, c.Incr(ctx, key).Err())

		// go-redis sends a command up to four times, so three lost replies make one call count four times.
		p.DropReplies(3, "incr")
		require.NoError(t, c.Incr(ctx, key).Err())
		require.Equal(t, 5, count())
		p.CloseAfter(3, "incr")
		require.NoError(t, c.Incr(ctx, key).Err())
		require.Equal(t, 9, count())
		p.CloseBefore(3, "incr")
		require.NoError(t, c.Incr(ctx, key).Err())
		require.Equal(t, 10, count())
		require.Equal(t, 3, p.Hits())

		p.DropReplies(1, "set")
		require.NoError(t, c.Incr(ctx, key).Err(), "another command meets no fault")
		require.Zero(t, p.Hits())

		// Of a pipeline all is executed, and of what is lost nobody waits for the timeout.
		patient := p.Client(t, func(o *redis.Options) { o.ReadTimeout, o.MaxRetries = 10*time.Minute, -1 })
		p.DropReplies(1, "incr")
		_, err := patient.Pipelined(ctx, func(pipe redis.Pipeliner) error {
			for range 3 {
				pipe.Incr(ctx, key)
			}
			return nil
		})
		var timeout net.Error
		require.True(t, errors.As(err, &timeout) && timeout.Timeout(), "%v", err)
		redistest.Eventually(t, func() bool { return count() == 14 }, "all executed")

		began := time.Now()
		p.Delay(30 * time.Millisecond)
		require.NoError(t, c.Incr(ctx, key).Err())
		require.GreaterOrEqual(t, time.Since(began), 30*time.Millisecond)
		p.Delay(0)

		p.BlackHole(true)
		once := p.Client(t, func(o *redis.Options) { o.MaxRetries, o.ReadTimeout = -1, 100*time.Millisecond })
		err = once.Incr(ctx, key).Err()
		require.True(t, errors.As(err, &timeout) && timeout.Timeout(), "%v", err)
		p.BlackHole(false)
		p.Kill()
		require.NoError(t, c.Ping(ctx).Err())
	})
}

func TestCounter(t *testing.T) {
	t.Parallel()
	redistest.Run(t, func(t *testing.T, s *redistest.Server) {
		c, ctx := s.Client(t), context.Background()
		n := redistest.Count(c)
		require.NoError(t, c.Ping(ctx).Err())
		_, err := c.Pipelined(ctx, func(p redis.Pipeliner) error {
			p.Get(ctx, "a")
			p.Get(ctx, "b")
			return nil
		})
		require.ErrorIs(t, err, redis.Nil)
		require.Equal(t, 2, n.Trips())
		require.Equal(t, []string{"ping", "get", "get"}, n.Commands())
		n.Reset()
		require.Zero(t, n.Trips())
	})
}

// Servers of others are used, and left as they were.
func TestServersOfOthers(t *testing.T) {
	_, p := redistest.Own(t)
	cluster := redistest.OwnCluster(t, 2, 10*time.Second)
	t.Setenv("REDIS_ADDR", p.Addr)
	t.Setenv("REDIS_CLUSTER_ADDRS", strings.Join(cluster.Addrs, ","))
	theirs, ctx := redis.NewClient(&redis.Options{Addr: p.Addr}), context.Background()
	defer theirs.Close()
	require.NoError(t, theirs.Set(ctx, "theirs", 1, 0).Err())
	t.Run("used", func(t *testing.T) {
		redistest.Run(t, func(t *testing.T, s *redistest.Server) {
			require.NoError(t, s.Client(t).Set(ctx, "ours", 1, time.Minute).Err())
			require.Equal(t, s.IsReal(), theirs.Exists(ctx, "ours").Val() == 1)
		})
		for _, c := range []*redistest.Cluster{redistest.OneNode(t), redistest.ThreeMasters(t)} {
			require.Equal(t, cluster.Addrs, c.Addrs)
			require.NoError(t, c.Client(t).Set(ctx, "ours", 1, time.Minute).Err())
		}
		s, own := redistest.Own(t)
		require.NotEqual(t, p.Addr, own.Addr)
		s.OnlyOurs(t)
	})
	t.Run("disturbed", func(t *testing.T) {
		redistest.Real(t).OnlyOurs(t)
		t.Error("what disturbs a server ran on one of others")
	})
	require.EqualValues(t, 1, theirs.Exists(ctx, "theirs").Val(), "nothing is flushed")
}

func TestThreeMasters(t *testing.T) {
	t.Parallel()
	c, ctx := redistest.ThreeMasters(t).Client(t), context.Background()
	if os.Getenv("REDIS_CLUSTER_ADDRS") != "" {
		t.Skip("REDIS_CLUSTER_ADDRS may have any number")
	}
	var masters atomic.Int32
	require.NoError(t, c.ForEachMaster(ctx, func(context.Context, *redis.Client) error { masters.Add(1); return nil }))
	require.EqualValues(t, 3, masters.Load())
	for range 50 {
		require.NoError(t, c.Set(ctx, redistest.ID(), 1, time.Minute).Err())
	}
}

func TestVirtualTime(t *testing.T) {
	t.Parallel()
	redistest.Virtual(t, func(t *testing.T, s *redistest.Server) {
		c, ctx := s.Client(t), context.Background()
		require.NoError(t, c.Set(ctx, "key", 1, time.Hour).Err())
		redistest.Sleep(59 * time.Minute)
		require.EqualValues(t, 1, c.Exists(ctx, "key").Val())
		redistest.Sleep(time.Minute)
		require.Zero(t, c.Exists(ctx, "key").Val())
	})
}

func TestSentinelFailsOver(t *testing.T) {
	t.Parallel()
	s := redistest.Sentinels(t, 2)
	c, ctx := s.Client(t), context.Background()
	require.NoError(t, c.Set(ctx, "key", 1, 0).Err())
	old, err := s.MasterAddr(ctx)
	require.NoError(t, err)
	require.NoError(t, s.Failover(ctx))
	redistest.Eventually(t, func() bool { return c.Set(ctx, "key", 2, 0).Err() == nil }, "the new master takes writes")
	now, err := s.MasterAddr(ctx)
	require.NoError(t, err)
	require.NotEqual(t, old, now)
}
