package lock_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/redispatterns/redispatterns/internal/redistest"
	"github.com/redispatterns/redispatterns/lock"
)

// Ten thousand goroutines may wait for a name; one more is told at once that it cannot.
func TestTheLineIsBounded(t *testing.T) {
	if redistest.Race {
		t.Skip("the race detector allows 8128 goroutines")
	}
	redistest.Run(t, func(t *testing.T, s *redistest.Server) {
		const bound = 10_000
		ctx, name := context.Background(), redistest.ID()
		lease := mustLock(t, newLocker(t, s.Client(t), nil).Mutex(name))
		m := newLocker(t, s.Client(t), nil).Mutex(name)
		first := waiting(t, s.Client(t), m, name, 1)
		waiting, leave := context.WithCancel(ctx)
		defer leave()
		errs := make(chan error, bound)
		for range bound {
			go func() {
				lease, err := m.Lock(waiting)
				if err == nil {
					err = lease.Release(ctx)
				}
				errs <- err
			}()
		}
		err := <-errs // of the one for which there is no room, while the others wait
		var held *lock.HeldError
		require.ErrorAs(t, err, &held)
		require.ErrorIs(t, err, lock.ErrNotAcquired)
		require.ErrorContains(t, err, "10000 of this process wait for it already")
		require.Equal(t, name, held.Name)
		require.Equal(t, lease.Token(), held.Owner)
		require.Greater(t, held.TTL, time.Second)
		require.Empty(t, errs)
		_, err = m.TryLock(ctx)
		require.ErrorIs(t, err, lock.ErrNotAcquired)
		require.NotContains(t, err.Error(), "wait for it")

		leave()
		for range bound - 1 {
			require.ErrorIs(t, <-errs, context.Canceled)
		}
		require.NoError(t, lease.Release(ctx))
		require.NoError(t, (<-first).Release(ctx))
		lease, err = m.Lock(ctx) // there is room again
		require.NoError(t, err)
		require.NoError(t, lease.Release(ctx))
	})
}

// An outage that lasts for a TTL ends the wait of all of a line, not of one waiter after the other.
func TestAnOutageTurnsTheWholeLineAway(t *testing.T) {
	t.Parallel()
	redistest.Run(t, func(t *testing.T, s *redistest.Server) {
		const waiters, ttl = 30, 300 * time.Millisecond
		p, ctx, name := s.Proxy(t), context.Background(), redistest.ID()
		c := p.Client(t, func(o *redis.Options) { o.MaxRetries, o.DialerRetries = -1, 1 })
		lease := mustLock(t, newLocker(t, s.Client(t), nil).Mutex(name))
		m := newLocker(t, c, &lock.Options{TTL: ttl}).Mutex(name)
		errs := make(chan error, waiters)
		for range waiters {
			go func() {
				_, err := m.Lock(ctx)
				errs <- err
			}()
		}
		redistest.Eventually(t, func() bool { return queued(s.Client(t), name) == 1 }, "they wait")
		began := time.Now()
		p.To("")
		for range waiters {
			err := <-errs
			require.Error(t, err)
			require.NotErrorIs(t, err, lock.ErrNotAcquired, "whether it is held, nobody knows")
		}
		require.Less(t, time.Since(began), waiters*ttl/2)
		require.NoError(t, lease.Release(ctx))
	})
}

// A holder whose process waits for the same name hears of ForceUnlock at once, and of one for another name nothing.
func TestForceUnlockReachesAProcessThatListens(t *testing.T) {
	t.Parallel()
	redistest.Run(t, func(t *testing.T, s *redistest.Server) {
		c, ctx, name := s.Client(t), context.Background(), redistest.ID()
		locks := newLocker(t, s.Client(t), &lock.Options{TTL: 10 * time.Minute}) // a renewal is far away
		operator := newLocker(t, c, nil)
		lease, other := mustLock(t, locks.Mutex(name)), mustLock(t, locks.Mutex(name+"2"))
		require.Zero(t, listeners(t, c, name), "nobody subscribes for this alone")
		holding := lease.Context(ctx)

		next := waiting(t, c, locks.Mutex(name), name, 1)
		require.NoError(t, operator.Mutex(name).ForceUnlock(ctx))
		select {
		case <-holding.Done():
		case <-time.After(5 * time.Second):
			require.Fail(t, "the holder heard nothing")
		}
		require.ErrorIs(t, context.Cause(holding), lock.ErrLost)
		require.ErrorContains(t, context.Cause(holding), "by force")
		require.False(t, lease.Held())
		granted := <-next
		require.ErrorIs(t, lease.Release(ctx), lock.ErrLost)
		require.True(t, granted.Held(), "though it has the same name")
		require.Equal(t, granted.Token(), owner(t, c, name))
		require.True(t, other.Held())

		require.NoError(t, operator.Mutex(name).ForceUnlock(ctx)) // while the subscription lingers
		redistest.Eventually(t, func() bool { return !granted.Held() }, "it hears of it")
		require.Zero(t, c.Exists(ctx, key(name)).Val())
	})
}

// Readers and permits that are unlocked by force hear of it where a writer of their process waits.
func TestForceUnlockReachesReadersAndPermits(t *testing.T) {
	t.Parallel()
	redistest.Run(t, func(t *testing.T, s *redistest.Server) {
		c, ctx, name := s.Client(t), context.Background(), redistest.ID()
		locks := newLocker(t, s.Client(t), &lock.Options{TTL: 10 * time.Minute})
		operator := newLocker(t, c, nil)
		take := map[string]func(context.Context) (*lock.Lease, error){
			"readers": locks.RWMutex(name).TryRLock, "permits": locks.Semaphore(name, 2).TryAcquire,
		}
		for kind, take := range take {
			first, err := take(ctx)
			require.NoError(t, err, kind)
			second, err := take(ctx)
			require.NoError(t, err, kind)
			got := waiting(t, c, locks.Mutex(name), name, 1)
			require.NoError(t, operator.Mutex(name).ForceUnlock(ctx))
			redistest.Eventually(t, func() bool { return !first.Held() && !second.Held() }, "the %s hear of it", kind)
			require.ErrorIs(t, first.Release(ctx), lock.ErrLost)
			writer := <-got
			require.NoError(t, writer.Release(ctx))
			redistest.Eventually(t, func() bool { return c.Exists(ctx, key(name)).Val() == 0 }, "nobody has it")
		}
	})
}

// What a line saw before it was empty says nothing of who has the lock now.
func TestALineThatLingersKnowsNoHolder(t *testing.T) {
	t.Parallel()
	breaking(t, func(t *testing.T, c *breakable, locks, sound *lock.Locker) {
		ctx, m := context.Background(), locks.Mutex("x")
		lease := mustLock(t, sound.Mutex("x"))
		got := make(chan *lock.Lease)
		go func() {
			next, _ := m.Lock(ctx)
			got <- next
		}()
		redistest.Sleep(100 * time.Millisecond)
		require.NoError(t, lease.Release(ctx))
		require.NoError(t, (<-got).Release(ctx))
		redistest.Sleep(500 * time.Millisecond)
		c.fault.Store(&silent)
		_, err := m.Lock(short(t, 100*time.Millisecond))
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.NotErrorIs(t, err, lock.ErrNotAcquired, "whether it is held, nobody knows")
		c.fault.Store(nil)
	})
}

// Those that an outage turns away with the first of the line hear why, and nothing of its context, which has ended.
func TestTheContextOfTheFirstInLineIsItsOwn(t *testing.T) {
	t.Parallel()
	redistest.Virtual(t, func(t *testing.T, s *redistest.Server) {
		ctx, down := context.Background(), atomic.Bool{}
		mustLock(t, newLocker(t, s.Client(t), nil).Mutex("x"))
		c := &between{s.Client(t), func(_ context.Context, cmd redis.Cmder, send func() error) error {
			if !down.Load() {
				return send()
			}
			time.Sleep(3 * time.Second)
			cmd.SetErr(errors.New("the cable is cut"))
			return cmd.Err()
		}}
		locks, err := lock.New(c, &lock.Options{TTL: time.Second})
		require.NoError(t, err)
		defer locks.Close()
		m := locks.Mutex("x")
		first, cancel := context.WithTimeout(ctx, 2*time.Second)
		defer cancel()
		gone, errs := make(chan error, 1), make(chan error, 1)
		go func() {
			_, err := m.Lock(first)
			gone <- err
		}()
		redistest.Sleep(100 * time.Millisecond)
		go func() {
			_, err := m.Lock(ctx)
			errs <- err
		}()
		redistest.Sleep(100 * time.Millisecond)
		down.Store(true) // the first leaves while its next look is under way, in vain
		require.ErrorIs(t, <-gone, context.DeadlineExceeded)
		err = <-errs
		require.ErrorContains(t, err, "the cable is cut")
		require.NotErrorIs(t, err, context.DeadlineExceeded)
		require.NotErrorIs(t, err, lock.ErrNotAcquired)
	})
}
