package lock_test

import (
	"context"
	"net"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/redispatterns/redispatterns"
	"github.com/redispatterns/redispatterns/internal/redistest"
	"github.com/redispatterns/redispatterns/lock"
)

// breakable is a client whose network can fail.
type breakable struct {
	redispatterns.Client
	fault atomic.Pointer[func(context.Context) error] // nil: it works
}

// down refuses every connection, silent answers nothing until the context ends.
var (
	down = func(context.Context) error {
		return &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}
	}
	silent = func(ctx context.Context) error {
		<-ctx.Done()
		return ctx.Err()
	}
)

func (b *breakable) Process(ctx context.Context, cmd redis.Cmder) error {
	if fault := b.fault.Load(); fault != nil {
		cmd.SetErr((*fault)(ctx))
		return cmd.Err()
	}
	return b.Client.Process(ctx, cmd)
}

// breaking runs fn in a bubble, with a Locker whose network can fail and another whose network does not.
func breaking(t *testing.T, fn func(t *testing.T, c *breakable, locks, sound *lock.Locker)) {
	t.Helper()
	redistest.Virtual(t, func(t *testing.T, s *redistest.Server) {
		c := &breakable{Client: s.Client(t)}
		locks, err := lock.New(c, nil)
		require.NoError(t, err)
		defer locks.Close()
		sound, err := lock.New(s.Client(t), nil)
		require.NoError(t, err)
		defer sound.Close()
		fn(t, c, locks, sound)
	})
}

// breakingQuorum does it with so many nodes.
func breakingQuorum(t *testing.T, n int, fn func(t *testing.T, nodes []*breakable, servers []*redistest.Server, locks *lock.Locker)) {
	t.Helper()
	redistest.Virtual(t, func(t *testing.T, _ *redistest.Server) {
		var nodes []*breakable
		var servers []*redistest.Server
		var clients []redispatterns.Client
		for range n {
			mini, c := virtualNode(t)
			defer mini.Close()
			defer c.Close()
			node := &breakable{Client: c}
			nodes, clients, servers = append(nodes, node), append(clients, node), append(servers, &redistest.Server{Mini: mini})
		}
		locks, err := lock.NewQuorum(nil, clients...)
		require.NoError(t, err)
		defer locks.Close()
		fn(t, nodes, servers, locks)
	})
}

func isLostBehind(t *testing.T, err error) {
	t.Helper()
	require.ErrorIs(t, err, lock.ErrLost)
	require.ErrorIs(t, err, syscall.ECONNREFUSED)
	var network *net.OpError
	require.ErrorAs(t, err, &network)
	require.NotContains(t, err.Error(), "\n")
}

// A lease that lapsed behind an outage is lost, whatever keeps Redis from answering what ends it.
func TestALossIsReportedThoughRedisIsDown(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	ends := map[string]func(*lock.Lease) error{
		"Release": func(l *lock.Lease) error { return l.Release(ctx) },
		"Leave":   func(l *lock.Lease) error { return l.Leave(ctx, time.Minute) },
	}
	for op, end := range ends {
		t.Run(op, func(t *testing.T) {
			t.Parallel()
			breaking(t, func(t *testing.T, c *breakable, locks, _ *lock.Locker) {
				lease := mustLock(t, locks.Mutex("x"))
				c.fault.Store(&down)
				<-lease.Context(ctx).Done()
				isLostBehind(t, end(lease))
				isLostBehind(t, end(lease))
				c.fault.Store(nil)
				redistest.Sleep(time.Second)
				require.ErrorIs(t, end(lease), lock.ErrLost)
			})
		})
		t.Run(op+", quorum", func(t *testing.T) {
			t.Parallel()
			breakingQuorum(t, 3, func(t *testing.T, nodes []*breakable, _ []*redistest.Server, locks *lock.Locker) {
				lease := mustLock(t, locks.Mutex("x"))
				nodes[0].fault.Store(&down)
				nodes[1].fault.Store(&down)
				<-lease.Context(ctx).Done()
				err := end(lease)
				isLostBehind(t, err)
				require.ErrorIs(t, err, lock.ErrNoQuorum)
			})
		})
	}
	t.Run("Do", func(t *testing.T) {
		t.Parallel()
		breaking(t, func(t *testing.T, c *breakable, locks, _ *lock.Locker) {
			isLostBehind(t, lock.Do(ctx, locks.Mutex("x").Lock, func(ctx context.Context, _ *lock.Lease) error {
				c.fault.Store(&down)
				<-ctx.Done()
				return nil
			}))
		})
	})
}

// isNoContexts holds that an error is none of a context of the caller's, which lives.
func isNoContexts(t *testing.T, err error) {
	t.Helper()
	require.Error(t, err)
	require.NotErrorIs(t, err, context.DeadlineExceeded)
	require.NotErrorIs(t, err, context.Canceled)
	require.ErrorContains(t, err, "redis does not answer")
}

// What this package bounds by itself, ends with no error of a context: the caller's own lives.
func TestAnOwnBoundIsNoContextsError(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	t.Run("a wait", func(t *testing.T) {
		t.Parallel()
		breaking(t, func(t *testing.T, c *breakable, locks, sound *lock.Locker) {
			mustLock(t, sound.Mutex("x"))
			errs := make(chan error, 2)
			for range cap(errs) { // the head of the line, and one behind it
				go func() {
					_, err := locks.Mutex("x").Lock(ctx)
					errs <- err
				}()
				redistest.Sleep(100 * time.Millisecond)
			}
			c.fault.Store(&silent)
			for range cap(errs) {
				err := <-errs
				isNoContexts(t, err)
				require.NotErrorIs(t, err, lock.ErrNotAcquired, "whether it is held, nobody knows")
			}
			c.fault.Store(nil)
		})
	})
	t.Run("a wait whose Locker is closed", func(t *testing.T) {
		t.Parallel()
		breaking(t, func(t *testing.T, c *breakable, locks, sound *lock.Locker) {
			lease := mustLock(t, sound.Mutex("x"))
			got := make(chan error, 1)
			lockOnce := func() { _, err := locks.Mutex("x").Lock(ctx); got <- err }
			go lockOnce()
			redistest.Sleep(100 * time.Millisecond)
			require.NoError(t, lease.Release(ctx))
			require.NoError(t, <-got) // and its line lingers, so that the next call begins in it
			c.fault.Store(&silent)
			go lockOnce()
			redistest.Sleep(100 * time.Millisecond)
			closed := make(chan error)
			go func() { closed <- locks.Close() }()
			err := <-got
			require.ErrorIs(t, err, lock.ErrClosed)
			require.NotErrorIs(t, err, context.Canceled)
			require.NoError(t, <-closed)
		})
	})
	t.Run("a renewal", func(t *testing.T) {
		t.Parallel()
		breaking(t, func(t *testing.T, c *breakable, locks, _ *lock.Locker) {
			held := mustLock(t, locks.Mutex("x")).Context(ctx)
			c.fault.Store(&silent)
			<-held.Done()
			require.ErrorIs(t, context.Cause(held), lock.ErrLost)
			isNoContexts(t, context.Cause(held))
			c.fault.Store(nil)
		})
	})
	t.Run("a node", func(t *testing.T) {
		t.Parallel()
		breakingQuorum(t, 3, func(t *testing.T, nodes []*breakable, _ []*redistest.Server, locks *lock.Locker) {
			lease := mustLock(t, locks.Mutex("y"))
			nodes[0].fault.Store(&silent)
			nodes[1].fault.Store(&silent)
			_, err := locks.Mutex("x").TryLock(ctx)
			require.ErrorIs(t, err, lock.ErrNoQuorum)
			isNoContexts(t, err)
			isNoContexts(t, lease.Extend(ctx, time.Minute))
			isNoContexts(t, lease.Release(ctx))
			ended, cancel := context.WithTimeout(ctx, time.Millisecond)
			defer cancel()
			_, err = locks.Mutex("x").TryLock(ended)
			require.ErrorIs(t, err, context.DeadlineExceeded, "the caller's own")
			nodes[0].fault.Store(nil)
			nodes[1].fault.Store(nil)
		})
	})
}

// A quorum's lease can be released, and left, after Close.
func TestQuorumReleasesAfterClose(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	breakingQuorum(t, 3, func(t *testing.T, nodes []*breakable, servers []*redistest.Server, locks *lock.Locker) {
		lease, left := mustLock(t, locks.Mutex("x")), mustLock(t, locks.Mutex("y"))
		redistest.Sleep(time.Millisecond)
		require.NoError(t, locks.Close())
		require.Equal(t, 3, holding(servers))
		nodes[2].fault.Store(&silent)
		began := time.Now()
		require.NoError(t, lease.Release(ctx))
		require.NoError(t, left.Leave(ctx, time.Minute))
		require.Zero(t, time.Since(began), "a node that hangs is not waited for")
		require.Equal(t, 1, holding(servers))
		for _, s := range servers[:2] {
			require.Equal(t, time.Minute, s.Mini.TTL("lock:y"))
		}
		require.NoError(t, lease.Release(ctx))
		_, err := locks.Mutex("x").TryLock(ctx)
		require.ErrorIs(t, err, lock.ErrClosed)
		require.Equal(t, 1, holding(servers))
		redistest.Sleep(time.Second)
	})
}

// A release that its context ended is made up for in the background, and a second one that finds nothing is no loss.
func TestAReleaseThatIsMadeUpForIsNoLoss(t *testing.T) {
	t.Parallel()
	breaking(t, func(t *testing.T, c *breakable, locks, sound *lock.Locker) {
		lease := mustLock(t, locks.Mutex("x"))
		c.fault.Store(&down)
		soon, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
		defer cancel()
		require.ErrorIs(t, lease.Release(soon), context.DeadlineExceeded)
		c.fault.Store(nil)
		redistest.Sleep(time.Second)
		require.NoError(t, mustLock(t, sound.Mutex("x")).Release(context.Background()), "it was freed")
		require.NoError(t, lease.Release(context.Background()))
	})
}
