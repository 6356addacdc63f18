package lock_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/redispatterns/redispatterns"
	"github.com/redispatterns/redispatterns/internal/redistest"
	"github.com/redispatterns/redispatterns/lock"
)

// nodes are five servers, independent of each other, and a quorum's Locker on them.
func nodes(t *testing.T, opts *lock.Options) ([]*redistest.Server, *lock.Locker) {
	t.Helper()
	var servers []*redistest.Server
	for range 5 {
		servers = append(servers, redistest.Mini(t))
	}
	return servers, quorumOn(t, servers, opts)
}

func quorumOn(t *testing.T, servers []*redistest.Server, opts *lock.Options) *lock.Locker {
	t.Helper()
	var clients []redispatterns.Client
	for _, s := range servers {
		clients = append(clients, s.Client(t, func(o *redis.Options) { o.MaxRetries, o.DialerRetries = -1, 1 }))
	}
	locks, err := lock.NewQuorum(opts, clients...)
	require.NoError(t, err)
	t.Cleanup(func() { _ = locks.Close() })
	return locks
}

// holding is how many nodes have the lock.
func holding(servers []*redistest.Server) (n int) {
	for _, s := range servers {
		if s.Mini.Exists("lock:x") {
			n++
		}
	}
	return n
}

// longestTTL is the longest that any node keeps the lock.
func longestTTL(servers []*redistest.Server) (ttl time.Duration) {
	for _, s := range servers {
		ttl = max(ttl, s.Mini.TTL("lock:x"))
	}
	return ttl
}

func TestQuorum(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	servers, locks := nodes(t, nil)
	m := locks.Mutex("x")
	lease := must(t)(m.TryLock(ctx))
	require.True(t, lease.Held())
	require.Zero(t, lease.Fence(), "there is none")
	redistest.Eventually(t, func() bool { return holding(servers) == 5 }, "all nodes have it")
	other, err := quorumOn(t, servers, nil).Mutex("x").TryLock(ctx)
	require.Equal(t, lease.Token(), refused(t, other, err).Owner)
	require.NoError(t, lease.Extend(ctx, time.Minute))
	ttl, err := lease.TTL(ctx)
	require.NoError(t, err)
	require.Greater(t, ttl, 9*time.Second)

	got := make(chan *lock.Lease)
	others := quorumOn(t, servers, nil)
	go func() { got <- must(t)(others.Mutex("x").Lock(ctx)) }()
	require.NoError(t, lease.Release(ctx))
	require.NoError(t, lease.Release(ctx))
	lease = <-got
	require.NoError(t, lease.Leave(ctx, time.Second))
	require.NoError(t, lease.Release(ctx))
	_, err = m.TryLock(ctx)
	require.ErrorIs(t, err, lock.ErrNotAcquired)
	require.NoError(t, others.Close()) // nothing of theirs is under way to the nodes beyond the majority
	redistest.Eventually(t, func() bool { return longestTTL(servers) == time.Second }, "all that have it know")
	for _, s := range servers {
		s.Advance(t, time.Second)
	}
	require.NoError(t, must(t)(m.TryLock(ctx)).Release(ctx))
	redistest.Eventually(t, func() bool { return holding(servers) == 0 }, "released everywhere")
}

func TestQuorumOfThoseConfigured(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	servers, locks := nodes(t, nil)
	servers[0].Mini.Close()
	servers[1].Mini.Close()
	lease := must(t)(locks.Mutex("x").TryLock(ctx))
	require.NoError(t, lease.Extend(ctx, time.Minute))
	require.NoError(t, lease.Release(ctx))

	lease = must(t)(locks.Mutex("x").TryLock(ctx))
	servers[2].Mini.Close()
	_, err := locks.Mutex("y").TryLock(ctx)
	require.ErrorIs(t, err, lock.ErrNoQuorum)
	require.NotErrorIs(t, err, lock.ErrNotAcquired)
	var node *lock.NodeError
	require.ErrorAs(t, err, &node)
	for i := range 3 {
		require.ErrorContains(t, err, fmt.Sprintf("node %d: ", i))
	}
	require.NotContains(t, err.Error(), "\n")
	require.ErrorIs(t, lease.Extend(ctx, time.Minute), lock.ErrNoQuorum)
	require.ErrorIs(t, lease.Release(ctx), lock.ErrNoQuorum)
	redistest.Eventually(t, func() bool {
		return !servers[3].Mini.Exists("lock:y") && !servers[4].Mini.Exists("lock:y") && !servers[4].Mini.Exists("lock:x")
	}, "cleaned up where it can be")
}

// A node that hangs is not waited for.
func TestQuorumDoesNotWaitForTheSlow(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	servers := []*redistest.Server{redistest.Mini(t), redistest.Mini(t), redistest.Mini(t)}
	p := servers[2].Proxy(t)
	clients := []redispatterns.Client{servers[0].Client(t), servers[1].Client(t), p.Client(t, func(o *redis.Options) {
		o.ReadTimeout, o.ContextTimeoutEnabled = 5*time.Second, true
	})}
	locks, err := lock.NewQuorum(nil, clients...)
	require.NoError(t, err)
	t.Cleanup(func() { _ = locks.Close() })
	require.NoError(t, must(t)(locks.Mutex("warm").TryLock(ctx)).Release(ctx)) // of another name: a majority may be ahead of the third
	p.BlackHole(true)
	fastest := time.Hour // of a machine that may be busy
	for range 5 {
		began := time.Now()
		require.NoError(t, must(t)(locks.Mutex("x").TryLock(ctx)).Release(ctx))
		fastest = min(fastest, time.Since(began))
	}
	require.Less(t, fastest, 400*time.Millisecond)
	p.BlackHole(false)
	redistest.Eventually(t, func() bool { return holding(servers) == 0 }, "released everywhere")
}

// A node that lost its data gets the lock back while a majority confirms it, and only then.
func TestQuorumHealsAMinority(t *testing.T) {
	t.Parallel()
	redistest.Virtual(t, func(t *testing.T, s *redistest.Server) {
		ctx := context.Background()
		var servers []*redistest.Server
		var clients []redispatterns.Client
		for range 3 {
			mini, c := virtualNode(t)
			servers, clients = append(servers, &redistest.Server{Mini: mini}), append(clients, c)
		}
		locks, err := lock.NewQuorum(nil, clients...)
		require.NoError(t, err)
		defer locks.Close()
		lease := must(t)(locks.Mutex("x").TryLock(ctx))
		held := lease.Context(ctx)
		redistest.Sleep(100 * time.Millisecond)
		servers[0].Mini.FlushAll()
		redistest.Sleep(4 * time.Second)
		require.Equal(t, 3, holding(servers), "healed")
		value, _ := servers[0].Mini.Get("lock:x")
		require.Equal(t, lease.Token(), value)

		servers[0].Mini.FlushAll()
		require.NoError(t, servers[0].Mini.Set("lock:x", "another"))
		redistest.Sleep(4 * time.Second)
		require.NoError(t, held.Err())
		value, _ = servers[0].Mini.Get("lock:x")
		require.Equal(t, "another", value)

		servers[1].Mini.FlushAll()
		redistest.Sleep(4 * time.Second)
		require.ErrorIs(t, context.Cause(held), lock.ErrLost)
		require.False(t, servers[1].Mini.Exists("lock:x"))
		require.ErrorIs(t, lease.Release(ctx), lock.ErrLost)
		for _, c := range clients {
			require.NoError(t, c.(*redis.Client).Close())
		}
		for _, s := range servers {
			s.Mini.Close()
		}
	})
}

func TestQuorumRefuses(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	servers, locks := nodes(t, nil)
	for op, run := range map[string]func() error{
		"Adopt":       func() error { _, err := locks.Mutex("x").Adopt(ctx, "token"); return err },
		"Status":      func() error { _, err := locks.Mutex("x").Status(ctx); return err },
		"ForceUnlock": func() error { return locks.Mutex("x").ForceUnlock(ctx) },
		"RLock":       func() error { _, err := locks.RWMutex("x").RLock(ctx); return err },
		"RW Lock":     func() error { _, err := locks.RWMutex("x").Lock(ctx); return err },
		"Acquire":     func() error { _, err := locks.Semaphore("x", 1).Acquire(ctx); return err },
		"InUse":       func() error { _, err := locks.Semaphore("x", 1).InUse(ctx); return err },
	} {
		require.ErrorIs(t, run(), lock.ErrUnsupported, op)
	}
	require.Zero(t, holding(servers))
	c := servers[0].Client(t)
	_, err := lock.NewQuorum(nil, c, c)
	require.ErrorContains(t, err, "at least 3")
	_, err = lock.NewQuorum(nil, c, nil, c)
	require.ErrorContains(t, err, "nil")
	_, err = lock.NewQuorum(&lock.Options{TTL: -1}, c, c, c)
	require.ErrorContains(t, err, "at least 1ms")
	_, err = lock.NewQuorum(nil, servers[1].Client(t), c, c)
	require.ErrorContains(t, err, "node 2 is a client that came before")
	require.NoError(t, locks.Close())
	_, err = locks.Mutex("x").Lock(ctx)
	require.ErrorIs(t, err, lock.ErrClosed)

	ended, cancel := context.WithCancelCause(ctx)
	reason := errors.New("reason")
	cancel(reason)
	_, err = quorumOn(t, servers, nil).Mutex("x").Lock(ended)
	require.ErrorIs(t, err, reason)
}

func ExampleNewQuorum() {
	var nodes []redispatterns.Client
	for _, addr := range []string{addr, addr2, addr3} { // independent of each other
		node := redis.NewClient(&redis.Options{Addr: addr})
		defer node.Close()
		nodes = append(nodes, node)
	}
	locks, err := lock.NewQuorum(nil, nodes...)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer locks.Close()

	err = lock.Do(context.Background(), locks.Mutex("order:1").Lock, func(_ context.Context, lease *lock.Lease) error {
		fmt.Println(lease.Name(), lease.Held())
		return nil
	})
	fmt.Println(err)
	// Output:
	// order:1 true
	// <nil>
}
