package contenders

import (
	"context"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redispatterns/redispatterns/internal/peerbench/bench"
)

func init() {
	bench.Register(&bench.Limiters, bench.Contender[bench.LimiterConfig, bench.Limiter]{
		Name: "by hand: INCR", Ref: true,
		Note: "fixed window; EXPIRE in a second round trip on the first request of a window",
		New:  newHandLimiter(plain),
	}, bench.Contender[bench.LimiterConfig, bench.Limiter]{
		Name: "by hand, auto-pipelined", Ref: true, Merges: true, Same: true,
		Note: "the same on go-redis' AutoPipeliner",
		New:  newHandLimiter(merging),
	})
}

func newHandLimiter(open connect) func(bench.LimiterConfig) (bench.Limiter, error) {
	return func(c bench.LimiterConfig) (bench.Limiter, error) {
		db, close, err := open(c.Conn)
		return &handLimiter{db, close, int64(c.Limit), c.Period}, err
	}
}

type handLimiter struct {
	db     redis.UniversalClient
	close  func() error
	limit  int64
	period time.Duration
}

func (l *handLimiter) Close() error { return l.close() }

func (l *handLimiter) Allow(ctx context.Context, key string) (bool, error) {
	n, err := l.db.Incr(ctx, key).Result()
	if err != nil {
		return false, err
	}
	if n == 1 {
		if err := l.db.Expire(ctx, key, l.period).Err(); err != nil {
			return false, err
		}
	}
	return n <= l.limit, nil
}
