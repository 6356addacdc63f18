package lock_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/redispatterns/redispatterns/internal/redistest"
	"github.com/redispatterns/redispatterns/lock"
)

func TestTryLock(t *testing.T) {
	t.Parallel()
	redistest.Run(t, func(t *testing.T, s *redistest.Server) {
		c, ctx, name := s.Client(t), context.Background(), redistest.ID()
		m := newLocker(t, c, nil).Mutex(name)

		lease := mustLock(t, m)
		require.NoError(t, uuid.Validate(lease.Token()))
		require.Equal(t, name, lease.Name())
		require.True(t, lease.Held())
		require.Equal(t, lease.Token(), owner(t, c, name))
		left(t, 10*time.Second, c.PTTL(ctx, key(name)).Val())
		left(t, 24*time.Hour, c.PTTL(ctx, fenceKey(name)).Val())

		other, err := newLocker(t, c, nil).Mutex(name).TryLock(ctx)
		require.Nil(t, other)
		require.ErrorIs(t, err, lock.ErrNotAcquired)
		var held *lock.HeldError
		require.ErrorAs(t, err, &held)
		require.Equal(t, lease.Token(), held.Owner)
		require.Equal(t, name, held.Name)
		left(t, 10*time.Second, held.TTL)
		require.NotContains(t, err.Error(), lease.Token())

		require.NoError(t, lease.Release(ctx))
		require.False(t, lease.Held())
		require.Zero(t, c.Exists(ctx, key(name)).Val())
		require.NoError(t, lease.Release(ctx), "released is released")

		again := mustLock(t, m)
		require.Greater(t, again.Fence(), lease.Fence())
		require.NoError(t, again.Release(ctx))
	})
}

func TestLockWaits(t *testing.T) {
	t.Parallel()
	redistest.Run(t, func(t *testing.T, s *redistest.Server) {
		c, ctx, name := s.Client(t), context.Background(), redistest.ID()
		m := newLocker(t, c, nil).Mutex(name)
		first := mustLock(t, m)
		got := make(chan *lock.Lease)
		go func() {
			lease, err := newLocker(t, c, nil).Mutex(name).Lock(ctx)
			require.NoError(t, err)
			got <- lease
		}()
		_, err := m.Lock(short(t, 500*time.Millisecond)) // of which a busy machine leaves enough to ask
		require.ErrorIs(t, err, lock.ErrNotAcquired)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.NoError(t, first.Release(ctx))
		second := <-got
		require.Greater(t, second.Fence(), first.Fence())
		require.NoError(t, second.Release(ctx))
	})
}

func TestWaitNamesItsCause(t *testing.T) {
	t.Parallel()
	s := redistest.Mini(t)
	c := s.Client(t)
	m := newLocker(t, c, nil).Mutex("x")
	mustLock(t, m)
	ctx, cancel := context.WithCancelCause(context.Background())
	reason := errors.New("shutting down")
	go func() {
		defer cancel(reason)
		redistest.Eventually(t, func() bool { return queued(c, "x") == 1 }, "it waits")
	}()
	_, err := m.Lock(ctx)
	require.ErrorIs(t, err, lock.ErrNotAcquired)
	require.ErrorIs(t, err, context.Canceled)
	require.ErrorIs(t, err, reason)
	require.NotContains(t, err.Error(), "\n")
}

// The lock of a holder that crashed is free after its TTL, and not before.
func TestCrashedHolder(t *testing.T) {
	t.Parallel()
	redistest.Virtual(t, func(t *testing.T, s *redistest.Server) {
		ctx := context.Background()
		crashed, err := lock.New(s.Client(t), nil)
		require.NoError(t, err)
		mustLock(t, crashed.Mutex("x"))
		require.NoError(t, crashed.Close(), "nothing renews it any more")

		waiting, err := lock.New(s.Client(t), nil)
		require.NoError(t, err)
		defer waiting.Close()
		began := time.Now()
		lease, err := waiting.Mutex("x").Lock(ctx)
		require.NoError(t, err)
		require.GreaterOrEqual(t, time.Since(began), 10*time.Second)
		require.Less(t, time.Since(began), 10*time.Second+100*time.Millisecond)
		require.NoError(t, lease.Release(ctx))
	})
}

func TestFenceGrows(t *testing.T) {
	t.Parallel()
	redistest.Run(t, func(t *testing.T, s *redistest.Server) {
		c, ctx, name := s.Client(t), context.Background(), redistest.ID()
		m := newLocker(t, c, nil).Mutex(name)
		last := int64(0)
		take := func() {
			t.Helper()
			lease := mustLock(t, m)
			require.Greater(t, lease.Fence(), last)
			last = lease.Fence()
			require.NoError(t, lease.Release(ctx))
			status, err := m.Status(ctx)
			require.NoError(t, err)
			require.Equal(t, last, status.Fence)
		}
		take()
		now := s.Now(t).UnixMicro()
		require.InDelta(t, now, last, 10e6, "about the server's time")
		c.Del(ctx, fenceKey(name)) // as FLUSHALL or an eviction does
		s.Advance(t, time.Millisecond)
		take()
		last = now + 3600e6 // of a server whose clock was an hour ahead
		c.Set(ctx, fenceKey(name), last, time.Hour)
		take()
		require.Equal(t, now+3600e6+1, last)
		take()
		require.Equal(t, now+3600e6+2, last)
		left(t, 24*time.Hour, c.PTTL(ctx, fenceKey(name)).Val())
	})
}

func TestStatus(t *testing.T) {
	t.Parallel()
	redistest.Run(t, func(t *testing.T, s *redistest.Server) {
		c, ctx, name := s.Client(t), context.Background(), redistest.ID()
		m := newLocker(t, c, nil).Mutex(name)
		status, err := m.Status(ctx)
		require.NoError(t, err)
		require.Equal(t, lock.Status{}, status)

		lease := mustLock(t, m)
		status, err = m.Status(ctx)
		require.NoError(t, err)
		left(t, 10*time.Second, status.TTL)
		status.TTL = 0
		require.Equal(t, lock.Status{Held: true, Owner: lease.Token(), Fence: lease.Fence()}, status)
		require.NoError(t, lease.Release(ctx))

		c.Set(ctx, key(name), "", 0) // another program's, without expiry
		status, err = m.Status(ctx)
		require.NoError(t, err)
		require.Equal(t, lock.Status{Held: true, Fence: lease.Fence()}, status)
		_, err = m.TryLock(ctx)
		require.ErrorIs(t, err, lock.ErrNotAcquired)
		c.Del(ctx, key(name))
	})
}

func TestForceUnlock(t *testing.T) {
	t.Parallel()
	redistest.Run(t, func(t *testing.T, s *redistest.Server) {
		ctx, name := context.Background(), redistest.ID()
		m := newLocker(t, s.Client(t), nil).Mutex(name)
		lease := mustLock(t, m)
		require.NoError(t, m.ForceUnlock(ctx))
		require.NoError(t, m.ForceUnlock(ctx), "nobody holds it")
		next := mustLock(t, m)
		require.Greater(t, next.Fence(), lease.Fence())

		require.ErrorIs(t, lease.Extend(ctx, time.Minute), lock.ErrLost)
		require.ErrorIs(t, context.Cause(lease.Context(ctx)), lock.ErrLost)
		require.ErrorIs(t, lease.Release(ctx), lock.ErrLost)
		require.True(t, next.Held())
		require.NoError(t, next.Release(ctx))
	})
}

func TestAdopt(t *testing.T) {
	t.Parallel()
	redistest.Run(t, func(t *testing.T, s *redistest.Server) {
		c, ctx, name := s.Client(t), context.Background(), redistest.ID()
		given := newLocker(t, c, &lock.Options{NoRenew: true}).Mutex(name)
		first := mustLock(t, given)
		m := newLocker(t, c, nil).Mutex(name)

		_, err := m.Adopt(ctx, uuid.NewString())
		require.ErrorIs(t, err, lock.ErrLost)
		_, err = m.Adopt(ctx, "")
		require.ErrorContains(t, err, "token is empty")

		second, err := m.Adopt(ctx, first.Token())
		require.NoError(t, err)
		require.Greater(t, second.Fence(), first.Fence(), "the resource can refuse the holder before")
		require.Equal(t, second.Token(), owner(t, c, name))
		_, err = m.Adopt(ctx, first.Token())
		require.ErrorIs(t, err, lock.ErrLost, "of two one succeeds")
		_, err = first.TTL(ctx)
		require.ErrorIs(t, err, lock.ErrLost)
		require.False(t, first.Held())
		require.ErrorIs(t, first.Release(ctx), lock.ErrLost)

		ttl, err := second.TTL(ctx)
		require.NoError(t, err)
		left(t, 10*time.Second, ttl)
		require.NoError(t, second.Release(ctx))
		_, err = m.Adopt(ctx, second.Token())
		require.ErrorIs(t, err, lock.ErrLost)
	})
}

// A hundred goroutines of ten Lockers add to a number that nothing else protects.
func TestNoIncrementIsLost(t *testing.T) {
	t.Parallel()
	redistest.Run(t, func(t *testing.T, s *redistest.Server) {
		c, ctx, name := s.Client(t), context.Background(), redistest.ID()
		counter := "counter:" + name
		each := 20
		if s.Mini != nil {
			each = 2 // a script costs it a millisecond
		}
		var late atomic.Int64
		var all sync.WaitGroup
		for range 10 {
			m := newLocker(t, c, nil).Mutex(name)
			for range 10 {
				all.Go(func() {
					for range each {
						var held *lock.Lease
						err := lock.Do(ctx, m.Lock, func(ctx context.Context, lease *lock.Lease) error {
							held = lease
							n, _ := c.Get(ctx, counter).Int()
							return c.Set(ctx, counter, n+1, time.Minute).Err()
						})
						switch {
						case held != nil && lapsed(held, err):
							late.Add(1)
						case err != nil:
							t.Error(err)
						}
					}
				})
			}
		}
		all.Wait()
		if n := late.Load(); n > 0 {
			t.Skipf("this machine stood still, and %d leases lapsed", n)
		}
		n, err := c.Get(ctx, counter).Int()
		require.NoError(t, err)
		require.Equal(t, 100*each, n)
	})
}

func TestBadInputIsRefusedBeforeAnythingIsSent(t *testing.T) {
	t.Parallel()
	s := redistest.Mini(t)
	c, ctx := s.Client(t), context.Background()
	n := redistest.Count(c)
	locks := newLocker(t, c, nil)
	ops := func(m *lock.Mutex) map[string]func() error {
		return map[string]func() error{
			"Lock":        func() error { _, err := m.Lock(ctx); return err },
			"TryLock":     func() error { _, err := m.TryLock(ctx); return err },
			"Adopt":       func() error { _, err := m.Adopt(ctx, "token"); return err },
			"Status":      func() error { _, err := m.Status(ctx); return err },
			"ForceUnlock": func() error { return m.ForceUnlock(ctx) },
		}
	}
	for _, name := range []string{"", "a}b", "{}a", "x~f", "{x}~q"} {
		for op, run := range ops(locks.Mutex(name)) {
			require.ErrorIs(t, run(), lock.ErrInvalidName, "%s of %q", op, name)
		}
	}
	for _, ttl := range []time.Duration{-1, 0, time.Millisecond - 1} {
		for op, run := range ops(locks.Mutex("x").WithTTL(ttl)) {
			require.ErrorContains(t, run(), "the TTL is "+ttl.String()+", must be at least 1ms", op)
		}
	}
	require.ErrorIs(t, ops(locks.Mutex("").WithTTL(-1))["Lock"](), lock.ErrInvalidName)
	require.Zero(t, n.Trips())

	for want, opts := range map[string]*lock.Options{
		"lock: new: Options.TTL is -1ns": {TTL: -1}, "Options.TTL is 999.999µs": {TTL: time.Millisecond - 1}, "Options.PollInterval": {PollInterval: -1}, "Options.FenceRetention": {FenceRetention: -time.Hour},
	} {
		_, err := lock.New(c, opts)
		require.ErrorContains(t, err, want)
		require.ErrorContains(t, err, "at least 1ms")
	}
	_, err := lock.New(c, &lock.Options{MaxHold: -1})
	require.ErrorContains(t, err, "lock: new: Options.MaxHold is -1ns, must not be negative")
	for prefix, refused := range map[string]bool{"{": true, "a{b:": true, "{app}:": false, "{app}{": false} {
		_, err = lock.New(c, &lock.Options{Prefix: prefix})
		require.Equal(t, refused, err != nil, "%q: %v", prefix, err)
	}
	_, err = lock.New(nil, nil)
	require.ErrorContains(t, err, "lock: new: the client is nil")
	require.ErrorContains(t, lock.Do(ctx, nil, nil), "nil")

	lease := mustLock(t, locks.Mutex("x"))
	n.Reset()
	require.ErrorContains(t, lease.Extend(ctx, 0), "at least 1ms")
	require.Zero(t, n.Trips())
}

// The keys of unusual names lie where they should, beside each other.
func TestUnusualNames(t *testing.T) {
	t.Parallel()
	redistest.Run(t, func(t *testing.T, s *redistest.Server) {
		c, ctx := s.Client(t), context.Background()
		locks := newLocker(t, c, nil)
		id := redistest.ID()
		for _, name := range []string{
			"\x00", "a\r\nb", "{t}", "a{b", "x:{tag}:y", "\xff\xfe", "~", "a~", "日本 語", "%d%s", strings.Repeat("n", 100_000),
		} {
			name = id + name
			m := locks.Mutex(name)
			lease := mustLock(t, m)
			require.Equal(t, lease.Token(), c.Get(ctx, "lock:"+name).Val())
			_, err := m.TryLock(ctx)
			require.ErrorIs(t, err, lock.ErrNotAcquired)
			require.NoError(t, lease.Extend(ctx, time.Minute))
			require.NoError(t, lease.Release(ctx))
			require.Zero(t, c.Exists(ctx, "lock:"+name).Val())
		}
	})
}

// A lock of another program, or of another Locker with that prefix, is the same lock.
func TestPrefixAndForeignLock(t *testing.T) {
	t.Parallel()
	redistest.Run(t, func(t *testing.T, s *redistest.Server) {
		c, ctx, name := s.Client(t), context.Background(), redistest.ID()
		m := newLocker(t, c, &lock.Options{Prefix: "app:lock:"}).Mutex(name)
		require.NoError(t, c.Set(ctx, "app:lock:"+name, "by hand", time.Second).Err())
		_, err := m.TryLock(ctx)
		var held *lock.HeldError
		require.ErrorAs(t, err, &held)
		require.Equal(t, "by hand", held.Owner)
		s.Advance(t, 1100*time.Millisecond)
		lease := mustLock(t, m)
		require.False(t, c.SetNX(ctx, "app:lock:"+name, "by hand", time.Second).Val())
		require.NoError(t, lease.Release(ctx))
	})
}

// What lies under a lock's key and is no lock stays as it is.
func TestKeyOfAnotherType(t *testing.T) {
	t.Parallel()
	redistest.Run(t, func(t *testing.T, s *redistest.Server) {
		c, ctx, name := s.Client(t), context.Background(), redistest.ID()
		m := newLocker(t, c, nil).Mutex(name)
		require.NoError(t, c.RPush(ctx, key(name), "a").Err())
		t.Cleanup(func() { c.Del(ctx, key(name)) })
		for op, run := range map[string]func() error{
			"Lock":        func() error { _, err := m.Lock(ctx); return err },
			"TryLock":     func() error { _, err := m.TryLock(ctx); return err },
			"Adopt":       func() error { _, err := m.Adopt(ctx, "token"); return err },
			"Status":      func() error { _, err := m.Status(ctx); return err },
			"ForceUnlock": func() error { return m.ForceUnlock(ctx) },
		} {
			err := run()
			require.ErrorContains(t, err, "WRONGTYPE", op)
			require.ErrorContains(t, err, name, op)
			require.NotErrorIs(t, err, lock.ErrNotAcquired, op)
			require.NotErrorIs(t, err, lock.ErrLost, op)
		}
		require.Equal(t, []string{"a"}, c.LRange(ctx, key(name), 0, -1).Val())
		require.Zero(t, c.Exists(ctx, fenceKey(name)).Val())

		c.Del(ctx, key(name))
		lease := mustLock(t, m)
		c.Del(ctx, key(name))
		require.NoError(t, c.RPush(ctx, key(name), "a").Err())
		require.ErrorContains(t, lease.Extend(ctx, time.Second), "WRONGTYPE")
		require.ErrorContains(t, lease.Release(ctx), "WRONGTYPE")
		require.EqualValues(t, 1, c.LLen(ctx, key(name)).Val())
	})
}
