package contenders

import (
	"context"

	"github.com/redispatterns/redispatterns"
	"github.com/redispatterns/redispatterns/internal/peerbench/bench"
	"github.com/redispatterns/redispatterns/ratelimit"
)

func init() {
	for _, algorithm := range []struct {
		name, note string
		make       newLimiter
	}{
		{"FixedWindow", "the windows are those of the server's clock", ratelimit.NewFixedWindow},
		{"SlidingCounter", "two windows, the one before weighted", ratelimit.NewSlidingCounter},
		{"TokenBucket", "GCRA by the server's clock", ratelimit.NewTokenBucket},
		{"SlidingWindow", "an exact log in a sorted set: it keeps every request of the window", ratelimit.NewSlidingWindow},
	} {
		name := bench.Ours + " " + algorithm.name
		bench.Register(&bench.Limiters, bench.Contender[bench.LimiterConfig, bench.Limiter]{
			Name: name, Note: algorithm.note, New: algorithm.make.on(plain, nil),
		}, bench.Contender[bench.LimiterConfig, bench.Limiter]{
			Name: name + ", AutoPipeliner", Merges: true, Same: true, New: algorithm.make.on(merging, nil),
		})
	}
	fixed := newLimiter(ratelimit.NewFixedWindow)
	bench.Register(&bench.Limiters, bench.Contender[bench.LimiterConfig, bench.Limiter]{
		Name: bench.Ours + " FixedWindow, Timeout < 0", Same: true,
		Note: "the client's timeouts alone bound a decision, as they do everywhere else in this table",
		New:  fixed.on(plain, &ratelimit.Options{Timeout: -1}),
	}, bench.Contender[bench.LimiterConfig, bench.Limiter]{
		Name: bench.Ours + " FixedWindow, DenyCache", Same: true,
		Note: "this process remembers whom it denied, for a second at most",
		New:  fixed.on(plain, &ratelimit.Options{DenyCache: 10_000}),
	})
}

type newLimiter func(redispatterns.Client, ratelimit.Limit, *ratelimit.Options) (*ratelimit.Limiter, error)

func (f newLimiter) on(open connect, opts *ratelimit.Options) func(bench.LimiterConfig) (bench.Limiter, error) {
	return func(c bench.LimiterConfig) (bench.Limiter, error) {
		db, close, err := open(c.Conn)
		if err != nil {
			return nil, err
		}
		l, err := f(db, ratelimit.Limit{Events: int64(c.Limit), Per: c.Period}, opts)
		return &ourLimiter{l, close}, err
	}
}

type ourLimiter struct {
	limits *ratelimit.Limiter
	close  func() error
}

func (l *ourLimiter) Close() error { return l.close() }

func (l *ourLimiter) Allow(ctx context.Context, key string) (bool, error) {
	r, err := l.limits.Allow(ctx, key)
	return r.Allowed, err
}
