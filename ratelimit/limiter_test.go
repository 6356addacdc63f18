package ratelimit_test

import (
	"context"
	"fmt"
	"math"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redispatterns/redispatterns/internal/redistest"
	"github.com/redispatterns/redispatterns/ratelimit"
)

func TestAllowUpToTheLimit(t *testing.T) {
	t.Parallel()
	eachAlgorithm(t, func(t *testing.T, s *redistest.Server, build constructor) {
		l, id := must(t)(build(s.Client(t), ratelimit.PerDay(3), nil)), redistest.ID()
		for i := range int64(3) {
			r := take(t, l, id, 1)
			require.True(t, r.Allowed)
			require.Equal(t, int64(3), r.Limit)
			require.Equal(t, 2-i, r.Remaining)
			require.Positive(t, r.ResetAfter)
		}
		for range 3 {
			r := take(t, l, id, 1)
			require.False(t, r.Allowed)
			require.Equal(t, ratelimit.ReasonLimited, r.Reason)
			require.Zero(t, r.Remaining)
			require.Positive(t, r.RetryAfter)
		}
		require.True(t, take(t, l, redistest.ID(), 1).Allowed, "another id")
	})
}

// A request that does not fit is not counted, and a smaller one still fits.
func TestDeniedIsNotCounted(t *testing.T) {
	t.Parallel()
	eachAlgorithm(t, func(t *testing.T, s *redistest.Server, build constructor) {
		l, id := must(t)(build(s.Client(t), ratelimit.PerDay(10), nil)), redistest.ID()
		require.True(t, take(t, l, id, 8).Allowed)
		for range 3 {
			r := take(t, l, id, 5)
			require.False(t, r.Allowed)
			require.Equal(t, int64(2), r.Remaining, "what is left, though it is not enough")
		}
		require.True(t, take(t, l, id, 2).Allowed)
		require.False(t, take(t, l, id, 1).Allowed)
	})
}

func TestRetryAfterIsExact(t *testing.T) {
	t.Parallel()
	const per = 300 * time.Millisecond
	eachAlgorithm(t, func(t *testing.T, s *redistest.Server, build constructor) {
		l, id := must(t)(build(s.Client(t), ratelimit.Limit{Events: 4, Per: per}, nil)), redistest.ID()
		for round := range 4 {
			cost := int64(1 + round%2)
			var r ratelimit.Result
			for r = take(t, l, id, cost); r.Allowed; r = take(t, l, id, cost) {
				s.Advance(t, 7*time.Millisecond)
			}
			require.LessOrEqual(t, r.RetryAfter, per)
			if s.Mini != nil && r.RetryAfter > time.Microsecond {
				s.Advance(t, r.RetryAfter-time.Microsecond)
				early := take(t, l, id, cost)
				require.False(t, early.Allowed, "a microsecond early")
				require.Equal(t, time.Microsecond, early.RetryAfter)
				r = early
			}
			s.Advance(t, r.RetryAfter)
			require.True(t, take(t, l, id, cost).Allowed, "after exactly RetryAfter")
		}
	})
}

func TestPeekChangesNothing(t *testing.T) {
	t.Parallel()
	eachAlgorithm(t, func(t *testing.T, s *redistest.Server, build constructor) {
		c := s.Client(t)
		prefix := redistest.ID() + ":"
		l := must(t)(build(c, ratelimit.PerDay(2), &ratelimit.Options{Timeout: -1, Prefix: prefix}))
		for range 3 {
			r := peek(t, l, "x")
			require.True(t, r.Allowed)
			require.Equal(t, int64(2), r.Remaining)
			require.Zero(t, r.ResetAfter, "the full limit is there")
		}
		require.Empty(t, c.Keys(ctx, prefix+"*").Val())
		take(t, l, "x", 1)
		key := c.Keys(ctx, prefix+"*").Val()
		require.Len(t, key, 1)
		before, ttl := c.Dump(ctx, key[0]).Val(), c.PExpireTime(ctx, key[0]).Val()
		r := peek(t, l, "x")
		require.True(t, r.Allowed)
		require.Equal(t, int64(1), r.Remaining)
		require.Positive(t, r.ResetAfter)
		if s.IsReal() {
			require.Equal(t, before, c.Dump(ctx, key[0]).Val())
			require.Equal(t, ttl, c.PExpireTime(ctx, key[0]).Val())
		}
		take(t, l, "x", 1)
		r = peek(t, l, "x")
		require.False(t, r.Allowed)
		require.Positive(t, r.RetryAfter)
	})
}

func TestReset(t *testing.T) {
	t.Parallel()
	eachAlgorithm(t, func(t *testing.T, s *redistest.Server, build constructor) {
		c := s.Client(t)
		l, id := must(t)(build(c, ratelimit.PerDay(2), nil)), redistest.ID()
		require.NoError(t, l.Reset(ctx, id), "of what was never taken")
		take(t, l, id, 2)
		require.False(t, take(t, l, id, 1).Allowed)
		require.NoError(t, l.Reset(ctx, id))
		require.Empty(t, c.Keys(ctx, "*"+id+"*").Val())
		require.Equal(t, int64(1), take(t, l, id, 1).Remaining)
	})
}

// Nothing is left behind: every key has a TTL, whatever the cost, and none is longer than two windows, or a bucket's than
// ten seconds more.
func TestEveryKeyHasATTL(t *testing.T) {
	t.Parallel()
	eachAlgorithm(t, func(t *testing.T, s *redistest.Server, build constructor) {
		c := s.Client(t)
		prefix := redistest.ID() + ":"
		const per = 200 * time.Millisecond
		l := must(t)(build(c, ratelimit.Limit{Events: 10, Per: per}, &ratelimit.Options{Timeout: -1, Prefix: prefix}))
		longest := 2 * per
		for _, cost := range []int64{1, 5, 7, 10, 1, 10} {
			id := redistest.ID()
			take(t, l, id, cost)
			take(t, l, id, 10)
			for _, key := range c.Keys(ctx, prefix+"*").Val() {
				ttl := c.PTTL(ctx, key).Val()
				require.NotEqual(t, time.Duration(-1), ttl, "%s has no TTL", key)
				if strings.HasSuffix(key, "~b") {
					longest = 2*per + 10*time.Second
				}
				require.LessOrEqual(t, ttl, longest)
			}
		}
		if longest < 2*time.Second || s.Mini != nil {
			s.Advance(t, longest+20*time.Millisecond)
			require.Empty(t, c.Keys(ctx, prefix+"*").Val())
		}
	})
}

func TestManyGoroutinesTakeExactlyTheLimit(t *testing.T) {
	t.Parallel()
	eachAlgorithm(t, func(t *testing.T, s *redistest.Server, build constructor) {
		id := redistest.ID()
		a, b := must(t)(build(s.Client(t), ratelimit.PerDay(50), nil)), must(t)(build(s.Client(t), ratelimit.PerDay(50), nil))
		ratelimit.Skew(a, time.Hour)
		ratelimit.Skew(b, -time.Hour)
		var passed atomic.Int64
		var wg sync.WaitGroup
		for i := range 200 {
			wg.Go(func() {
				l := a
				if i%2 == 0 {
					l = b
				}
				r, err := l.Allow(ctx, id)
				if err != nil {
					t.Error(err)
				}
				if r.Allowed {
					passed.Add(1)
				}
			})
		}
		wg.Wait()
		require.EqualValues(t, 50, passed.Load())
	})
}

func TestNamesDoNotMeet(t *testing.T) {
	t.Parallel()
	eachAlgorithm(t, func(t *testing.T, s *redistest.Server, build constructor) {
		c, id := s.Client(t), redistest.ID()
		a := must(t)(build(c, ratelimit.PerDay(1), &ratelimit.Options{Timeout: -1, Name: "a"}))
		b := must(t)(build(c, ratelimit.PerDay(1), &ratelimit.Options{Timeout: -1, Name: "b"}))
		require.True(t, take(t, a, id, 1).Allowed)
		require.True(t, take(t, b, id, 1).Allowed)
		require.False(t, take(t, a, id, 1).Allowed)
		for _, key := range c.Keys(ctx, "*"+id+"*").Val() {
			require.Regexp(t, `^ratelimit:[ab]:`+id, key)
		}
		none := must(t)(build(c, ratelimit.PerDay(1), calm))
		require.True(t, take(t, none, id, 1).Allowed)
		require.False(t, take(t, none, "b:"+id, 1).Allowed, "without a name, this is b's id")
		prefixed := must(t)(build(c, ratelimit.PerDay(1), &ratelimit.Options{Timeout: -1, Name: "c", Prefix: "ratelimit:a:"}))
		require.False(t, take(t, prefixed, id, 1).Allowed, "the Prefix alone decides")
	})
}

func TestOddIDs(t *testing.T) {
	t.Parallel()
	eachAlgorithm(t, func(t *testing.T, s *redistest.Server, build constructor) {
		l := must(t)(build(s.Client(t), ratelimit.PerDay(1), &ratelimit.Options{Timeout: -1, Prefix: redistest.ID()}))
		for _, id := range []string{
			"a b", "a\nb\r\n", "\x00", "\xff\xfe", "{tag}x", "a}b", "{}a", "{{", "日本語", "a:b:c", "2001:db8::1", "%s", "~", "a~", "a~B",
			"2026-08", "10:00", strings.Repeat("x", 512),
		} {
			require.True(t, take(t, l, id, 1).Allowed, "%q", id)
			require.False(t, take(t, l, id, 1).Allowed, "%q", id)
			require.NoError(t, l.Reset(ctx, id))
		}
	})
}

// What cannot be is refused before anything is sent, with an error that names the argument and the rule.
func TestBadArguments(t *testing.T) {
	t.Parallel()
	s := redistest.Mini(t)
	c := s.Client(t)
	sent := redistest.Count(c)
	for name, build := range algorithms {
		l := must(t)(build(c, ratelimit.PerMinute(5), nil))
		for _, id := range []string{
			"", strings.Repeat("x", 513), "u~c", "u~b1", "~m", "u:2026-08-09T12:00", "2026-08-09", "u:2026-08-09T12:00/5m", "u:2026-08-09T12:00:00.500/500ms",
		} {
			for op, call := range map[string]func() error{
				"allow": func() error { _, err := l.Allow(ctx, id); return err },
				"peek":  func() error { _, err := l.Peek(ctx, id); return err },
				"reset": func() error { return l.Reset(ctx, id) },
			} {
				err := call()
				require.ErrorIs(t, err, ratelimit.ErrInvalidID, "%s: %s %q", name, op, id)
				require.ErrorContains(t, err, "ratelimit: "+op)
				require.NotErrorIs(t, err, ratelimit.ErrUnavailable)
			}
		}
		for _, n := range []int64{0, -1, math.MinInt64} {
			_, err := l.AllowN(ctx, "u", n)
			require.EqualError(t, err, fmt.Sprintf(`ratelimit: allow "u": n is %d, must be at least 1`, n))
		}
		for _, n := range []int64{6, 1 << 53, math.MaxInt64} {
			_, err := l.AllowN(ctx, "u", n)
			require.ErrorIs(t, err, ratelimit.ErrCost)
			require.NotErrorIs(t, err, ratelimit.ErrUnavailable)
		}
		for _, limit := range []ratelimit.Limit{
			{}, {Events: 1}, {Per: time.Second}, {Events: -1, Per: time.Second}, {Events: 1, Per: -time.Second},
			{Events: 1, Per: time.Microsecond}, {Events: 1, Per: math.MaxInt64 / time.Millisecond * time.Millisecond}, {Events: 1, Per: time.Second, Burst: -1}, {Events: 1, Per: 1500 * time.Microsecond}, {Events: 1 << 53, Per: time.Hour},
			ratelimit.PerSecond(0), ratelimit.PerMinute(-1), ratelimit.PerHour(math.MaxInt64), ratelimit.PerDay(math.MinInt64),
		} {
			_, err := build(c, limit, nil)
			require.ErrorIs(t, err, ratelimit.ErrInvalidLimit, "%s: %+v", name, limit)
		}
		_, err := build(nil, ratelimit.PerSecond(1), nil)
		require.EqualError(t, err, "ratelimit: new: the client is nil")
		_, err = build(c, ratelimit.PerSecond(1), &ratelimit.Options{Timeout: -1, Name: "a:b"})
		require.EqualError(t, err, `ratelimit: new: Options.Name is "a:b", must hold no colon`)

		ended, cancel := context.WithCancel(ctx)
		cancel()
		_, err = l.Allow(ended, "u")
		require.ErrorIs(t, err, context.Canceled)
		require.NotErrorIs(t, err, ratelimit.ErrUnavailable, "nobody asked Redis")
	}
	require.Zero(t, sent.Trips())
	for _, l := range []*ratelimit.Limiter{nil, {}} {
		_, err := l.Allow(ctx, "u")
		require.Error(t, err)
		require.Error(t, l.Reset(ctx, "u"))
	}
}

func TestOneRoundTrip(t *testing.T) {
	t.Parallel()
	for name, build := range algorithms {
		c := steady(t, redistest.Real(t)).Client(t)
		l, id := must(t)(build(c, ratelimit.PerDay(2), nil)), redistest.ID()
		take(t, l, redistest.ID(), 1) // loads the script
		peek(t, l, id)
		require.NoError(t, l.Reset(ctx, id))
		sent := redistest.Count(c)
		for range 4 {
			take(t, l, id, 1)
		}
		peek(t, l, id)
		require.NoError(t, l.Reset(ctx, id))
		require.Equal(t, 6, sent.Trips(), "%s: %v", name, sent.Commands())
	}
}

func TestLimitOfOneAndOddWindows(t *testing.T) {
	t.Parallel()
	eachAlgorithm(t, func(t *testing.T, s *redistest.Server, build constructor) {
		c := s.Client(t)
		for _, per := range []time.Duration{250 * time.Millisecond, 123 * time.Millisecond, 90 * time.Second, 7 * 24 * time.Hour, 100 * 365 * 24 * time.Hour} {
			l, id := must(t)(build(c, ratelimit.Limit{Events: 1, Per: per}, nil)), redistest.ID()
			allow := func() (passed int) {
				for range 5 {
					r := take(t, l, id, 1)
					require.LessOrEqual(t, r.RetryAfter, per)
					if r.Allowed {
						passed++
					}
				}
				return passed
			}
			if per < time.Minute {
				inOneWindow(t, s, per, func() { id = redistest.ID() }, allow, 1)
				continue
			}
			for {
				begun := windowOf(s.Now(t), per)
				id = redistest.ID()
				if passed := allow(); windowOf(s.Now(t), per).Equal(begun) {
					require.Equal(t, 1, passed)
					break
				}
			}
		}
	})
}
