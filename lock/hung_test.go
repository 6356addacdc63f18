//go:build unix

package lock_test

import (
	"context"
	"fmt"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/redispatterns/redispatterns/internal/redistest"
	"github.com/redispatterns/redispatterns/lock"
)

// A pipeline over a cluster is over when its slowest node has answered.
func TestAMasterThatHangsCostsItsOwnLeasesAlone(t *testing.T) {
	t.Parallel()
	cluster := redistest.OwnCluster(t, 3, time.Minute) // the other masters do not find out
	c, ctx := cluster.Client(t, func(o *redis.ClusterOptions) {
		o.ContextTimeoutEnabled, o.DialerRetries = true, 1
	}), context.Background()
	l, err := lock.New(c, &lock.Options{TTL: 6 * time.Second})
	require.NoError(t, err)
	hung, err := c.MasterForKey(ctx, "lock:hung")
	require.NoError(t, err)
	var others []*lock.Lease
	for i := 0; len(others) < 20; i++ {
		name := fmt.Sprint("other", i)
		master, err := c.MasterForKey(ctx, "lock:"+name)
		require.NoError(t, err)
		if master.Options().Addr == hung.Options().Addr {
			continue
		}
		lease, err := l.Mutex(name).TryLock(ctx)
		require.NoError(t, err)
		others = append(others, lease)
	}
	lost, err := l.Mutex("hung").TryLock(ctx)
	require.NoError(t, err)
	for _, node := range cluster.Nodes {
		if node.Addr == hung.Options().Addr {
			require.NoError(t, node.Signal(syscall.SIGSTOP))
		}
	}
	<-lost.Context(ctx).Done()
	kept := 0
	for _, lease := range others {
		if lease.Held() {
			kept++
		}
	}
	require.Equal(t, len(others), kept, "leases on the masters that answer")
	for _, node := range cluster.Nodes {
		require.NoError(t, node.Signal(syscall.SIGCONT))
	}
	require.NoError(t, l.Close())
}
