//go:build unix

package lock_test

import (
	"context"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/redispatterns/redispatterns/internal/redistest"
	"github.com/redispatterns/redispatterns/lock"
)

// A process holds very many leases for several times their length, and loses none.
func TestManyLeasesAreHeld(t *testing.T) {
	t.Parallel()
	many, d := 500, 2*time.Second
	if redistest.Long() > 3*time.Second {
		many, d = 10_000, 10*time.Second
	}
	s, _ := redistest.Own(t)
	c, direct, ctx := s.Client(t), s.Client(t), context.Background()
	n := redistest.Count(c)
	var lost atomic.Int32
	locks := newLocker(t, c, &lock.Options{TTL: 3 * time.Second, Observe: func(_ context.Context, e lock.Event) {
		if e.Kind == lock.Lost {
			lost.Add(1)
		}
	}})
	leases := make([]*lock.Lease, many)
	var all sync.WaitGroup
	for part := range 10 {
		all.Go(func() {
			for i := part; i < many; i += 10 {
				lease, err := locks.Mutex(strconv.Itoa(i)).TryLock(ctx)
				if err != nil {
					t.Error(err)
				}
				leases[i] = lease
			}
		})
	}
	all.Wait()
	require.NoError(t, leases[0].Extend(ctx, time.Second)) // the script is loaded

	n.Reset()
	began, client, server := time.Now(), clientCPU(t), serverCPU(t, direct)
	for time.Since(began) < d {
		s.Advance(t, time.Second)
	}
	took, client, server := time.Since(began).Seconds(), clientCPU(t)-client, serverCPU(t, direct)-server
	renewals, trips := len(n.Commands()), n.Trips()
	t.Logf("%d leases of 3s over %.1fs: %d renewals in %d round trips; CPU of this process %.2fs, which is %.1f%% of a core and %.1fµs a renewal; of Redis %.2fs, %.1f%% and %.1fµs",
		many, took, renewals, trips, client.Seconds(), 100*client.Seconds()/took, 1e6*client.Seconds()/float64(renewals),
		server.Seconds(), 100*server.Seconds()/took, 1e6*server.Seconds()/float64(renewals))

	require.Zero(t, lost.Load())
	for i, lease := range leases {
		require.True(t, lease.Held())
		require.Equal(t, lease.Token(), owner(t, direct, strconv.Itoa(i)))
	}
	require.LessOrEqual(t, float64(renewals), 2*took*float64(many), "two a lease and second")
	if !redistest.Race {
		require.Less(t, trips, renewals/5)
	}
}

// clientCPU is what this process has used.
func clientCPU(t *testing.T) time.Duration {
	t.Helper()
	var used syscall.Rusage
	require.NoError(t, syscall.Getrusage(syscall.RUSAGE_SELF, &used))
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}

// serverCPU is what Redis has used.
func serverCPU(t *testing.T, c *redis.Client) time.Duration {
	t.Helper()
	info, err := c.Info(context.Background(), "cpu").Result()
	require.NoError(t, err)
	total := 0.0
	for line := range strings.Lines(info) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		if name == "used_cpu_sys" || name == "used_cpu_user" {
			seconds, err := strconv.ParseFloat(value, 64)
			require.NoError(t, err)
			total += seconds
		}
	}
	return time.Duration(total * float64(time.Second))
}
