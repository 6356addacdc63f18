package contenders

import (
	"context"

	"github.com/redis/go-redis/v9"
	"github.com/throttled/throttled/v2"
	"github.com/throttled/throttled/v2/store/goredisstore.v9"

	"github.com/redispatterns/redispatterns/internal/peerbench/bench"
)

func init() {
	bench.Register(&bench.Limiters, bench.Contender[bench.LimiterConfig, bench.Limiter]{
		Name: "throttled", Note: "GCRA in the client with compare-and-swap, at most 10 attempts",
		New: func(c bench.LimiterConfig) (bench.Limiter, error) {
			db := client(c.Conn)
			store, err := goredisstore.NewCtx(db, "throttled:")
			if err != nil {
				return nil, err
			}
			gcra, err := throttled.NewGCRARateLimiterCtx(store, throttled.RateQuota{
				MaxRate:  throttled.PerDuration(c.Limit, c.Period),
				MaxBurst: c.Limit - 1,
			})
			if err != nil {
				return nil, err
			}
			return &throttledLimiter{gcra, db}, nil
		},
	})
}

type throttledLimiter struct {
	limiter *throttled.GCRARateLimiterCtx
	db      *redis.Client
}

func (l *throttledLimiter) Close() error { return l.db.Close() }

func (l *throttledLimiter) Allow(ctx context.Context, key string) (bool, error) {
	limited, _, err := l.limiter.RateLimitCtx(ctx, key, 1)
	return !limited, err
}
