package contenders

import (
	"context"

	"github.com/redis/rueidis"
	"github.com/redis/rueidis/rueidislock"

	"github.com/redispatterns/redispatterns/internal/peerbench/bench"
)

func init() {
	const (
		defaults = "its defaults: 3 keys (KeyMajority 2), woken by client-side caching"
		tuned    = "KeyMajority 1 and NoLoopTracking, as its README advises for one server"
	)
	all := []bench.Contender[bench.LockConfig, bench.Locker]{
		{Name: "rueidislock, default", Note: defaults, Merges: true, Apart: true, New: newRueidislock(0, false)},
		{Name: "rueidislock, one key", Note: tuned, Merges: true, New: newRueidislock(1, true)},
	}
	bench.Register(&bench.UncontendedLocks, all...)
	bench.Register(&bench.HandoffLocks, all...)
}

func newRueidislock(majority int32, noLoop bool) func(bench.LockConfig) (bench.Locker, error) {
	return func(c bench.LockConfig) (bench.Locker, error) {
		l, err := rueidislock.NewLocker(rueidislock.LockerOption{
			ClientOption: rueidis.ClientOption{
				InitAddress: []string{c.Addr}, Username: c.Username, Password: c.Password, SelectDB: c.DB,
			},
			KeyMajority:    majority,
			NoLoopTracking: noLoop,
			KeyValidity:    c.TTL,
		})
		if err != nil {
			return nil, err
		}
		return rueidisLock{l}, nil
	}
}

type rueidisLock struct{ locker rueidislock.Locker }

func (l rueidisLock) Close() error {
	l.locker.Close()
	return nil
}

func (l rueidisLock) Lock(ctx context.Context, key string) (bench.Held, error) {
	_, cancel, err := l.locker.WithContext(ctx, key)
	if err != nil {
		return nil, err
	}
	return rueidisHeld(cancel), nil
}

type rueidisHeld context.CancelFunc

func (h rueidisHeld) Unlock(context.Context) error {
	h()
	return nil
}
