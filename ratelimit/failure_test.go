package ratelimit_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
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
			fault(1, "evalsha")
			redistest.Eventually(t, func() bool { return l.Reset(ctx, id) == nil }, "forgotten")
			require.EqualValues(t, 10, peek(t, direct, id).Remaining)
		}
	})
}

// A log's request is repeated until it is answered: once counted, also where only its repetition finds the log full.
func TestSlidingWindowCountsARepeatedRequestOnce(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, s *redistest.Server) {
		p := s.Proxy(t)
		l := must(t)(ratelimit.NewSlidingWindow(p.Client(t), ratelimit.PerDay(5), calm))
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

// Where it may not be repeated, or not often enough, the outcome is unknown: it was counted.
func TestSlidingWindowWhoseRepetitionsAreExhausted(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, s *redistest.Server) {
		for name, retries := range map[string]int{"none": -1, "one": 1} {
			for _, wrap := range []func(redispatterns.Client) redispatterns.Client{
				func(c redispatterns.Client) redispatterns.Client { return c },
				func(c redispatterns.Client) redispatterns.Client { return wrapped{c} },
			} {
				p, id := s.Proxy(t), redistest.ID()
				c := wrap(p.Client(t, func(o *redis.Options) { o.MaxRetries = retries }))
				l := must(t)(ratelimit.NewSlidingWindow(c, ratelimit.PerDay(5), &ratelimit.Options{Timeout: 20 * time.Second}))
				take(t, l, redistest.ID(), 1) // loads the script
				p.CloseAfter(2, "evalsha")
				_, err := l.AllowN(ctx, id, 3)
				require.ErrorIs(t, err, ratelimit.ErrUnknown, name)
				require.ErrorIs(t, err, ratelimit.ErrUnavailable, name)
				require.EqualValues(t, 3, s.Client(t).ZCard(ctx, "ratelimit:"+id).Val(), name)
				p.CloseAfter(2, "evalsha")
				_, err = l.Peek(ctx, id)
				require.ErrorIs(t, err, ratelimit.ErrUnavailable, name)
				require.NotErrorIs(t, err, ratelimit.ErrUnknown, "a look counts nothing")
			}
		}
	})
}

// A fixed window asks for a cost of 1 in short, once it knows the server's time: a reply that is lost then counts once too.
func TestFixedWindowInShortWithALostReply(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, s *redistest.Server) {
		p := s.Proxy(t)
		c := p.Client(t)
		l, direct := must(t)(ratelimit.NewFixedWindow(c, ratelimit.PerDay(3), calm)), must(t)(ratelimit.NewFixedWindow(s.Client(t), ratelimit.PerDay(3), calm))
		form := &lastForm{}
		c.AddHook(form)
		for name, fault := range map[string]func(int, ...string){"dropped": p.DropReplies, "closed": p.CloseAfter, "before": p.CloseBefore} {
			for _, before := range []int64{0, 1, 2, 3} {
				id := redistest.ID()
				redistest.Eventually(t, func() bool {
					require.NoError(t, direct.Reset(ctx, id))
					if before > 0 {
						take(t, direct, id, before)
					}
					if _, err := l.Allow(ctx, redistest.ID()); err != nil { // tells the time
						return false // not in time, on a busy machine
					}
					fault(1, "evalsha")
					_, err := l.Allow(ctx, id)
					if p.Hits() == 0 {
						return false
					}
					require.ErrorIs(t, err, ratelimit.ErrUnknown, name)
					return form.args() == 7 // evalsha, its sum, 1, the key, and three of the script's four
				}, "asked in short")
				counted := int64(1)
				if name == "before" {
					counted = 0
				}
				require.Equal(t, max(3-before-counted, 0), peek(t, direct, id).Remaining, "%s, after %d", name, before)
			}
		}
	})
}

// lastForm counts the arguments of the last command.
type lastForm struct {
	n atomic.Int64
	redis.Hook
}

func (h *lastForm) args() int64 { return h.n.Load() }

func (h *lastForm) DialHook(next redis.DialHook) redis.DialHook { return next }

func (h *lastForm) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func (h *lastForm) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		h.n.Store(int64(len(cmd.Args())))
		return next(ctx, cmd)
	}
}

func TestScriptFlush(t *testing.T) {
	t.Parallel()
	eachAlgorithm(t, func(t *testing.T, s *redistest.Server, build constructor) {
		if s.IsReal() {
			s, _ = redistest.Own(t) // the others' scripts stay where they are
		}
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

// SCRIPT FLUSH between any two calls, through clients that send a script where it belongs, or with others.
func TestScriptFlushThroughOtherClients(t *testing.T) {
	t.Parallel()
	s, _ := redistest.Own(t)
	own := steady(t, s).Client(t)
	ap, err := own.AutoPipeline()
	require.NoError(t, err)
	t.Cleanup(func() { _ = ap.Close() })
	async, err := own.AsyncAutoPipeline()
	require.NoError(t, err)
	t.Cleanup(func() { _ = async.Close() })
	cluster := redistest.ThreeMasters(t).Client(t)
	flush := func(ctx context.Context, c *redis.Client) error { return c.ScriptFlush(ctx).Err() }
	for name, with := range map[string]struct {
		client redispatterns.Client
		flush  func() error
	}{
		"cluster":             {cluster, func() error { return cluster.ForEachMaster(ctx, flush) }},
		"autopipeliner":       {ap, func() error { return flush(ctx, own) }},
		"async autopipeliner": {async, func() error { return flush(ctx, own) }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for algorithm, build := range algorithms {
				l, id := must(t)(build(with.client, ratelimit.PerDay(3), nil)), redistest.ID()
				for i := range 5 {
					require.NoError(t, with.flush())
					r := take(t, l, id, 1)
					require.Equal(t, i < 3, r.Allowed, algorithm)
					require.NoError(t, with.flush())
					peek(t, l, id)
					if i == 0 {
						require.NoError(t, with.flush())
						require.NoError(t, l.Refund(ctx, r), algorithm)
						require.True(t, take(t, l, id, 1).Allowed, algorithm)
					}
				}
				require.NoError(t, with.flush())
				require.NoError(t, l.Reset(ctx, id), algorithm)
				require.EqualValues(t, 3, peek(t, l, id).Remaining, algorithm)
			}
		})
	}
}

func TestThroughEveryClient(t *testing.T) {
	t.Parallel()
	real := steady(t, redistest.Real(t))
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
		"cost":  func(ctx context.Context) error { _, err := l.AllowN(ctx, id, 3); return err },
		"peek":  func(ctx context.Context) error { _, err := l.Peek(ctx, id); return err },
		"reset": func(ctx context.Context) error { return l.Reset(ctx, id) },
	}
}

const (
	deadline = 300 * time.Millisecond // of a call's context,
	late     = 10 * time.Second       // which on a busy machine ends it this late at most
)

// inTime makes calls at the same time, with the deadline, requires that none is late, and returns their errors.
func inTime(t *testing.T, calls map[string]func(context.Context) error) map[string]error {
	t.Helper()
	var mu sync.Mutex
	var wg sync.WaitGroup
	errs, began := map[string]error{}, time.Now()
	for op, call := range calls {
		wg.Go(func() {
			ctx, cancel := context.WithTimeout(ctx, deadline) // of its own: one that ends before the call is another case
			defer cancel()
			err := call(ctx)
			mu.Lock()
			defer mu.Unlock()
			errs[op] = err
		})
	}
	wg.Wait()
	require.Less(t, time.Since(began), late)
	return errs
}

func TestRedisStopped(t *testing.T) {
	t.Parallel()
	s, process := redistest.Own(t)
	process.Stop()
	for name, build := range algorithms {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := must(t)(build(s.Client(t, func(o *redis.Options) { o.DialerRetries = 1 }), ratelimit.PerDay(5), calm))
			for op, call := range everyCall(l, "u") {
				ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
				defer cancel()
				err := call(ctx)
				require.ErrorIs(t, err, ratelimit.ErrUnavailable, op)
				require.NotErrorIs(t, err, ratelimit.ErrUnknown, "%s: nothing was sent", op)
				require.ErrorContains(t, err, "dial", "the cause")
				require.NotErrorIs(t, err, redis.Nil)
			}
			// A client as it is by default goes on dialing for longer than the deadline.
			c := s.Client(t)
			calls := map[string]func(context.Context) error{}
			for timeout, l := range map[string]*ratelimit.Limiter{
				"the client's": must(t)(build(c, ratelimit.PerDay(5), calm)),
				"ours":         must(t)(build(c, ratelimit.PerDay(5), &ratelimit.Options{Timeout: 10 * time.Second})),
				"ours, obeyed": must(t)(build(s.Client(t, func(o *redis.Options) { o.ContextTimeoutEnabled = true }), ratelimit.PerDay(5), &ratelimit.Options{Timeout: 10 * time.Second})),
			} {
				for op, call := range everyCall(l, "u") {
					calls[timeout+": "+op] = call
				}
			}
			for op, err := range inTime(t, calls) {
				require.ErrorIs(t, err, ratelimit.ErrUnavailable, op)
			}
		})
	}
}

func TestBlackHole(t *testing.T) {
	t.Parallel()
	eachAlgorithm(t, func(t *testing.T, s *redistest.Server, build constructor) {
		p := s.Proxy(t)
		l := must(t)(build(p.Client(t, func(o *redis.Options) {
			o.ContextTimeoutEnabled, o.ReadTimeout, o.MaxRetries = true, time.Minute, 3
		}), ratelimit.PerDay(5), nil))
		r := take(t, l, redistest.ID(), 1)
		p.BlackHole(true)
		calls := everyCall(l, redistest.ID())
		calls["refund"] = func(ctx context.Context) error { return l.Refund(ctx, r) }
		for op, err := range inTime(t, calls) {
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
		own := c.Type(ctx, key).Val()
		for _, put := range []func() error{
			func() error { return c.RPush(ctx, key, "x").Err() },
			func() error { return c.HSet(ctx, key, "abc", "1 1 1").Err() },
			func() error { return c.ZAdd(ctx, key, redis.Z{Member: "abc"}).Err() },
			func() error { return c.Set(ctx, key, "abc", 0).Err() },
		} {
			require.NoError(t, c.Del(ctx, key).Err())
			require.NoError(t, put())
			kind := c.Type(ctx, key).Val()
			for op, call := range everyCall(l, id) {
				if kind == own && (op == "reset" || kind != "string") {
					continue // it may be a limiter's
				}
				err := call(ctx)
				require.ErrorIs(t, err, ratelimit.ErrUnavailable, op)
				require.ErrorContains(t, err, key, op)
				require.NotErrorIs(t, err, redis.Nil)
			}
			require.Equal(t, kind, c.Type(ctx, key).Val())
		}
		if own == "string" {
			require.NoError(t, l.Reset(ctx, id), "of the right type: away with it")
			require.True(t, take(t, l, id, 5).Allowed)
		}
	})
}
