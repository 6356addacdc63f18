package ratelimit_test

import (
	"context"
	"errors"
	"math"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/redispatterns/redispatterns/internal/redistest"
	"github.com/redispatterns/redispatterns/ratelimit"
)

// plan is a LimitFor that answers what it is set to.
type plan struct {
	atomic.Pointer[ratelimit.Limit]
}

func (p *plan) set(l ratelimit.Limit) { p.Store(&l) }

func (p *plan) options() *ratelimit.Options {
	p.set(ratelimit.Limit{})
	return &ratelimit.Options{LimitFor: func(context.Context, string, string) (ratelimit.Limit, error) { return *p.Load(), nil }}
}

func TestLimitsThatChange(t *testing.T) {
	t.Parallel()
	eachAlgorithm(t, func(t *testing.T, s *redistest.Server, build constructor) {
		var p plan
		c, id := s.Client(t), redistest.ID()
		l := must(t)(build(c, ratelimit.PerDay(10), p.options()))
		require.EqualValues(t, 2, take(t, l, id, 8).Remaining)

		p.set(ratelimit.PerDay(20)) // raised: there is more at once
		r := peek(t, l, id)
		require.EqualValues(t, 20, r.Limit)
		used := 20 - r.Remaining // 8; of a bucket, which counts in time, as large a part of the new one: 16
		require.Contains(t, []int64{8, 16}, used)

		p.set(ratelimit.PerDay(5)) // lowered: what was taken stays taken
		r = take(t, l, id, 5)
		require.False(t, r.Allowed)
		require.EqualValues(t, 5, r.Limit)
		require.Positive(t, r.RetryAfter)
		_, err := l.AllowN(ctx, id, 6)
		require.ErrorIs(t, err, ratelimit.ErrCost)

		p.set(ratelimit.Limit{}) // its own again
		require.EqualValues(t, 2, peek(t, l, id).Remaining)

		p.set(ratelimit.PerHour(3)) // another window
		for range 4 {
			take(t, l, id, 1)
		}
		require.NoError(t, l.Reset(ctx, id))
		require.EqualValues(t, 3, peek(t, l, id).Remaining)
	})
}

func TestUnlimitedCostsNoTrip(t *testing.T) {
	t.Parallel()
	for name, build := range algorithms {
		var p plan
		c := redistest.Mini(t).Client(t)
		l := must(t)(build(c, ratelimit.PerDay(1), p.options()))
		p.set(ratelimit.Unlimited)
		sent := redistest.Count(c)
		for range 5 {
			r := take(t, l, "u", math.MaxInt64)
			require.True(t, r.Allowed, name)
			require.EqualValues(t, math.MaxInt64, r.Limit, name)
			require.EqualValues(t, math.MaxInt64, r.Remaining, name)
			require.NoError(t, l.Refund(ctx, r))
		}
		require.True(t, peek(t, l, "u").Allowed)
		require.Zero(t, sent.Trips(), name)
		require.NoError(t, l.Reset(ctx, "u"))
		_, err := build(c, ratelimit.Unlimited, nil)
		require.ErrorIs(t, err, ratelimit.ErrInvalidLimit, "not as a limiter's own")
	}
}

func TestLimitForThatFails(t *testing.T) {
	t.Parallel()
	mine := errors.New("no plan")
	for name, build := range algorithms {
		c := redistest.Mini(t).Client(t)
		var answer ratelimit.Limit
		var fails error
		l := must(t)(build(c, ratelimit.PerDay(1), &ratelimit.Options{
			LimitFor: func(context.Context, string, string) (ratelimit.Limit, error) { return answer, fails },
		}))
		sent := redistest.Count(c)
		fails = mine
		_, err := l.Allow(ctx, "u")
		require.ErrorIs(t, err, mine, name)
		require.NotErrorIs(t, err, ratelimit.ErrUnavailable, name)
		require.ErrorIs(t, l.Reset(ctx, "u"), mine)
		fails = nil
		for _, answer = range []ratelimit.Limit{{Events: -2}, {Events: 1}, ratelimit.PerSecond(0), {Events: 1, Per: 1}} {
			_, err = l.Peek(ctx, "u")
			require.ErrorIs(t, err, ratelimit.ErrInvalidLimit, name)
			require.NotErrorIs(t, err, ratelimit.ErrUnavailable, name)
		}
		require.Zero(t, sent.Trips())
	}
}
