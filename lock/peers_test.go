package lock_test

import (
	"context"
	"net"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/redispatterns/redispatterns"
	"github.com/redispatterns/redispatterns/internal/redistest"
	"github.com/redispatterns/redispatterns/lock"
)

// What users of other locks on Redis have reported.

// subscribing does something in the instant before a subscription.
type subscribing struct {
	redispatterns.Client
	before func()
}

func (s *subscribing) Subscribe(ctx context.Context, channels ...string) *redis.PubSub {
	s.before()
	return s.Client.Subscribe(ctx, channels...)
}

// The lock is released after the attempt that was refused and before the waiter listens: it does not wait for its timer.
func TestReleasedBeforeTheWaiterListens(t *testing.T) {
	t.Parallel()
	redistest.Virtual(t, func(t *testing.T, s *redistest.Server) {
		ctx := context.Background()
		holder, err := lock.New(s.Client(t), nil)
		require.NoError(t, err)
		defer holder.Close()
		lease := mustLock(t, holder.Mutex("x"))
		released := false
		locks, err := lock.New(&subscribing{s.Client(t), func() {
			require.NoError(t, lease.Release(ctx))
			released = true
		}}, nil)
		require.NoError(t, err)
		defer locks.Close()
		began := time.Now()
		next := must(t)(locks.Mutex("x").Lock(ctx))
		require.True(t, released)
		require.Less(t, time.Since(began), 50*time.Millisecond)
		require.NoError(t, next.Release(ctx))
	})
}

// A release failed. The same process has the lock no more, and waits for its old key as everybody does.
func TestAFailedReleaseIsNoReentry(t *testing.T) {
	t.Parallel()
	breaking(t, func(t *testing.T, c *breakable, locks, _ *lock.Locker) {
		ctx, m, began := context.Background(), locks.Mutex("x"), time.Now()
		lease := mustLock(t, m)
		c.fault.Store(&down)
		var network net.Error
		require.ErrorAs(t, lease.Release(ctx), &network)
		c.fault.Store(nil)
		next, err := m.TryLock(ctx)
		require.Equal(t, lease.Token(), refused(t, next, err).Owner)
		next = must(t)(m.Lock(ctx))
		require.InDelta(t, 10*time.Second, time.Since(began), float64(100*time.Millisecond), "when the old key lapses")
		require.ErrorIs(t, lease.Release(ctx), lock.ErrLost)
		require.True(t, next.Held())
		require.NoError(t, next.Release(ctx))
	})
}

// A permit lapses in Redis and another takes its place: to release the first frees nothing, and says so.
func TestALapsedPermitFreesNothing(t *testing.T) {
	t.Parallel()
	redistest.Run(t, func(t *testing.T, s *redistest.Server) {
		c, ctx, name := s.Client(t), context.Background(), redistest.ID()
		locks := newLocker(t, c, &lock.Options{TTL: time.Minute})
		sem := locks.Semaphore(name, 1)
		inUse := func(want int) {
			t.Helper()
			n, err := sem.InUse(ctx)
			require.NoError(t, err)
			require.Equal(t, want, n)
		}
		first := must(t)(sem.TryAcquire(ctx))
		member := c.ZRange(ctx, key(name), 0, 0).Val()[0]
		require.NoError(t, c.ZAddXX(ctx, key(name), redis.Z{Score: float64(s.Now(t).UnixMilli() - 1), Member: member}).Err())
		inUse(0)
		second := must(t)(sem.TryAcquire(ctx))
		require.True(t, first.Held(), "its process has not noticed")
		require.ErrorIs(t, first.Release(ctx), lock.ErrLost)
		inUse(1)
		lease, err := sem.TryAcquire(ctx)
		refused(t, lease, err)
		require.NoError(t, second.Release(ctx))
		inUse(0)
	})
}

// The queue is deleted under its waiters. Each still gets the lock, once, and one after the other.
func TestTheQueueIsDeletedUnderItsWaiters(t *testing.T) {
	t.Parallel()
	redistest.Run(t, func(t *testing.T, s *redistest.Server) {
		c, ctx, name := s.Client(t), context.Background(), redistest.ID()
		last := mustLock(t, newLocker(t, c, nil).Mutex(name))
		got := make(chan *lock.Lease, 2)
		for i := range cap(got) {
			one := waiting(t, c, newLocker(t, c, &lock.Options{PollInterval: 100 * time.Millisecond}).Mutex(name), name, i+1)
			go func() { got <- <-one }()
		}
		require.NoError(t, c.Del(ctx, queueKey(name)).Err())
		require.NoError(t, last.Release(ctx))
		for range cap(got) {
			next := <-got
			require.Greater(t, next.Fence(), last.Fence())
			require.Equal(t, next.Token(), owner(t, c, name))
			require.Empty(t, got, "nobody else has it")
			require.NoError(t, next.Release(ctx))
			last = next
		}
		require.Zero(t, c.Exists(ctx, key(name), queueKey(name)).Val())
	})
}

// deadWaiters stand in a queue from now on, as those of processes that have just died.
func deadWaiters(t *testing.T, c *redis.Client, name string, now time.Time, n int, listened bool) {
	t.Helper()
	alive := now.Add(3*time.Second).UnixMilli() * 2
	if listened {
		alive++
	}
	for i := range n {
		dead := uuid.NewString() + "02000" + "DEADPROCESS" + string(rune('A'+i)) + "DEAD"
		require.NoError(t, c.ZAdd(context.Background(), queueKey(name), redis.Z{Score: float64(now.UnixMicro() + int64(i)), Member: dead},
			redis.Z{Score: float64(alive), Member: "~" + dead}).Err())
	}
}

// Five dead waiters at the head of the queue: a release passes over those whose subscription it saw and sees no more.
func TestManyDeadHeads(t *testing.T) {
	t.Parallel()
	s := redistest.Real(t)
	c, ctx, name := s.Client(t), context.Background(), redistest.ID()
	lease := mustLock(t, newLocker(t, c, nil).Mutex(name))
	deadWaiters(t, c, name, s.Now(t), 5, true)
	got := waiting(t, c, newLocker(t, c, nil).Mutex(name), name, 6)
	require.NoError(t, lease.Release(ctx))
	has := owner(t, c, name)
	next := <-got
	require.Equal(t, next.Token(), has, "at once, and no grant of a dead one before it")
	require.NoError(t, next.Release(ctx))
	require.Zero(t, c.Exists(ctx, key(name), queueKey(name)).Val())
}

// Where nobody can say whether they live, they cost a grant until they count as dead, all together and not each.
func TestManyDeadHeadsElsewhere(t *testing.T) {
	t.Parallel()
	redistest.Virtual(t, func(t *testing.T, s *redistest.Server) {
		ctx, c := context.Background(), s.Client(t)
		holder, err := lock.New(c, nil)
		require.NoError(t, err)
		defer holder.Close()
		lease := mustLock(t, holder.Mutex("x"))
		deadWaiters(t, c, "x", time.Now(), 5, false)
		locks, err := lock.New(s.Client(t), nil)
		require.NoError(t, err)
		defer locks.Close()
		got := make(chan *lock.Lease)
		go func() { got <- must(t)(locks.Mutex("x").Lock(ctx)) }()
		redistest.Sleep(100 * time.Millisecond)
		require.Equal(t, 6, queued(c, "x"))
		require.NoError(t, lease.Release(ctx))
		began := time.Now()
		for next := <-got; ; next = must(t)(locks.Mutex("x").Lock(ctx)) {
			require.Less(t, time.Since(began), 6*time.Second, "the life of one of them, a grant and a look")
			require.NoError(t, next.Release(ctx))
			if queued(c, "x") == 0 {
				break
			}
		}
		require.False(t, s.Mini.Exists(queueKey("x")))
	})
}

// looks records when a client asks for a lock.
type looks struct {
	redispatterns.Client
	mu *sync.Mutex
	at *[]time.Time
}

func (l looks) Process(ctx context.Context, cmd redis.Cmder) error {
	l.mu.Lock()
	*l.at = append(*l.at, time.Now())
	l.mu.Unlock()
	return l.Client.Process(ctx, cmd)
}

// Processes that began to wait together, as after a restart of them all, do not go on to ask together.
func TestLooksSpreadOut(t *testing.T) {
	t.Parallel()
	for kind, acquire := range map[string]func(*lock.Locker) func(context.Context) (*lock.Lease, error){
		"mutex":  func(l *lock.Locker) func(context.Context) (*lock.Lease, error) { return l.Mutex("x").Lock },
		"reader": reader,
		"permit": permit,
	} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			redistest.Virtual(t, func(t *testing.T, s *redistest.Server) {
				const processes = 50
				ctx, cancel := context.WithCancel(context.Background())
				defer cancel()
				holder, err := lock.New(s.Client(t), &lock.Options{TTL: time.Hour})
				require.NoError(t, err)
				defer holder.Close()
				lease := mustLock(t, holder.Mutex("x"))
				var mu sync.Mutex
				var at []time.Time
				var all sync.WaitGroup
				for range processes {
					locks, err := lock.New(looks{s.Client(t), &mu, &at}, nil)
					require.NoError(t, err)
					defer locks.Close()
					all.Go(func() {
						if _, err := acquire(locks)(ctx); !errorIs(err, lock.ErrNotAcquired) {
							t.Error(err)
						}
					})
				}
				redistest.Sleep(time.Minute)
				mu.Lock()
				at = nil
				mu.Unlock()
				redistest.Sleep(10 * time.Second)
				mu.Lock()
				most := 0
				for i := range at {
					n, _ := slices.BinarySearchFunc(at[i:], at[i].Add(5*time.Millisecond), time.Time.Compare)
					most = max(most, n)
				}
				t.Logf("%d looks, at most %d within 5ms", len(at), most)
				require.Greater(t, len(at), 5*processes)
				mu.Unlock()
				cancel()
				all.Wait()
				require.Less(t, most, processes/2)
				require.NoError(t, lease.Release(context.Background()))
			})
		})
	}
}

// One node of five restarts empty. The lease holds, and nobody else gets a majority.
func TestQuorumWithAWipedNode(t *testing.T) {
	t.Parallel()
	breakingQuorum(t, 5, func(t *testing.T, nodes []*breakable, servers []*redistest.Server, locks *lock.Locker) {
		ctx := context.Background()
		nodes[3].fault.Store(&down)
		nodes[4].fault.Store(&down)
		lease := mustLock(t, locks.Mutex("x"))
		redistest.Sleep(time.Second)
		require.Equal(t, 3, holding(servers), "a bare majority")
		nodes[3].fault.Store(nil)
		nodes[4].fault.Store(nil)
		redistest.Sleep(4 * time.Second)
		require.Equal(t, 5, holding(servers), "its renewal took those that were away")

		var clients []redispatterns.Client
		for _, node := range nodes {
			clients = append(clients, node.Client)
		}
		other, err := lock.NewQuorum(nil, clients...)
		require.NoError(t, err)
		defer other.Close()
		for i := range servers {
			servers[i].Mini.FlushAll()
			for range 20 {
				stolen, err := other.Mutex("x").TryLock(ctx)
				refused(t, stolen, err)
				redistest.Sleep(500 * time.Millisecond)
			}
			require.True(t, lease.Held())
		}
		require.NoError(t, lease.Release(ctx))
		require.NoError(t, must(t)(other.Mutex("x").TryLock(ctx)).Release(ctx))
		redistest.Sleep(time.Second)
	})
}

// Each reader's own place is renewed.
func TestReadersAreRenewed(t *testing.T) {
	t.Parallel()
	redistest.Virtual(t, func(t *testing.T, s *redistest.Server) {
		ctx := context.Background()
		var readers []*lock.Lease
		for range 2 {
			locks, err := lock.New(s.Client(t), nil)
			require.NoError(t, err)
			defer locks.Close()
			readers = append(readers, must(t)(locks.RWMutex("x").RLock(ctx)))
		}
		redistest.Sleep(30 * time.Second)
		for _, reader := range readers {
			isLeft(t, reader, 10*time.Second)
		}
		for _, reader := range readers {
			require.NoError(t, reader.Release(ctx))
		}
		require.False(t, s.Mini.Exists("lock:x"))
	})
}
