package ratelimit_test

import (
	"context"
	"fmt"
	"math/big"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redispatterns/redispatterns/internal/redistest"
	"github.com/redispatterns/redispatterns/ratelimit"
)

func TestTokenBucketBurst(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, s *redistest.Server) {
		l, id := must(t)(ratelimit.NewTokenBucket(s.Client(t), ratelimit.PerHour(60).WithBurst(20), calm)), redistest.ID()
		_, err := l.AllowN(ctx, id, 21)
		require.ErrorIs(t, err, ratelimit.ErrCost)
		r := take(t, l, id, 20)
		require.True(t, r.Allowed)
		require.EqualValues(t, 20, r.Limit)
		require.Equal(t, 20*time.Minute, r.ResetAfter)
		r = take(t, l, id, 1)
		require.False(t, r.Allowed)
		require.LessOrEqual(t, r.RetryAfter, time.Minute)
		require.Greater(t, r.RetryAfter, 30*time.Second)
	})
}

// Rates that no whole number of microseconds expresses are exact all the same: each decision is that of whole numbers
// without end, of tokens times Per.
func TestTokenBucketRatesAreExact(t *testing.T) {
	t.Parallel()
	many := 2000
	if redistest.Long() > 3*time.Second {
		many = 10_000
	}
	for limit, steps := range map[ratelimit.Limit]int{
		ratelimit.PerSecond(3): many, ratelimit.PerMinute(7): many,
		ratelimit.PerSecond(700_001): 300, ratelimit.PerDay(1_000_000): 300, ratelimit.PerHour(999_983): 300,
	} {
		t.Run(fmt.Sprint(limit.Events, " in ", limit.Per), func(t *testing.T) {
			t.Parallel()
			limit = limit.WithBurst(2)
			s, random := redistest.Mini(t), rand.New(rand.NewPCG(1, uint64(limit.Events)))
			l := must(t)(ratelimit.NewTokenBucket(s.Client(t), limit, calm))
			events, per := big.NewInt(limit.Events), big.NewInt(limit.Per.Microseconds())
			full := new(big.Int).Mul(big.NewInt(limit.Burst), per)
			has := new(big.Int).Set(full)
			// in is how many microseconds it takes to have so much.
			in := func(wanted *big.Int) time.Duration {
				missing := new(big.Int).Sub(wanted, has)
				missing.Add(missing, events).Sub(missing, big.NewInt(1)).Div(missing, events)
				return time.Duration(max(missing.Int64(), 0)) * time.Microsecond
			}
			var wait time.Duration
			for step := range steps {
				switch random.IntN(4) {
				case 0:
					wait = time.Duration(random.Int64N(2*in(new(big.Int).Add(has, per)).Microseconds()+2)) * time.Microsecond
				case 1:
					wait = max(wait-time.Microsecond, 0) // too early
				}
				s.Advance(t, wait)
				has.Add(has, new(big.Int).Mul(big.NewInt(wait.Microseconds()), events))
				if has.Cmp(full) > 0 {
					has.Set(full)
				}
				n := 1 + random.Int64N(2)
				cost := new(big.Int).Mul(big.NewInt(n), per)
				r := take(t, l, "u", n)
				require.Equal(t, has.Cmp(cost) >= 0, r.Allowed, step)
				if wait = in(cost); r.Allowed {
					has.Sub(has, cost)
				}
				require.Equal(t, wait, r.RetryAfter, step)
				require.Equal(t, in(full), r.ResetAfter, step)
				require.Equal(t, new(big.Int).Div(has, per).Int64(), r.Remaining, step)
				if r.Allowed {
					wait = in(per)
				}
			}
		})
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
	onBoth(t, func(t *testing.T, s *redistest.Server) {
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
