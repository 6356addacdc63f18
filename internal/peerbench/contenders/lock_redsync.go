package contenders

import (
	"context"
	"time"

	"github.com/go-redsync/redsync/v4"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/redis/go-redis/v9"

	"github.com/redispatterns/redispatterns/internal/peerbench/bench"
)

func init() {
	bench.Register(&bench.UncontendedLocks, bench.Contender[bench.LockConfig, bench.Locker]{
		Name: "redsync", New: newRedsync(),
	})
	bench.Register(&bench.HandoffLocks, bench.Contender[bench.LockConfig, bench.Locker]{
		Name: "redsync, default", Note: "32 tries, a random 50-250 ms apart",
		New: newRedsync(),
	}, bench.Contender[bench.LockConfig, bench.Locker]{
		Name: "redsync, retry 10 ms", Note: "WithRetryDelay(10 ms), 1000 tries",
		New: newRedsync(redsync.WithRetryDelay(10*time.Millisecond), redsync.WithTries(1000)),
	})
}

func newRedsync(options ...redsync.Option) func(bench.LockConfig) (bench.Locker, error) {
	return func(c bench.LockConfig) (bench.Locker, error) {
		db := client(c.Conn)
		return &redsyncLock{redsync.New(goredis.NewPool(db)), db, options}, nil
	}
}

type redsyncLock struct {
	rs      *redsync.Redsync
	db      *redis.Client
	options []redsync.Option // the default expiry is 8 s, as the harness wants it
}

func (l *redsyncLock) Close() error { return l.db.Close() }

func (l *redsyncLock) Lock(ctx context.Context, key string) (bench.Held, error) {
	m := l.rs.NewMutex(key, l.options...)
	if err := m.LockContext(ctx); err != nil {
		return nil, err
	}
	return (*redsyncHeld)(m), nil
}

type redsyncHeld redsync.Mutex

func (h *redsyncHeld) Unlock(ctx context.Context) error {
	ok, err := (*redsync.Mutex)(h).UnlockContext(ctx)
	if err == nil && !ok {
		err = errNotHeld
	}
	return err
}
