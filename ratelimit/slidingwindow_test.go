package ratelimit_test

import (
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redispatterns/redispatterns/internal/redistest"
	"github.com/redispatterns/redispatterns/ratelimit"
)

func TestSlidingWindowWritesTheDocumentedKey(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, s *redistest.Server) {
		s.OnlyOurs(t)
		c := s.Client(t)
		l := must(t)(ratelimit.NewSlidingWindow(c, ratelimit.PerMinute(5), calm))
		before := s.Now(t).UnixMicro()
		take(t, l, "user42", 1)
		take(t, l, "user42", 3)
		require.Equal(t, []string{"ratelimit:user42"}, c.Keys(ctx, "*").Val())
		entries := c.ZRangeWithScores(ctx, "ratelimit:user42", 0, -1).Val()
		require.Len(t, entries, 4)
		members := map[string]bool{}
		for _, e := range entries {
			member := e.Member.(string)
			require.Regexp(t, `^[1-9]\d{15}00[0-2]$`, member)
			_, err := strconv.ParseInt(member, 10, 64)
			require.NoError(t, err, "small in Redis: an integer")
			members[member] = true
			require.GreaterOrEqual(t, int64(e.Score), before)
			require.LessOrEqual(t, int64(e.Score), s.Now(t).UnixMicro())
		}
		require.Len(t, members, 4)
	})
}

// In no window, wherever it is laid, are there more than the limit.
func TestSlidingWindowHoldsInEveryWindow(t *testing.T) {
	t.Parallel()
	const per, limit = 100 * time.Millisecond, 50
	onBoth(t, func(t *testing.T, s *redistest.Server) {
		c, id := s.Client(t), redistest.ID()
		l := must(t)(ratelimit.NewSlidingWindow(c, ratelimit.Limit{Events: limit, Per: per}, calm))
		seen := map[string]float64{}
		var mu sync.Mutex
		note := func() {
			mu.Lock()
			defer mu.Unlock()
			for _, e := range c.ZRangeWithScores(ctx, "ratelimit:"+id, 0, -1).Val() {
				seen[e.Member.(string)] = e.Score
			}
		}
		for range 60 {
			var wg sync.WaitGroup
			for range 8 {
				wg.Go(func() {
					if _, err := l.Allow(ctx, id); err != nil {
						t.Error(err)
					}
				})
			}
			wg.Wait()
			note()
			s.Advance(t, 5*time.Millisecond)
		}
		for _, from := range seen {
			n := 0
			for _, at := range seen {
				if at >= from && at < from+float64(per.Microseconds()) {
					n++
				}
			}
			require.LessOrEqual(t, n, limit)
		}
		require.Greater(t, len(seen), 2*limit, "it slid")
	})
}

func TestSlidingWindowCosts(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, s *redistest.Server) {
		c, id := s.Client(t), redistest.ID()
		l := must(t)(ratelimit.NewSlidingWindow(c, ratelimit.PerDay(2000), calm))
		_, err := l.AllowN(ctx, id, 1001)
		require.ErrorIs(t, err, ratelimit.ErrCost)
		for i, n := range []int64{1000, 500, 499, 1} {
			r := take(t, l, id, n)
			require.True(t, r.Allowed, i)
		}
		require.EqualValues(t, 2000, c.ZCard(ctx, "ratelimit:"+id).Val())
		require.False(t, take(t, l, id, 1).Allowed)
	})
}

// A clock that is set back by five windows: what lies ahead of it is gone after one window, and nothing more is admitted.
func TestSlidingWindowWhenTheServersClockIsSetBack(t *testing.T) {
	t.Parallel()
	s := redistest.Mini(t)
	c := s.Client(t)
	l := must(t)(ratelimit.NewSlidingWindow(c, ratelimit.PerSecond(3), calm))
	take(t, l, "u", 2)
	s.Advance(t, 300*time.Millisecond)
	take(t, l, "u", 1)
	s.Advance(t, -5*time.Second)
	require.False(t, peek(t, l, "u").Allowed)
	r := take(t, l, "u", 1)
	require.False(t, r.Allowed)
	require.Equal(t, time.Second, r.RetryAfter)
	s.Advance(t, time.Second)
	require.True(t, take(t, l, "u", 3).Allowed)
	s.Advance(t, 5*time.Second)
	require.True(t, take(t, l, "u", 3).Allowed, "set forward: what was taken is long ago")
	require.False(t, take(t, l, "u", 1).Allowed)
}

func TestSlidingWindowMemory(t *testing.T) {
	t.Parallel()
	s := redistest.Real(t)
	c, id := s.Client(t), redistest.ID()
	l := must(t)(ratelimit.NewSlidingWindow(c, ratelimit.PerHour(128), calm))
	for range 128 {
		take(t, l, id, 1)
	}
	require.LessOrEqual(t, c.MemoryUsage(ctx, "ratelimit:"+id).Val(), int64(128*25))
	many := redistest.ID()
	take(t, l, many, 128)
	require.LessOrEqual(t, c.MemoryUsage(ctx, "ratelimit:"+many).Val(), int64(128*25))
}
