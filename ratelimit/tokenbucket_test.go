package ratelimit_test

import (
	"context"
	"math/big"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redispatterns/redispatterns/internal/redistest"
	"github.com/redispatterns/redispatterns/ratelimit"
)

func TestTokenBucketBurst(t *testing.T) {
	t.Parallel()
	redistest.Run(t, func(t *testing.T, s *redistest.Server) {
		l, id := must(t)(ratelimit.NewTokenBucket(s.Client(t), ratelimit.PerHour(3600).WithBurst(20), calm)), redistest.ID()
		_, err := l.AllowN(ctx, id, 21)
		require.ErrorIs(t, err, ratelimit.ErrCost)
		r := take(t, l, id, 20)
		require.True(t, r.Allowed)
		require.EqualValues(t, 20, r.Limit)
		require.Equal(t, 20*time.Second, r.ResetAfter)
		r = take(t, l, id, 1)
		require.False(t, r.Allowed)
		require.InDelta(t, time.Second, r.RetryAfter, float64(900*time.Millisecond))
	})
}

// Rates that no whole number of microseconds expresses are exact all the same.
func TestTokenBucketRatesAreExact(t *testing.T) {
	t.Parallel()
	for _, limit := range []ratelimit.Limit{ratelimit.PerSecond(3), ratelimit.PerMinute(7), ratelimit.PerSecond(700_001), ratelimit.PerDay(1_000_000), ratelimit.PerHour(999_983)} {
		s := redistest.Mini(t)
		l := must(t)(ratelimit.NewTokenBucket(s.Client(t), limit.WithBurst(2), calm))
		began := s.Now(t)
		take(t, l, "u", 2)
		now, taken := began, int64(2)
		for range 300 {
			r := take(t, l, "u", 1)
			for r.Allowed { // a microsecond may bring more than one
				taken++
				r = take(t, l, "u", 1)
			}
			s.Advance(t, r.RetryAfter)
			now = now.Add(r.RetryAfter)
			require.True(t, take(t, l, "u", 1).Allowed)
			taken++
			// Exactly Burst + floor(passed * Events / Per) have passed.
			passed := new(big.Int).Mul(big.NewInt(now.Sub(began).Microseconds()), big.NewInt(limit.Events))
			passed.Div(passed, big.NewInt(limit.Per.Microseconds()))
			require.LessOrEqual(t, taken, passed.Int64()+2, "%+v", limit)
			require.GreaterOrEqual(t, taken+int64(1e6)*limit.Events/limit.Per.Microseconds()/1e6+1, passed.Int64()+2, "%+v", limit)
		}
	}
}

func TestTokenBucketWhenTheServersClockIsSet(t *testing.T) {
	t.Parallel()
	s := redistest.Mini(t)
	l := must(t)(ratelimit.NewTokenBucket(s.Client(t), ratelimit.PerSecond(4), calm))
	take(t, l, "u", 4)
	s.Advance(t, -5*time.Second)
	r := take(t, l, "u", 4)
	require.False(t, r.Allowed)
	require.Equal(t, time.Second, r.RetryAfter, "a bucket is never more than empty")
	s.Advance(t, 250*time.Millisecond)
	require.True(t, take(t, l, "u", 1).Allowed)
	s.Advance(t, 5*time.Second)
	require.True(t, take(t, l, "u", 4).Allowed)
	require.False(t, take(t, l, "u", 1).Allowed)
}

func TestTokenBucketLimits(t *testing.T) {
	t.Parallel()
	c := redistest.Mini(t).Client(t)
	for _, limit := range []ratelimit.Limit{
		ratelimit.PerSecond(1).WithBurst(-1), ratelimit.PerDay(1).WithBurst(1 << 40), ratelimit.PerSecond(1).WithBurst(1 << 53),
	} {
		_, err := ratelimit.NewTokenBucket(c, limit, calm)
		require.ErrorIs(t, err, ratelimit.ErrInvalidLimit, "%+v", limit)
	}
	for name, build := range algorithms {
		if !strings.Contains(name, "bucket") {
			_, err := build(c, ratelimit.PerSecond(1).WithBurst(2), nil)
			require.ErrorIs(t, err, ratelimit.ErrInvalidLimit, name)
		}
	}
	l := must(t)(ratelimit.NewTokenBucket(c, ratelimit.PerSecond(1<<53-1), calm))
	require.True(t, take(t, l, "u", 1<<53-1).Allowed)
}

func TestMemory(t *testing.T) {
	t.Parallel()
	c := redistest.Real(t).Client(t)
	for _, l := range []*ratelimit.Limiter{
		must(t)(ratelimit.NewTokenBucket(c, ratelimit.PerHour(1_000_000), &ratelimit.Options{Timeout: -1, Name: "b"})),
		must(t)(ratelimit.NewSlidingCounter(c, ratelimit.PerHour(1_000_000), &ratelimit.Options{Timeout: -1, Name: "c"})),
		must(t)(ratelimit.NewFixedWindow(c, ratelimit.PerHour(1_000_000), &ratelimit.Options{Timeout: -1, Name: "f"})),
	} {
		take(t, l, "user42", 100_000)
	}
	for pattern, most := range map[string]int64{"ratelimit:b:*": 90, "ratelimit:c:*": 110, "ratelimit:f:*": 90} {
		keys := c.Keys(ctx, pattern).Val()
		require.NotEmpty(t, keys)
		for _, key := range keys {
			require.LessOrEqual(t, c.MemoryUsage(ctx, key).Val(), most, key)
		}
	}
}

// A foreign value that is no number, and none of words either, denies until the bucket would be full, and not for ever.
func TestTokenBucketOfNoNumber(t *testing.T) {
	t.Parallel()
	redistest.Run(t, func(t *testing.T, s *redistest.Server) {
		c, id := s.Client(t), redistest.ID()
		l := must(t)(ratelimit.NewTokenBucket(c, ratelimit.PerDay(5), calm))
		for _, value := range []string{"nan", "-nan", "inf", "-inf", "0x1p2000", "-5", " 7 ", "1e300"} {
			require.NoError(t, c.Set(ctx, "ratelimit:"+id+"~b", value, 0).Err())
			for range 2 {
				for _, ask := range []func(context.Context, string) (ratelimit.Result, error){l.Peek, l.Allow} {
					r, err := ask(ctx, id)
					if err != nil { // it is no number to miniredis
						require.ErrorContains(t, err, "not a token bucket", value)
						require.Equal(t, value, c.Get(ctx, "ratelimit:"+id+"~b").Val())
						continue
					}
					consistent(t, r)
					require.LessOrEqual(t, r.ResetAfter, 24*time.Hour, value)
				}
			}
			if c.Get(ctx, "ratelimit:"+id+"~b").Val() != value {
				require.Positive(t, c.PTTL(ctx, "ratelimit:"+id+"~b").Val(), value)
			}
		}
	})
}
