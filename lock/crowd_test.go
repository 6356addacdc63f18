package lock_test

import (
	"context"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/redispatterns/redispatterns"
	"github.com/redispatterns/redispatterns/internal/redistest"
	"github.com/redispatterns/redispatterns/lock"
)

// What a process costs that waits for many names: one goroutine for each name beside its callers, one connection beside
// the client's pool, and a look at each name once a second.
const (
	crowd             = 1000
	crowdPool         = 20             // of the client
	crowdConnections  = crowdPool + 1  // the one that hears of grants
	crowdGoroutines   = 2*crowd + 50   // a caller and a line for each name; the rest is the client's
	crowdCommands     = 2 * crowd      // to begin to wait: an attempt, and a look once the subscription is confirmed
	crowdPerSecond    = 2 * crowd      // while they wait
	crowdPerHandOver  = 4              // from the release to the next holder's release
	singleConnections = crowdPool + 1  // the same where they all wait for one name
	singleGoroutines  = crowd + 1 + 50 // the callers, and one line
	singlePerSecond   = 2              // one look a second
	singlePerTurn     = crowdPerHandOver
)

// A thousand names are waited for at a time, and then a thousand goroutines wait for one name. Not parallel: it counts the
// goroutines of the process.
func TestACrowdIsCheap(t *testing.T) {
	s, _ := redistest.Own(t)
	c, ctx := s.Client(t), context.Background()
	// A script that is not loaded costs each of a crowd a trip more, since all have asked before the first has loaded it.
	warm := newLocker(t, c, nil)
	lease := mustLock(t, warm.Mutex("warm"))
	got := waiting(t, c, warm.Mutex("warm"), "warm", 1)
	require.NoError(t, lease.Release(ctx))
	require.NoError(t, (<-got).Release(ctx))
	require.NoError(t, warm.Close())
	for _, kind := range []struct {
		name                                         string
		names                                        int
		connections, goroutines, begin, second, turn int
	}{
		{"a thousand names", crowd, crowdConnections, crowdGoroutines, crowdCommands, crowdPerSecond, crowdPerHandOver},
		{"one name", 1, singleConnections, singleGoroutines, crowdCommands, singlePerSecond, singlePerTurn},
	} {
		t.Run(kind.name, func(t *testing.T) {
			holder := newLocker(t, c, &lock.Options{NoRenew: true, TTL: time.Minute})
			leases := make([]*lock.Lease, kind.names)
			for i := range leases {
				leases[i] = mustLock(t, holder.Mutex(strconv.Itoa(i)))
			}
			goroutines := runtime.NumGoroutine()
			crowded := s.Client(t, func(o *redis.Options) { o.ClientName, o.PoolSize, o.ReadTimeout = "crowd", crowdPool, 10*time.Second })
			n, began := redistest.Count(crowded), time.Now()
			locks := newLocker(t, crowded, nil)
			var all sync.WaitGroup
			for i := range crowd {
				all.Go(func() {
					var held *lock.Lease
					err := lock.Do(ctx, locks.Mutex(strconv.Itoa(i%kind.names)).Lock, func(_ context.Context, lease *lock.Lease) error {
						held = lease
						return nil
					})
					if err != nil && !(held != nil && lapsed(held, err)) {
						t.Error(err)
					}
				})
			}
			redistest.Eventually(t, func() bool {
				return len(channels(t, c, "*~q:*")) == kind.names && inQueues(c, kind.names) == kind.names
			}, "all wait")
			begun := len(n.Commands())
			require.LessOrEqual(t, float64(begun), float64(kind.begin)+float64(kind.second)*time.Since(began).Seconds(), "commands to begin with")
			n.Reset()
			began = time.Now()
			s.Advance(t, 1500*time.Millisecond)
			seconds := time.Since(began).Seconds()
			looks := float64(len(n.Commands())) / seconds
			require.LessOrEqual(t, looks, float64(kind.second), "commands a second")
			open, running := strings.Count(c.ClientList(ctx).Val(), " name=crowd "), runtime.NumGoroutine()-goroutines
			require.LessOrEqual(t, open, kind.connections, "connections")
			require.LessOrEqual(t, running, kind.goroutines, "goroutines")

			n.Reset()
			began = time.Now()
			for _, lease := range leases {
				require.NoError(t, lease.Release(ctx))
			}
			all.Wait()
			turns := (float64(len(n.Commands())) - float64(kind.second)*time.Since(began).Seconds()) / crowd // who waits longer looks more often
			t.Logf("%d commands to begin with and %.0f a second, %.2f an acquisition; %d connections, %d goroutines",
				begun, looks, turns, open, running)
			require.LessOrEqual(t, turns, float64(kind.turn), "commands an acquisition")

			require.NoError(t, locks.Close())
			require.NoError(t, holder.Close())
			require.NoError(t, crowded.Close())
			redistest.Eventually(t, func() bool { return len(channels(t, c, "*")) == 0 }, "no channel is left")
			redistest.Eventually(t, func() bool { return runtime.NumGoroutine() <= goroutines }, "no goroutine is left")
			onlyFences(t, c)
		})
	}
}

// Without Close, too, a subscription ends some seconds after the last waiter, and so does its line.
func TestALineLingersForSomeSeconds(t *testing.T) {
	t.Parallel()
	s, _ := redistest.Own(t)
	c, ctx := s.Client(t), context.Background()
	lease := mustLock(t, newLocker(t, c, nil).Mutex("x"))
	got := waiting(t, c, newLocker(t, s.Client(t), nil).Mutex("x"), "x", 1)
	require.NoError(t, lease.Release(ctx))
	require.NoError(t, (<-got).Release(ctx))
	require.NotEmpty(t, channels(t, c, "*"), "the next to wait finds it")
	redistest.Eventually(t, func() bool { return len(channels(t, c, "*")) == 0 }, "nobody listens any more")
	onlyFences(t, c)
}

func channels(t *testing.T, c *redis.Client, pattern string) []string {
	t.Helper()
	channels, err := c.PubSubChannels(context.Background(), pattern).Result()
	require.NoError(t, err)
	return channels
}

// inQueues is how many waiters stand in the queues of the first so many names.
func inQueues(c *redis.Client, names int) int {
	total := 0
	cmds, _ := c.Pipelined(context.Background(), func(p redis.Pipeliner) error {
		for i := range names {
			p.ZCard(context.Background(), queueKey(strconv.Itoa(i)))
		}
		return nil
	})
	for _, cmd := range cmds {
		total += int(cmd.(*redis.IntCmd).Val() / 2)
	}
	return total
}

// onlyFences holds that a server of this test alone keeps nothing but fences, each with a TTL.
func onlyFences(t *testing.T, c *redis.Client) {
	t.Helper()
	ctx := context.Background()
	for keys := c.Scan(ctx, 0, "*", 1000).Iterator(); keys.Next(ctx); {
		require.True(t, strings.HasSuffix(keys.Val(), "~f"), keys.Val())
		require.Greater(t, c.PTTL(ctx, keys.Val()).Val(), time.Duration(0), keys.Val())
	}
}

// How often a waiter asks while nothing happens, on average, whatever the length of the leases.
func TestAWaiterAsksSeldom(t *testing.T) {
	t.Parallel()
	for kind, test := range map[string]struct {
		opts      *lock.Options
		ring      bool
		acquire   func(locks *lock.Locker) func(context.Context) (*lock.Lease, error)
		perSecond float64
	}{
		"mutex":               {perSecond: 1.1},
		"mutex, short leases": {opts: &lock.Options{TTL: 300 * time.Millisecond}, perSecond: 7.5}, // two looks a grant, which is as long
		"mutex, rare looks":   {opts: &lock.Options{PollInterval: 10 * time.Second, TTL: time.Minute}, perSecond: 1.1},
		"reader":              {acquire: reader, perSecond: 6},
		"permit":              {acquire: permit, perSecond: 6},
		"mutex on a Ring":     {ring: true, perSecond: 9},
	} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			redistest.Virtual(t, func(t *testing.T, s *redistest.Server) {
				holder, err := lock.New(s.Client(t), &lock.Options{TTL: time.Hour})
				require.NoError(t, err)
				defer holder.Close()
				lease := mustLock(t, holder.Mutex("x"))

				plain := s.Client(t)
				n := redistest.Count(plain)
				var client redispatterns.Client = plain
				if test.ring {
					ring := redis.NewRing(&redis.RingOptions{
						Addrs: map[string]string{"a": "127.0.0.1:6379"}, HeartbeatFrequency: time.Hour,
						NewClient: func(*redis.Options) *redis.Client { return plain },
					})
					defer ring.Close()
					client = ring
				}
				locks, err := lock.New(client, test.opts)
				require.NoError(t, err)
				defer locks.Close()
				acquire := locks.Mutex("x").Lock
				if test.acquire != nil {
					acquire = test.acquire(locks)
				}
				got := make(chan error)
				go func() {
					got <- lock.Do(context.Background(), acquire, func(context.Context, *lock.Lease) error { return nil })
				}()
				redistest.Sleep(time.Second)
				n.Reset()
				const seconds = 100
				redistest.Sleep(seconds * time.Second)
				perSecond := float64(len(n.Commands())) / seconds
				t.Logf("%.2f a second", perSecond)
				require.Greater(t, perSecond, 0.05, "it does ask")
				require.Less(t, perSecond, test.perSecond)
				require.NoError(t, lease.Release(context.Background()))
				require.NoError(t, <-got)
			})
		})
	}
}

func reader(locks *lock.Locker) func(context.Context) (*lock.Lease, error) {
	return locks.RWMutex("x").RLock
}

func permit(locks *lock.Locker) func(context.Context) (*lock.Lease, error) {
	return locks.Semaphore("x", 2).Acquire
}
