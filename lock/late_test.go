package lock_test

import (
	"context"
	"fmt"
	"math"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/redispatterns/redispatterns"
	"github.com/redispatterns/redispatterns/internal/redistest"
	"github.com/redispatterns/redispatterns/lock"
)

// recording keeps the last script of a client, so that a test can have it arrive once more, late.
type recording struct {
	redispatterns.Client
	mu   sync.Mutex
	sent []any
}

func (r *recording) Process(ctx context.Context, cmd redis.Cmder) error {
	r.mu.Lock()
	r.sent = append([]any(nil), cmd.Args()...)
	r.mu.Unlock()
	return r.Client.Process(ctx, cmd)
}

// late sends the last script again.
func (r *recording) late(t *testing.T) {
	t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	require.NoError(t, r.Client.Process(context.Background(), redis.NewSliceCmd(context.Background(), r.sent...)))
}

func TestARepetitionThatComesLateShortensNothing(t *testing.T) {
	t.Parallel()
	redistest.Run(t, func(t *testing.T, s *redistest.Server) {
		c, ctx, name := &recording{Client: s.Client(t)}, context.Background(), redistest.ID()
		l, err := lock.New(c, &lock.Options{TTL: 2 * time.Second, NoRenew: true})
		require.NoError(t, err)
		t.Cleanup(func() { _ = l.Close() })
		lease, err := l.Mutex(name).TryLock(ctx)
		require.NoError(t, err)
		acquire := &recording{Client: c.Client, sent: c.sent}
		require.NoError(t, lease.Extend(ctx, time.Minute))
		acquire.late(t)
		left, err := lease.TTL(ctx)
		require.NoError(t, err)
		require.Greater(t, left, 30*time.Second)

		lease, err = l.Mutex(name).Adopt(ctx, lease.Token())
		require.NoError(t, err)
		adopt := &recording{Client: c.Client, sent: c.sent}
		require.NoError(t, lease.Extend(ctx, time.Minute))
		adopt.late(t)
		left, err = lease.TTL(ctx)
		require.NoError(t, err)
		require.Greater(t, left, 30*time.Second)
		require.NoError(t, lease.Release(ctx))
	})
}

// As of a lock, so of a reader and a permit.
func TestARepetitionThatComesLateShortensNoShare(t *testing.T) {
	t.Parallel()
	redistest.Run(t, func(t *testing.T, s *redistest.Server) {
		c, ctx, name := &recording{Client: s.Client(t)}, context.Background(), redistest.ID()
		locks := newLocker(t, c, &lock.Options{TTL: 2 * time.Second, NoRenew: true})
		for kind, take := range map[string]func(context.Context) (*lock.Lease, error){
			"reader": locks.RWMutex(name).TryRLock, "permit": locks.Semaphore(name+"2", 2).TryAcquire,
		} {
			lease, err := take(ctx)
			require.NoError(t, err, kind)
			acquire := &recording{Client: c.Client, sent: c.sent}
			require.NoError(t, lease.Extend(ctx, time.Minute), kind)
			acquire.late(t)
			left, err := lease.TTL(ctx)
			require.NoError(t, err, kind)
			require.Greater(t, left, 30*time.Second, kind)
			require.NoError(t, lease.Release(ctx), kind)
		}
	})
}

// An acquisition that is answered while the Locker is closed has no holder: it must not block the others for a TTL.
func TestClosedWhileAnAcquisitionIsUnderWay(t *testing.T) {
	t.Parallel()
	redistest.Run(t, func(t *testing.T, s *redistest.Server) {
		c, ctx, name := s.Client(t), context.Background(), redistest.ID()
		for _, kind := range []string{"mutex", "reader", "mutex where others waited"} {
			closing := &closes{Client: s.Client(t)}
			l, err := lock.New(closing, &lock.Options{TTL: 10 * time.Minute})
			require.NoError(t, err)
			acquire := l.Mutex(name).Lock
			switch kind {
			case "reader":
				acquire = l.RWMutex(name).RLock
			case "mutex where others waited":
				lease := mustLock(t, newLocker(t, c, nil).Mutex(name))
				next := waiting(t, c, l.Mutex(name), name, 1)
				require.NoError(t, lease.Release(ctx))
				require.NoError(t, (<-next).Release(ctx))
			}
			closing.locker.Store(l)
			lease, err := acquire(ctx)
			if err == nil { // it was closed right after
				require.NoError(t, lease.Release(ctx), kind)
			} else {
				require.ErrorIs(t, err, lock.ErrClosed, kind)
			}
			redistest.Eventually(t, func() bool { return c.Exists(ctx, key(name)).Val() == 0 }, "the %s has given it up", kind)
			require.NoError(t, l.Close())
		}
	})
}

// closes closes a Locker when a script has been answered.
type closes struct {
	redispatterns.Client
	locker atomic.Pointer[lock.Locker]
}

func (c *closes) Process(ctx context.Context, cmd redis.Cmder) error {
	err := c.Client.Process(ctx, cmd)
	if l := c.locker.Load(); l != nil && cmd.Err() == nil && c.locker.CompareAndSwap(l, nil) {
		go func() { _ = l.Close() }()
		for closed := false; !closed; {
			_, err := l.Mutex("x").Adopt(ctx, "") // which sends nothing
			closed = errorIs(err, lock.ErrClosed)
		}
	}
	return err
}

// What was taken by the time that the reply is here has lapsed, and is given up where it has not.
func TestAReplyThatTakesLongerThanTheTTL(t *testing.T) {
	t.Parallel()
	redistest.Run(t, func(t *testing.T, s *redistest.Server) {
		p, ctx, name := s.Proxy(t), context.Background(), redistest.ID()
		locks := newLocker(t, p.Client(t, func(o *redis.Options) { o.ReadTimeout = 5 * time.Second }), &lock.Options{TTL: 20 * time.Millisecond})
		warm := newLocker(t, s.Client(t), nil)
		require.NoError(t, mustLock(t, warm.Mutex(name)).Release(ctx))
		p.Delay(50 * time.Millisecond)
		for kind, acquire := range map[string]func(context.Context) (*lock.Lease, error){
			"Lock": locks.Mutex(name).Lock, "TryLock": locks.Mutex(name).TryLock,
			"RLock": locks.RWMutex(name).RLock, "TryRLock": locks.RWMutex(name).TryRLock,
			"Acquire": locks.Semaphore(name, 2).Acquire, "TryAcquire": locks.Semaphore(name, 2).TryAcquire,
		} {
			s.Advance(t, 50*time.Millisecond) // what was taken before has lapsed
			_, err := acquire(ctx)
			require.ErrorIs(t, err, lock.ErrLost, kind)
			require.NotErrorIs(t, err, lock.ErrNotAcquired, kind)
			require.ErrorContains(t, err, "took longer than the TTL", kind)
			redistest.Eventually(t, func() bool { return s.Client(t).Exists(ctx, key(name)).Val() == 0 }, "%s gave it up", kind)
		}
	})
}

// A lease's context may be the parent of another of the same lease, and of one of another lease, both ways.
func TestContextsOfLeasesNest(t *testing.T) {
	t.Parallel()
	s := redistest.Mini(t)
	l, err := lock.New(s.Client(t), &lock.Options{TTL: 50 * time.Millisecond})
	require.NoError(t, err)
	t.Cleanup(func() { _ = l.Close() })
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			for round := range 20 {
				a, err := l.Mutex(fmt.Sprintf("a%d-%d", i, round)).TryLock(context.Background())
				if err != nil {
					continue // the machine is so busy that the lease was over before the reply was here
				}
				b, err := l.Mutex(fmt.Sprintf("b%d-%d", i, round)).TryLock(context.Background())
				if err != nil {
					continue
				}
				var both sync.WaitGroup
				both.Go(func() { a.Context(a.Context(b.Context(context.Background()))).Err() })
				both.Go(func() { b.Context(b.Context(a.Context(context.Background()))).Err() })
				both.Wait()
				inner := context.WithValue(a.Context(b.Context(context.Background())), ctxKey{}, 1)
				child, cancel := context.WithCancel(inner)
				_ = a.Release(context.Background())
				<-child.Done()
				cancel()
				_ = b.Release(context.Background())
			}
		})
	}
	done := make(chan struct{})
	go func() { all.Wait(); close(done) }()
	select {
	case <-done:
	case <-time.After(60 * time.Second):
		t.Fatal("contexts of leases wait for each other")
	}
}

type ctxKey struct{}

// Whether a lock is held while Redis does not answer, nobody knows: that is no "not acquired".
func TestRedisVanishesDuringAWait(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"mutex", "reader"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			redistest.Run(t, func(t *testing.T, s *redistest.Server) {
				p, ctx, name := s.Proxy(t), context.Background(), redistest.ID()
				c := p.Client(t, func(o *redis.Options) { o.ContextTimeoutEnabled, o.MaxRetries, o.DialerRetries = true, -1, 1 })
				n := redistest.Count(c)
				l, err := lock.New(c, &lock.Options{PollInterval: 50 * time.Millisecond})
				require.NoError(t, err)
				t.Cleanup(func() { _ = l.Close() })
				held, err := lock.New(s.Client(t), nil)
				require.NoError(t, err)
				t.Cleanup(func() { _ = held.Close() })
				lease, err := held.Mutex(name).TryLock(ctx)
				require.NoError(t, err)

				waiting, cancel := context.WithCancel(ctx)
				defer cancel()
				outcome := make(chan error, 1)
				go func() {
					acquire := l.Mutex(name).Lock
					if kind == "reader" {
						acquire = l.RWMutex(name).RLock
					}
					_, err := acquire(waiting)
					outcome <- err
				}()
				redistest.Eventually(t, func() bool { return n.Trips() >= 3 }, "it waits")
				p.BlackHole(true)
				trips := n.Trips()
				redistest.Eventually(t, func() bool { return n.Trips() >= trips+2 }, "it has looked in vain")
				cancel()
				err = <-outcome
				p.BlackHole(false)
				require.ErrorIs(t, err, context.Canceled)
				require.NotErrorIs(t, err, lock.ErrNotAcquired)
				require.NoError(t, lease.Release(ctx))
			})
		})
	}
}

func TestAdoptOfUnknownOutcomeGivesBack(t *testing.T) {
	t.Parallel()
	redistest.Run(t, func(t *testing.T, s *redistest.Server) {
		p, ctx, name := s.Proxy(t), context.Background(), redistest.ID()
		c := p.Client(t, func(o *redis.Options) { o.MaxRetries, o.ReadTimeout = -1, 5*time.Second })
		l, err := lock.New(c, &lock.Options{NoRenew: true})
		require.NoError(t, err)
		t.Cleanup(func() { _ = l.Close() })
		m := l.Mutex(name)
		lease, err := m.TryLock(ctx)
		require.NoError(t, err)
		_, err = m.Adopt(ctx, uuid.NewString())
		require.ErrorIs(t, err, lock.ErrLost, "and the scripts are loaded")
		p.CloseAfter(1, "evalsha", "eval")
		_, err = m.Adopt(ctx, lease.Token())
		require.Error(t, err)
		require.NotErrorIs(t, err, lock.ErrLost)
		redistest.Eventually(t, func() bool {
			status, err := m.Status(ctx)
			return err == nil && status.Owner == lease.Token()
		}, "the token has the lock again")
		adopted, err := m.Adopt(ctx, lease.Token())
		require.NoError(t, err)
		require.NoError(t, adopted.Release(ctx))
	})
}

func TestFenceKeyOfAnotherType(t *testing.T) {
	t.Parallel()
	redistest.Run(t, func(t *testing.T, s *redistest.Server) {
		c, ctx, name := s.Client(t), context.Background(), redistest.ID()
		l, err := lock.New(c, nil)
		require.NoError(t, err)
		t.Cleanup(func() { _ = l.Close() })
		m, fence := l.Mutex(name), "{lock:"+name+"}~f"
		t.Cleanup(func() { c.Del(ctx, fence) })
		require.NoError(t, c.RPush(ctx, fence, "theirs").Err())
		_, err = m.TryLock(ctx)
		require.ErrorContains(t, err, fence)
		require.NotErrorIs(t, err, lock.ErrNotAcquired)
		require.Zero(t, c.Exists(ctx, "lock:"+name).Val(), "nobody has the lock")
		require.Equal(t, []string{"theirs"}, c.LRange(ctx, fence, 0, -1).Val())

		require.NoError(t, c.Set(ctx, "lock:"+name, "owner", time.Minute).Err())
		_, err = m.Adopt(ctx, "owner")
		require.ErrorContains(t, err, fence)
		require.Equal(t, "owner", c.Get(ctx, "lock:"+name).Val(), "its holder keeps it")
		c.Del(ctx, "lock:"+name)
	})
}

func TestAnExpiryTakenAwayIsPutBack(t *testing.T) {
	t.Parallel()
	redistest.Run(t, func(t *testing.T, s *redistest.Server) {
		c, ctx, name := s.Client(t), context.Background(), redistest.ID()
		l, err := lock.New(c, &lock.Options{NoRenew: true})
		require.NoError(t, err)
		t.Cleanup(func() { _ = l.Close() })
		lease, err := l.Mutex(name).TryLock(ctx)
		require.NoError(t, err)
		require.NoError(t, c.Persist(ctx, "lock:"+name).Err())
		require.NoError(t, lease.Extend(ctx, time.Second))
		require.Greater(t, c.PTTL(ctx, "lock:"+name).Val(), time.Duration(0))
		require.NoError(t, lease.Release(ctx))
	})
}

func TestLengthsBeyondTimeAreRefused(t *testing.T) {
	t.Parallel()
	c, ctx := redistest.Mini(t).Client(t), context.Background()
	_, err := lock.New(c, &lock.Options{TTL: math.MaxInt64})
	require.ErrorContains(t, err, "TTL")
	_, err = lock.New(c, &lock.Options{Prefix: "a}b:"})
	require.ErrorContains(t, err, "Prefix")
	l, err := lock.New(c, nil)
	require.NoError(t, err)
	t.Cleanup(func() { _ = l.Close() })
	_, err = l.Mutex("x").WithTTL(250 * 365 * 24 * time.Hour).TryLock(ctx)
	require.ErrorContains(t, err, "TTL")
	lease, err := l.Mutex("x").TryLock(ctx)
	require.NoError(t, err)
	require.ErrorContains(t, lease.Extend(ctx, math.MaxInt64), "TTL")
	require.True(t, lease.Held())
	require.NoError(t, lease.Release(ctx))
}

// An attempt that fails is given up in the background. The waiter that goes on must not lose the lock by that.
func TestAWaiterThatGoesOnKeepsWhatItGets(t *testing.T) {
	t.Parallel()
	redistest.Run(t, func(t *testing.T, s *redistest.Server) {
		c, p, ctx, name := s.Client(t), s.Proxy(t), context.Background(), redistest.ID()
		l, err := lock.New(c, nil)
		require.NoError(t, err)
		t.Cleanup(func() { _ = l.Close() })
		lease, err := l.Mutex(name).TryLock(ctx)
		require.NoError(t, err)

		o := p.Client(t).Options()
		ring := redis.NewRing(&redis.RingOptions{ // on which waiters poll
			Addrs: map[string]string{"a": o.Addr}, DB: o.DB, HeartbeatFrequency: time.Hour,
		})
		t.Cleanup(func() { _ = ring.Close() })
		polling, err := lock.New(ring, nil)
		require.NoError(t, err)
		t.Cleanup(func() { _ = polling.Close() })
		n := redistest.Count(ring)
		got := make(chan *lock.Lease, 1)
		go func() {
			w, _ := polling.Mutex(name).Lock(ctx)
			got <- w
		}()
		redistest.Eventually(t, func() bool { return n.Trips() >= 3 }, "it polls")
		p.CloseBefore(4, "evalsha", "eval") // one attempt and its repetitions
		redistest.Eventually(t, func() bool { return p.Hits() == 4 }, "the fault is over")
		trips := n.Trips()
		require.NoError(t, lease.Release(ctx))
		w := <-got
		require.NotNil(t, w)
		// The attempt that failed is given up by three releases.
		redistest.Eventually(t, func() bool { return n.Trips() >= trips+3 }, "it was given up")
		status, err := l.Mutex(name).Status(ctx)
		require.NoError(t, err)
		require.Equal(t, w.Token(), status.Owner)
		require.NoError(t, w.Release(ctx))
	})
}
