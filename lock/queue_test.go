package lock_test

import (
	"context"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/redispatterns/redispatterns/internal/redistest"
	"github.com/redispatterns/redispatterns/lock"
)

func queueKey(name string) string { return "{lock:" + name + "}~q" }

// queued is how many waiters stand in the queue of a name; each stands there twice.
func queued(c *redis.Client, name string) int {
	return int(c.ZCard(context.Background(), queueKey(name)).Val() / 2)
}

// waiting begins a Lock, and returns when its waiter stands in the queue as number n.
func waiting(t *testing.T, c *redis.Client, m *lock.Mutex, name string, n int) <-chan *lock.Lease {
	t.Helper()
	got := make(chan *lock.Lease, 1)
	go func() {
		lease, err := m.Lock(context.Background())
		if err != nil {
			t.Error(err)
		}
		got <- lease
	}()
	redistest.Eventually(t, func() bool { return queued(c, name) == n }, "waiter %d stands in the queue", n)
	return got
}

func TestFirstComeFirstServed(t *testing.T) {
	t.Parallel()
	redistest.Run(t, func(t *testing.T, s *redistest.Server) {
		c, ctx, name := s.Client(t), context.Background(), redistest.ID()
		lease := mustLock(t, newLocker(t, c, nil).Mutex(name))
		var waiters []<-chan *lock.Lease
		for i := range 5 {
			s.Advance(t, time.Millisecond)
			waiters = append(waiters, waiting(t, c, newLocker(t, c, nil).Mutex(name), name, i+1))
		}
		for _, got := range waiters {
			late, began := redistest.Lateness(t, c), time.Now()
			require.NoError(t, lease.Release(ctx))
			next := <-got
			require.Less(t, time.Since(began), 900*time.Millisecond+3*late(), "woken, and not by its timer")
			require.Greater(t, next.Fence(), lease.Fence())
			require.Equal(t, next.Token(), owner(t, c, name))
			lease = next
			redistest.Eventually(t, func() bool { return c.PTTL(ctx, key(name)).Val() > 5*time.Second }, "the grant is extended")
		}
		require.NoError(t, lease.Release(ctx))
		require.Zero(t, c.Exists(ctx, key(name), queueKey(name)).Val(), "nothing is left but the fence")
	})
}

// A look in the last millisecond of a lock, of which Redis says that 0 are left, is followed by one at once: of a thousand
// times that a lock lapses, some are looked at just then.
func TestALookAtTheVeryEnd(t *testing.T) {
	t.Parallel()
	redistest.Virtual(t, func(t *testing.T, s *redistest.Server) {
		c, ctx := s.Client(t), context.Background()
		locks, err := lock.New(c, nil)
		require.NoError(t, err)
		defer locks.Close()
		const left = 950 * time.Millisecond // the second look comes after 0.9 to 1 seconds
		for range 1000 {
			require.NoError(t, c.Set(ctx, key("x"), "another", left).Err())
			began := time.Now()
			lease := must(t)(locks.Mutex("x").Lock(ctx))
			require.LessOrEqual(t, time.Since(began), left+100*time.Millisecond)
			require.NoError(t, lease.Release(ctx))
		}
	})
}

// A waiter that looks more often, for a short lease, does not shorten the life of the queue under the others.
func TestAQueueLivesAsLongAsItsWaiters(t *testing.T) {
	t.Parallel()
	redistest.Run(t, func(t *testing.T, s *redistest.Server) {
		c, ctx, name := s.Client(t), context.Background(), redistest.ID()
		lease := mustLock(t, newLocker(t, c, nil).Mutex(name))
		shortly := func() *lock.Mutex {
			return newLocker(t, c, &lock.Options{PollInterval: 100 * time.Millisecond}).Mutex(name).WithTTL(200 * time.Millisecond)
		}
		first := waiting(t, c, shortly(), name, 1)
		redistest.Eventually(t, func() bool {
			left := c.PTTL(ctx, queueKey(name)).Val()
			return 0 < left && left <= 600*time.Millisecond
		}, "it has an expiry from the first on")
		second := waiting(t, c, newLocker(t, c, nil).Mutex(name), name, 2)
		require.Greater(t, c.PTTL(ctx, queueKey(name)).Val(), 5*time.Second)
		third := waiting(t, c, shortly(), name, 3)
		require.Greater(t, c.PTTL(ctx, queueKey(name)).Val(), 5*time.Second)
		require.NoError(t, lease.Release(ctx))
		for range 3 {
			select {
			case lease = <-first:
			case lease = <-second:
			case lease = <-third:
			}
			if err := lease.Release(ctx); !lapsed(lease, err) {
				require.NoError(t, err)
			}
		}
	})
}

// contend lets lockers fight over a name for d, and until each has had it five times, each asking again at once. It returns how
// often each had it.
func contend(t *testing.T, lockers []*lock.Locker, name string, d, hold time.Duration) []int {
	t.Helper()
	counts := make([]atomic.Int64, len(lockers))
	var latest atomic.Pointer[lock.Lease]
	var last atomic.Int64
	var all sync.WaitGroup
	ctx, cancel := context.WithTimeout(context.Background(), d+redistest.Patience)
	defer cancel()
	for i, l := range lockers {
		all.Go(func() {
			for ctx.Err() == nil {
				lease, err := l.Mutex(name).Lock(ctx)
				if err != nil {
					if ctx.Err() == nil {
						t.Error(err)
					}
					continue
				}
				if other := latest.Swap(lease); other.Held() && lease.Held() {
					t.Error("two holders")
				}
				if before := last.Swap(lease.Fence()); lease.Fence() <= before && lease.Held() {
					t.Errorf("fence %d after %d", lease.Fence(), before)
				}
				counts[i].Add(1)
				time.Sleep(hold)
				if err := lease.Release(context.Background()); err != nil && !lapsed(lease, err) {
					t.Error(err)
				}
			}
		})
	}
	for began := time.Now(); ctx.Err() == nil; time.Sleep(5 * time.Millisecond) {
		least := counts[0].Load()
		for i := range counts {
			least = min(least, counts[i].Load())
		}
		if least >= 5 && time.Since(began) >= d {
			break
		}
	}
	cancel()
	all.Wait()
	had := make([]int, len(counts))
	for i := range counts {
		had[i] = int(counts[i].Load())
	}
	return had
}

func TestHandOverIsFairAndCheap(t *testing.T) {
	t.Parallel()
	s := redistest.Real(t)
	name := redistest.ID()
	var lockers []*lock.Locker
	var counters []*redistest.Counter
	for range 8 {
		c := s.Client(t)
		counters = append(counters, redistest.Count(c))
		lockers = append(lockers, newLocker(t, c, nil))
	}
	for i, l := range lockers { // connected, and the scripts loaded
		require.NoError(t, must(t)(l.Mutex(name).Lock(context.Background())).Release(context.Background()))
		counters[i].Reset()
	}
	counts := contend(t, lockers, name, time.Second, 2*time.Millisecond)
	commands, total := 0, 0
	for i, n := range counts {
		commands += len(counters[i].Commands())
		total += n
	}
	t.Logf("%d acquisitions, %.2f commands each, by waiter %v", total, float64(commands)/float64(total), counts)
	require.Greater(t, total, 8)
	require.Less(t, float64(commands)/float64(total), 4.0)
	require.LessOrEqual(t, slices.Max(counts), slices.Min(counts)*3/2+5)
	c := s.Client(t)
	redistest.Eventually(t, func() bool {
		return c.Exists(context.Background(), key(name), queueKey(name)).Val() == 0
	}, "nothing is left but the fence")
}

// A waiter that is dead does not hold up those behind it: its subscription is gone.
func TestDeadHead(t *testing.T) {
	t.Parallel()
	s := redistest.Real(t)
	c, ctx, name := s.Client(t), context.Background(), redistest.ID()
	lease := mustLock(t, newLocker(t, c, nil).Mutex(name))
	p := s.Proxy(t)
	dead := newLocker(t, p.Client(t), nil)
	ended, die := context.WithCancel(ctx)
	go func() { _, _ = dead.Mutex(name).Lock(ended) }()
	redistest.Eventually(t, func() bool { return queued(c, name) == 1 }, "the first waits")
	next := waiting(t, c, newLocker(t, c, nil).Mutex(name), name, 2)
	p.BlackHole(true)
	p.Kill()
	redistest.Eventually(t, func() bool { return listeners(t, c, name) == 1 }, "the server saw it die")
	late, began := redistest.Lateness(t, c), time.Now()
	require.NoError(t, lease.Release(ctx))
	got := <-next
	require.Less(t, time.Since(began), 900*time.Millisecond+3*late(), "at once, rather than after a grant")
	require.NoError(t, got.Release(ctx))
	die()
	p.BlackHole(false)
}

// listeners is how many processes listen for grants of a name.
func listeners(t *testing.T, c *redis.Client, name string) int {
	t.Helper()
	channels, err := c.PubSubChannels(context.Background(), queueKey(name)+":*").Result()
	require.NoError(t, err)
	return len(channels)
}

// A grant whose message is lost is found by the next look.
func TestLostGrant(t *testing.T) {
	t.Parallel()
	s := redistest.Real(t)
	c, ctx, name := s.Client(t), context.Background(), redistest.ID()
	lease := mustLock(t, newLocker(t, c, nil).Mutex(name))
	p := s.Proxy(t)
	locks := newLocker(t, p.Client(t, func(o *redis.Options) { o.ReadTimeout = 2 * time.Second }), &lock.Options{PollInterval: 500 * time.Millisecond})
	got := waiting(t, c, locks.Mutex(name), name, 1)
	p.BlackHole(true) // the message runs into it
	require.NoError(t, lease.Release(ctx))
	require.NotEmpty(t, owner(t, c, name), "granted")
	p.Kill()
	p.BlackHole(false)
	next := <-got
	require.Equal(t, next.Token(), owner(t, c, name))
	require.NoError(t, next.Release(ctx))
}

// The subscription is killed again and again while a lock goes from hand to hand.
func TestSubscriptionsAreKilled(t *testing.T) {
	t.Parallel()
	s, _ := redistest.Own(t)
	c, ctx := s.Client(t), context.Background()
	var lockers []*lock.Locker
	for range 4 {
		lockers = append(lockers, newLocker(t, s.Client(t), &lock.Options{PollInterval: 100 * time.Millisecond}))
	}
	done := make(chan struct{})
	var killer sync.WaitGroup
	killer.Go(func() {
		for {
			select {
			case <-done:
				return
			case <-time.After(20 * time.Millisecond):
				c.ClientKillByFilter(ctx, "TYPE", "pubsub")
			}
		}
	})
	counts := contend(t, lockers, "x", 1500*time.Millisecond, time.Millisecond)
	close(done)
	killer.Wait()
	for _, n := range counts {
		require.Greater(t, n, 0, "%v", counts)
	}
}

// Waiters give up at random instants: nobody holds the lock afterwards, nobody stands in its queue, and never two hold it.
func TestRandomGivingUp(t *testing.T) {
	t.Parallel()
	redistest.Run(t, func(t *testing.T, s *redistest.Server) {
		c, name := s.Client(t), redistest.ID()
		rounds := 60
		if s.Mini != nil {
			rounds = 10
		}
		var acquired atomic.Int32
		var latest atomic.Pointer[lock.Lease]
		var all sync.WaitGroup
		for range 8 {
			locks := newLocker(t, c, nil)
			for range 2 {
				all.Go(func() {
					for range rounds {
						ctx, cancel := context.WithTimeout(context.Background(), rand.N(8*time.Millisecond))
						lease, err := locks.Mutex(name).Lock(ctx)
						cancel()
						if err != nil {
							continue
						}
						if other := latest.Swap(lease); other.Held() && lease.Held() {
							t.Error("two holders")
						}
						acquired.Add(1)
						time.Sleep(rand.N(time.Millisecond))
						if err := lease.Release(context.Background()); err != nil && !lapsed(lease, err) {
							t.Error(err)
						}
					}
				})
			}
		}
		all.Wait()
		t.Logf("%d acquisitions", acquired.Load())
		redistest.Eventually(t, func() bool {
			return c.Exists(context.Background(), key(name), queueKey(name)).Val() == 0
		}, "nothing is left but the fence")
	})
}

// A thousand goroutines on one name are one waiter in Redis.
func TestThousandGoroutines(t *testing.T) {
	t.Parallel()
	s, _ := redistest.Own(t)
	c, ctx := s.Client(t), context.Background()
	waiters := s.Client(t, func(o *redis.Options) { o.PoolSize = 20 })
	n := redistest.Count(waiters)
	locks := newLocker(t, waiters, nil)
	holder := newLocker(t, c, nil)
	lease := mustLock(t, holder.Mutex("x"))
	const many = 1000
	var all sync.WaitGroup
	var acquired atomic.Int32
	begun := make(chan struct{}, many)
	mutex := locks.Mutex("x")
	all.Go(func() { // the first opens the line
		begun <- struct{}{}
		_ = lock.Do(ctx, mutex.Lock, func(context.Context, *lock.Lease) error { acquired.Add(1); return nil })
	})
	redistest.Eventually(t, func() bool { return queued(c, "x") == 1 }, "the first waits")
	for range many - 1 {
		all.Go(func() {
			begun <- struct{}{}
			err := lock.Do(ctx, mutex.Lock, func(context.Context, *lock.Lease) error { acquired.Add(1); return nil })
			if err != nil {
				t.Error(err)
			}
		})
	}
	for range many {
		<-begun
	}
	s.Advance(t, 200*time.Millisecond)
	require.Equal(t, 1, queued(c, "x"))
	require.Less(t, len(n.Commands()), 20, "while they wait")
	n.Reset()
	require.NoError(t, lease.Release(ctx))
	all.Wait()
	require.EqualValues(t, many, acquired.Load())
	t.Logf("%.2f commands an acquisition", float64(len(n.Commands()))/many)
	require.Less(t, len(n.Commands()), 4*many)
	require.Zero(t, c.Exists(ctx, "lock:x", queueKey("x")).Val())
}

// A waiter that heard nothing for longer than its grant lasts takes no late grant.
func TestLateGrantIsNone(t *testing.T) {
	t.Parallel()
	s := redistest.Real(t)
	c, ctx, name := s.Client(t), context.Background(), redistest.ID()
	lease := mustLock(t, newLocker(t, c, nil).Mutex(name))
	p := s.Proxy(t)
	hole := newLocker(t, p.Client(t, func(o *redis.Options) { o.ReadTimeout = 10 * time.Second }), nil)
	got := waiting(t, c, hole.Mutex(name).WithTTL(800*time.Millisecond), name, 1) // whose grant is as long
	p.BlackHole(true)
	require.NoError(t, lease.Release(ctx))
	require.NotEmpty(t, owner(t, c, name), "granted to the one in the hole")
	other, err := newLocker(t, c, nil).Mutex(name).Lock(ctx)
	require.NoError(t, err, "after the grant")
	p.BlackHole(false) // and the message arrives
	select {
	case late := <-got:
		require.Failf(t, "two holders", "fences %d and %d", other.Fence(), late.Fence())
	case <-time.After(300 * time.Millisecond):
	}
	require.True(t, other.Held())
	require.NoError(t, other.Release(ctx))
	next := <-got
	require.Greater(t, next.Fence(), other.Fence())
	_ = next.Release(ctx)
}

// Without PUBLISH, or without SUBSCRIBE, a wait still ends, by looking.
func TestForbiddenCommands(t *testing.T) {
	t.Parallel()
	for _, command := range []string{"publish", "subscribe", "pubsub"} {
		t.Run(command, func(t *testing.T) {
			t.Parallel()
			s, _ := redistest.Own(t)
			c, ctx := s.Client(t), context.Background()
			require.NoError(t, c.Do(ctx, "acl", "setuser", "default", "-"+command).Err())
			lease := mustLock(t, newLocker(t, c, nil).Mutex("x"))
			got := make(chan *lock.Lease)
			go func() {
				next, err := newLocker(t, c, nil).Mutex("x").Lock(ctx)
				if err != nil {
					t.Error(err)
				}
				got <- next
			}()
			s.Advance(t, 100*time.Millisecond)
			require.NoError(t, lease.Release(ctx))
			began := time.Now()
			next := <-got
			require.Less(t, time.Since(began), 20*time.Second)
			require.NoError(t, next.Release(ctx))
		})
	}
}

// Errors of Redis are ridden out for a TTL during a wait; the first attempt's error is returned at once.
func TestErrorsDuringAWait(t *testing.T) {
	t.Parallel()
	virtual(t, nil, func(t *testing.T, s *redistest.Server, locks *lock.Locker) {
		ctx := context.Background()
		lease := mustLock(t, locks.Mutex("x"))
		got := make(chan error)
		go func() {
			next, err := locks.Mutex("x").Lock(ctx)
			if err == nil {
				err = next.Release(ctx)
			}
			got <- err
		}()
		redistest.Sleep(time.Second)
		s.Mini.SetError("ERR out of order")
		redistest.Sleep(5 * time.Second)
		s.Mini.SetError("")
		redistest.Sleep(2 * time.Second)
		require.NoError(t, lease.Release(ctx))
		require.NoError(t, <-got)

		lease = mustLock(t, locks.Mutex("y"))
		go func() {
			_, err := locks.Mutex("y").Lock(ctx)
			got <- err
		}()
		redistest.Sleep(time.Second)
		s.Mini.SetError("ERR out of order")
		began := time.Now()
		err := <-got
		require.ErrorContains(t, err, "out of order")
		require.NotErrorIs(t, err, lock.ErrNotAcquired)
		require.InDelta(t, 10*time.Second, time.Since(began), float64(3*time.Second))
		_, err = locks.Mutex("z").Lock(ctx)
		require.ErrorContains(t, err, "out of order")
		_, err = locks.Mutex("x").Lock(ctx)
		require.ErrorContains(t, err, "out of order", "where a line is still open, too")
		s.Mini.SetError("")
		_ = lease.Release(ctx)
	})
}

// The waiter of a closed Locker leaves the queue.
func TestCloseLeavesTheQueue(t *testing.T) {
	t.Parallel()
	redistest.Run(t, func(t *testing.T, s *redistest.Server) {
		c, ctx, name := s.Client(t), context.Background(), redistest.ID()
		lease := mustLock(t, newLocker(t, c, nil).Mutex(name))
		locks := newLocker(t, c, nil)
		got := make(chan error)
		for range 3 {
			go func() {
				_, err := locks.Mutex(name).Lock(ctx)
				got <- err
			}()
		}
		redistest.Eventually(t, func() bool { return queued(c, name) == 1 }, "they wait")
		require.NoError(t, locks.Close())
		for range 3 {
			require.ErrorIs(t, <-got, lock.ErrClosed)
		}
		require.Zero(t, queued(c, name))
		require.NoError(t, lease.Release(ctx))
	})
}

// A waiter does not shorten its wait to the TTL, and asks little.
func TestLongWait(t *testing.T) {
	t.Parallel()
	redistest.Virtual(t, func(t *testing.T, s *redistest.Server) {
		ctx, c := context.Background(), s.Client(t)
		holder, err := lock.New(s.Client(t), nil)
		require.NoError(t, err)
		defer holder.Close()
		lease := mustLock(t, holder.Mutex("x"))
		n := redistest.Count(c)
		locks, err := lock.New(c, nil)
		require.NoError(t, err)
		defer locks.Close()
		got := make(chan error)
		go func() {
			next, err := locks.Mutex("x").WithTTL(time.Second).Lock(ctx)
			if err == nil {
				err = next.Release(ctx)
			}
			got <- err
		}()
		redistest.Sleep(100 * time.Second)
		require.LessOrEqual(t, len(n.Commands()), 250, "two looks a second, since its grant is one")
		began := time.Now()
		require.NoError(t, lease.Release(ctx))
		require.NoError(t, <-got)
		require.Less(t, time.Since(began), 10*time.Millisecond)
	})
}
