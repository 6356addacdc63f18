package ratelimit_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redispatterns/redispatterns/internal/redistest"
	"github.com/redispatterns/redispatterns/ratelimit"
)

// A full window leaves as much of the next one free as of it has passed.
func TestSlidingCounterWeighsTheLastWindow(t *testing.T) {
	t.Parallel()
	s := redistest.Mini(t)
	l := must(t)(ratelimit.NewSlidingCounter(s.Client(t), ratelimit.PerSecond(100), calm))
	now := s.Now(t)
	s.Advance(t, now.Truncate(time.Second).Add(time.Second).Sub(now))
	require.True(t, take(t, l, "u", 100).Allowed)
	s.Advance(t, 1100*time.Millisecond)
	require.EqualValues(t, 10, peek(t, l, "u").Remaining)
	require.False(t, take(t, l, "u", 11).Allowed)
	require.True(t, take(t, l, "u", 10).Allowed)
	s.Advance(t, 500*time.Millisecond)
	require.EqualValues(t, 100-40-10, peek(t, l, "u").Remaining)
	s.Advance(t, 2*time.Second)
	require.EqualValues(t, 100, peek(t, l, "u").Remaining)
}

// What an exact log would not have let through, and what it would have: the excess that the documentation states.
func TestSlidingCounterAgainstALog(t *testing.T) {
	t.Parallel()
	s := redistest.Mini(t)
	c := s.Client(t)
	l := must(t)(ratelimit.NewSlidingCounter(c, ratelimit.PerSecond(100), calm))
	now := s.Now(t)
	s.Advance(t, now.Truncate(time.Second).Add(1999*time.Millisecond).Sub(now))
	take(t, l, "u", 100) // all in a window's last millisecond
	s.Advance(t, 999*time.Millisecond)
	r := peek(t, l, "u")
	require.EqualValues(t, 100, r.Remaining, "taken for spread evenly over that window: nearly twice the limit within one window")
	s.Advance(t, time.Second)

	take(t, l, "v", 1)
	s.Advance(t, s.Now(t).Truncate(time.Second).Add(time.Second).Sub(s.Now(t)))
	take(t, l, "v", 99) // at a window's beginning
	s.Advance(t, time.Second)
	require.EqualValues(t, 1, peek(t, l, "v").Remaining, "a log would be empty")
}

func TestSlidingCounterWhenTheServersClockIsSet(t *testing.T) {
	t.Parallel()
	s := redistest.Mini(t)
	l := must(t)(ratelimit.NewSlidingCounter(s.Client(t), ratelimit.PerSecond(3), calm))
	take(t, l, "u", 3)
	s.Advance(t, -5*time.Second)
	require.False(t, take(t, l, "u", 1).Allowed)
	s.Advance(t, 2*time.Second)
	require.True(t, take(t, l, "u", 3).Allowed)
	s.Advance(t, 5*time.Second)
	require.True(t, take(t, l, "u", 3).Allowed)
	require.False(t, take(t, l, "u", 1).Allowed)
}

// Numbers at which doubles begin to lose digits: still never more than the limit, and RetryAfter still lets the call pass.
func TestSlidingCounterWithLargeNumbers(t *testing.T) {
	t.Parallel()
	s := redistest.Mini(t)
	const limit = 90_000_000
	l := must(t)(ratelimit.NewSlidingCounter(s.Client(t), ratelimit.PerDay(limit), calm))
	for _, n := range []int64{limit - 7, 7} {
		require.True(t, take(t, l, "u", n).Allowed)
	}
	for range 20 {
		r := take(t, l, "u", 1_234_567)
		require.False(t, r.Allowed)
		s.Advance(t, r.RetryAfter-time.Millisecond)
		require.False(t, take(t, l, "u", 1_234_567).Allowed)
		s.Advance(t, time.Millisecond)
		require.True(t, take(t, l, "u", 1_234_567).Allowed)
	}
}
