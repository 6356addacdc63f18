package lock_test

import (
	"context"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redispatterns/redispatterns/internal/redistest"
	"github.com/redispatterns/redispatterns/lock"
)

// In the instant of a release something happens to the waiter that is next. Again and again: the next holder has the lock
// within a PollInterval, nobody has it beside another, and each has it once.
func TestInTheInstantOfARelease(t *testing.T) {
	t.Parallel()
	const poll = 300 * time.Millisecond
	rounds := 15
	if redistest.Long() > 3*time.Second {
		rounds = 200
	}
	for kind, happens := range map[string]func(t *testing.T, s *redistest.Server, giveUp func()){
		"every subscription is killed": func(t *testing.T, s *redistest.Server, _ func()) {
			_ = s.Client(t).ClientKillByFilter(context.Background(), "TYPE", "pubsub").Err()
		},
		"the head gives up": func(_ *testing.T, _ *redistest.Server, giveUp func()) { giveUp() },
		"both": func(t *testing.T, s *redistest.Server, giveUp func()) {
			giveUp()
			_ = s.Client(t).ClientKillByFilter(context.Background(), "TYPE", "pubsub").Err()
		},
		"scripts are flushed": func(t *testing.T, s *redistest.Server, _ func()) {
			_ = s.Client(t).ScriptFlush(context.Background()).Err()
		},
	} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			s, _ := redistest.Own(t)
			c, ctx := s.Client(t), context.Background()
			lockers := make([]*lock.Locker, 2)
			for i := range lockers {
				lockers[i] = newLocker(t, s.Client(t), &lock.Options{PollInterval: poll})
			}
			holder := newLocker(t, c, nil).Mutex("x")
			late := redistest.Lateness(t, c)
			worst := time.Duration(0)
			for range rounds {
				lease := mustLock(t, holder)
				type got struct {
					lease *lock.Lease
					err   error
				}
				out := make(chan got, 2)
				waits, giveUp := context.WithCancel(ctx)
				go func() {
					lease, err := lockers[0].Mutex("x").Lock(waits)
					out <- got{lease, err}
				}()
				redistest.Eventually(t, func() bool { return queued(c, "x") == 1 }, "the head waits")
				go func() {
					lease, err := lockers[1].Mutex("x").Lock(ctx)
					out <- got{lease, err}
				}()
				redistest.Eventually(t, func() bool { return queued(c, "x") == 2 }, "and one behind it")

				var both sync.WaitGroup
				both.Go(func() {
					time.Sleep(rand.N(time.Millisecond))
					happens(t, s, giveUp)
				})
				time.Sleep(rand.N(time.Millisecond))
				released := time.Now()
				require.NoError(t, lease.Release(ctx))
				both.Wait()
				served := 0
				for range 2 { // in any order: whose subscription was gone has lost its place
					next, had := <-out, time.Now()
					if next.err != nil {
						require.ErrorIs(t, next.err, context.Canceled)
						continue
					}
					require.Greater(t, next.lease.Fence(), lease.Fence(), "nobody has it twice")
					require.True(t, next.lease.Held())
					require.Equal(t, next.lease.Token(), owner(t, c, "x"), "nor beside another")
					if served++; served == 1 {
						worst = max(worst, had.Sub(released))
					}
					lease = next.lease
					require.NoError(t, lease.Release(ctx))
				}
				giveUp()
				require.GreaterOrEqual(t, served, 1)
				redistest.Eventually(t, func() bool { return c.Exists(ctx, key("x"), queueKey("x")).Val() == 0 }, "nobody has it or waits")
			}
			slack := late()
			t.Logf("the next had it after %v at worst; this machine was late by up to %v", worst, slack)
			require.Less(t, worst, poll+20*time.Millisecond+3*slack)
			onlyFences(t, c)
		})
	}
}
