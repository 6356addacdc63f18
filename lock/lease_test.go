package lock_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/redispatterns/redispatterns/internal/redistest"
	"github.com/redispatterns/redispatterns/lock"
)

// virtual runs fn in a bubble with a Locker on its miniredis.
func virtual(t *testing.T, opts *lock.Options, fn func(t *testing.T, s *redistest.Server, locks *lock.Locker)) {
	t.Helper()
	redistest.Virtual(t, func(t *testing.T, s *redistest.Server) {
		locks, err := lock.New(s.Client(t), opts)
		require.NoError(t, err)
		defer locks.Close()
		fn(t, s, locks)
	})
}

func TestLeaseIsRenewed(t *testing.T) {
	t.Parallel()
	virtual(t, nil, func(t *testing.T, s *redistest.Server, locks *lock.Locker) {
		ctx := context.Background()
		waiting, cancel := context.WithTimeout(ctx, 2*time.Second)
		lease, err := locks.Mutex("x").Lock(waiting)
		require.NoError(t, err)
		cancel() // the context bounds the wait alone
		held := lease.Context(ctx)
		for range 100 {
			redistest.Sleep(977 * time.Millisecond)
			require.True(t, lease.Held())
			require.NoError(t, held.Err())
			require.Greater(t, s.Mini.TTL("lock:x"), 6*time.Second)
			require.WithinDuration(t, time.Now().Add(s.Mini.TTL("lock:x")), lease.Until(), 200*time.Millisecond)
		}
		require.NoError(t, lease.Release(ctx))
		require.ErrorIs(t, held.Err(), context.Canceled)
		require.Equal(t, context.Canceled, context.Cause(held))
		require.False(t, s.Mini.Exists("lock:x"))
	})
}

func TestNoRenew(t *testing.T) {
	t.Parallel()
	virtual(t, &lock.Options{TTL: 3 * time.Second, NoRenew: true}, func(t *testing.T, s *redistest.Server, locks *lock.Locker) {
		ctx := context.Background()
		lease := mustLock(t, locks.Mutex("x"))
		held := lease.Context(ctx)
		redistest.Sleep(2900 * time.Millisecond)
		require.NoError(t, held.Err())
		redistest.Sleep(90 * time.Millisecond)
		require.ErrorIs(t, context.Cause(held), lock.ErrLost)
		require.True(t, s.Mini.Exists("lock:x"), "the holder knows before the lock is free")
		redistest.Sleep(10 * time.Millisecond)
		require.False(t, s.Mini.Exists("lock:x"))
		require.ErrorIs(t, lease.Release(ctx), lock.ErrLost)
		require.ErrorIs(t, lease.Extend(ctx, time.Hour), lock.ErrLost)
		_, err := lease.TTL(ctx)
		require.ErrorIs(t, err, lock.ErrLost)
	})
}

// A holder that is stuck lets go.
func TestMaxHold(t *testing.T) {
	t.Parallel()
	virtual(t, &lock.Options{MaxHold: time.Minute}, func(t *testing.T, s *redistest.Server, locks *lock.Locker) {
		ctx := context.Background()
		lease := mustLock(t, locks.Mutex("x"))
		held := lease.Context(ctx)
		redistest.Sleep(59 * time.Second)
		require.NoError(t, held.Err())
		redistest.Sleep(11 * time.Second)
		require.ErrorIs(t, context.Cause(held), lock.ErrLost)
		redistest.Sleep(time.Second)
		require.False(t, s.Mini.Exists("lock:x"))
		require.ErrorIs(t, lease.Release(ctx), lock.ErrLost)
	})
}

func TestExtendNeverShortensAndNeverRevives(t *testing.T) {
	t.Parallel()
	virtual(t, &lock.Options{NoRenew: true}, func(t *testing.T, s *redistest.Server, locks *lock.Locker) {
		ctx := context.Background()
		lease := mustLock(t, locks.Mutex("x"))
		require.NoError(t, lease.Extend(ctx, time.Second))
		require.Equal(t, 10*time.Second, s.Mini.TTL("lock:x"))
		until := lease.Until()
		require.NoError(t, lease.Extend(ctx, time.Minute))
		require.Equal(t, time.Minute, s.Mini.TTL("lock:x"))
		require.True(t, lease.Until().After(until))
		ttl, err := lease.TTL(ctx)
		require.NoError(t, err)
		require.Equal(t, time.Minute, ttl)
		redistest.Sleep(50 * time.Second)
		require.True(t, lease.Held())

		s.Mini.Del("lock:x")
		require.ErrorIs(t, lease.Extend(ctx, time.Minute), lock.ErrLost)
		require.False(t, s.Mini.Exists("lock:x"))
		require.False(t, lease.Held())
	})
}

// Renewal keeps what Extend gave, and goes on beside it.
func TestExtendWithRenewal(t *testing.T) {
	t.Parallel()
	virtual(t, nil, func(t *testing.T, s *redistest.Server, locks *lock.Locker) {
		ctx := context.Background()
		lease := mustLock(t, locks.Mutex("x"))
		require.NoError(t, lease.Extend(ctx, time.Minute))
		redistest.Sleep(30 * time.Second)
		require.Equal(t, 30*time.Second, s.Mini.TTL("lock:x"))
		redistest.Sleep(5 * time.Minute)
		require.True(t, lease.Held())
		require.NoError(t, lease.Release(ctx))
	})
}

func TestLossIsNoticed(t *testing.T) {
	t.Parallel()
	for name, take := range map[string]func(s *redistest.Server){
		"deleted": func(s *redistest.Server) { s.Mini.Del("lock:x") },
		"taken":   func(s *redistest.Server) { require.NoError(t, s.Mini.Set("lock:x", "another")) },
		"flushed": func(s *redistest.Server) { s.Mini.FlushAll() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			virtual(t, nil, func(t *testing.T, s *redistest.Server, locks *lock.Locker) {
				ctx := context.Background()
				lease := mustLock(t, locks.Mutex("x"))
				parent, cancel := context.WithCancel(ctx)
				defer cancel()
				held := lease.Context(parent)
				take(s)
				redistest.Sleep(10 * time.Second / 3)
				require.ErrorIs(t, context.Cause(held), lock.ErrLost)
				require.NoError(t, parent.Err())
				require.ErrorIs(t, lease.Release(ctx), lock.ErrLost)
				require.ErrorIs(t, lease.Release(ctx), lock.ErrLost, "and again")
				if name == "taken" {
					value, _ := s.Mini.Get("lock:x")
					require.Equal(t, "another", value)
				}
			})
		})
	}
}

// Errors of Redis are ridden out while the lease lasts.
func TestRenewalOutlastsAnOutage(t *testing.T) {
	t.Parallel()
	virtual(t, nil, func(t *testing.T, s *redistest.Server, locks *lock.Locker) {
		ctx := context.Background()
		lease := mustLock(t, locks.Mutex("x"))
		held := lease.Context(ctx)
		for range 5 {
			s.Mini.SetError("ERR out of order")
			redistest.Sleep(5 * time.Second)
			s.Mini.SetError("")
			redistest.Sleep(5 * time.Second)
			require.NoError(t, held.Err())
		}
		s.Mini.SetError("ERR out of order")
		redistest.Sleep(10 * time.Second)
		require.ErrorIs(t, context.Cause(held), lock.ErrLost)
		require.ErrorContains(t, context.Cause(held), "out of order")
	})
}

func TestContextEndsWithItsParent(t *testing.T) {
	t.Parallel()
	virtual(t, nil, func(t *testing.T, s *redistest.Server, locks *lock.Locker) {
		type mine struct{}
		lease := mustLock(t, locks.Mutex("x"))
		reason := errors.New("enough")
		parent, cancel := context.WithCancelCause(context.WithValue(context.Background(), mine{}, 1))
		held := lease.Context(parent)
		require.Equal(t, 1, held.Value(mine{}))
		child, stop := context.WithTimeout(held, time.Hour)
		defer stop()
		cancel(reason)
		require.Equal(t, reason, context.Cause(child))
		require.True(t, lease.Held(), "the end of a parent releases nothing")
		require.NoError(t, lease.Release(context.Background()))

		over := lease.Context(context.Background())
		require.Equal(t, context.Canceled, context.Cause(over), "of a lease that is over")
	})
}

// A process that was stopped and goes on sees the context over, whatever its timers do: the clock is looked at.
func TestWallClockEndsALease(t *testing.T) {
	t.Parallel()
	s := redistest.Mini(t)
	lease := mustLock(t, newLocker(t, s.Client(t), &lock.Options{NoRenew: true}).Mutex("x").WithTTL(3*time.Second))
	held := lease.Context(context.Background())
	redistest.Eventually(t, func() bool { return !time.Now().Before(lease.Until()) }, "over")
	require.Error(t, held.Err())
	require.False(t, lease.Held())
}

func TestCloseEndsLeases(t *testing.T) {
	t.Parallel()
	virtual(t, nil, func(t *testing.T, s *redistest.Server, locks *lock.Locker) {
		ctx := context.Background()
		lease, other := mustLock(t, locks.Mutex("x")), mustLock(t, locks.Mutex("y"))
		held := lease.Context(ctx)
		require.NoError(t, locks.Close())
		require.NoError(t, locks.Close())
		require.Equal(t, lock.ErrClosed, context.Cause(held))
		require.False(t, lease.Held())
		require.ErrorIs(t, lease.Extend(ctx, time.Hour), lock.ErrClosed)
		for _, err := range []error{
			func() error { _, err := locks.Mutex("z").Lock(ctx); return err }(),
			func() error { _, err := locks.Mutex("z").TryLock(ctx); return err }(),
			func() error { _, err := locks.Mutex("z").Adopt(ctx, "token"); return err }(),
			func() error { _, err := locks.Mutex("z").Status(ctx); return err }(),
			locks.Mutex("z").ForceUnlock(ctx),
		} {
			require.ErrorIs(t, err, lock.ErrClosed)
		}
		require.NoError(t, other.Release(ctx), "what is held can be released")
		require.False(t, s.Mini.Exists("lock:y"))
		redistest.Sleep(9 * time.Second)
		require.True(t, s.Mini.Exists("lock:x"))
		redistest.Sleep(time.Second)
		require.False(t, s.Mini.Exists("lock:x"), "or lapses")
	})
}

func TestCloseEndsAWait(t *testing.T) {
	t.Parallel()
	virtual(t, nil, func(t *testing.T, s *redistest.Server, locks *lock.Locker) {
		mustLock(t, locks.Mutex("x"))
		got := make(chan error)
		go func() {
			_, err := locks.Mutex("x").Lock(context.Background())
			got <- err
		}()
		redistest.Sleep(time.Second)
		require.NoError(t, locks.Close())
		require.ErrorIs(t, <-got, lock.ErrClosed)
	})
}

// No renewal is under way once Release has returned, and none follows.
func TestNoRenewalAfterRelease(t *testing.T) {
	t.Parallel()
	redistest.Run(t, func(t *testing.T, s *redistest.Server) {
		p, ctx, direct := s.Proxy(t), context.Background(), s.Client(t)
		p.Delay(20 * time.Millisecond)
		rounds := 10
		if redistest.Long() > 3*time.Second {
			rounds = 200
		}
		places := make(chan struct{}, 20) // at a time
		var all sync.WaitGroup
		for range rounds {
			places <- struct{}{}
			all.Go(func() {
				defer func() { <-places }()
				c := p.Client(t, func(o *redis.Options) { o.ReadTimeout = 5 * time.Second })
				under := &underWay{}
				c.AddHook(under)
				locks, err := lock.New(c, &lock.Options{TTL: 3 * time.Second})
				if err != nil {
					t.Error(err)
					return
				}
				defer locks.Close()
				name := redistest.ID()
				lease, err := locks.Mutex(name).TryLock(ctx)
				if err != nil {
					t.Error(err)
					return
				}
				sent := under.sent.Load()
				redistest.Eventually(t, func() bool { return under.sent.Load() > sent }, "a renewal")
				if err := lease.Release(ctx); err != nil {
					t.Error(err)
				}
				if n := under.now.Load(); n != 0 {
					t.Errorf("%d commands are under way after Release", n)
				}
				if got := owner(t, direct, name); got != "" {
					t.Errorf("it is held by %q", got)
				}
			})
		}
		all.Wait()
	})
}

// underWay counts the commands of a client.
type underWay struct{ sent, now atomic.Int32 }

func (u *underWay) DialHook(next redis.DialHook) redis.DialHook { return next }

func (u *underWay) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		u.sent.Add(1)
		u.now.Add(1)
		defer u.now.Add(-1)
		return next(ctx, cmd)
	}
}

func (u *underWay) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

// Leave keeps the name taken for a time of its own, shorter or longer, and Adopt takes it up.
func TestLeave(t *testing.T) {
	t.Parallel()
	virtual(t, nil, func(t *testing.T, s *redistest.Server, locks *lock.Locker) {
		ctx, m := context.Background(), locks.Mutex("x")
		lease := mustLock(t, m)
		held := lease.Context(ctx)
		require.ErrorContains(t, lease.Leave(ctx, 0), "at least 1ms")
		require.True(t, lease.Held())
		require.NoError(t, lease.Leave(ctx, time.Minute))
		require.Equal(t, context.Canceled, context.Cause(held))
		require.False(t, lease.Held())
		require.NoError(t, lease.Release(ctx), "it frees nothing")
		redistest.Sleep(59 * time.Second)
		_, err := m.TryLock(ctx)
		require.ErrorIs(t, err, lock.ErrNotAcquired)
		redistest.Sleep(time.Second)
		lease = mustLock(t, m)
		require.NoError(t, lease.Leave(ctx, time.Second))
		require.Equal(t, time.Second, s.Mini.TTL("lock:x"))

		adopted, err := m.Adopt(ctx, lease.Token())
		require.NoError(t, err)
		redistest.Sleep(time.Minute)
		require.True(t, adopted.Held())
		s.Mini.Del("lock:x")
		require.ErrorIs(t, adopted.Leave(ctx, time.Minute), lock.ErrLost)
		require.ErrorIs(t, adopted.Release(ctx), lock.ErrLost)
		require.False(t, s.Mini.Exists("lock:x"))
	})
}

// A job that must run once a minute runs once, whatever the clocks of the five replicas that try say.
func TestOneRunAMinute(t *testing.T) {
	t.Parallel()
	redistest.Virtual(t, func(t *testing.T, s *redistest.Server) {
		var runs atomic.Int32
		var all sync.WaitGroup
		for replica := range 5 {
			all.Go(func() {
				locks, err := lock.New(s.Client(t), nil)
				require.NoError(t, err)
				defer locks.Close()
				time.Sleep(time.Duration(replica) * 7 * time.Second) // how far its clock is off
				for range 10 {
					lease, err := locks.Mutex("report").TryLock(context.Background())
					if err == nil {
						runs.Add(1)
						require.NoError(t, lease.Leave(context.Background(), 50*time.Second))
					} else {
						require.ErrorIs(t, err, lock.ErrNotAcquired)
					}
					time.Sleep(time.Minute)
				}
			})
		}
		all.Wait()
		require.EqualValues(t, 10, runs.Load())
	})
}

func TestManyLeasesAreRenewedTogether(t *testing.T) {
	t.Parallel()
	s, _ := redistest.Own(t) // others count what they send
	c, ctx := s.Client(t), context.Background()
	locks := newLocker(t, c, &lock.Options{TTL: 3 * time.Second})
	const many = 1000
	leases := make([]*lock.Lease, many)
	for i := range leases {
		leases[i] = mustLock(t, locks.Mutex(redistest.ID()))
	}
	require.NoError(t, c.ScriptFlush(ctx).Err())
	n := redistest.Count(c)
	s.Advance(t, 2*time.Second)
	s.Advance(t, 2*time.Second)
	for _, lease := range leases {
		require.NoError(t, context.Cause(lease.Context(ctx)))
	}
	renewals, trips := len(n.Commands()), n.Trips()
	t.Logf("%d round trips for %d renewals", trips, renewals)
	require.GreaterOrEqual(t, renewals, 3*many)
	require.LessOrEqual(t, renewals, 8*many, "about one a lease and second")
	if !redistest.Race {
		require.Less(t, trips, many+renewals/5, "after the flush each may be asked by itself once")
	}
}

func TestNilAndZeroLeasesAreLost(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	for _, lease := range []*lock.Lease{nil, {}} {
		require.Empty(t, lease.Name())
		require.Empty(t, lease.Token())
		require.Zero(t, lease.Fence())
		require.False(t, lease.Held())
		require.Zero(t, lease.Until())
		require.ErrorIs(t, context.Cause(lease.Context(ctx)), lock.ErrLost)
		require.ErrorIs(t, lease.Extend(ctx, time.Second), lock.ErrLost)
		require.ErrorIs(t, lease.Release(ctx), lock.ErrLost)
		_, err := lease.TTL(ctx)
		require.ErrorIs(t, err, lock.ErrLost)
	}
}

func TestDo(t *testing.T) {
	t.Parallel()
	mine := errors.New("mine")
	virtual(t, nil, func(t *testing.T, s *redistest.Server, locks *lock.Locker) {
		ctx, m := context.Background(), locks.Mutex("x")
		var during context.Context
		err := lock.Do(ctx, m.Lock, func(ctx context.Context, lease *lock.Lease) error {
			during = ctx
			require.True(t, lease.Held())
			err := lock.Do(ctx, m.TryLock, func(context.Context, *lock.Lease) error { panic("not reached") })
			require.ErrorIs(t, err, lock.ErrNotAcquired)
			return mine
		})
		require.Equal(t, mine, err)
		require.Error(t, during.Err())
		require.False(t, s.Mini.Exists("lock:x"))

		err = lock.Do(ctx, m.Lock, func(context.Context, *lock.Lease) error { s.Mini.Del("lock:x"); return nil })
		require.ErrorIs(t, err, lock.ErrLost, "a loss is reported though fn returned nil")

		err = lock.Do(ctx, m.Lock, func(context.Context, *lock.Lease) error { s.Mini.Del("lock:x"); return mine })
		require.ErrorIs(t, err, mine)
		require.ErrorIs(t, err, lock.ErrLost)
		require.Equal(t, `mine; lock: release "x": lock: lost`, err.Error())

		err = lock.Do(ctx, m.Lock, func(ctx context.Context, _ *lock.Lease) error {
			s.Mini.Del("lock:x")
			<-ctx.Done()
			return context.Cause(ctx)
		})
		require.ErrorIs(t, err, lock.ErrLost)
		require.NotContains(t, err.Error(), ";", "and not twice")

		require.PanicsWithValue(t, "boom", func() {
			_ = lock.Do(ctx, m.Lock, func(context.Context, *lock.Lease) error { panic("boom") })
		})
		require.False(t, s.Mini.Exists("lock:x"))

		err = lock.Do(ctx, m.Lock, func(ctx context.Context, lease *lock.Lease) error { return lease.Release(ctx) })
		require.NoError(t, err)

		ended, cancel := context.WithCancel(ctx)
		err = lock.Do(ended, m.Lock, func(context.Context, *lock.Lease) error { cancel(); return nil })
		require.NoError(t, err)
		require.False(t, s.Mini.Exists("lock:x"), "released though the context has ended")
		synctest.Wait()
	})
}
