package lock_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/redispatterns/redispatterns"
	"github.com/redispatterns/redispatterns/internal/redistest"
	"github.com/redispatterns/redispatterns/lock"
)

// quorumBetween runs fn in a bubble with a quorum on so many nodes, with f before the network of each. The scripts are loaded.
func quorumBetween(
	t *testing.T, n int, opts *lock.Options, f func(ctx context.Context, node int, cmd redis.Cmder, send func() error) error,
	fn func(t *testing.T, servers []*redistest.Server, locks *lock.Locker),
) {
	t.Helper()
	redistest.Virtual(t, func(t *testing.T, _ *redistest.Server) {
		var servers []*redistest.Server
		var plain, clients []redispatterns.Client
		for i := range n {
			mini, c := virtualNode(t)
			defer mini.Close()
			defer c.Close()
			servers, plain = append(servers, &redistest.Server{Mini: mini}), append(plain, c)
			clients = append(clients, &between{c, func(ctx context.Context, cmd redis.Cmder, send func() error) error {
				return f(ctx, i, cmd, send)
			}})
		}
		warm, err := lock.NewQuorum(nil, plain...)
		require.NoError(t, err)
		lease := mustLock(t, warm.Mutex("warm"))
		require.NoError(t, lease.Extend(context.Background(), time.Minute))
		require.NoError(t, lease.Release(context.Background()))
		synctest.Wait()
		require.NoError(t, warm.Close())

		locks, err := lock.NewQuorum(opts, clients...)
		require.NoError(t, err)
		defer redistest.Sleep(time.Second) // for what Close does not wait for
		defer locks.Close()
		fn(t, servers, locks)
	})
}

// A node that is being healed when the lease is released does not keep the lock.
func TestNoHealAfterRelease(t *testing.T) {
	t.Parallel()
	var wiped atomic.Bool
	healing := make(chan struct{}, 100)
	quorumBetween(t, 3, nil, func(_ context.Context, node int, cmd redis.Cmder, send func() error) error {
		if scriptOf(cmd) == acquires && wiped.Load() {
			healing <- struct{}{}
			time.Sleep(400 * time.Millisecond)
		}
		return send()
	}, func(t *testing.T, servers []*redistest.Server, locks *lock.Locker) {
		lease := mustLock(t, locks.Mutex("x"))
		synctest.Wait()
		servers[2].Mini.FlushAll()
		wiped.Store(true)
		for len(healing) == 0 {
			redistest.Sleep(time.Millisecond)
		}
		require.NoError(t, lease.Release(context.Background()))
		redistest.Sleep(time.Second)
		require.Zero(t, holding(servers))
	})
}

// A node that is healed by Extend has the lock for as long as the others.
func TestAHealIsAsLongAsTheLease(t *testing.T) {
	t.Parallel()
	quorumBetween(t, 3, nil, func(_ context.Context, _ int, _ redis.Cmder, send func() error) error {
		return send()
	}, func(t *testing.T, servers []*redistest.Server, locks *lock.Locker) {
		lease := mustLock(t, locks.Mutex("x"))
		synctest.Wait()
		for _, ttl := range []time.Duration{time.Hour, time.Second} { // the second shortens nothing
			servers[2].Mini.FlushAll()
			require.NoError(t, lease.Extend(context.Background(), ttl))
			redistest.Sleep(time.Second)
			require.Greater(t, servers[2].Mini.TTL("lock:x"), 58*time.Minute)
		}
	})
}

// What an acquisition takes while the Locker is closed is given up on every node.
func TestAQuorumIsClosedDuringAnAcquisition(t *testing.T) {
	t.Parallel()
	var taken atomic.Int32
	quorumBetween(t, 3, nil, func(_ context.Context, _ int, cmd redis.Cmder, send func() error) error {
		err := send()
		if scriptOf(cmd) == acquires {
			taken.Add(1)
			time.Sleep(300 * time.Millisecond)
		}
		return err
	}, func(t *testing.T, servers []*redistest.Server, locks *lock.Locker) {
		got := make(chan error)
		go func() {
			_, err := locks.Mutex("x").TryLock(context.Background())
			got <- err
		}()
		redistest.Sleep(100 * time.Millisecond)
		require.EqualValues(t, 3, taken.Load())
		closed := make(chan struct{})
		go func() {
			_ = locks.Close()
			close(closed)
		}()
		require.ErrorIs(t, <-got, lock.ErrClosed)
		<-closed
		require.Zero(t, holding(servers))
	})
}

// An acquisition that failed may reach a node after what cleans up after it.
func TestAQuorumCleansUpAfterWhatComesLate(t *testing.T) {
	t.Parallel()
	refused, third := errors.New("refused"), atomic.Pointer[redis.Client]{}
	quorumBetween(t, 3, &lock.Options{TTL: time.Hour}, func(ctx context.Context, node int, cmd redis.Cmder, send func() error) error {
		switch {
		case scriptOf(cmd) != acquires || node == 0:
			return send()
		case node == 1:
			cmd.SetErr(refused)
			return refused
		}
		<-ctx.Done()
		late := redis.NewCmd(context.Background(), slices.Clone(cmd.Args())...)
		go func() {
			time.Sleep(150 * time.Millisecond)
			_ = third.Load().Process(context.Background(), late)
		}()
		cmd.SetErr(ctx.Err())
		return ctx.Err()
	}, func(t *testing.T, servers []*redistest.Server, locks *lock.Locker) {
		c := redis.NewClient(&redis.Options{Addr: "127.0.0.1:6379", Dialer: func(context.Context, string, string) (net.Conn, error) {
			return servers[2].Mini.Dial()
		}})
		defer c.Close()
		third.Store(c)
		_, err := locks.Mutex("x").TryLock(context.Background())
		require.ErrorIs(t, err, lock.ErrNoQuorum)
		redistest.Sleep(10 * time.Second)
		require.Zero(t, holding(servers))
	})
}

// Leases that are due together are renewed beside each other: each is a round to the nodes of its own.
func TestAQuorumRenewsManyLeases(t *testing.T) {
	t.Parallel()
	const many = 50
	var failed atomic.Int32
	opts := &lock.Options{TTL: 3 * time.Second, Observe: func(_ context.Context, e lock.Event) {
		if e.Err != nil {
			failed.Add(1)
		}
	}}
	quorumBetween(t, 3, opts, func(_ context.Context, _ int, cmd redis.Cmder, send func() error) error {
		if scriptOf(cmd) == extends {
			time.Sleep(100 * time.Millisecond)
		}
		return send()
	}, func(t *testing.T, _ []*redistest.Server, locks *lock.Locker) {
		var leases []*lock.Lease
		for i := range many {
			leases = append(leases, mustLock(t, locks.Mutex(fmt.Sprint(i))))
		}
		redistest.Sleep(6 * time.Second)
		for _, lease := range leases {
			require.True(t, lease.Held())
		}
		require.Zero(t, failed.Load(), "renewals")
	})
}

// Nodes that hang while they are healed do not keep a lease from being renewed on the others.
func TestHealsThatHangDelayNoRenewal(t *testing.T) {
	t.Parallel()
	var wiped atomic.Bool
	quorumBetween(t, 5, &lock.Options{TTL: 900 * time.Millisecond}, func(ctx context.Context, node int, cmd redis.Cmder, send func() error) error {
		if scriptOf(cmd) == acquires && wiped.Load() {
			<-ctx.Done()
			cmd.SetErr(ctx.Err())
			return ctx.Err()
		}
		return send()
	}, func(t *testing.T, servers []*redistest.Server, locks *lock.Locker) {
		lease := mustLock(t, locks.Mutex("x"))
		synctest.Wait()
		wiped.Store(true)
		servers[3].Mini.FlushAll()
		servers[4].Mini.FlushAll()
		redistest.Sleep(10 * time.Second)
		require.True(t, lease.Held(), "three of five have it")
		require.Equal(t, 3, holding(servers))
	})
}

// losing is a connection that can lose a reply, on which its client runs into its timeout.
type losing struct {
	net.Conn
	next *atomic.Bool // to be lost
}

const losingTakes = 100 * time.Millisecond // until the timeout

func (l losing) Read(b []byte) (int, error) {
	n, err := l.Conn.Read(b)
	if l.next.CompareAndSwap(true, false) {
		time.Sleep(losingTakes)
		return 0, os.ErrDeadlineExceeded
	}
	return n, err
}

// losingReplies runs fn in a bubble with a Locker on so many nodes, the next reply of each of which is lost when lose is called.
func losingReplies(t *testing.T, n int, fn func(t *testing.T, servers []*redistest.Server, locks *lock.Locker, lose func())) {
	t.Helper()
	redistest.Virtual(t, func(t *testing.T, _ *redistest.Server) {
		var servers []*redistest.Server
		var clients []redispatterns.Client
		next := make([]atomic.Bool, n)
		for i := range next {
			mini, plain := virtualNode(t)
			defer mini.Close()
			defer plain.Close()
			o := *plain.Options()
			o.Protocol = 2 // with 3 a client reads before it sends, too
			o.Dialer = func(context.Context, string, string) (net.Conn, error) {
				conn, err := mini.Dial()
				return losing{conn, &next[i]}, err
			}
			c := redis.NewClient(&o)
			defer c.Close()
			servers, clients = append(servers, &redistest.Server{Mini: mini}), append(clients, c)
		}
		locks, err := lock.New(clients[0], nil)
		if n > 1 {
			locks, err = lock.NewQuorum(nil, clients...)
		}
		require.NoError(t, err)
		defer locks.Close()
		warm := mustLock(t, locks.Mutex("warm"))
		require.NoError(t, warm.Extend(context.Background(), time.Minute))
		require.NoError(t, warm.Release(context.Background()))
		synctest.Wait()
		fn(t, servers, locks, func() {
			synctest.Wait()
			for i := range next {
				next[i].Store(true)
			}
		})
		synctest.Wait()
		for i := range next {
			require.False(t, next[i].Load(), "lost")
		}
	})
}

// A release whose replies are lost, as where this process' network breaks, is no loss though it is repeated.
func TestAQuorumsReleaseWhoseRepliesAreLost(t *testing.T) {
	t.Parallel()
	losingReplies(t, 3, func(t *testing.T, servers []*redistest.Server, locks *lock.Locker, lose func()) {
		lease := mustLock(t, locks.Mutex("x"))
		lose()
		require.NoError(t, lease.Release(context.Background()))
		require.NoError(t, lease.Release(context.Background()))
		redistest.Sleep(time.Second)
		require.Zero(t, holding(servers))
	})
}

// What Leave left may have lapsed when it is repeated since its reply was lost, which is no loss.
func TestALeaveWhoseReplyIsLost(t *testing.T) {
	t.Parallel()
	for _, n := range []int{1, 3} {
		losingReplies(t, n, func(t *testing.T, servers []*redistest.Server, locks *lock.Locker, lose func()) {
			lease := mustLock(t, locks.Mutex("x"))
			lose()
			require.NoError(t, lease.Leave(context.Background(), losingTakes/2), "%d nodes", n)
			require.NoError(t, lease.Release(context.Background()))
			redistest.Sleep(time.Second)
			require.Zero(t, holding(servers))

			lease = mustLock(t, locks.Mutex("x"))
			synctest.Wait()
			for _, s := range servers {
				s.Mini.FlushAll()
			}
			lose()
			require.ErrorIs(t, lease.Leave(context.Background(), 2*losingTakes), lock.ErrLost, "it would not have lapsed yet")
		})
	}
}
