package faults_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redispatterns/redispatterns"
	"github.com/redispatterns/redispatterns/ratelimit"
)

// errDenied stands for a Result that denies, where there was room.
var errDenied = errors.New("denied")

// perDecade is a limit whose window does not end while a test looks.
func perDecade(events int64) ratelimit.Limit {
	return ratelimit.Limit{Events: events, Per: 3650 * 24 * time.Hour}
}

var algorithms = map[string]func(redispatterns.Client, ratelimit.Limit, *ratelimit.Options) (*ratelimit.Limiter, error){
	"fixed window": ratelimit.NewFixedWindow, "sliding window": ratelimit.NewSlidingWindow,
	"sliding counter": ratelimit.NewSlidingCounter, "token bucket": ratelimit.NewTokenBucket,
	"multi": func(c redispatterns.Client, limit ratelimit.Limit, o *ratelimit.Options) (*ratelimit.Limiter, error) {
		return ratelimit.NewMulti(c, []ratelimit.Rule{{Name: "a", Limit: limit}, {Name: "b", Limit: limit, Algorithm: ratelimit.TokenBucket}}, o)
	},
}

// limiters makes one of each algorithm. No busy machine shall be taken for a broken Redis, so they have no Timeout.
func (c *check) limiters(limit ratelimit.Limit, policy ratelimit.FailurePolicy) map[string]*ratelimit.Limiter {
	all := map[string]*ratelimit.Limiter{}
	for name, build := range algorithms {
		l, err := build(c.client, limit, &ratelimit.Options{Timeout: -1, OnFailure: policy})
		require.NoError(c, err)
		all[name] = l
	}
	return all
}

func (c *check) id() string { return "user42" + c.world.tag }

func isUnavailable(err error) bool { return errors.Is(err, ratelimit.ErrUnavailable) }

// decided is nil for a decision that allows.
func decided(r ratelimit.Result, err error) error {
	if err == nil && !r.Allowed {
		err = errDenied
	}
	return err
}

// take is an event of every algorithm.
func (c *check) take(limiters map[string]*ratelimit.Limiter) ops {
	all := ops{}
	for name, l := range limiters {
		all["Allow by "+name] = func(ctx context.Context) error { return decided(l.Allow(ctx, c.id())) }
	}
	return all
}

// peek looks at every algorithm.
func (c *check) peek(limiters map[string]*ratelimit.Limiter) ops {
	all := ops{}
	for name, l := range limiters {
		all["Peek by "+name] = func(ctx context.Context) error { return decided(l.Peek(ctx, c.id())) }
	}
	return all
}

// reset forgets another id.
func (c *check) reset(limiters map[string]*ratelimit.Limiter) ops {
	all := ops{}
	for name, l := range limiters {
		all["Reset by "+name] = func(ctx context.Context) error { return l.Reset(ctx, "other"+c.world.tag) }
	}
	return all
}

// remaining requires what each limiter has left for the id.
func (c *check) remaining(limiters map[string]*ratelimit.Limiter, want int64) {
	for name, l := range limiters {
		r, err := l.Peek(c, c.id())
		require.NoError(c, err, name)
		require.Equal(c, want, r.Remaining, name)
	}
}

// policies requires that FailOpen allows and FailClosed denies, and that both say why. Their limiters were made before.
func (c *check) policies(open, closed map[string]*ratelimit.Limiter) {
	for name, l := range open {
		r, err := l.Allow(c, c.id())
		require.NoError(c, err, name)
		require.True(c, r.Allowed, name)
		require.Equal(c, ratelimit.ReasonUnavailable, r.Reason, name)
	}
	for name, l := range closed {
		r, err := l.Allow(c, c.id())
		require.NoError(c, err, name)
		require.False(c, r.Allowed, name)
		require.Equal(c, ratelimit.ReasonUnavailable, r.Reason, name)
	}
}

// limitedStatus is what a client gets from a server behind a limiter.
func (c *check) limitedStatus(l *ratelimit.Limiter) int {
	key := func(*http.Request) (string, error) { return c.id(), nil }
	w := httptest.NewRecorder()
	h := ratelimit.Middleware(l, key, nil)(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", nil).WithContext(c))
	return w.Code
}

// countedLimits takes under load from a wide limit and from a narrow one. The narrow one is never exceeded unless the
// fault loses writes, and what was answered is counted.
func (c *check) countedLimits(loses bool) {
	const narrow, wide = 20, 1_000_000
	type count struct {
		tight, roomy               *ratelimit.Limiter
		answered, unknown, allowed atomic.Int64
	}
	counts := map[string]*count{}
	for _, name := range []string{"fixed window", "sliding counter", "sliding window"} {
		n := &count{}
		var err error
		n.tight, err = algorithms[name](c.client, perDecade(narrow), &ratelimit.Options{Name: "tight"})
		require.NoError(c, err)
		n.roomy, err = algorithms[name](c.client, perDecade(wide), &ratelimit.Options{Name: "roomy"})
		require.NoError(c, err)
		counts[name] = n
	}
	c.underLoad(func(int) error {
		var errs []error
		for name, n := range counts {
			err := decided(n.roomy.Allow(c, c.id()))
			switch {
			case err == nil:
				n.answered.Add(1)
			case !isUnavailable(err):
				c.Errorf("%s: %v", name, err)
			// A sliding window's request may have been sent more than once, and only its last try is reported.
			case errors.Is(err, ratelimit.ErrUnknown) || name == "sliding window":
				n.unknown.Add(1)
			}
			errs = append(errs, err)
			r, err := n.tight.Allow(c, c.id())
			if err == nil && r.Allowed {
				n.allowed.Add(1)
			} else if err == nil && r.Reason != ratelimit.ReasonLimited {
				c.Errorf("%s denies because of %v", name, r.Reason)
			}
			errs = append(errs, err)
		}
		return errors.Join(errs...)
	}, errDenied)
	for name, n := range counts {
		r, err := n.roomy.Peek(c, c.id())
		require.NoError(c, err, name)
		c.within(wide-r.Remaining, n.answered.Load(), n.unknown.Load(), loses)
		if !loses {
			require.LessOrEqual(c, n.allowed.Load(), int64(narrow), name)
		}
	}
}
