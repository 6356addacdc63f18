package ratelimit_test

import (
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redispatterns/redispatterns/internal/redistest"
	"github.com/redispatterns/redispatterns/ratelimit"
)

func TestRefund(t *testing.T) {
	t.Parallel()
	eachAlgorithm(t, func(t *testing.T, s *redistest.Server, build constructor) {
		c, id := s.Client(t), redistest.ID()
		l := must(t)(build(c, ratelimit.PerDay(10), nil))
		first := take(t, l, id, 3)
		second := take(t, l, id, 7)
		require.Zero(t, peek(t, l, id).Remaining)
		key := c.Keys(ctx, "*"+id+"*").Val()[0]
		ttl := c.PTTL(ctx, key).Val()
		for range 3 {
			require.NoError(t, l.Refund(ctx, first), "once, however often")
			require.EqualValues(t, 3, peek(t, l, id).Remaining)
		}
		require.LessOrEqual(t, c.PTTL(ctx, key).Val(), ttl, "the window stays where it is")
		require.NotEqual(t, time.Duration(-1), c.PTTL(ctx, key).Val())
		var wg sync.WaitGroup
		for range 8 {
			wg.Go(func() {
				if err := l.Refund(ctx, second); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		require.EqualValues(t, 10, peek(t, l, id).Remaining)
		require.True(t, take(t, l, id, 10).Allowed)

		denied := take(t, l, id, 1)
		require.NoError(t, l.Refund(ctx, denied))
		require.NoError(t, l.Refund(ctx, peek(t, l, id)))
		require.NoError(t, l.Refund(ctx, ratelimit.Result{}))
		require.Zero(t, peek(t, l, id).Remaining)
		require.ErrorContains(t, must(t)(build(c, ratelimit.PerDay(10), nil)).Refund(ctx, second), "another limiter")
	})
}

// What is gone is not brought back: no key is made, and what was taken since is not given away.
func TestRefundAfterResetAndExpiry(t *testing.T) {
	t.Parallel()
	const per = 50 * time.Millisecond
	eachAlgorithm(t, func(t *testing.T, s *redistest.Server, build constructor) {
		c, id := s.Client(t), redistest.ID()
		l := must(t)(build(c, ratelimit.Limit{Events: 5, Per: per}, nil))
		r := take(t, l, id, 4)
		require.NoError(t, l.Reset(ctx, id))
		require.NoError(t, l.Refund(ctx, r))
		// A window that ended between may be seen for a millisecond more.
		redistest.Eventually(t, func() bool { return len(c.Keys(ctx, "*"+id+"*").Val()) == 0 }, "gone")

		r = take(t, l, id, 4)
		s.Advance(t, 3*per)
		if s.Mini != nil { // on the real one a new window might begin between the two looks
			take(t, l, id, 2)
			before := peek(t, l, id).Remaining
			require.NoError(t, l.Refund(ctx, r))
			require.GreaterOrEqual(t, peek(t, l, id).Remaining, before)
		} else {
			require.NoError(t, l.Refund(ctx, r))
			require.Empty(t, c.Keys(ctx, "*"+id+"*").Val())
		}
	})
}

// A refund in the window after the one that it was taken in takes it off the last window's count.
func TestRefundOfTheLastWindow(t *testing.T) {
	t.Parallel()
	for name, build := range map[string]constructor{"sliding counter": ratelimit.NewSlidingCounter, "multi": multi(ratelimit.SlidingCounter)} {
		s := redistest.Mini(t)
		l := must(t)(build(s.Client(t), ratelimit.PerSecond(100), calm))
		s.Advance(t, s.Now(t).Truncate(time.Second).Add(time.Second).Sub(s.Now(t)))
		r := take(t, l, "u", 80)
		take(t, l, "u", 20)
		s.Advance(t, 1500*time.Millisecond)
		require.EqualValues(t, 50, peek(t, l, "u").Remaining, name)
		require.NoError(t, l.Refund(ctx, r))
		require.EqualValues(t, 90, peek(t, l, "u").Remaining, name)
		now := take(t, l, "u", 90)
		s.Advance(t, 2*time.Second)
		take(t, l, "u", 30)
		require.NoError(t, l.Refund(ctx, now))
		require.EqualValues(t, 70, peek(t, l, "u").Remaining, name)
	}
}

func TestRefundWithALostReply(t *testing.T) {
	t.Parallel()
	eachAlgorithm(t, func(t *testing.T, s *redistest.Server, build constructor) {
		p, id := s.Proxy(t), redistest.ID()
		l, direct := must(t)(build(p.Client(t, patient), ratelimit.PerDay(10), nil)), must(t)(build(s.Client(t), ratelimit.PerDay(10), nil))
		r := take(t, l, id, 4)
		take(t, l, id, 4)
		require.NoError(t, l.Refund(ctx, take(t, l, redistest.ID(), 1)), "loads the script")
		p.CloseAfter(1)
		err := l.Refund(ctx, r)
		if err != nil { // a log's entries may be removed again
			require.ErrorIs(t, err, ratelimit.ErrUnavailable)
		}
		require.Equal(t, 1, p.Hits())
		redistest.Eventually(t, func() bool { return l.Refund(ctx, r) == nil }, "given back")
		for range 2 {
			require.NoError(t, l.Refund(ctx, r))
			require.EqualValues(t, 6, peek(t, direct, id).Remaining, "given back once")
		}
	})
}
