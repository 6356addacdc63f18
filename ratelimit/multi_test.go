package ratelimit_test

import (
	"context"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redispatterns/redispatterns/internal/redistest"
	"github.com/redispatterns/redispatterns/ratelimit"
)

func TestMultiMixesAlgorithms(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, s *redistest.Server) {
		c, id := s.Client(t), redistest.ID()
		l := must(t)(ratelimit.NewMulti(c, []ratelimit.Rule{
			{Name: "burst", Limit: ratelimit.PerHour(3600).WithBurst(20), Algorithm: ratelimit.TokenBucket},
			{Name: "hour", Limit: ratelimit.PerHour(30)},
			{Name: "day", Limit: ratelimit.PerDay(10_000), Algorithm: ratelimit.FixedWindow},
		}, calm))
		r := take(t, l, id, 15)
		require.True(t, r.Allowed)
		require.Len(t, r.Rules, 3)
		require.Equal(t, []string{"burst", "hour", "day"}, []string{r.Rules[0].Name, r.Rules[1].Name, r.Rules[2].Name})
		require.EqualValues(t, 5, r.Remaining, "of the rule with the least")
		require.EqualValues(t, 20, r.Limit)
		require.EqualValues(t, 15, r.Rules[1].Remaining)
		require.EqualValues(t, 9_985, r.Rules[2].Remaining)

		// The narrow rule denies: the others are not charged.
		r = take(t, l, id, 10)
		require.False(t, r.Allowed)
		require.Positive(t, r.Rules[0].RetryAfter)
		require.Equal(t, r.Rules[0].RetryAfter, r.RetryAfter)
		require.Zero(t, r.Rules[1].RetryAfter)
		require.EqualValues(t, 15, r.Rules[1].Remaining)
		require.EqualValues(t, 9_985, r.Rules[2].Remaining)

		require.Equal(t, []string{"ratelimit:" + id + "~m"}, c.Keys(ctx, "*"+id+"*").Val())
		ttl := c.PTTL(ctx, "ratelimit:"+id+"~m").Val()
		require.Greater(t, ttl, time.Duration(0))
		require.LessOrEqual(t, ttl, 24*time.Hour)
		require.NoError(t, l.Refund(ctx, r), "of a denial nothing comes back")
		_, err := l.AllowN(ctx, id, 21)
		require.ErrorIs(t, err, ratelimit.ErrCost)
	})
}

func TestMultiRules(t *testing.T) {
	t.Parallel()
	c := redistest.Mini(t).Client(t)
	ok := ratelimit.Rule{Name: "a", Limit: ratelimit.PerSecond(1)}
	for want, rules := range map[string][]ratelimit.Rule{
		"ratelimit: there are 0 rules, must be 1 to 100":             nil,
		"ratelimit: there are 101 rules, must be 1 to 100":           make([]ratelimit.Rule, 101),
		"ratelimit: the name of a rule is empty":                     {{Limit: ok.Limit}},
		`ratelimit: two rules are named "a"`:                         {ok, ok},
		`ratelimit: the algorithm of rule "b" is 9, which is none`:   {ok, {Name: "b", Limit: ok.Limit, Algorithm: 9}},
		`ratelimit: invalid limit: Events is 0, must be 1 to 900719`: {ok, {Name: "b"}},
	} {
		_, err := ratelimit.NewMulti(c, rules, nil)
		require.ErrorContains(t, err, want)
	}
	rules := []ratelimit.Rule{ok}
	l := must(t)(ratelimit.NewMulti(c, rules, calm))
	rules[0].Limit.Events = 100 // the limiter has its own
	require.EqualValues(t, 1, peek(t, l, "u").Limit)
}

func TestMultiWithUnlimitedRules(t *testing.T) {
	t.Parallel()
	c := redistest.Mini(t).Client(t)
	free := map[string]bool{}
	l := must(t)(ratelimit.NewMulti(c, []ratelimit.Rule{{Name: "a", Limit: ratelimit.PerDay(2)}, {Name: "b", Limit: ratelimit.PerDay(1)}}, &ratelimit.Options{
		Timeout: -1,
		LimitFor: func(_ context.Context, _, rule string) (ratelimit.Limit, error) {
			if free[rule] {
				return ratelimit.Unlimited, nil
			}
			return ratelimit.Limit{}, nil
		},
	}))
	require.True(t, take(t, l, "u", 1).Allowed)
	require.False(t, take(t, l, "u", 1).Allowed)
	free["b"] = true
	r := take(t, l, "u", 1)
	require.True(t, r.Allowed)
	require.EqualValues(t, math.MaxInt64, r.Rules[1].Remaining)
	require.Equal(t, "b", r.Rules[1].Name)
	require.Zero(t, r.Remaining)
	require.NoError(t, l.Refund(ctx, r))
	free["a"] = true
	sent := redistest.Count(c)
	for range 3 {
		r = take(t, l, "u", 1_000_000)
		require.EqualValues(t, math.MaxInt64, r.Remaining)
		require.Len(t, r.Rules, 2)
		require.NoError(t, l.Refund(ctx, r))
	}
	require.Zero(t, sent.Trips())
}

// Who has another set of rules, as the version before or a plan that is free of one, keeps the others' counts alive.
func TestMultiKeepsTheCountsOfRulesThatItHasNot(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, s *redistest.Server) {
		c, id := s.Client(t), redistest.ID()
		second := ratelimit.Rule{Name: "second", Limit: ratelimit.PerSecond(5), Algorithm: ratelimit.TokenBucket}
		both := must(t)(ratelimit.NewMulti(c, []ratelimit.Rule{second, {Name: "day", Limit: ratelimit.PerDay(5)}}, calm))
		one := must(t)(ratelimit.NewMulti(c, []ratelimit.Rule{second}, calm))
		r := take(t, both, id, 2)
		key := "ratelimit:" + id + "~m"
		before := c.PTTL(ctx, key).Val()
		require.Greater(t, before, 24*time.Hour-time.Second)
		take(t, one, id, 1)
		require.Greater(t, c.PTTL(ctx, key).Val(), before-time.Minute)
		require.NoError(t, both.Refund(ctx, r))
		require.Greater(t, c.PTTL(ctx, key).Val(), before-time.Minute)

		require.NoError(t, c.Persist(ctx, key).Err())
		take(t, one, id, 1)
		require.Positive(t, c.PTTL(ctx, key).Val(), "a key that lost its end gets one")
	})
}
