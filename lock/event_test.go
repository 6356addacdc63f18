package lock_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/redispatterns/redispatterns/internal/redistest"
	"github.com/redispatterns/redispatterns/lock"
)

// events collects what Observe sees.
type events struct {
	mu  sync.Mutex
	all []lock.Event
	ids []any
}

type traceID struct{}

func (e *events) observe(ctx context.Context, event lock.Event) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.all, e.ids = append(e.all, event), append(e.ids, ctx.Value(traceID{}))
}

// take returns the events since the last call.
func (e *events) take() []lock.Event {
	e.mu.Lock()
	defer e.mu.Unlock()
	all := e.all
	e.all = nil
	return all
}

func kinds(all []lock.Event) (kinds []string) {
	for _, e := range all {
		kinds = append(kinds, e.Kind.String())
	}
	return kinds
}

func TestObserve(t *testing.T) {
	t.Parallel()
	seen := &events{}
	virtual(t, &lock.Options{Observe: seen.observe}, func(t *testing.T, s *redistest.Server, locks *lock.Locker) {
		ctx, m := context.WithValue(context.Background(), traceID{}, "abc"), locks.Mutex("x")
		lease, err := m.Lock(ctx)
		require.NoError(t, err)
		require.Equal(t, []lock.Event{{Kind: lock.Acquired, Name: "x", Attempts: 1}}, seen.take())

		_, err = m.TryLock(ctx)
		require.Equal(t, []lock.Event{{Kind: lock.NotAcquired, Name: "x", Attempts: 1, Err: err}}, seen.take())
		soon, cancel := context.WithTimeout(ctx, 2500*time.Millisecond)
		defer cancel()
		_, err = m.Lock(soon)
		got := seen.take()
		require.Len(t, got, 1)
		require.Equal(t, err, got[0].Err)
		require.Equal(t, 2500*time.Millisecond, got[0].Waited)
		require.Equal(t, 4, got[0].Attempts, "one, and three in the line")

		redistest.Sleep(2 * time.Second)
		require.Equal(t, []lock.Event{{Kind: lock.Renewed, Name: "x"}}, seen.take())
		require.NoError(t, lease.Release(ctx))
		require.NoError(t, lease.Release(ctx))
		require.Equal(t, []lock.Event{{Kind: lock.Released, Name: "x", Held: 4500 * time.Millisecond}}, seen.take())

		lease, err = locks.Mutex("y").TryLock(ctx)
		require.NoError(t, err)
		s.Mini.SetError("ERR out of order")
		redistest.Sleep(11 * time.Second)
		s.Mini.SetError("")
		got = seen.take()
		require.Equal(t, lock.Acquired, got[0].Kind)
		require.Equal(t, lock.Renewed, got[1].Kind)
		require.ErrorContains(t, got[1].Err, "out of order")
		last := got[len(got)-1]
		require.Equal(t, lock.Lost, last.Kind)
		require.ErrorIs(t, last.Err, lock.ErrLost)
		require.InDelta(t, 10*time.Second, last.Held, float64(200*time.Millisecond))
		require.ErrorIs(t, lease.Release(ctx), lock.ErrLost)
		require.Empty(t, seen.take(), "lost once")

		lease, err = locks.Mutex("z").TryLock(ctx)
		require.NoError(t, err)
		s.Mini.Del("lock:z")
		require.ErrorIs(t, lease.Release(ctx), lock.ErrLost)
		require.Equal(t, []string{"acquired", "lost"}, kinds(seen.take()))

		lease, err = locks.Mutex("z").TryLock(ctx)
		require.NoError(t, err)
		adopted, err := locks.Mutex("z").Adopt(ctx, lease.Token())
		require.NoError(t, err)
		require.NoError(t, adopted.Leave(ctx, time.Second))
		require.Equal(t, []string{"acquired", "acquired", "released"}, kinds(seen.take()))
		for _, id := range seen.ids {
			require.Equal(t, "abc", id, "an event carries the values of the context of its lease")
		}
	})
}

// slowToStop is a context whose callbacks take long to stop, as a goroutine may that is not scheduled.
type slowToStop struct {
	context.Context
	takes time.Duration
}

func (s slowToStop) Done() <-chan struct{} { return make(chan struct{}) } // a channel of its own, so that AfterFunc is asked

func (s slowToStop) AfterFunc(f func()) func() bool {
	stop := context.AfterFunc(s.Context, f)
	return func() bool {
		time.Sleep(s.takes)
		return stop()
	}
}

// A lease that is lost before its acquisition was reported, is reported lost all the same, and once.
func TestALossBeforeTheAcquisitionIsReported(t *testing.T) {
	t.Parallel()
	seen := &events{}
	virtual(t, &lock.Options{Observe: seen.observe, TTL: time.Second, NoRenew: true}, func(t *testing.T, _ *redistest.Server, locks *lock.Locker) {
		ctx := context.Background()
		mustLock(t, locks.Mutex("x"))
		require.Equal(t, []string{"acquired"}, kinds(seen.take()))
		lease, err := locks.RWMutex("x").RLock(slowToStop{ctx, 2 * time.Second})
		require.NoError(t, err)
		require.False(t, lease.Held())
		require.ErrorIs(t, lease.Release(ctx), lock.ErrLost)
		require.Equal(t, []string{"lost", "acquired", "lost"}, kinds(seen.take()))
	})
}

// A context is over when its lease is, though who ended the lease has not come to its contexts.
func TestAContextEndsBeforeItIsCancelled(t *testing.T) {
	t.Parallel()
	virtual(t, &lock.Options{TTL: time.Second, NoRenew: true}, func(t *testing.T, _ *redistest.Server, locks *lock.Locker) {
		for end, cause := range map[string]error{"it lapses": lock.ErrLost, "it is released": context.Canceled} {
			lease := mustLock(t, locks.Mutex("x"))
			held := lease.Context(slowToStop{context.Background(), 2 * time.Second})
			require.NoError(t, held.Err())
			if cause != lock.ErrLost {
				go func() { _ = lease.Release(context.Background()) }()
			}
			redistest.Sleep(time.Second)
			require.ErrorIs(t, held.Err(), context.Canceled, end)
			require.ErrorIs(t, context.Cause(held), cause, end)
			redistest.Sleep(5 * time.Second)
		}
	})
}

// A lease of which Redis says that it is gone in the instant in which it is released ends for Observe all the same.
func TestReleaseInTheInstantOfALoss(t *testing.T) {
	t.Parallel()
	const leases = 20_000 // of which some meet that instant
	ctx, over := context.Background(), atomic.Int64{}
	c := &between{nil, func(_ context.Context, cmd redis.Cmder, _ func() error) error {
		switch c := cmd.(type) {
		case *redis.IntCmd: // TTL
			c.SetVal(-2)
		case interface{ SetVal([]string) }: // an acquisition
			c.SetVal([]string{"7"})
		}
		return nil
	}}
	m := newLocker(t, c, &lock.Options{Observe: func(_ context.Context, e lock.Event) {
		if e.Kind == lock.Lost || e.Kind == lock.Released {
			over.Add(1)
		}
	}}).Mutex("x")
	held, looked := make(chan *lock.Lease), make(chan error)
	go func() {
		for lease := range held {
			_, err := lease.TTL(ctx)
			looked <- err
		}
	}()
	defer close(held)
	for i := range leases {
		lease := mustLock(t, m)
		held <- lease
		for range i % 200 {
			_ = lease.Until()
		}
		_ = lease.Release(ctx)
		require.ErrorIs(t, <-looked, lock.ErrLost)
	}
	require.EqualValues(t, leases, over.Load())
}

// A renewal that fails when its lease is over will not be tried again, and nobody is told of it.
func TestARenewalThatFailsAfterTheEnd(t *testing.T) {
	t.Parallel()
	for how, end := range map[string]func(*lock.Locker, *lock.Lease) error{
		"released": func(_ *lock.Locker, lease *lock.Lease) error { return lease.Release(context.Background()) },
		"closed":   func(locks *lock.Locker, _ *lock.Lease) error { return locks.Close() },
	} {
		redistest.Virtual(t, func(t *testing.T, s *redistest.Server) {
			seen := &events{}
			c := &between{s.Client(t), func(_ context.Context, cmd redis.Cmder, send func() error) error {
				if scriptOf(cmd) != extends {
					return send()
				}
				time.Sleep(2 * time.Second)
				cmd.SetErr(errors.New("the cable is cut"))
				return cmd.Err()
			}}
			locks, err := lock.New(c, &lock.Options{Observe: seen.observe})
			require.NoError(t, err)
			defer locks.Close()
			lease := mustLock(t, locks.Mutex("x"))
			redistest.Sleep(4 * time.Second) // a renewal is under way
			seen.take()
			require.NoError(t, end(locks, lease))
			redistest.Sleep(3 * time.Second)
			require.NotContains(t, kinds(seen.take()), "renewed", how)
		})
	}
}

// What becomes of a lease is told after its acquisition, however long that takes to tell.
func TestALossIsReportedAfterTheAcquisition(t *testing.T) {
	t.Parallel()
	seen := &events{}
	observe := func(ctx context.Context, e lock.Event) {
		if e.Kind == lock.Acquired {
			time.Sleep(2 * time.Second) // as where the process stands still
		}
		seen.observe(ctx, e)
	}
	virtual(t, &lock.Options{Observe: observe, TTL: time.Second, NoRenew: true}, func(t *testing.T, _ *redistest.Server, locks *lock.Locker) {
		lease := mustLock(t, locks.Mutex("x"))
		require.False(t, lease.Held())
		require.Equal(t, []string{"acquired", "lost"}, kinds(seen.take()))
	})
}
