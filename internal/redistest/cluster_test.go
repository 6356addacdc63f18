package redistest_test

import (
	"context"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/redispatterns/redispatterns/internal/redistest"
)

func quickReload(o *redis.ClusterOptions) { o.ClusterStateReloadInterval = 100 * time.Millisecond }

// A cluster with replicas survives what is done to it here, one after the other.
func TestReplicatedCluster(t *testing.T) {
	t.Parallel()
	cluster, ctx := redistest.Replicated(t, time.Second), context.Background()
	c := cluster.Client(t, quickReload)
	const key = "{slot}"
	require.NoError(t, c.Set(ctx, key, 1, 0).Err())

	before, err := cluster.ShardOf(ctx, key)
	require.NoError(t, err)
	require.NotNil(t, before.Replica)
	require.NoError(t, cluster.Failover(ctx, key))
	after, err := cluster.ShardOf(ctx, key)
	require.NoError(t, err)
	require.Equal(t, redistest.Shard{Slot: before.Slot, Master: before.Replica, Replica: before.Master}, after)
	require.Equal(t, "1", c.Get(ctx, key).Val(), "a failover in agreement loses nothing")

	require.NoError(t, c.Set(ctx, key+"b", 2, 0).Err())
	m, err := cluster.Migrate(ctx, key)
	require.NoError(t, err)
	n, err := m.MoveKeys(ctx)
	require.NoError(t, err)
	require.Equal(t, 2, n)
	require.Equal(t, "2", c.Get(ctx, key+"b").Val(), "ASK")
	require.NoError(t, m.Finish(ctx))
	moved, err := cluster.ShardOf(ctx, key)
	require.NoError(t, err)
	require.NotEqual(t, after.Master, moved.Master)
	require.Equal(t, "2", c.Get(ctx, key+"b").Val())

	require.NoError(t, c.Set(ctx, key, "kept", 0).Err())
	require.NoError(t, moved.Master.Replicated(ctx, 1))
	require.NoError(t, redistest.CutOff(ctx, moved.Master, moved.Replica))
	require.NoError(t, c.Set(ctx, key, "lost", 0).Err())
	moved.Master.Kill()
	require.NoError(t, redistest.Rejoin(moved.Replica))
	require.NoError(t, cluster.Promoted(ctx, key, moved.Master))
	redistest.Eventually(t, func() bool { return c.Get(ctx, key).Val() == "kept" }, "the replica, without the last write, is the master")
}

// The sentinels make a replica the master that lacks what was written last.
func TestSentinelPromotesWhoLacksTheLastWrite(t *testing.T) {
	t.Parallel()
	s, ctx := redistest.Sentinels(t, 2), context.Background()
	c := s.Client(t)
	require.NoError(t, c.Set(ctx, "key", "kept", 0).Err())
	require.NoError(t, s.Master.Replicated(ctx, 2))
	require.NoError(t, redistest.CutOff(ctx, s.Master, s.Replicas...))
	require.NoError(t, c.Set(ctx, "key", "lost", 0).Err())
	s.Master.Kill()
	require.NoError(t, redistest.Rejoin(s.Replicas...))
	redistest.Eventually(t, func() bool { return c.Get(ctx, "key").Val() == "kept" }, "a replica is the master")
}

func TestRestartForgets(t *testing.T) {
	t.Parallel()
	s, p := redistest.Own(t)
	c, ctx := s.Client(t), context.Background()
	require.NoError(t, c.Set(ctx, "key", 1, 0).Err())
	require.NoError(t, p.Restart())
	require.NoError(t, c.Ping(ctx).Err())
	require.Zero(t, c.DBSize(ctx).Val())
}
