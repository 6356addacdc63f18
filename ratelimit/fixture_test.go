package ratelimit_test

import (
	"fmt"
	"regexp"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/redispatterns/redispatterns/internal/redistest"
	"github.com/redispatterns/redispatterns/ratelimit"
)

// at is the fixture's time.
func at(t *testing.T) *redistest.Server {
	s := redistest.Mini(t)
	s.Advance(t, time.Date(2026, 8, 9, 12, 0, 30, 0, time.UTC).Sub(s.Now(t)))
	return s
}

func several(t *testing.T, c *redis.Client) *ratelimit.Limiter {
	return must(t)(ratelimit.NewMulti(c, []ratelimit.Rule{
		{Name: "a", Limit: ratelimit.PerMinute(5)},
		{Name: "b", Limit: ratelimit.PerMinute(30), Algorithm: ratelimit.TokenBucket},
		{Name: "f", Limit: ratelimit.PerMinute(5), Algorithm: ratelimit.FixedWindow},
	}, calm))
}

func TestFixtureIsRead(t *testing.T) {
	t.Parallel()
	s := at(t)
	c := s.Client(t)
	redistest.Load(t, c, "testdata/v0.redis")
	for name, l := range map[string]*ratelimit.Limiter{
		"fixed window":   must(t)(ratelimit.NewFixedWindow(c, ratelimit.PerMinute(5), calm)),
		"of ten seconds": must(t)(ratelimit.NewFixedWindow(c, ratelimit.Limit{Events: 5, Per: 10 * time.Second}, &ratelimit.Options{Timeout: -1, Name: "api"})),
		"sliding window": must(t)(ratelimit.NewSlidingWindow(c, ratelimit.PerMinute(5), calm)),
	} {
		require.EqualValues(t, 2, peek(t, l, "user42").Remaining, name)
		require.False(t, take(t, l, "user42", 3).Allowed, name)
		require.True(t, take(t, l, "user42", 2).Allowed, name)
	}
	counter := must(t)(ratelimit.NewSlidingCounter(c, ratelimit.PerMinute(5), calm))
	require.EqualValues(t, 3, peek(t, counter, "user42").Remaining)
	bucket := must(t)(ratelimit.NewTokenBucket(c, ratelimit.PerMinute(30), calm))
	require.Equal(t, 6*time.Second, peek(t, bucket, "user42").ResetAfter)
	odd := must(t)(ratelimit.NewTokenBucket(c, ratelimit.PerSecond(7), &ratelimit.Options{Timeout: -1, Name: "api"}))
	require.EqualValues(t, 4, peek(t, odd, "user42").Remaining)
	for i, remaining := range []int64{4, 29, 4} {
		require.Equal(t, remaining, peek(t, several(t, c), "user42").Rules[i].Remaining)
	}
	require.Equal(t, 428572*time.Microsecond, peek(t, odd, "user42").ResetAfter)
}

func TestFixtureIsWhatIsWritten(t *testing.T) {
	t.Parallel()
	want, got := at(t), at(t)
	redistest.Load(t, want.Client(t), "testdata/v0.redis")
	c := got.Client(t)
	counter := must(t)(ratelimit.NewSlidingCounter(c, ratelimit.PerMinute(5), calm))
	got.Advance(t, -time.Minute)
	take(t, counter, "user42", 2)
	sliding := must(t)(ratelimit.NewSlidingWindow(c, ratelimit.PerMinute(5), calm))
	got.Advance(t, 59500*time.Millisecond)
	take(t, sliding, "user42", 1)
	got.Advance(t, 500*time.Millisecond)
	take(t, sliding, "user42", 2)
	take(t, counter, "user42", 1)
	for _, l := range []*ratelimit.Limiter{
		must(t)(ratelimit.NewFixedWindow(c, ratelimit.PerMinute(5), calm)),
		must(t)(ratelimit.NewFixedWindow(c, ratelimit.Limit{Events: 5, Per: 10 * time.Second}, &ratelimit.Options{Timeout: -1, Name: "api"})),
	} {
		take(t, l, "user42", 1)
		take(t, l, "user42", 2)
	}
	take(t, must(t)(ratelimit.NewTokenBucket(c, ratelimit.PerMinute(30), calm)), "user42", 3)
	take(t, must(t)(ratelimit.NewTokenBucket(c, ratelimit.PerSecond(7), &ratelimit.Options{Timeout: -1, Name: "api"})), "user42", 3)
	take(t, several(t, c), "user42", 1)
	require.Equal(t, dump(t, want.Client(t)), dump(t, c))
}

var logged = regexp.MustCompile(`^[1-9]\d{15}(\d{3})$`)

// dump is all that a server holds, with the random part of a log's entries blotted out.
func dump(t *testing.T, c *redis.Client) map[string]string {
	all := map[string]string{}
	for _, key := range c.Keys(ctx, "*").Val() {
		var value string
		switch kind := c.Type(ctx, key).Val(); kind {
		case "string":
			value = c.Get(ctx, key).Val()
		case "zset":
			for _, e := range c.ZRangeWithScores(ctx, key, 0, -1).Val() {
				value += fmt.Sprintf("%.0f %s, ", e.Score, logged.ReplaceAllString(e.Member.(string), "number $1"))
			}
		case "hash":
			value = fmt.Sprint(c.HGetAll(ctx, key).Val())
		default:
			value = kind
		}
		all[key] = fmt.Sprint(value, " ", c.PTTL(ctx, key).Val().Round(10*time.Millisecond))
	}
	return all
}
