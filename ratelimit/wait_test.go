package ratelimit_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redispatterns/redispatterns/internal/redistest"
	"github.com/redispatterns/redispatterns/ratelimit"
)

// virtually runs fn for every algorithm in virtual time.
func virtually(t *testing.T, fn func(t *testing.T, s *redistest.Server, build constructor)) {
	for name, build := range algorithms {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			redistest.Virtual(t, func(t *testing.T, s *redistest.Server) { fn(t, s, build) })
		})
	}
}

func TestWait(t *testing.T) {
	t.Parallel()
	virtually(t, func(t *testing.T, s *redistest.Server, build constructor) {
		l := must(t)(build(s.Client(t), ratelimit.PerSecond(5), nil))
		began := time.Now()
		for range 20 {
			r, err := l.Wait(ctx, "u")
			require.NoError(t, err)
			require.True(t, r.Allowed)
		}
		took := time.Since(began)
		require.GreaterOrEqual(t, took, 2*time.Second, "20 at 5 a second, the first 5 at once, and perhaps a window's edge")
		require.LessOrEqual(t, took, 8*time.Second)
	})
}

// Who comes first is served first.
func TestWaitersStandInLine(t *testing.T) {
	t.Parallel()
	virtually(t, func(t *testing.T, s *redistest.Server, build constructor) {
		l := must(t)(build(s.Client(t), ratelimit.PerSecond(2), nil))
		var mu sync.Mutex
		var served []int
		var wg sync.WaitGroup
		for i := range 12 {
			wg.Go(func() {
				if _, err := l.WaitN(ctx, "u", int64(1+i%2)); err != nil {
					t.Error(err)
				}
				mu.Lock()
				served = append(served, i)
				mu.Unlock()
			})
			redistest.Sleep(time.Millisecond) // he stands in line
		}
		wg.Wait()
		for i, who := range served {
			require.Equal(t, i, who, "%v", served)
		}
	})
}

// When Redis cannot answer, the policy decides whether a wait ends.
func TestWaitWhenRedisCannotAnswer(t *testing.T) {
	t.Parallel()
	virtually(t, func(t *testing.T, s *redistest.Server, build constructor) {
		s.Mini.SetError("ERR broken")
		wait := func(policy ratelimit.FailurePolicy, ctx context.Context) (ratelimit.Result, error) {
			l := must(t)(build(s.Client(t), ratelimit.PerHour(4), &ratelimit.Options{OnFailure: policy}))
			return l.Wait(ctx, "u")
		}
		began := time.Now()
		_, err := wait(ratelimit.FailWithError, ctx)
		require.ErrorIs(t, err, ratelimit.ErrUnavailable)
		r, err := wait(ratelimit.FailOpen, ctx)
		require.NoError(t, err)
		require.True(t, r.Allowed)
		require.Equal(t, began, time.Now(), "at once")

		soon, cancel := context.WithTimeout(ctx, 10*time.Second)
		defer cancel()
		_, err = wait(ratelimit.FailClosed, soon)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.NotErrorIs(t, err, ratelimit.ErrUnavailable)
		require.Greater(t, time.Since(began), 9*time.Second, "it went on waiting")

		time.AfterFunc(5*time.Second, func() { s.Mini.SetError("") })
		r, err = wait(ratelimit.FailClosed, ctx)
		require.NoError(t, err)
		require.Equal(t, ratelimit.ReasonAllowed, r.Reason, "until there was an answer")
	})
}

func TestWaitEndsAtOnceWhereItIsInVain(t *testing.T) {
	t.Parallel()
	virtually(t, func(t *testing.T, s *redistest.Server, build constructor) {
		l := must(t)(build(s.Client(t), ratelimit.PerHour(4), nil))
		began := time.Now()
		_, err := l.WaitN(ctx, "u", 5)
		require.ErrorIs(t, err, ratelimit.ErrCost)
		take(t, l, "u", 3)
		before := peek(t, l, "u").Remaining

		soon, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		r, err := l.WaitN(soon, "u", 3)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.False(t, r.Allowed)
		require.Equal(t, began, time.Now(), "at once")
		require.Equal(t, before, peek(t, l, "u").Remaining, "a wait in vain takes nothing")

		_, err = l.WaitN(ctx, "u", 0)
		require.ErrorContains(t, err, "n is 0")
		_, err = l.Wait(ctx, "")
		require.ErrorIs(t, err, ratelimit.ErrInvalidID)

		// A cancelled waiter leaves, the head and those behind it alike.
		cancelled, cancelNow := context.WithCancel(ctx)
		errs := make(chan error)
		for range 3 {
			go func() {
				_, err := l.WaitN(cancelled, "u", 4)
				errs <- err
			}()
		}
		synctest.Wait()
		cancelNow()
		for range 3 {
			require.ErrorIs(t, <-errs, context.Canceled)
		}
		_, err = l.Wait(soon, "u")
		require.NoError(t, err, "the line is free")
	})
}

// A pause so long that a tenth more of it is beyond what a time.Duration can say is still a pause.
func TestWaitForCenturies(t *testing.T) {
	t.Parallel()
	redistest.Virtual(t, func(t *testing.T, s *redistest.Server) {
		c := s.Client(t)
		l := must(t)(ratelimit.NewTokenBucket(c, ratelimit.Limit{Events: 1000, Per: 100 * 365 * 24 * time.Hour, Burst: 2850}, calm))
		require.True(t, take(t, l, "u", 2850).Allowed)
		sent := redistest.Count(c)
		for range 10 {
			waiting, cancel := context.WithCancel(ctx)
			done := make(chan error)
			go func() {
				_, err := l.WaitN(waiting, "u", 2850)
				done <- err
			}()
			redistest.Sleep(time.Second)
			cancel()
			require.ErrorIs(t, <-done, context.Canceled)
			require.Equal(t, 1, sent.Trips(), "it asks again in 285 years")
			sent.Reset()
		}
	})
}
