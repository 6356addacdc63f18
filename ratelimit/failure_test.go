package ratelimit_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/redispatterns/redispatterns"
	"github.com/redispatterns/redispatterns/internal/redistest"
	"github.com/redispatterns/redispatterns/ratelimit"
)

// A reply that is lost: the log counts the request once, all else says that it does not know, and counts once at most.
func TestLostReplies(t *testing.T) {
	t.Parallel()
	eachAlgorithm(t, func(t *testing.T, s *redistest.Server, build constructor) {
		p := s.Proxy(t)
		l, direct := must(t)(build(p.Client(t), ratelimit.PerDay(10), nil)), must(t)(build(s.Client(t), ratelimit.PerDay(10), nil))
		for name, fault := range map[string]func(int, ...string){"dropped": p.DropReplies, "closed": p.CloseAfter, "before": p.CloseBefore} {
			id := redistest.ID()
			take(t, direct, id, 1)
			fault(1, "evalsha")
			r, err := l.AllowN(ctx, id, 3)
			require.Equal(t, 1, p.Hits(), name)
			taken := 10 - peek(t, direct, id).Remaining
			switch {
			case err == nil:
				require.True(t, r.Allowed)
				require.EqualValues(t, 4, taken, name)
				require.EqualValues(t, 6, r.Remaining, name)
			default:
				require.ErrorIs(t, err, ratelimit.ErrUnknown, name)
				require.ErrorIs(t, err, ratelimit.ErrUnavailable, name)
				require.False(t, r.Allowed)
				require.Contains(t, []int64{1, 4}, taken, name)
			}
			fault(1, "evalsha") // looking and forgetting may be repeated
			redistest.Eventually(t, func() bool { _, err := l.Peek(ctx, id); return err == nil }, "an answer")
			fault(1, "del", "evalsha")
			redistest.Eventually(t, func() bool { return l.Reset(ctx, id) == nil }, "forgotten")
			require.EqualValues(t, 10, peek(t, direct, id).Remaining)
		}
	})
}

// A log's request is repeated until it is answered: once counted, also where only its repetition finds the log full.
func TestSlidingWindowCountsARepeatedRequestOnce(t *testing.T) {
	t.Parallel()
	redistest.Run(t, func(t *testing.T, s *redistest.Server) {
		p := s.Proxy(t)
		l := must(t)(ratelimit.NewSlidingWindow(p.Client(t, func(o *redis.Options) { o.MaxRetries, o.ReadTimeout = 10, 300*time.Millisecond }), ratelimit.PerDay(5), calm))
		id := redistest.ID()
		take(t, l, id, 1)
		p.DropReplies(2, "evalsha")
		r := take(t, l, id, 4)
		require.True(t, r.Allowed)
		require.Zero(t, r.Remaining)
		require.Equal(t, 2, p.Hits())
		require.False(t, take(t, l, id, 1).Allowed)
		require.EqualValues(t, 5, s.Client(t).ZCard(ctx, "ratelimit:"+id).Val())
	})
}

func TestScriptFlush(t *testing.T) {
	t.Parallel()
	eachAlgorithm(t, func(t *testing.T, s *redistest.Server, build constructor) {
		s.OnlyOurs(t)
		c, id := s.Client(t), redistest.ID()
		l := must(t)(build(c, ratelimit.PerDay(3), nil))
		for i := range 5 {
			require.NoError(t, c.ScriptFlush(ctx).Err())
			require.Equal(t, i < 3, take(t, l, id, 1).Allowed)
			require.NoError(t, c.ScriptFlush(ctx).Err())
			peek(t, l, id)
		}
		require.NoError(t, c.ScriptFlush(ctx).Err())
		require.NoError(t, l.Reset(ctx, id))
	})
}

func TestThroughEveryClient(t *testing.T) {
	t.Parallel()
	real := redistest.Real(t)
	ap, err := real.Client(t).AutoPipeline()
	require.NoError(t, err)
	t.Cleanup(func() { _ = ap.Close() })
	async, err := real.Client(t).AsyncAutoPipeline()
	require.NoError(t, err)
	t.Cleanup(func() { _ = async.Close() })
	ring := redis.NewRing(&redis.RingOptions{Addrs: map[string]string{"a": redistest.Mini(t).Options().Addr, "b": redistest.Mini(t).Options().Addr}})
	t.Cleanup(func() { _ = ring.Close() })
	for name, c := range map[string]redispatterns.Client{
		"three masters": redistest.ThreeMasters(t).Client(t), "one node": redistest.OneNode(t).Client(t),
		"autopipeliner": ap, "async autopipeliner": async, "ring": ring,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for algorithm, build := range algorithms {
				l := must(t)(build(c, ratelimit.PerDay(5), nil))
				for range 20 { // over all nodes
					id := redistest.ID()
					require.True(t, take(t, l, id, 1).Allowed, algorithm)
					require.True(t, take(t, l, id, 4).Allowed, algorithm)
					require.False(t, take(t, l, id, 1).Allowed, algorithm)
					require.False(t, peek(t, l, id).Allowed, algorithm)
					require.NoError(t, l.Reset(ctx, id), algorithm)
					require.EqualValues(t, 5, peek(t, l, id).Remaining, algorithm)
				}
			}
		})
	}
}

// everyCall is each thing that can be asked of a limiter.
func everyCall(l *ratelimit.Limiter, id string) map[string]func(context.Context) error {
	return map[string]func(context.Context) error{
		"allow": func(ctx context.Context) error { _, err := l.Allow(ctx, id); return err },
		"peek":  func(ctx context.Context) error { _, err := l.Peek(ctx, id); return err },
		"reset": func(ctx context.Context) error { return l.Reset(ctx, id) },
	}
}

func TestRedisStopped(t *testing.T) {
	t.Parallel()
	s, process := redistest.Own(t)
	process.Stop()
	for name, build := range algorithms {
		l := must(t)(build(s.Client(t, func(o *redis.Options) { o.DialerRetries = 1 }), ratelimit.PerDay(5), &ratelimit.Options{Timeout: -1}))
		for op, call := range everyCall(l, "u") {
			ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
			defer cancel()
			err := call(ctx)
			require.ErrorIs(t, err, ratelimit.ErrUnavailable, "%s: %s", name, op)
			require.NotErrorIs(t, err, ratelimit.ErrUnknown, "%s: %s: nothing was sent", name, op)
			require.ErrorContains(t, err, "dial", "the cause")
			require.NotErrorIs(t, err, redis.Nil)
		}
	}
}

func TestBlackHole(t *testing.T) {
	t.Parallel()
	eachAlgorithm(t, func(t *testing.T, s *redistest.Server, build constructor) {
		p := s.Proxy(t)
		l := must(t)(build(p.Client(t, func(o *redis.Options) {
			o.ContextTimeoutEnabled, o.ReadTimeout, o.MaxRetries = true, time.Minute, 3
		}), ratelimit.PerDay(5), nil))
		take(t, l, redistest.ID(), 1)
		p.BlackHole(true)
		for op, call := range everyCall(l, redistest.ID()) {
			ctx, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
			began := time.Now()
			err := call(ctx)
			cancel()
			require.Less(t, time.Since(began), 5*time.Second)
			require.ErrorIs(t, err, ratelimit.ErrUnavailable, op)
			var timeout interface{ Timeout() bool }
			require.True(t, errors.Is(err, context.DeadlineExceeded) || errors.As(err, &timeout) && timeout.Timeout(), "%s: %v", op, err)
		}
	})
}

// A key that holds something else is an error that names it, and stays as it is.
func TestKeyOfAnotherType(t *testing.T) {
	t.Parallel()
	eachAlgorithm(t, func(t *testing.T, s *redistest.Server, build constructor) {
		c, id := s.Client(t), redistest.ID()
		l := must(t)(build(c, ratelimit.PerDay(5), nil))
		take(t, l, id, 1)
		key := c.Keys(ctx, "*"+id+"*").Val()[0]
		for _, put := range []func() error{
			func() error { return c.RPush(ctx, key, "x").Err() },
			func() error { return c.Set(ctx, key, "abc", 0).Err() },
		} {
			require.NoError(t, c.Del(ctx, key).Err())
			require.NoError(t, put())
			kind := c.Type(ctx, key).Val()
			for op, call := range everyCall(l, id) {
				if op == "reset" {
					continue
				}
				err := call(ctx)
				require.ErrorIs(t, err, ratelimit.ErrUnavailable, op)
				require.ErrorContains(t, err, key, op)
				require.NotErrorIs(t, err, redis.Nil)
			}
			require.Equal(t, kind, c.Type(ctx, key).Val())
		}
		require.NoError(t, l.Reset(ctx, id), "away with it")
		require.True(t, take(t, l, id, 5).Allowed)
	})
}
