package lock_test

import (
	"context"
	"errors"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/redispatterns/redispatterns/internal/redistest"
	"github.com/redispatterns/redispatterns/lock"
)

// faults are the ways in which a reply does not come.
var faults = map[string]func(p *redistest.Proxy, n int){
	"dropped": func(p *redistest.Proxy, n int) { p.DropReplies(n, "evalsha", "eval") },
	"closed":  func(p *redistest.Proxy, n int) { p.CloseAfter(n, "evalsha", "eval") },
}

// times is how much a fault is tried: a dropped reply takes the client's whole timeout.
var times = map[string]int{"dropped": 1, "closed": 2}

func TestLostReplies(t *testing.T) {
	t.Parallel()
	for fault, lose := range faults {
		t.Run(fault, func(t *testing.T) {
			t.Parallel()
			redistest.Run(t, func(t *testing.T, s *redistest.Server) {
				p, ctx, direct := s.Proxy(t), context.Background(), s.Client(t)
				name := redistest.ID()
				m := newLocker(t, p.Client(t), nil).Mutex(name)
				warm := mustLock(t, m) // the scripts are loaded, so that a fault meets EVALSHA
				require.NoError(t, warm.Extend(ctx, time.Minute))
				warm, err := m.Adopt(ctx, warm.Token())
				require.NoError(t, err)
				require.NoError(t, warm.Release(ctx))
				require.NoError(t, newLocker(t, direct, nil).Mutex(name).ForceUnlock(ctx))

				for _, n := range []int{1, 2}[:times[fault]] {
					lose(p, n)
					lease, err := m.TryLock(ctx)
					require.NoError(t, err)
					require.Equal(t, n, p.Hits())
					require.Equal(t, lease.Token(), owner(t, direct, name))
					status, err := m.Status(ctx)
					require.NoError(t, err)
					require.Equal(t, lease.Fence(), status.Fence, "taken once")

					lose(p, n)
					require.NoError(t, lease.Extend(ctx, time.Minute))

					lose(p, n)
					before := lease.Fence()
					lease, err = m.Adopt(ctx, lease.Token())
					require.NoError(t, err)
					require.Greater(t, lease.Fence(), before)
					require.Equal(t, lease.Token(), owner(t, direct, name))

					lose(p, n)
					require.NoError(t, lease.Release(ctx))
					require.Equal(t, n, p.Hits())
					require.Empty(t, owner(t, direct, name))
				}

				lease := mustLock(t, m)
				lose(p, 1)
				err = m.ForceUnlock(ctx)
				require.ErrorIs(t, err, lock.ErrUnknown)
				require.Equal(t, 1, p.Hits(), "sent once")
				require.ErrorIs(t, lease.Release(ctx), lock.ErrLost)
			})
		})
	}
}

// A first release that finds nothing is a loss; one that is repeated after a lost reply finds nothing and is none.
func TestReleaseAfterAnOutageOfReplies(t *testing.T) {
	t.Parallel()
	redistest.Run(t, func(t *testing.T, s *redistest.Server) {
		p, ctx := s.Proxy(t), context.Background()
		c := p.Client(t, func(o *redis.Options) { o.MaxRetries, o.ReadTimeout = -1, 2*time.Second })
		m := newLocker(t, c, nil).Mutex(redistest.ID())
		lease := mustLock(t, m)
		require.NoError(t, lease.Release(ctx))

		lease = mustLock(t, m)
		p.DropReplies(2, "evalsha")
		require.Error(t, lease.Release(ctx), "nobody knows")
		require.False(t, lease.Held())
		require.NoError(t, lease.Release(ctx), "the repetition does")
		require.NoError(t, lease.Release(ctx))
	})
}

// An acquisition whose context ends while it is under way leaves nothing behind.
func TestContextEndsInMidAcquire(t *testing.T) {
	t.Parallel()
	redistest.Run(t, func(t *testing.T, s *redistest.Server) {
		p, direct := s.Proxy(t), s.Client(t)
		name := redistest.ID()
		m := newLocker(t, p.Client(t, func(o *redis.Options) { o.ContextTimeoutEnabled = true }), nil).Mutex(name)
		require.NoError(t, mustLock(t, m).Release(context.Background()))
		for op, run := range map[string]func(context.Context) (*lock.Lease, error){"Lock": m.Lock, "TryLock": m.TryLock} {
			p.Delay(500 * time.Millisecond)
			lease, err := run(short(t, 30*time.Millisecond))
			require.Nil(t, lease, op)
			require.ErrorIs(t, err, context.DeadlineExceeded, op)
			require.NotErrorIs(t, err, lock.ErrNotAcquired, op)
			require.Equal(t, int64(1), direct.Exists(context.Background(), fenceKey(name)).Val(), "it was taken")
			p.Delay(0)
			redistest.Eventually(t, func() bool { return owner(t, direct, name) == "" }, "cleaned up after %s", op)
		}
		ended, cancel := context.WithCancel(context.Background())
		cancel()
		n := redistest.Count(direct)
		_, err := newLocker(t, direct, nil).Mutex(name).Lock(ended)
		require.ErrorIs(t, err, context.Canceled)
		require.NotErrorIs(t, err, lock.ErrNotAcquired)
		require.Zero(t, n.Trips())
	})
}

// The reply to an acquisition came after the lease that it began: it is no lease, and released.
func TestReplyThatComesAfterTheTTL(t *testing.T) {
	t.Parallel()
	s := redistest.Real(t)
	p, direct, name := s.Proxy(t), s.Client(t), redistest.ID()
	locks := newLocker(t, p.Client(t, func(o *redis.Options) { o.ReadTimeout = time.Second }), nil)
	require.NoError(t, mustLock(t, locks.Mutex(name)).Release(context.Background()))
	p.Delay(60 * time.Millisecond)
	_, err := locks.Mutex(name).WithTTL(50 * time.Millisecond).TryLock(context.Background())
	require.ErrorIs(t, err, lock.ErrLost)
	require.NotErrorIs(t, err, lock.ErrNotAcquired)

	var lease *lock.Lease
	redistest.Eventually(t, func() (got bool) {
		lease, err = locks.Mutex(name).WithTTL(500 * time.Millisecond).TryLock(context.Background())
		return err == nil
	}, "acquired in time")
	p.Delay(600 * time.Millisecond)
	require.ErrorIs(t, lease.Extend(context.Background(), time.Minute), lock.ErrLost, "it lapsed on the way")
	p.Delay(0)
	require.ErrorIs(t, lease.Release(context.Background()), lock.ErrLost)
	redistest.Eventually(t, func() bool { return owner(t, direct, name) == "" }, "nothing is left")
}

func TestRedisDown(t *testing.T) {
	t.Parallel()
	s, process := redistest.Own(t)
	m := newLocker(t, s.Client(t), nil).Mutex("x")
	lease := mustLock(t, m)
	process.Stop()
	isDown(t, m, lease)
}

func TestBlackHole(t *testing.T) {
	t.Parallel()
	redistest.Run(t, func(t *testing.T, s *redistest.Server) {
		p := s.Proxy(t)
		c := p.Client(t, func(o *redis.Options) { o.ReadTimeout, o.ContextTimeoutEnabled = time.Minute, true })
		m := newLocker(t, c, nil).Mutex(redistest.ID())
		lease := mustLock(t, m)
		p.BlackHole(true)
		isDown(t, m, lease)
		p.BlackHole(false)
	})
}

// isDown holds every operation against its deadline and its error.
func isDown(t *testing.T, m *lock.Mutex, lease *lock.Lease) {
	t.Helper()
	const deadline = 100 * time.Millisecond
	var all sync.WaitGroup
	for op, run := range map[string]func(ctx context.Context) error{
		"Lock":        func(ctx context.Context) error { _, err := m.Lock(ctx); return err },
		"TryLock":     func(ctx context.Context) error { _, err := m.TryLock(ctx); return err },
		"Adopt":       func(ctx context.Context) error { _, err := m.Adopt(ctx, "token"); return err },
		"Status":      func(ctx context.Context) error { _, err := m.Status(ctx); return err },
		"ForceUnlock": func(ctx context.Context) error { return m.ForceUnlock(ctx) },
		"Extend":      func(ctx context.Context) error { return lease.Extend(ctx, time.Minute) },
		"TTL":         func(ctx context.Context) error { _, err := lease.TTL(ctx); return err },
		"Do": func(ctx context.Context) error {
			return lock.Do(ctx, m.Lock, func(context.Context, *lock.Lease) error { return nil })
		},
	} {
		all.Go(func() {
			began := time.Now()
			err := run(short(t, deadline))
			if took := time.Since(began); took > deadline+20*time.Second {
				t.Errorf("%s took %v", op, took)
			}
			isTrouble(t, op, err)
		})
	}
	all.Wait()
	began := time.Now()
	err := lease.Release(short(t, deadline))
	require.Less(t, time.Since(began), deadline+20*time.Second)
	isTrouble(t, "Release", err)
}

func isTrouble(t *testing.T, op string, err error) {
	t.Helper()
	var network net.Error
	if !errorIs(err, context.DeadlineExceeded) && !errors.As(err, &network) {
		t.Errorf("%s: the cause is not wrapped: %v", op, err)
	}
	for _, no := range []error{lock.ErrNotAcquired, lock.ErrLost, redis.Nil} {
		if err == nil || errorIs(err, no) {
			t.Errorf("%s: %v", op, err)
		}
	}
}

func TestScriptFlush(t *testing.T) {
	t.Parallel()
	own, _ := redistest.Own(t) // others count what they send
	for _, s := range []*redistest.Server{redistest.Mini(t), own} {
		c, ctx := s.Client(t), context.Background()
		m := newLocker(t, c, nil).Mutex(redistest.ID())
		flush := func() { require.NoError(t, c.ScriptFlush(ctx).Err()) }
		flush()
		lease := mustLock(t, m)
		flush()
		require.NoError(t, lease.Extend(ctx, time.Minute))
		flush()
		_, err := m.Status(ctx)
		require.NoError(t, err)
		flush()
		lease, err = m.Adopt(ctx, lease.Token())
		require.NoError(t, err)
		flush()
		require.NoError(t, lease.Release(ctx))
		flush()
		require.NoError(t, m.ForceUnlock(ctx))
	}
}
