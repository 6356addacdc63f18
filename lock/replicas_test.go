package lock_test

import (
	"context"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/redispatterns/redispatterns/internal/redistest"
	"github.com/redispatterns/redispatterns/lock"
)

func TestReplicas(t *testing.T) {
	t.Parallel()
	s, master := redistest.Own(t, "--repl-diskless-sync-delay", "0")
	host, port, err := net.SplitHostPort(master.Addr)
	require.NoError(t, err)
	_, replica := redistest.Own(t, "--replicaof", host, port)
	c, ctx := s.Client(t), context.Background()
	redistest.Eventually(t, func() bool { return strings.Contains(c.Info(ctx, "replication").Val(), "state=online") }, "the replica is there")

	opts := &lock.Options{Replicas: 1, ReplicaTimeout: 2 * time.Second}
	m := newLocker(t, c, opts).Mutex("x")
	lease := must(t)(m.TryLock(ctx))
	left(t, 10*time.Second, c.PTTL(ctx, "lock:x").Val())
	got := waiting(t, c, newLocker(t, c, opts).Mutex("x"), "x", 1)
	require.NoError(t, lease.Release(ctx))
	granted := <-got // confirmed before it is handed out
	left(t, 10*time.Second, c.PTTL(ctx, "lock:x").Val())
	require.NoError(t, granted.Release(ctx))
	permit := must(t)(newLocker(t, c, opts).Semaphore("y", 2).Acquire(ctx))
	require.NoError(t, permit.Release(ctx))

	counted := s.Client(t)
	n := redistest.Count(counted)
	locks := newLocker(t, counted, opts)
	for kind, take := range map[string]func(context.Context) (*lock.Lease, error){
		"mutex": locks.Mutex("x").Lock, "permit": locks.Semaphore("y", 2).Acquire, "reader": locks.RWMutex("z").RLock,
	} {
		n.Reset()
		lease, err := take(ctx)
		require.NoError(t, err, kind)
		require.Equal(t, 1, n.Trips(), kind)
		require.Equal(t, []string{"evalsha", "wait"}, n.Commands(), kind)
		require.NoError(t, lease.Release(ctx))
	}
	// The confirmation may come a second time, late: it must not shorten what was extended since.
	recorded, lastPipeline := s.Client(t), &pipelined{}
	recorded.AddHook(lastPipeline)
	lease = must(t)(locks.Mutex("x").Lock(ctx))
	lease = must(t)(newLocker(t, recorded, opts).Mutex("x").Adopt(ctx, lease.Token()))
	require.NoError(t, lease.Extend(ctx, time.Minute))
	require.NoError(t, c.Do(ctx, lastPipeline.sent...).Err())
	require.Greater(t, c.PTTL(ctx, "lock:x").Val(), 30*time.Second)
	require.NoError(t, lease.Release(ctx))

	p := s.Proxy(t)
	for fault, lose := range faults {
		m := newLocker(t, p.Client(t, func(o *redis.Options) { o.ReadTimeout = 2 * time.Second }), opts).Mutex("x")
		require.NoError(t, must(t)(m.TryLock(ctx)).Release(ctx))
		lose(p, 1)
		lease := must(t)(m.TryLock(ctx))
		require.Equal(t, 1, p.Hits(), fault)
		require.Equal(t, lease.Token(), c.Get(ctx, "lock:x").Val(), fault)
		require.NoError(t, lease.Release(ctx))
	}
	require.NoError(t, c.ScriptFlush(ctx).Err())
	require.NoError(t, must(t)(locks.Mutex("x").Lock(ctx)).Release(ctx))

	_, err = newLocker(t, c, &lock.Options{Replicas: 2, ReplicaTimeout: time.Second}).Mutex("x").Lock(ctx)
	require.ErrorIs(t, err, lock.ErrNotReplicated)
	require.NotErrorIs(t, err, lock.ErrNotAcquired)
	require.ErrorContains(t, err, "1 of 2 replicas")
	require.Zero(t, c.Exists(ctx, "lock:x").Val(), "released again")

	replica.Stop()
	redistest.Eventually(t, func() bool { return strings.Contains(c.Info(ctx, "replication").Val(), "connected_slaves:0") }, "the replica is gone")
	_, err = newLocker(t, c, &lock.Options{Replicas: 1}).Mutex("x").TryLock(ctx)
	require.ErrorIs(t, err, lock.ErrNotReplicated)
	require.Zero(t, c.Exists(ctx, "lock:x").Val())
}

// pipelined keeps what was first in the last pipeline with WAIT.
type pipelined struct{ sent []any }

func (p *pipelined) DialHook(next redis.DialHook) redis.DialHook { return next }

func (p *pipelined) ProcessHook(next redis.ProcessHook) redis.ProcessHook { return next }

func (p *pipelined) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		if len(cmds) == 2 && cmds[1].Name() == "wait" {
			p.sent = cmds[0].Args()
		}
		return next(ctx, cmds)
	}
}

func TestReplicasNeedsAPinnedConnection(t *testing.T) {
	t.Parallel()
	s := redistest.Mini(t)
	ap, err := s.Client(t).AutoPipeline()
	require.NoError(t, err)
	t.Cleanup(func() { _ = ap.Close() })
	_, err = lock.New(ap, &lock.Options{Replicas: 1})
	require.ErrorIs(t, err, lock.ErrUnsupported)
	c := s.Client(t)
	_, err = lock.New(c, &lock.Options{Replicas: -1})
	require.ErrorContains(t, err, "lock: new: Options.Replicas is -1, must not be negative")
	_, err = lock.NewQuorum(&lock.Options{Replicas: 1}, c, c, c)
	require.ErrorIs(t, err, lock.ErrUnsupported)

	cluster := redistest.ThreeMasters(t).Client(t) // which has no replicas
	n := &redistest.Counter{}
	cluster.OnNewNode(func(node *redis.Client) { node.AddHook(n) })
	name := redistest.ID()
	m := newLocker(t, cluster, nil).Mutex(name)
	require.NoError(t, must(t)(m.TryLock(context.Background())).Release(context.Background())) // the scripts are loaded
	m = newLocker(t, cluster, &lock.Options{Replicas: 1, ReplicaTimeout: 10 * time.Millisecond}).Mutex(name)
	n.Reset()
	_, err = m.TryLock(context.Background())
	require.ErrorIs(t, err, lock.ErrNotReplicated)
	require.Equal(t, []string{"evalsha", "wait", "evalsha"}, n.Commands(), "acquired, and released again")
	require.Equal(t, 2, n.Trips())
	status, err := m.Status(context.Background())
	require.NoError(t, err)
	require.False(t, status.Held)
}
