package contenders

import (
	"context"

	"github.com/redis/go-redis/v9"
	"github.com/ulule/limiter/v3"
	ululeredis "github.com/ulule/limiter/v3/drivers/store/redis"

	"github.com/redispatterns/redispatterns/internal/peerbench/bench"
)

func init() {
	bench.Register(&bench.Limiters, bench.Contender[bench.LimiterConfig, bench.Limiter]{
		Name: "ulule/limiter", Note: "fixed window in Lua",
		New: func(c bench.LimiterConfig) (bench.Limiter, error) {
			db := client(c.Conn)
			store, err := ululeredis.NewStore(db)
			if err != nil {
				return nil, err
			}
			rate := limiter.Rate{Limit: int64(c.Limit), Period: c.Period}
			return &ulule{limiter.New(store, rate), db}, nil
		},
	})
}

type ulule struct {
	limiter *limiter.Limiter
	db      *redis.Client
}

func (l *ulule) Close() error { return l.db.Close() }

func (l *ulule) Allow(ctx context.Context, key string) (bool, error) {
	res, err := l.limiter.Get(ctx, key)
	return !res.Reached, err
}
