package ratelimit_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/redispatterns/redispatterns/internal/redistest"
	"github.com/redispatterns/redispatterns/ratelimit"
)

func TestDenyCacheSparesTheTrips(t *testing.T) {
	t.Parallel()
	virtually(t, func(t *testing.T, s *redistest.Server, build constructor) {
		var p plan
		opts := p.options()
		opts.DenyCache = 100
		c := s.Client(t)
		l := must(t)(build(c, ratelimit.PerHour(900), opts))
		take(t, l, "u", 900)
		first := take(t, l, "u", 3)
		require.False(t, first.Allowed)
		sent := redistest.Count(c)
		for i := range 100 {
			r := take3(t, l, "u")
			require.Equal(t, ratelimit.ReasonDenyCache, r.Reason)
			require.Equal(t, first.RetryAfter-time.Duration(i)*time.Millisecond, r.RetryAfter, "it goes on counting")
			redistest.Sleep(time.Millisecond)
		}
		require.Zero(t, sent.Trips())

		trips := func(why string, want int, call func()) {
			t.Helper()
			sent.Reset()
			call()
			require.Equal(t, want, sent.Trips(), why)
		}
		trips("another cost", 1, func() { _, _ = l.AllowN(ctx, "u", 2) })
		trips("the first cost again, which the other has taken the place of", 1, func() { take3(t, l, "u") })
		trips("remembered", 0, func() { take3(t, l, "u") })
		trips("a look", 1, func() { _, _ = l.Peek(ctx, "u") })
		p.set(ratelimit.PerHour(901))
		trips("another limit", 1, func() { take3(t, l, "u") })
		p.set(ratelimit.Limit{})
		take3(t, l, "u")
		redistest.Sleep(1001 * time.Millisecond)
		trips("after a second", 1, func() { take3(t, l, "u") })
		require.NoError(t, l.Reset(ctx, "u"))
		r := take3(t, l, "u")
		require.True(t, r.Allowed, "its own Reset shows at once")
		require.True(t, take(t, l, "u", 897).Allowed)
		for !take3(t, l, "u").Allowed {
			require.NoError(t, l.Refund(ctx, r))
		}
	})
}

func take3(t *testing.T, l *ratelimit.Limiter, id string) ratelimit.Result {
	t.Helper()
	r, err := l.AllowN(ctx, id, 3)
	require.NoError(t, err)
	return r
}

// When a denial has come to its second, one call asks for it again, and the flood waits for that one.
func TestDenyCacheIsRenewedByOneCall(t *testing.T) {
	t.Parallel()
	virtually(t, func(t *testing.T, s *redistest.Server, build constructor) {
		c := s.Client(t)
		l := must(t)(build(c, ratelimit.PerHour(5), &ratelimit.Options{DenyCache: 100}))
		other := must(t)(build(s.Client(t), ratelimit.PerHour(5), nil))
		take(t, l, "u", 5)
		take1(t, l)
		sent := redistest.Count(c)
		flood := func() (allowed, failed int64) {
			redistest.Sleep(1001 * time.Millisecond)
			sent.Reset()
			var passed, broke atomic.Int64
			var wg sync.WaitGroup
			for range 32 {
				wg.Go(func() {
					switch r, err := l.Allow(ctx, "u"); {
					case err != nil:
						broke.Add(1)
						if !errors.Is(err, ratelimit.ErrUnavailable) || errors.Is(err, ratelimit.ErrUnknown) {
							t.Error(err)
						}
					case r.Allowed:
						passed.Add(1)
					}
				})
			}
			wg.Wait()
			return passed.Load(), broke.Load()
		}
		allowed, failed := flood()
		require.Zero(t, allowed+failed)
		require.Equal(t, 1, sent.Trips())

		require.NoError(t, other.Reset(ctx, "u"))
		allowed, failed = flood()
		require.EqualValues(t, 5, allowed, "another's Reset shows, to all that wait")
		require.Zero(t, failed)

		take1(t, l)
		s.Mini.SetError("ERR broken")
		_, failed = flood()
		require.EqualValues(t, 32, failed)
		s.Mini.SetError("")
		require.False(t, take1(t, l).Allowed)

		// Who asks gives up: that is not the others' end.
		redistest.Sleep(1001 * time.Millisecond)
		ended, cancel := context.WithCancel(ctx)
		cancel()
		_, err := l.Allow(ended, "u")
		require.ErrorIs(t, err, context.Canceled)
		require.False(t, take1(t, l).Allowed)
	})
}

// What Redis would let through, it is asked about: a denial is not remembered beyond its RetryAfter.
func TestDenyCacheNeverDeniesWhatWouldPass(t *testing.T) {
	t.Parallel()
	virtually(t, func(t *testing.T, s *redistest.Server, build constructor) {
		c := s.Client(t)
		with := must(t)(build(c, ratelimit.Limit{Events: 4, Per: 400 * time.Millisecond}, &ratelimit.Options{DenyCache: 1}))
		for range 20 {
			r := take1(t, with)
			for r.Allowed {
				r = take1(t, with)
			}
			redistest.Sleep(r.RetryAfter - time.Microsecond)
			require.False(t, take1(t, with).Allowed)
			redistest.Sleep(time.Microsecond)
			require.True(t, take1(t, with).Allowed)
		}
	})
}

func take1(t *testing.T, l *ratelimit.Limiter) ratelimit.Result {
	t.Helper()
	r, err := l.Allow(ctx, "u")
	require.NoError(t, err)
	return r
}

func TestDenyCacheIsBounded(t *testing.T) {
	t.Parallel()
	for _, size := range []int{1, 3, 16, 100} {
		l := must(t)(ratelimit.NewTokenBucket(redistest.Mini(t).Client(t), ratelimit.PerDay(1), &ratelimit.Options{Timeout: -1, DenyCache: size}))
		var wg sync.WaitGroup
		for g := range 4 {
			wg.Go(func() {
				for i := range 80 {
					id := fmt.Sprint(g, "-", i)
					for range 2 {
						if _, err := l.Allow(ctx, id); err != nil {
							t.Error(err)
						}
					}
				}
			})
		}
		wg.Wait()
		require.LessOrEqual(t, ratelimit.Remembered(l), size)
		require.NotZero(t, ratelimit.Remembered(l))
	}
	_, err := ratelimit.NewTokenBucket(redistest.Mini(t).Client(t), ratelimit.PerDay(1), &ratelimit.Options{DenyCache: -1})
	require.EqualError(t, err, "ratelimit: new: Options.DenyCache is -1, must not be negative")
}

func BenchmarkDenyCache(b *testing.B) {
	l := must(b)(ratelimit.NewFixedWindow(redistest.Real(b).Client(b), ratelimit.PerDay(1), &ratelimit.Options{DenyCache: 1000}))
	id := redistest.ID()
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if _, err := l.Allow(ctx, id); err != nil {
				b.Error(err)
			}
		}
	})
}

// A denial that was under way while a Reset or Refund of this process went on is not remembered: it may be of before.
func TestDenyCacheForgetsWhatIsUnderWay(t *testing.T) {
	t.Parallel()
	virtually(t, func(t *testing.T, s *redistest.Server, build constructor) {
		c := s.Client(t)
		l := must(t)(build(c, ratelimit.PerHour(5), &ratelimit.Options{DenyCache: 100}))
		var during func()
		c.AddHook(&afterReply{do: func() {
			if do := during; do != nil {
				during = nil
				do()
			}
		}})
		for name, give := range map[string]func(ratelimit.Result) error{
			"reset":  func(ratelimit.Result) error { return l.Reset(ctx, "u") },
			"refund": func(r ratelimit.Result) error { return l.Refund(ctx, r) },
		} {
			require.NoError(t, l.Reset(ctx, "u"))
			r := take(t, l, "u", 5)
			during = func() { require.NoError(t, give(r)) }
			require.False(t, take1(t, l).Allowed)
			require.True(t, take1(t, l).Allowed, name)
		}
	})
}

// afterReply does something when a reply has come, and nobody has read it yet.
type afterReply struct {
	do func()
	redis.Hook
}

func (h *afterReply) DialHook(next redis.DialHook) redis.DialHook { return next }

func (h *afterReply) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func (h *afterReply) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		err := next(ctx, cmd)
		h.do()
		return err
	}
}

// A caller may do with a Result what he likes.
func TestDenyCacheSharesNoRules(t *testing.T) {
	t.Parallel()
	l := must(t)(multi(ratelimit.SlidingCounter)(redistest.Mini(t).Client(t), ratelimit.PerDay(1), &ratelimit.Options{Timeout: -1, DenyCache: 10}))
	take(t, l, "u", 1)
	take1(t, l).Rules[0].Name = "mine"
	require.Equal(t, "a", take1(t, l).Rules[0].Name)
}

// Who waits for another's answer and then has to ask himself is answered within one Timeout all the same.
func TestDenyCacheWaitsNoLongerThanTheTimeout(t *testing.T) {
	t.Parallel()
	s := redistest.Mini(t)
	p := s.Proxy(t)
	const timeout = 4 * time.Second // the bug took nearly twice as long
	l := must(t)(ratelimit.NewFixedWindow(p.Client(t, endless), ratelimit.PerDay(1), &ratelimit.Options{Timeout: timeout, DenyCache: 10}))
	redistest.Eventually(t, func() bool { r, err := l.Allow(ctx, "u"); return err == nil && !r.Allowed }, "a denial")
	p.BlackHole(true)
	defer p.BlackHole(false)
	asks := make(chan struct{})
	go func() { // from memory, until it must be asked for again
		defer close(asks)
		for range time.Tick(5 * time.Millisecond) {
			soon, cancel := context.WithTimeout(ctx, timeout*8/9)
			_, err := l.Allow(soon, "u")
			cancel()
			if err != nil {
				return
			}
		}
	}()
	redistest.Eventually(t, func() bool { return ratelimit.Asked(l) }, "one asks")
	late := redistest.Lateness(t, s.Client(t))
	began := time.Now()
	_, err := l.Allow(ctx, "u")
	took := time.Since(began)
	require.ErrorIs(t, err, ratelimit.ErrUnavailable)
	require.LessOrEqual(t, took, timeout+time.Second+2*late(), "of two timers each may be late")
	<-asks
}

// What is remembered beside a Reset or Refund of this process denies nothing after it, not for a moment either.
func TestDenyCacheRemembersNothingOfBeforeAReset(t *testing.T) {
	t.Parallel()
	l := must(t)(ratelimit.NewTokenBucket(redistest.Mini(t).Client(t), ratelimit.PerDay(1), &ratelimit.Options{Timeout: -1, DenyCache: 1}))
	require.False(t, ratelimit.RemembersOfBefore(l, "u", 20_000))
}

// Whose context ends while another call asks for him has sent nothing, and is told so.
func TestDenyCacheWaitThatEndsIsNotUnknown(t *testing.T) {
	t.Parallel()
	for _, timeout := range []time.Duration{-1, 0} {
		redistest.Virtual(t, func(t *testing.T, s *redistest.Server) {
			c := s.Client(t)
			l := must(t)(ratelimit.NewTokenBucket(c, ratelimit.PerHour(1), &ratelimit.Options{Timeout: timeout, DenyCache: 1}))
			take1(t, l)
			require.False(t, take1(t, l).Allowed)
			redistest.Sleep(1001 * time.Millisecond)
			c.AddHook(&afterReply{do: func() { time.Sleep(300 * time.Millisecond) }})
			var wg sync.WaitGroup
			wg.Go(func() { _, _ = l.Allow(ctx, "u") })
			time.Sleep(time.Millisecond)
			sent := redistest.Count(c)
			soon, cancel := context.WithTimeout(ctx, 150*time.Millisecond)
			defer cancel()
			_, err := l.Allow(soon, "u")
			require.ErrorIs(t, err, ratelimit.ErrUnavailable)
			require.ErrorIs(t, err, context.DeadlineExceeded)
			require.NotErrorIs(t, err, ratelimit.ErrUnknown)
			require.Zero(t, sent.Trips())
			wg.Wait()
		})
	}
}
