package ratelimit_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redispatterns/redispatterns/internal/redistest"
	"github.com/redispatterns/redispatterns/ratelimit"
)

// A flood on a full window is denied by a plain GET each, once the server's clock is known to run as this process's does.
//
// Not parallel: a server that answers later than within a millisecond tells its time too badly.
func TestAFullWindowIsLookedAt(t *testing.T) {
	s := steady(t, redistest.Real(t))
	p, c, id := s.Proxy(t), s.Client(t), redistest.ID()
	l := must(t)(ratelimit.NewFixedWindow(c, ratelimit.PerDay(3), calm))
	other := must(t)(ratelimit.NewFixedWindow(c, ratelimit.PerDay(3), calm))
	sent := redistest.Count(c)
	flooded := func() {
		t.Helper()
		redistest.Eventually(t, func() bool {
			sent.Reset()
			require.False(t, take(t, l, id, 1).Allowed)
			require.Equal(t, 1, sent.Trips())
			return sent.Commands()[0] == "get"
		}, "a GET")
	}
	take(t, l, id, 3)
	flooded()
	before := s.Now(t)
	r := take(t, l, id, 2)
	after := s.Now(t)
	require.Equal(t, ratelimit.ReasonLimited, r.Reason)
	require.EqualValues(t, 3, r.Limit)
	require.Zero(t, r.Remaining)
	ends := before.Truncate(24 * time.Hour).Add(24 * time.Hour)
	require.GreaterOrEqual(t, r.RetryAfter, ends.Sub(after), "not early")
	require.LessOrEqual(t, r.RetryAfter, ends.Sub(before)+2*time.Millisecond, "nor late")
	require.Equal(t, r.RetryAfter, r.ResetAfter)

	trips := func(why string, most int, n int64, allowed bool) {
		t.Helper()
		sent.Reset()
		require.Equal(t, allowed, take(t, l, id, n).Allowed, why)
		require.LessOrEqual(t, sent.Trips(), most, "%s: %v", why, sent.Commands())
	}
	require.NoError(t, l.Reset(ctx, id))
	trips("its own Reset is known", 1, 1, true)
	r = take(t, l, id, 2)
	take(t, l, id, 1)
	require.NoError(t, l.Refund(ctx, r))
	trips("so is its own Refund", 1, 2, true)

	flooded()
	require.NoError(t, other.Reset(ctx, id))
	trips("another's Reset is not, and costs a trip", 2, 1, true)
	trips("once", 1, 2, true)

	flooded()
	_, err := c.Decr(ctx, c.Keys(ctx, "*"+id+"*").Val()[0]).Result()
	require.NoError(t, err)
	trips("a cost that does not fit", 1, 2, false)
	trips("one that does", 2, 1, true)

	// A look counts nothing, whatever becomes of it.
	l = must(t)(ratelimit.NewFixedWindow(p.Client(t, patient), ratelimit.PerDay(3), calm))
	redistest.Eventually(t, func() bool {
		p.CloseAfter(1, "get")
		_, err = l.Allow(ctx, id)
		return p.Hits() > 0
	}, "a GET")
	require.ErrorIs(t, err, ratelimit.ErrUnavailable)
	require.NotErrorIs(t, err, ratelimit.ErrUnknown)
}

// A clock that a test sets is not trusted to run on: there a RetryAfter must be exact by the clock as it stands.
func TestAClockThatStandsIsAsked(t *testing.T) {
	t.Parallel()
	s := redistest.Mini(t)
	c := s.Client(t)
	l := must(t)(ratelimit.NewFixedWindow(c, ratelimit.PerDay(3), calm))
	take(t, l, "u", 3)
	want := take(t, l, "u", 1).RetryAfter
	sent := redistest.Count(c)
	for began := time.Now(); time.Since(began) < 250*time.Millisecond; {
		require.Equal(t, want, take(t, l, "u", 1).RetryAfter)
	}
	require.NotContains(t, sent.Commands(), "get")
}

// One slow reply does not make it pass for a clock that runs: it agrees with any.
func TestASlowReplyConfirmsNoClock(t *testing.T) {
	t.Parallel()
	s := redistest.Mini(t)
	c := s.Client(t)
	l := must(t)(ratelimit.NewFixedWindow(c, ratelimit.PerDay(3), calm))
	take(t, l, "u", 3)
	for range 20 { // to hear of the time from near
		_, err := l.Peek(ctx, "u")
		require.NoError(t, err)
	}
	slow := true
	c.AddHook(&afterReply{do: func() {
		if slow {
			time.Sleep(150 * time.Millisecond)
		}
	}})
	want := take(t, l, "u", 1).RetryAfter
	slow = false
	sent := redistest.Count(c)
	require.Equal(t, want, take(t, l, "u", 1).RetryAfter)
	require.NotContains(t, sent.Commands(), "get")
}

// A window that is too full for a large cost has room for a small one, which therefore goes straight to the script.
func TestAWindowWithRoomIsNotFull(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, s *redistest.Server) {
		c := s.Client(t)
		limiter, err := ratelimit.NewFixedWindow(c, ratelimit.PerDay(10), calm)
		require.NoError(t, err)
		id := redistest.ID()
		for range 2 { // the first learns the server's time
			_, err = limiter.AllowN(ctx, id, 3)
			require.NoError(t, err)
		}
		r, err := limiter.AllowN(ctx, id, 5)
		require.NoError(t, err)
		require.False(t, r.Allowed)
		sent := redistest.Count(c)
		r, err = limiter.Allow(ctx, id)
		require.NoError(t, err)
		require.True(t, r.Allowed)
		require.Equal(t, 1, sent.Trips(), "%v", sent.Commands())
	})
}

// Over a slow network a plain GET could not say for how long the window goes on: what the server told of its time is as old as
// its way here was long.
func TestAFullWindowFarAwayEndsWhenItEnds(t *testing.T) {
	t.Parallel()
	for _, skew := range []time.Duration{0, time.Hour, -time.Hour} {
		redistest.Virtual(t, func(t *testing.T, s *redistest.Server) {
			c := s.Client(t)
			var asked time.Time
			c.AddHook(&afterReply{do: func() {
				asked = time.Now()
				time.Sleep(30 * time.Millisecond)
			}})
			l := must(t)(ratelimit.NewFixedWindow(c, ratelimit.PerMinute(3), calm))
			ratelimit.Skew(l, skew)
			take(t, l, "u", 3)
			for range 20 {
				r := take(t, l, "u", 1)
				require.False(t, r.Allowed)
				ends := asked.Truncate(time.Minute).Add(time.Minute)
				require.InDelta(t, ends.Sub(asked), r.RetryAfter, float64(time.Millisecond), "a process clock that is off by %v", skew)
			}
		})
	}
}
