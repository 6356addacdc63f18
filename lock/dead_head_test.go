package lock_test

import (
	"context"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/redispatterns/redispatterns/internal/rediskey"
	"github.com/redispatterns/redispatterns/internal/redistest"
)

// Where a slot is on its way to another master, a script may not ask for a key that it has just emptied: the only waiter is dead,
// and the release frees the lock all the same.
func TestADeadHeadWhileItsSlotMoves(t *testing.T) {
	t.Parallel()
	cluster := redistest.ThreeMasters(t)
	c, ctx, name := cluster.Client(t), context.Background(), redistest.ID()
	lease := mustLock(t, newLocker(t, c, nil).Mutex(name))
	now := time.Now().Add(time.Minute)
	dead := uuid.NewString() + "02000" + "DEADPROCESSDEADX"
	require.NoError(t, c.ZAdd(ctx, queueKey(name), redis.Z{Score: float64(now.UnixMicro()), Member: dead},
		redis.Z{Score: float64(now.UnixMilli()*2 + 1), Member: "~" + dead}).Err()) // it once listened at this server

	m := newMover(t, cluster, rediskey.Slot(key(name)))
	from, to := m.nodes[m.at], (m.at+1)%len(m.nodes)
	require.NoError(t, from.Do(ctx, "cluster", "setslot", m.slot, "migrating", m.ids[to]).Err())
	err := lease.Release(ctx)
	require.NoError(t, from.Do(ctx, "cluster", "setslot", m.slot, "stable").Err())
	require.NoError(t, err)
	require.Zero(t, from.Exists(ctx, key(name), queueKey(name)).Val())
}
