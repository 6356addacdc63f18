package contenders

import (
	"context"
	"time"

	"github.com/bsm/redislock"
	"github.com/redis/go-redis/v9"

	"github.com/redispatterns/redispatterns/internal/peerbench/bench"
)

func init() {
	bench.Register(&bench.UncontendedLocks, bench.Contender[bench.LockConfig, bench.Locker]{
		Name: "redislock", New: newRedislock(0),
	})
	bench.Register(&bench.HandoffLocks, bench.Contender[bench.LockConfig, bench.Locker]{
		Name: "redislock, retry 100 ms",
		Note: "its default is not to wait at all; this is the LinearBackoff(100 ms) of its example",
		New:  newRedislock(100 * time.Millisecond),
	}, bench.Contender[bench.LockConfig, bench.Locker]{
		Name: "redislock, retry 10 ms", Note: "LinearBackoff(10 ms)", Apart: true,
		New: newRedislock(10 * time.Millisecond),
	})
}

func newRedislock(retry time.Duration) func(bench.LockConfig) (bench.Locker, error) {
	return func(c bench.LockConfig) (bench.Locker, error) {
		db := client(c.Conn)
		l := &redislockLock{locker: redislock.New(db), db: db, ttl: c.TTL}
		if retry > 0 {
			l.options = &redislock.Options{RetryStrategy: redislock.LinearBackoff(retry)}
		}
		return l, nil
	}
}

type redislockLock struct {
	locker  *redislock.Client
	db      *redis.Client
	ttl     time.Duration
	options *redislock.Options
}

func (l *redislockLock) Close() error { return l.db.Close() }

func (l *redislockLock) Lock(ctx context.Context, key string) (bench.Held, error) {
	lock, err := l.locker.Obtain(ctx, key, l.ttl, l.options)
	if err != nil {
		return nil, err
	}
	return (*redislockHeld)(lock), nil
}

type redislockHeld redislock.Lock

func (h *redislockHeld) Unlock(ctx context.Context) error {
	return (*redislock.Lock)(h).Release(ctx)
}
