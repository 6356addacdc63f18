package lock_test

import (
	"context"
	"io"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/redispatterns/redispatterns/internal/redistest"
	"github.com/redispatterns/redispatterns/lock"
)

// Whatever becomes of the counter, the next fence is larger: of a holder, of one to whom a release hands over, and of one
// that adopts.
func TestTheFenceSurvivesItsCounter(t *testing.T) {
	t.Parallel()
	for kind, lose := range map[string]func(t *testing.T, s *redistest.Server){
		"flushed": func(t *testing.T, s *redistest.Server) {
			require.NoError(t, s.Client(t).FlushAll(context.Background()).Err())
		},
		"expired": func(t *testing.T, s *redistest.Server) { s.Advance(t, 20*time.Millisecond) },
	} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			s, _ := redistest.Own(t)
			c, ctx := s.Client(t), context.Background()
			opts := &lock.Options{PollInterval: 50 * time.Millisecond}
			if kind == "expired" {
				opts.FenceRetention = 10 * time.Millisecond
			}
			m, last := newLocker(t, c, opts).Mutex("x"), int64(0)
			grows := func(lease *lock.Lease) {
				t.Helper()
				require.Greater(t, lease.Fence(), last)
				last = lease.Fence()
			}
			for range 5 {
				lease := mustLock(t, m)
				grows(lease)
				lose(t, s)
				if kind == "expired" {
					require.Zero(t, c.Exists(ctx, fenceKey("x")).Val())
					adopted := must(t)(m.Adopt(ctx, lease.Token()))
					grows(adopted)
					lose(t, s)
					got := waiting(t, c, newLocker(t, c, opts).Mutex("x"), "x", 1)
					require.NoError(t, adopted.Release(ctx))
					lease = <-got
				} else { // the lock is gone as well, and so is the waiter's place
					lease = must(t)(newLocker(t, c, opts).Mutex("x").Lock(ctx))
				}
				grows(lease)
				lose(t, s)
				_ = lease.Release(ctx)
			}
		})
	}
}

// A failover that loses the last acquisition: the replica that is promoted never heard of it. The next fence is larger all
// the same, and the one who had the lock before learns that it is lost.
func TestAFailoverThatLosesTheLock(t *testing.T) {
	t.Parallel()
	sentinels := redistest.Sentinels(t, 1)
	ctx := context.Background()
	m := newLocker(t, sentinels.Client(t), &lock.Options{TTL: 4 * time.Second, PollInterval: 200 * time.Millisecond}).Mutex("x")
	master := redis.NewClient(&redis.Options{Addr: sentinels.Master.Addr})
	defer master.Close()
	replica := redis.NewClient(&redis.Options{Addr: sentinels.Replicas[0].Addr})
	defer replica.Close()

	before := mustLock(t, m)
	redistest.Eventually(t, func() bool { return replica.Exists(ctx, fenceKey("x")).Val() == 1 }, "replicated")
	require.NoError(t, before.Release(ctx))
	redistest.Eventually(t, func() bool { return replica.Exists(ctx, key("x")).Val() == 0 }, "released on the replica")

	// From here on the replica gets nothing.
	require.NoError(t, master.Do(ctx, "acl", "setuser", "default", "-psync", "-sync").Err())
	require.NoError(t, master.ClientKillByFilter(ctx, "TYPE", "replica").Err())
	lost := mustLock(t, m)
	require.Greater(t, lost.Fence(), before.Fence())
	held := lost.Context(ctx)
	require.Zero(t, replica.Exists(ctx, key("x")).Val())
	require.NoError(t, sentinels.Master.Signal(syscall.SIGKILL))

	var next *lock.Lease
	for began := time.Now(); next == nil; time.Sleep(10 * time.Millisecond) {
		require.Less(t, time.Since(began), time.Minute)
		next, _ = m.Lock(short(t, 10*time.Second)) // an error of the first attempt is returned at once
	}
	require.Greater(t, next.Fence(), lost.Fence())
	<-held.Done()
	require.ErrorIs(t, context.Cause(held), lock.ErrLost)
	require.NoError(t, write(ctx, replica, "resource", next.Fence(), "new"))
	require.ErrorIs(t, write(ctx, replica, "resource", lost.Fence(), "late"), errLate)
	require.NoError(t, next.Release(ctx))
}

// Where the queue's key is somebody else's, a waiter still gets a fence of its own, and gives up what it cannot use.
func TestQueueKeyOfAnotherType(t *testing.T) {
	t.Parallel()
	redistest.Run(t, func(t *testing.T, s *redistest.Server) {
		c, ctx, name := s.Client(t), context.Background(), redistest.ID()
		require.NoError(t, c.Set(ctx, queueKey(name), "theirs", time.Hour).Err())
		for _, lost := range []bool{false, true} {
			looked := make(chan struct{})
			look := sync.OnceFunc(func() { close(looked) })
			giveUp, cancel := context.WithCancel(ctx)
			defer cancel()
			waiter := newLocker(t, &between{c, func(ctx context.Context, cmd redis.Cmder, send func() error) error {
				err := send()
				if scriptOf(cmd) != releases || len(cmd.Args()) != 12 {
					return err
				}
				look()
				if lost && err == nil { // it has the lock, and does not know
					cmd.SetErr(io.ErrUnexpectedEOF)
					cancel()
				}
				return cmd.Err()
			}}, &lock.Options{TTL: 10 * time.Minute})
			lease := mustLock(t, newLocker(t, c, nil).Mutex(name))
			got := make(chan *lock.Lease)
			go func() {
				next, _ := waiter.Mutex(name).Lock(giveUp)
				got <- next
			}()
			<-looked
			require.NoError(t, lease.Release(ctx))
			next := <-got
			if lost {
				require.Nil(t, next)
				redistest.Eventually(t, func() bool { return owner(t, c, name) == "" }, "it is given up")
				continue
			}
			require.NotNil(t, next)
			require.Greater(t, next.Fence(), lease.Fence())
			require.NoError(t, next.Release(ctx))
		}
		require.Equal(t, "theirs", c.Get(ctx, queueKey(name)).Val())
	})
}

// What keeps Redis from writing is not blamed on the fence's key.
func TestAdoptWithoutMemory(t *testing.T) {
	t.Parallel()
	s, _ := redistest.Own(t)
	c, ctx := s.Client(t), context.Background()
	m := newLocker(t, c, &lock.Options{TTL: 10 * time.Minute}).Mutex("x")
	lease := mustLock(t, m)
	require.NoError(t, c.ConfigSet(ctx, "maxmemory", "1").Err())
	_, err := m.Adopt(ctx, lease.Token())
	require.ErrorContains(t, err, "OOM")
	require.NotContains(t, err.Error(), "WRONGTYPE")
	require.NoError(t, c.ConfigSet(ctx, "maxmemory", "0").Err())
	require.NoError(t, lease.Release(ctx))
}
