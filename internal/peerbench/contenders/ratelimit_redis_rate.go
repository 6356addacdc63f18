package contenders

import (
	"context"

	"github.com/go-redis/redis_rate/v10"
	"github.com/redis/go-redis/v9"

	"github.com/redispatterns/redispatterns/internal/peerbench/bench"
)

func init() {
	bench.Register(&bench.Limiters, bench.Contender[bench.LimiterConfig, bench.Limiter]{
		Name: "redis_rate", Note: "GCRA in Lua",
		New: func(c bench.LimiterConfig) (bench.Limiter, error) {
			db := client(c.Conn)
			limit := redis_rate.Limit{Rate: c.Limit, Burst: c.Limit, Period: c.Period}
			return &redisRate{redis_rate.NewLimiter(db), db, limit}, nil
		},
	})
}

type redisRate struct {
	limiter *redis_rate.Limiter
	db      *redis.Client
	limit   redis_rate.Limit
}

func (l *redisRate) Close() error { return l.db.Close() }

func (l *redisRate) Allow(ctx context.Context, key string) (bool, error) {
	res, err := l.limiter.Allow(ctx, key, l.limit)
	if err != nil {
		return false, err
	}
	return res.Allowed > 0, nil
}
