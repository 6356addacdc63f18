package ratelimit_test

import (
	"context"
	"errors"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/redispatterns/redispatterns"
	"github.com/redispatterns/redispatterns/internal/redistest"
	"github.com/redispatterns/redispatterns/ratelimit"
)

// patient is a client that waits far too long: what a decision takes is then Timeout's doing.
func patient(o *redis.Options) { o.ReadTimeout, o.MaxRetries = 2*time.Second, -1 }

func TestTimeout(t *testing.T) {
	t.Parallel()
	eachAlgorithm(t, func(t *testing.T, s *redistest.Server, build constructor) {
		p := s.Proxy(t)
		for i, policy := range []ratelimit.FailurePolicy{ratelimit.FailWithError, ratelimit.FailOpen, ratelimit.FailClosed} {
			var c redispatterns.Client = p.Client(t, patient, func(o *redis.Options) { o.ContextTimeoutEnabled = i == int(ratelimit.FailOpen) })
			if i == int(ratelimit.FailClosed) {
				c = wrapped{c}
			}
			var mu sync.Mutex
			var events []ratelimit.Event
			l := must(t)(build(c, ratelimit.PerDay(5), &ratelimit.Options{
				Name: "n", Timeout: 400 * time.Millisecond, OnFailure: policy,
				Observe: func(_ context.Context, e ratelimit.Event) {
					mu.Lock()
					defer mu.Unlock()
					events = append(events, e)
				},
			}))
			redistest.Eventually(t, func() bool { _, err := l.Peek(ctx, "u"); return err == nil }, "a first answer")
			p.BlackHole(true)
			id, began := redistest.ID(), time.Now()
			r, err := l.Allow(ctx, id)
			require.Less(t, time.Since(began), 1900*time.Millisecond)
			p.BlackHole(false)
			switch policy {
			case ratelimit.FailWithError:
				require.ErrorIs(t, err, ratelimit.ErrUnknown)
				require.ErrorIs(t, err, ratelimit.ErrUnavailable)
				require.ErrorIs(t, err, os.ErrDeadlineExceeded)
				require.Equal(t, ratelimit.Result{}, r)
			case ratelimit.FailOpen:
				require.NoError(t, err)
				require.True(t, r.Allowed)
				require.Equal(t, ratelimit.ReasonUnavailable, r.Reason)
				require.NoError(t, l.Refund(ctx, r), "nothing was taken")
			case ratelimit.FailClosed:
				require.NoError(t, err)
				require.False(t, r.Allowed)
				require.Equal(t, ratelimit.ReasonUnavailable, r.Reason)
				require.Positive(t, r.RetryAfter)
			}
			mu.Lock()
			last := events[len(events)-1]
			require.Equal(t, "n", last.Name)
			require.Equal(t, id, last.ID)
			require.ErrorIs(t, last.Err, ratelimit.ErrUnavailable, "whatever the policy")
			require.Equal(t, r, last.Result)
			require.GreaterOrEqual(t, last.Took, 350*time.Millisecond)
			mu.Unlock()
			redistest.Eventually(t, func() bool { return ratelimit.Parked(l) == 0 }, "the parked call is given up")
		}
	})
}

// wrapped is a client of which a limiter does not know what it is.
type wrapped struct{ redispatterns.Client }

// A caller's own deadline and cancellation end a decision too.
func TestContextEndsADecision(t *testing.T) {
	t.Parallel()
	for name, wrap := range map[string]func(*redis.Client) redispatterns.Client{
		"client":      func(c *redis.Client) redispatterns.Client { return c },
		"one to obey": func(c *redis.Client) redispatterns.Client { c.Options().ContextTimeoutEnabled = true; return c },
		"another":     func(c *redis.Client) redispatterns.Client { return wrapped{c} },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := redistest.Mini(t).Proxy(t)
			c := wrap(p.Client(t, patient))
			l := must(t)(ratelimit.NewFixedWindow(c, ratelimit.PerDay(5), &ratelimit.Options{OnFailure: ratelimit.FailOpen, Timeout: 700 * time.Millisecond}))
			p.BlackHole(true)
			defer p.BlackHole(false)
			endsADecision(t, l)
		})
	}
}

func endsADecision(t *testing.T, l *ratelimit.Limiter) {
	soon, cancel := context.WithTimeout(ctx, 20*time.Millisecond)
	defer cancel()
	began := time.Now()
	r, err := l.Allow(soon, "u")
	require.NoError(t, err, "Redis did not answer: the policy decides")
	require.True(t, r.Allowed)

	cancelled, cancelNow := context.WithCancel(ctx)
	time.AfterFunc(20*time.Millisecond, cancelNow)
	_, err = l.Allow(cancelled, "u")
	require.ErrorIs(t, err, ratelimit.ErrUnavailable)
	require.ErrorIs(t, err, context.Canceled, "nobody wants a decision any more")
	require.Less(t, time.Since(began), 1900*time.Millisecond)
}

// Once Redis is known to be silent, a decision costs nothing; when it answers again, it is asked again.
func TestCircuit(t *testing.T) {
	t.Parallel()
	p := redistest.Mini(t).Proxy(t)
	l := must(t)(ratelimit.NewTokenBucket(wrapped{p.Client(t, patient)}, ratelimit.PerDay(1_000_000), &ratelimit.Options{Timeout: 20 * time.Millisecond}))
	redistest.Eventually(t, func() bool { _, err := l.Allow(ctx, "u"); return err == nil }, "a first answer")
	p.BlackHole(true)
	redistest.Eventually(t, func() bool {
		began := time.Now()
		for range 1000 {
			_, err := l.Allow(ctx, "u")
			require.ErrorIs(t, err, ratelimit.ErrUnavailable)
		}
		return time.Since(began) < 200*time.Millisecond
	}, "a thousand decisions in no time")
	_, err := l.Allow(ctx, "u")
	require.ErrorContains(t, err, "no reply within 20ms", "the cause")
	require.LessOrEqual(t, ratelimit.Parked(l), int64(64+1))
	p.BlackHole(false)
	redistest.Eventually(t, func() bool { _, err := l.Allow(ctx, "u"); return err == nil }, "answered again")
}

// An error that Redis answers costs no wait, so it opens no circuit: one id's broken key harms no other.
func TestErrorRepliesOpenNoCircuit(t *testing.T) {
	t.Parallel()
	s := redistest.Mini(t)
	c := s.Client(t)
	l := must(t)(ratelimit.NewSlidingWindow(c, ratelimit.PerDay(5), calm))
	require.NoError(t, c.Set(ctx, "ratelimit:broken", "x", 0).Err())
	sent := redistest.Count(c)
	for range 50 {
		_, err := l.Allow(ctx, "broken")
		require.ErrorIs(t, err, ratelimit.ErrUnavailable)
	}
	require.GreaterOrEqual(t, sent.Trips(), 50)
	require.True(t, take(t, l, "fine", 1).Allowed)
}

func TestParkedCallsAreBounded(t *testing.T) {
	t.Parallel()
	p := redistest.Mini(t).Proxy(t)
	l := must(t)(ratelimit.NewSlidingCounter(wrapped{p.Client(t, patient, func(o *redis.Options) { o.PoolSize = 200 })}, ratelimit.PerDay(5), &ratelimit.Options{Timeout: 5 * time.Millisecond}))
	p.BlackHole(true)
	defer p.BlackHole(false)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 50 {
				if _, err := l.Allow(ctx, "u"); !errors.Is(err, ratelimit.ErrUnavailable) {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	require.LessOrEqual(t, ratelimit.Parked(l), int64(64+8))
	_, err := ratelimit.NewSlidingCounter(p.Client(t), ratelimit.PerDay(5), &ratelimit.Options{OnFailure: 3})
	require.EqualError(t, err, "ratelimit: new: Options.OnFailure is 3, must be FailWithError, FailOpen or FailClosed")
}

// A failure may open the circuit just after the answer of another call has closed it. The next answer closes it again.
func TestCircuitThatOpensBesideAnAnswer(t *testing.T) {
	t.Parallel()
	l := must(t)(ratelimit.NewTokenBucket(redistest.Mini(t).Client(t), ratelimit.PerDay(5), calm))
	ratelimit.OpenLate(l)
	for range 3 {
		require.True(t, take(t, l, "u", 1).Allowed)
	}
}
