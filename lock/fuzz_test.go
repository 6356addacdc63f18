package lock_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/redispatterns/redispatterns/internal/rediskey"
	"github.com/redispatterns/redispatterns/internal/redistest"
	"github.com/redispatterns/redispatterns/lock"
)

// A name is refused, or it is a lock whose keys lie in one slot.
func FuzzName(f *testing.F) {
	for _, name := range redistest.Hostile() {
		f.Add(name)
	}
	c, ctx := redistest.Mini(f).Client(f), context.Background()
	locks := newLocker(f, c, &lock.Options{NoRenew: true})
	f.Fuzz(func(t *testing.T, name string) {
		m := locks.Mutex(name)
		lease, err := m.TryLock(ctx)
		if refused := rediskey.Check(key(name)); name == "" || refused != nil {
			require.ErrorIs(t, err, lock.ErrInvalidName)
			requireOneLine(t, err)
			_, err = locks.RWMutex(name).TryRLock(ctx)
			require.ErrorIs(t, err, lock.ErrInvalidName)
			_, err = locks.Semaphore(name, 1).TryAcquire(ctx)
			require.ErrorIs(t, err, lock.ErrInvalidName)
			return
		}
		require.NoError(t, err)
		fence := rediskey.Companion(key(name), "~f")
		require.ElementsMatch(t, []string{key(name), fence}, c.Keys(ctx, "*").Val())
		require.Equal(t, rediskey.Slot(key(name)), rediskey.Slot(fence))
		_, err = m.TryLock(ctx)
		require.ErrorIs(t, err, lock.ErrNotAcquired)
		requireOneLine(t, err)
		_, err = locks.RWMutex(name).TryRLock(ctx)
		require.ErrorIs(t, err, lock.ErrNotAcquired)
		require.NoError(t, lease.Release(ctx))
		permit, err := locks.Semaphore(name, 2).TryAcquire(ctx)
		require.NoError(t, err)
		require.NoError(t, permit.Release(ctx))
		c.Del(ctx, fence)
		require.Empty(t, c.Keys(ctx, "*").Val())
	})
}

// A token that is not the holder's opens nothing, and changes nothing.
func FuzzAdopt(f *testing.F) {
	for _, token := range append(redistest.Hostile(), uuid.Nil.String()) {
		f.Add(token)
	}
	c, ctx := redistest.Mini(f).Client(f), context.Background()
	locks := newLocker(f, c, &lock.Options{NoRenew: true})
	for _, acquire := range []func(context.Context) (*lock.Lease, error){
		locks.Mutex("mutex").Lock, locks.RWMutex("rwmutex").RLock, locks.Semaphore("semaphore", 2).Acquire,
	} {
		_, err := acquire(ctx)
		require.NoError(f, err)
	}
	owner := c.Get(ctx, key("mutex")).Val()
	f.Fuzz(func(t *testing.T, token string) {
		if token == owner {
			return
		}
		for _, name := range []string{"mutex", "rwmutex", "semaphore", "free"} {
			_, err := locks.Mutex(name).Adopt(ctx, token)
			require.Error(t, err)
			requireOneLine(t, err)
		}
		require.Equal(t, owner, c.Get(ctx, key("mutex")).Val())
		require.EqualValues(t, 3, c.Exists(ctx, key("mutex"), key("rwmutex"), key("semaphore"), key("free")).Val())
	})
}

// Whatever another program has written under the keys of a lock, there is an answer, and a fence is one that a resource can
// compare.
func FuzzStored(f *testing.F) {
	for _, text := range redistest.Hostile() {
		f.Add(text, text, true)
		f.Add("", text, false)
	}
	f.Add("", "9007199254740991", false)
	f.Add("", "1764432000000000", false)
	c, ctx := redistest.Mini(f).Client(f), context.Background()
	locks := newLocker(f, c, &lock.Options{NoRenew: true})
	m := locks.Mutex("x")
	f.Fuzz(func(t *testing.T, owner, fence string, held bool) {
		require.NoError(t, c.Set(ctx, "{lock:x}~f", fence, 0).Err())
		require.NoError(t, c.Del(ctx, "lock:x").Err())
		if held {
			require.NoError(t, c.Set(ctx, "lock:x", owner, 0).Err())
		}
		if status, err := m.Status(ctx); err == nil {
			require.Equal(t, held, status.Held)
		} else {
			requireOneLine(t, err)
		}
		lease, err := m.TryLock(ctx)
		if err != nil {
			requireOneLine(t, err)
			if held {
				require.ErrorIs(t, err, lock.ErrNotAcquired)
			}
			return
		}
		require.False(t, held)
		require.Positive(t, lease.Fence())
		require.Less(t, lease.Fence(), int64(1)<<53)
		require.NoError(t, lease.Release(ctx))
	})
}

// What anybody publishes where a waiter listens does not give it the lock.
func FuzzMessage(f *testing.F) {
	for _, text := range redistest.Hostile() {
		f.Add(text)
		f.Add(uuid.Nil.String() + text)
	}
	c := redistest.Mini(f).Client(f)
	ctx, cancel := context.WithCancel(context.Background())
	locks := newLocker(f, c, &lock.Options{TTL: time.Hour, NoRenew: true, PollInterval: 100 * time.Millisecond})
	_, err := locks.Mutex("x").Lock(ctx)
	require.NoError(f, err)
	waited := make(chan error, 1)
	go func() {
		_, err := locks.Mutex("x").Lock(ctx)
		waited <- err
	}()
	f.Cleanup(func() { // before the Locker's
		cancel()
		require.ErrorIs(f, <-waited, lock.ErrNotAcquired)
	})
	var channels []string
	redistest.Eventually(f, func() bool {
		channels = c.PubSubChannels(ctx, "*").Val()
		return len(channels) == 2
	}, "the waiter listens for grants, and for ForceUnlock")
	f.Fuzz(func(t *testing.T, message string) {
		for _, channel := range channels {
			require.NoError(t, c.Publish(ctx, channel, message).Err())
		}
		require.Empty(t, waited, "the waiter still waits")
	})
}

func requireOneLine(t *testing.T, err error) {
	t.Helper()
	require.False(t, strings.ContainsAny(err.Error(), "\n\r\x00"), "%q", err.Error())
}
